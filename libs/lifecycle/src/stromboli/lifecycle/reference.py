"""`python -m stromboli.lifecycle.reference`: the life of a job as a page, from the table.

What is drawn is what decides: the arrows and the rows are read from `phases.TABLE`, so the
page can't tell another story than the code.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stromboli.api.batch import Action, JobPhase
from stromboli.lifecycle.phases import (
    ENDS_IN,
    FINISHED,
    LEADS_TO,
    TABLE,
    Effect,
    Keep,
    Rule,
    What,
    effect_of,
)

__all__ = ["arrows", "main", "page"]

_INTRODUCTION = """\
# The life of a job

Made from `stromboli.lifecycle.phases.TABLE` by `make generate`; do not edit.

An arrow with the name of an action is what that action does, whether a Command or a policy asks
for it. The other arrows are what the pods lead to by themselves.
"""

_TABLE_HEAD = """\
## Every phase, every action

A full kill ends every pod, but those that are kept: Succeeded and Failed ones, so that people can
read their logs; a job that is resumed keeps the Succeeded ones and runs the Failed ones again. In
the last retry every full kill keeps both. A targeted kill ends the pods of one
task, partition or pod, and what is missing is created again. Where the last column is empty, the
phase stays, whatever happens.

| phase | action | pods | leads to |
|---|---|---|---|
"""


def page() -> str:
    diagram = "\n".join(f"    {line}" for line in _diagram())
    rows = "\n".join(_rows())
    return f"{_INTRODUCTION}\n```mermaid\nstateDiagram-v2\n{diagram}\n```\n\n{_TABLE_HEAD}{rows}\n"


def arrows() -> list[tuple[JobPhase, JobPhase, str]]:
    """(from, to, why), each pair once, in the order of the table."""
    found: dict[tuple[JobPhase, JobPhase], list[str]] = {}
    for phase in TABLE:
        for action in Action:
            effect = effect_of(phase, action)
            if effect.enters is not None:
                found.setdefault((phase, effect.enters), []).append(action)
            for reached, when in _reached(phase, effect).items():
                words = found.setdefault((phase, reached), [])
                if when not in words:
                    words.append(when)
    return [(before, after, ", ".join(words)) for (before, after), words in found.items()]


def _reached(phase: JobPhase, effect: Effect) -> dict[JobPhase, str]:
    return {
        reached: when
        for reached, when in LEADS_TO[effect.rule].items()
        if effect.rule is not Rule.ONCE_ENDED or reached is ENDS_IN[phase]
    }


def _diagram() -> Iterator[str]:
    yield f"[*] --> {JobPhase.PENDING}"
    for before, after, words in arrows():
        yield f"{before} --> {after}: {words}"
    for phase in TABLE:
        if phase in FINISHED:
            yield f"{phase} --> [*]"


def _rows() -> Iterator[str]:
    for phase, (rows, otherwise) in TABLE.items():
        together: dict[Effect, list[str]] = {}
        for action in Action:
            if action in rows:
                together.setdefault(rows[action], []).append(action)
        for effect, actions in together.items():
            yield _row(phase, ", ".join(actions), effect)
        yield _row(phase, "any other" if rows else "any", otherwise)


def _row(phase: JobPhase, actions: str, effect: Effect) -> str:
    return f"| {phase} | {actions} | {_pods(effect)} | {_leads_to(phase, effect)} |"


def _pods(effect: Effect) -> str:
    match effect.what:
        case What.SYNC:
            return "made and deleted as the spec says"
        case What.KILL_TARGET:
            return "targeted kill"
        case What.KILL:
            return f"full kill, keeps {_KEPT[effect.keep]}"


_KEPT: Final = {
    Keep.NOTHING: "nothing",
    Keep.SUCCEEDED: "succeeded ones",
    Keep.FINISHED: "finished ones",
}


def _leads_to(phase: JobPhase, effect: Effect) -> str:
    retry = ", counts as a retry" if effect.counts_as_retry else ""
    if effect.enters is not None:
        return f"{effect.enters}{retry}"
    return "; ".join(f"{to} once {when}" for to, when in _reached(phase, effect).items())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stromboli.lifecycle.reference", description=__doc__
    )
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the page there")
    options = parser.parse_args(arguments)
    if options.write is None:
        sys.stdout.write(page())
    else:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
