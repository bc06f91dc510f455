"""The life-cycle cases on the core alone, with virtual time."""

import itertools
from pathlib import Path

import pytest

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.checks import check
from stromboli.lifecycle.controllers.registry import CONTROLLERS, kinds_read_by
from stromboli.lifecycle.core import LifecycleCore
from stromboli.testkit.case_player import play
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.job_stages import CoreStage
from stromboli.testkit.lifecycle_cases import Case, read_cases
from stromboli.testkit.simulated_gateway import SimulatedGateway

CASES = [case for case in read_cases(Path(__file__).parent / "lifecycle") if "core" in case.plays]


def as_the_gateway_checks(intent: AnyIntent) -> tuple[Reason, str] | None:
    refusal = check(intent, intent.subject())
    return None if refusal is None else (refusal.reason, refusal.message)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}: {case.sentence}")
async def test_a_job_lives_as_the_case_says(case: Case):
    turns = itertools.count()
    gateway = SimulatedGateway(watched=kinds_read_by(CONTROLLERS), check=as_the_gateway_checks)
    scenario = JobScenario(gateway, lambda: LifecycleCore(turn=f"turn-{next(turns)}"))

    await play(case, CoreStage(scenario))

    assert [refused.message for refused in gateway.refused] == []
    scenario.driver.safety_pass()
    assert scenario.driver.repaired == []
