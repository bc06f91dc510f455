"""Pod templates: the rules of the core API that admission checks for a job's author."""

import pytest

from stromboli.admitting.templates.checking import (
    CONTAINER_RULES,
    POD_RULES,
    template_faults,
)
from stromboli.testkit.template_rows import TemplateRow, load_rows

ROWS = load_rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.case)
def test_a_template_is_judged_as_the_core_api_judges_it(row: TemplateRow) -> None:
    faults = template_faults(row.template)

    assert bool(faults) != row.valid, faults


def test_every_rule_of_templates_has_rows_that_keep_and_break_it() -> None:
    rules = {rule.name for rule in (*POD_RULES, *CONTAINER_RULES)}

    assert {row.rule for row in ROWS if row.rule} == rules
    assert {row.rule for row in ROWS if not row.valid} >= rules
