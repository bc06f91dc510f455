"""Volcano's own cases of what its scheduler decides, run through the core."""

from pathlib import Path

import pytest

from stromboli.contracts.records import REPAIRED
from stromboli.testkit.scheduling_findings import check, found_in
from stromboli.testkit.scheduling_scenario import Scenario, read_scenarios, simulate

SCENARIOS = list(read_scenarios(Path(__file__).parent / "scheduling"))


def name_of(scenario: Scenario) -> str:
    return f"{scenario['file']}-{scenario['id']}"


def test_every_scenario_has_a_name_of_its_own():
    names = [name_of(scenario) for scenario in SCENARIOS]

    assert len(set(names)) == len(names) > 0


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_a_safety_pass_finds_nothing_to_repair(scenario: Scenario):
    cluster = simulate(scenario)

    cluster.safety_pass()

    assert [line.job for line in cluster.history if line.what == REPAIRED] == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_the_scenario_comes_out_as_in_volcano(scenario: Scenario):
    check(scenario, found_in(simulate(scenario)))
