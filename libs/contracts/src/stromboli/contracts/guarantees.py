"""`python -m stromboli.contracts.guarantees`: what Stromboli promises, and the tests that hold it.

Each promise is one sentence that an operator understands, with the mechanism behind it and the
tests that fail without it. The page in docs is made from this table, and a test of its own fails
if a promise names no test, or one that does not exist.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["GUARANTEES", "Guarantee", "page"]


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """One promise."""

    promise: str
    mechanism: str
    tests: tuple[str, ...]
    """As pytest names them, from the top of the repository: `tests/….py::test_name`."""


_NO_OVERCOMMIT = "tests/unit/promises/test_no_overcommit.py"

GUARANTEES: Final[tuple[Guarantee, ...]] = ()

_PATH: Final = Path("docs/reference/guarantees.md")
_HEAD: Final = """\
# What Stromboli promises

Made from `stromboli.contracts.guarantees` by `make generate`; do not edit. A promise holds while
processes are killed or frozen, connections break, messages are lost, late or repeated, and clocks
differ. `make test` and `make faults` run the tests that are named here.
"""


def page() -> str:
    return _HEAD + "".join(_section(n, row) for n, row in enumerate(GUARANTEES, 1))


def _section(number: int, row: Guarantee) -> str:
    tests = "\n".join(f"- `{test}`" for test in row.tests)
    return f"\n## {number}. {row.promise}\n\n{row.mechanism}\n\nTested by:\n\n{tests}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of promises.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", metavar="DIR", type=Path, help="write the page below DIR")
    choice.add_argument("--check", metavar="DIR", type=Path, help="fail if the page is another")
    chosen = parser.parse_args()
    if chosen.write is not None:
        (chosen.write / _PATH).write_text(page())
    elif (chosen.check / _PATH).read_text() != page():
        sys.exit(f"{_PATH} is not what the table says; run `make generate`")


if __name__ == "__main__":
    main()
