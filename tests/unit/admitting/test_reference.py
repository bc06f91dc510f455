"""What is printed from the tables of rules, and whether the tables are whole."""

from pathlib import Path
from typing import Final

from stromboli.admitting.jobs.policies import policy_faults
from stromboli.admitting.reference import generated, policies
from stromboli.admitting.reviewing import PATHS
from stromboli.api.batch import Job
from stromboli.api.kinds import VC_JOB
from stromboli.api.wire import read_object
from stromboli.testkit.admission_cases import AdmissionCase, load_cases

ROOT: Final = Path(__file__).parents[3]
RULES: Final = {
    rule.name: rule for path in PATHS.values() for rules in path.rules.values() for rule in rules
}


def _broken_by(case: AdmissionCase) -> str:
    if case.expect.rule not in ("job-policies", "task-policies"):
        return case.expect.rule
    job: Job = read_object(VC_JOB, case.object)
    lists = [job.spec.policies, *(task.policies for task in job.spec.tasks)]
    return next(fault[0] for fault in (policy_faults(one, "") for one in lists) if fault)


def test_the_generated_files_are_up_to_date() -> None:
    for name, text in generated().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"make generate: {name}"


def test_no_policy_is_left_of_a_kind_that_has_none() -> None:
    present = {file.name for file in (ROOT / "deploy" / "policies").glob("*.yaml")}

    assert present == set(policies())


def test_every_path_decides_by_a_table() -> None:
    assert len(PATHS) == 11
    for path in PATHS.values():
        assert path.defaults if path.mutates else set(path.rules) == set(path.operations)


def test_every_rule_in_cel_is_broken_by_a_case() -> None:
    """So that the e2e test has seen each expression refuse."""
    broken = {_broken_by(case) for case in load_cases() if case.expect.refused}
    in_cel = {name for name, rule in RULES.items() if rule.cel is not None}

    assert in_cel - broken == set()


def test_the_cases_name_rules_that_exist() -> None:
    named = {case.expect.rule for case in load_cases() if case.expect.rule}

    assert named - RULES.keys() == set()


def test_a_rule_has_a_name_of_its_own() -> None:
    for path in PATHS.values():
        for rules in path.rules.values():
            names = [rule.name for rule in rules]
            assert len(names) == len(set(names))
