"""Volcano's admission cases, decided by the rules alone."""

import pytest

from stromboli.testkit.admission_cases import AdmissionCase, check, load_cases, submit_to_rules

CASES = [each for each in load_cases() if not each.needs_schema]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
async def test_a_case_of_volcano_comes_out_as_it_does_there(case: AdmissionCase) -> None:
    check(case, await submit_to_rules(case))
