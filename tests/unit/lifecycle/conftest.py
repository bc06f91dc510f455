"""Lifecycle cores in a simulated cluster whose gateway checks intents as the real one does."""

import itertools
from collections.abc import Callable

import pytest

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.checks import check
from stromboli.lifecycle.controllers.registry import CONTROLLERS, kinds_read_by
from stromboli.lifecycle.core import LifecycleCore
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.simulated_gateway import SimulatedGateway


def as_the_gateway_checks(intent: AnyIntent) -> tuple[Reason, str] | None:
    refusal = check(intent, intent.subject())
    return None if refusal is None else (refusal.reason, refusal.message)


@pytest.fixture
def make_scenario() -> Callable[[], JobScenario]:
    def make() -> JobScenario:
        turns = itertools.count()
        gateway = SimulatedGateway(watched=kinds_read_by(CONTROLLERS), check=as_the_gateway_checks)
        return JobScenario(gateway, lambda: LifecycleCore(turn=f"turn-{next(turns)}"))

    return make


@pytest.fixture
def scenario(make_scenario: Callable[[], JobScenario]) -> JobScenario:
    return make_scenario()
