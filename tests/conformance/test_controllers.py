"""The cases of queues, gangs, flows and schedules, on the core alone with virtual time."""

import itertools
from pathlib import Path

import pytest

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.checks import check
from stromboli.lifecycle.controllers.registry import CONTROLLERS, kinds_read_by, made
from stromboli.lifecycle.core import LifecycleCore
from stromboli.testkit.controller_cases import ControllerCase, CoreStage, play, read_cases
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.simulated_gateway import SimulatedGateway

CASES = [one for one in read_cases(Path(__file__).parent / "controllers") if "core" in one.plays]
NAMES = [name for name in CONTROLLERS if name != "job-controller"]


def as_the_gateway_checks(intent: AnyIntent) -> tuple[Reason, str] | None:
    refusal = check(intent, intent.subject())
    return None if refusal is None else (refusal.reason, refusal.message)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
async def test_controllers_do_as_the_case_says(case: ControllerCase):
    turns = itertools.count()
    gateway = SimulatedGateway(watched=kinds_read_by(CONTROLLERS), check=as_the_gateway_checks)
    scenario = JobScenario(
        gateway, lambda: LifecycleCore(turn=f"turn-{next(turns)}", controllers=made(NAMES))
    )

    await play(case, CoreStage(scenario))

    assert [refused.message for refused in gateway.refused] == []
