"""Every promise has tests, and they exist."""

import ast
from pathlib import Path

import pytest

from stromboli.contracts.guarantees import GUARANTEES, Guarantee, page

TOP = Path(__file__).parents[3]


def names_in(path: Path) -> set[str]:
    """Test functions, and state machines, which hypothesis turns into tests."""
    tree = ast.parse(path.read_text())
    found = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    }
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return found | {
        target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)
    }


@pytest.mark.parametrize("row", GUARANTEES, ids=lambda row: row.promise)
def test_a_promise_is_held_by_tests_that_exist(row: Guarantee):
    assert row.tests
    for test in row.tests:
        path, _, name = test.partition("::")
        assert (TOP / path).is_file(), f"{path} does not exist"
        assert name in names_in(TOP / path), f"{path} has no {name}"


def test_the_page_says_what_the_table_says():
    assert (TOP / "docs/reference/guarantees.md").read_text() == page()
