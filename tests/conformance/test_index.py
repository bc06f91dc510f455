"""docs/conformance.md says where every case of the reference is; this holds it to that."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
INDEX = HERE.parents[1] / "docs" / "conformance.md"
OF_THE_REFERENCE = re.compile(r"([AFQTSPRCHNEDVGK]\d|CE-|Share-|G[PR]-|e2e-)")


def cases_in(path: Path) -> Iterator[str]:
    """Every list of a file holds cases; what stands beside it holds for all of them."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    for content in document.values():
        if isinstance(content, list):
            for one in content:
                if isinstance(one, dict) and "id" in one:
                    yield one["id"]


def indexed() -> list[tuple[str, str]]:
    """Files and cases."""
    rows = re.findall(r"^\| [^|]+ \| ([\w]+\.yaml) \| ([^|]+) \|$", INDEX.read_text(), re.MULTILINE)
    return [(file, case.strip()) for file, cases in rows for case in cases.split(",")]


def test_every_case_of_the_index_is_in_its_file():
    known = {path.name: set(cases_in(path)) for path in (HERE / "scheduling").glob("*.yaml")}

    assert [(file, case) for file, case in indexed() if case not in known.get(file, ())] == []


def test_every_case_of_the_reference_is_in_the_index():
    listed = indexed()
    assert len(set(listed)) == len(listed) > 100

    there = [
        (path.name, case)
        for path in sorted((HERE / "scheduling").glob("*.yaml"))
        for case in cases_in(path)
        if OF_THE_REFERENCE.match(case)
    ]
    assert sorted(there) == sorted(listed)
