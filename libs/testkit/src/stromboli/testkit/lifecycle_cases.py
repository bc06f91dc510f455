"""Lives of jobs as data: what is submitted, what happens, what is expected.

A case is a sentence, a job and steps, in YAML. It says nothing about where it is played: on
the core alone with virtual time, or on real servers (see `job_stages`). A step that is misspelt
is refused when the file is read.

    - case: a failed pod restarts the job
      job: {tasks: [{name: t, replicas: 2}], policies: [{event: PodFailed, action: RestartJob}]}
      steps:
        - let-in
        - expect: {pods: 2}
        - report: {all: Running}
        - expect: {phase: Running}
        - report: {t-0: {phase: Failed, exitCode: 1}}
        - expect: {phases: [Pending, Running, Restarting, Pending]}
"""

from pathlib import Path
from typing import Any, Final, cast

import msgspec
import yaml

from stromboli.testkit import sample_jobs
from stromboli.testkit.sample_jobs import Manifest

__all__ = ["Case", "Expectation", "Step", "read_cases"]

_PLACES: Final = frozenset({"core", "live"})


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be true; what is not named may be as it likes."""

    phase: str | None = None
    phases: list[str] | None = None
    """All of them, in order."""
    pods: int | dict[str, str] | None = None
    """How many, or the phase of each by its name without the job's."""
    made_anew: list[str] | None = msgspec.field(default=None, name="madeAnew")
    """The pods whose uid is another than at the last `note`."""
    status: Manifest | None = None
    absent: list[str] | None = None
    """Fields of the status that are not there."""
    pod: dict[str, Manifest] | None = None
    """Parts of pods; a list holds at least what is listed."""
    gang: Manifest | None = None
    """A part of the PodGroup."""
    objects: dict[str, list[str]] | None = None
    """Kind → the names of all that there are."""
    object: dict[str, Manifest] | None = None
    """`<kind>/<name>` → a part of it."""
    events: list[Manifest] | None = None
    """Parts of events that were told; `message` is a part of the text."""
    event_count: dict[str, int] | None = msgspec.field(default=None, name="eventCount")
    """Reason → how many there are."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens; what each means is in `case_player`."""

    what: str
    detail: Any = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    sentence: str
    file: str
    job: Manifest
    steps: tuple[Step, ...]
    before: dict[str, list[Manifest]]
    """Kind → objects that are there before the job is."""
    plays: frozenset[str]
    """`core`, `live`, or both."""


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    job: Manifest
    steps: list[str | dict[str, Any]]
    before: dict[str, list[Manifest]] = {}
    plays: tuple[str, ...] = ("core", "live")


_STEPS: Final = frozenset(
    {
        *("let-in", "group", "report", "lose", "release", "order", "change", "wait", "crash"),
        *("make", "remove", "note", "expect", "drop-job"),
    }
)


def read_cases(folder: Path) -> list[Case]:
    """Every case of every file in the folder."""
    return [case for path in sorted(folder.glob("*.yaml")) for case in _read(path)]


def _read(path: Path) -> list[Case]:
    written = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), list[_Written])
    cases: list[Case] = []
    for one in written:
        unknown = set(one.plays) - _PLACES
        if unknown:
            raise ValueError(f"{path.name}: {one.case}: nobody plays {sorted(unknown)}")
        cases.append(
            Case(
                sentence=one.case,
                file=path.stem,
                job=_job(one.job),
                steps=tuple(_step(path, one.case, step) for step in one.steps),
                before=one.before,
                plays=frozenset(one.plays),
            )
        )
    return cases


def _step(path: Path, sentence: str, written: str | dict[str, Any]) -> Step:
    what, detail = (written, None) if isinstance(written, str) else next(iter(written.items()))
    if what not in _STEPS:
        raise ValueError(f"{path.name}: {sentence}: nobody knows the step {what!r}")
    if what == "expect":
        detail = msgspec.convert(detail, Expectation)
    return Step(what=what, detail=detail)


def _job(written: Manifest) -> Manifest:
    """The short form filled in as admission would do it; a template may be given whole."""
    spec = dict(written)
    name = spec.pop("name", "j")
    metadata: Manifest = spec.pop("metadata", {})
    tasks = [_task(one) for one in cast("list[Manifest]", spec.pop("tasks"))]
    made = sample_jobs.job(name, *tasks, **spec)
    return {**made, "metadata": {**made["metadata"], **metadata}}


def _task(written: Manifest) -> Manifest:
    given = dict(written)
    template: Manifest | None = given.pop("template", None)
    made = sample_jobs.task(given.pop("name"), given.pop("replicas", 1), **given)
    return made if template is None else {**made, "template": template}
