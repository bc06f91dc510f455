"""What a gang's binding does before the API server is asked for anything."""

import random
from typing import Any, cast

import pytest

from stromboli.contracts.intents import BindGang, PodBinding
from stromboli.gateway.deadlines import NoLongerLeading, Permit
from stromboli.gateway.gangs import GangBinder
from stromboli.gateway.placing import Places, PodPlace
from stromboli.kube.client import KubeClient
from stromboli.testkit.clock import ManualClock

NOBODY: Any = None
"""In place of the API server's client: a gang that is not ours to bind asks it for nothing."""


async def test_a_lease_lost_between_the_check_and_the_binds_is_told_as_that():
    """The intake leaves the gang to the next leader; it would put aside what it does not know."""
    names = ("a", "b", "c")
    places = Places(
        pods={("ns", name): PodPlace(f"uid-{name}", "", ending=False) for name in names},
        nodes={"node"},
    )
    gang = BindGang(
        id="gang",
        key="vcjob/ns/job",
        service="scheduler",
        not_after=4e9,
        namespace="ns",
        name="group",
        attempt="1",
        binds=tuple(PodBinding(name, f"uid-{name}", "node") for name in names),
    )
    binder = GangBinder(cast("KubeClient", NOBODY), places, random.Random(1))
    permit = Permit(ManualClock(), gang.not_after, is_leading=lambda: False)

    with pytest.raises(NoLongerLeading):
        await binder.bind([gang], permit)
