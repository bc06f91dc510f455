"""Read traces: YAML or JSON for people, CSV for traces from elsewhere.

Files add up, so that a cluster in YAML and its jobs in CSV make one trace. Everything that is
wrong in any of them is told at once.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from stromboli.api.batch import Job
from stromboli.api.kinds import NODE, PRIORITY_CLASS, QUEUE, VC_JOB, kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.wellknown import DEFAULT_QUEUE, ROOT_QUEUE
from stromboli.simulating.entries import Entry, Moment, Problems
from stromboli.simulating.located import Located, NotYaml, located
from stromboli.simulating.manifests import Source
from stromboli.simulating.trace import Arrival, BadTrace, Standing, Trace
from stromboli.simulating.trace_entries import (
    JOB_FIELDS,
    NODE_FIELDS,
    PRIORITY_FIELDS,
    QUEUE_FIELDS,
    job_template,
    nodes_of,
    priority_of,
    queue_of,
)

__all__ = ["read_traces"]

_SECTIONS: Final = ("nodes", "queues", "priorities", "jobs")
_COLUMNS: Final = (
    *("name", "namespace", "at", "count", "every", "duration", "estimate", "queue", "priority"),
    *("min", "replicas"),
)
_RESOURCE_COLUMNS: Final = ("cpu", "memory", "gpu", "ephemeral-storage")
_REMARK: Final = "_"
_ALWAYS_THERE: Final = frozenset({DEFAULT_QUEUE, ROOT_QUEUE})
"""Queues that every cluster has; a trace may say what they are like."""
_SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


@dataclass(frozen=True, slots=True)
class _Submission:
    """A job that was read, and where."""

    at: Moment
    job: Job
    entry: Entry


@dataclass(slots=True)
class _Reading:
    problems: Problems = field(default_factory=Problems)
    objects: list[Standing] = field(default_factory=list[Standing])
    submissions: list[_Submission] = field(default_factory=list[_Submission])


def read_traces(files: Iterable[Source], others: Iterable[KubeObject] = ()) -> Trace:
    """All files as one trace; `others` are objects that are there besides. Raises BadTrace."""
    reading = _Reading()
    named: list[str] = []
    for file in files:
        named.append(file.name)
        if file.name.lower().endswith((".csv", ".tsv")):
            _read_table(file, reading)
        else:
            _read_document(file, reading)
    given = [*others]
    if not reading.problems.found:
        _check(reading, given, ", ".join(named))
    if reading.problems.found:
        raise BadTrace(reading.problems.found)
    return Trace(objects=tuple(reading.objects), arrivals=_arrivals(reading.submissions))


def _read_document(file: Source, reading: _Reading) -> None:
    try:
        document = located(file.text, is_json=file.name.lower().endswith(".json"))
    except NotYaml as fault:
        reading.problems.note(file.name, fault.line, "", str(fault))
        return
    if document is None:
        reading.problems.note(
            file.name, 0, "", f"is empty, expected a mapping with {', '.join(_SECTIONS)}"
        )
        return
    top = Entry(file.name, document, "", _SECTIONS, reading.problems)
    for entry in top.entries("nodes", NODE_FIELDS):
        for node in nodes_of(entry):
            _keep(reading, entry, node)
    for entry in top.entries("queues", QUEUE_FIELDS):
        _keep(reading, entry, queue_of(entry))
    for entry in top.entries("priorities", PRIORITY_FIELDS):
        _keep(reading, entry, priority_of(entry))
    for number, entry in enumerate(top.entries("jobs", JOB_FIELDS)):
        _read_job(entry, f"job-{number}", reading)


def _keep(reading: _Reading, entry: Entry, item: KubeObject | None) -> None:
    if item is not None:
        reading.objects.append(Standing(item, entry.file, entry.line))


def _read_job(entry: Entry, otherwise: str, reading: _Reading) -> None:
    template = job_template(entry, entry.name("name", otherwise))
    at = entry.moment("at") or Moment(0.0)
    count = entry.whole("count", 1)
    every_s = entry.seconds("every")
    if entry.has("every") and not entry.has("count"):
        entry.problem("count", "is missing: `every` says how far apart, `count` how many")
    if template is None:
        return
    repeated = entry.has("count")
    for number in range(count):
        metadata = template.metadata
        name = f"{metadata.name}-{number}" if repeated else metadata.name
        moment = Moment(at.seconds + number * (every_s or 0.0), is_absolute=at.is_absolute)
        job = replace(template, metadata=replace(metadata, name=name))
        reading.submissions.append(_Submission(moment, job, entry))


# Tables.


def _read_table(file: Source, reading: _Reading) -> None:
    lines = io.StringIO(file.text.removeprefix("\ufeff"), newline="")
    header_line = lines.readline()
    if not header_line.strip():
        reading.problems.note(file.name, 1, "", "is empty, expected a header: at,duration,cpu,…")
        return
    delimiter = max(",;\t", key=header_line.count)
    header = [cell.strip() for cell in next(csv.reader([header_line], delimiter=delimiter))]
    if not _is_good_header(file.name, header, reading.problems):
        return
    rows = csv.reader(lines, delimiter=delimiter)
    for number, row in enumerate(_rows(file.name, rows, reading.problems)):
        line = rows.line_num + 1
        if len(row) > len(header):
            sentence = f"has {len(row)} cells, expected {len(header)} as in the header"
            reading.problems.note(file.name, line, "", sentence)
            continue
        cells = {
            name: Located(cell.strip(), line)
            for name, cell in zip(header, row, strict=False)
            if cell.strip() and not name.startswith(_REMARK)
        }
        entry = Entry(file.name, _with_requests(cells, line), "", JOB_FIELDS, reading.problems)
        _read_job(entry, f"job-{number}", reading)


def _rows(file: str, rows: Iterable[list[str]], problems: Problems) -> Iterator[list[str]]:
    """Those that are not blank."""
    try:
        yield from (row for row in rows if any(cell.strip() for cell in row))
    except csv.Error as fault:
        problems.note(file, getattr(rows, "line_num", 0) + 1, "", f"it is not CSV: {fault}")


def _is_good_header(file: str, header: list[str], problems: Problems) -> bool:
    before = len(problems.found)
    for name in header:
        known = name in _COLUMNS or name in _RESOURCE_COLUMNS or "/" in name
        if not known and not name.startswith(_REMARK):
            sentence = (
                f"is not a column that means something here; expected {', '.join(_COLUMNS)}, "
                f"{', '.join(_RESOURCE_COLUMNS)}, or a resource with a slash in its name; a column "
                f"whose name begins with {_REMARK!r} is passed over"
            )
            problems.note(file, 1, repr(name), sentence)
    for name in sorted({name for name in header if header.count(name) > 1}):
        problems.note(file, 1, name, "is there twice")
    for name in ("at", "duration"):
        if name not in header:
            problems.note(file, 1, name, "is missing in the header")
    return len(problems.found) == before


def _with_requests(cells: Mapping[str, Located], line: int) -> Located:
    fields = {name: cell for name, cell in cells.items() if name in _COLUMNS}
    requests = {name: cell for name, cell in cells.items() if name not in _COLUMNS}
    if requests:
        fields["requests"] = Located(requests, line)
    return Located(fields, line)


# All files together.


def _check(reading: _Reading, others: list[KubeObject], files: str) -> None:
    problems = reading.problems
    names: dict[str, set[str]] = {kind.token: set() for kind in (NODE, QUEUE, PRIORITY_CLASS)}
    for item in others:
        names.get(kind_of(item).token, set()).add(item.metadata.name)
    for one in reading.objects:
        kind, name = kind_of(one.item), one.item.metadata.name
        if name in names[kind.token] and name not in _ALWAYS_THERE:
            problems.note(one.file, one.line, "name", f"the {kind.kind} {name!r} is there twice")
        names[kind.token].add(name)
    if not names[NODE.token]:
        problems.note(files, 0, "nodes", "there are none: give some here, or Nodes with -f")
    has_jobs = bool(reading.submissions) or any(kind_of(item) is VC_JOB for item in others)
    if not has_jobs:
        problems.note(files, 0, "jobs", "there are none")
    _check_jobs(reading, names)


def _check_jobs(reading: _Reading, names: Mapping[str, set[str]]) -> None:
    queues = names[QUEUE.token] | {DEFAULT_QUEUE}
    classes = names[PRIORITY_CLASS.token] | _SYSTEM_CLASSES
    seen: dict[tuple[str, str], Entry] = {}
    moments = {one.at.is_absolute for one in reading.submissions}
    for one in reading.submissions:
        metadata, spec, entry = one.job.metadata, one.job.spec, one.entry
        key = (metadata.namespace, metadata.name)
        if key in seen:
            first = seen[key]
            entry.problem("name", f"{metadata.name!r} is there already, {first.file}:{first.line}")
        seen.setdefault(key, entry)
        if spec.queue and spec.queue not in queues:
            known = ", ".join(sorted(queues))
            entry.problem("queue", f"{spec.queue!r} is not there; the queues are {known}")
            queues.add(spec.queue)
        if spec.priority_class_name and spec.priority_class_name not in classes:
            known = ", ".join(sorted(classes))
            sentence = f"{spec.priority_class_name!r} is not there; the priorities are {known}"
            entry.problem("priority", sentence)
            classes.add(spec.priority_class_name)
    if len(moments) > 1:
        entry = next(one.entry for one in reading.submissions if not one.at.is_absolute)
        entry.problem("at", "is no timestamp, but other jobs have one: say all in one way")


def _arrivals(submissions: list[_Submission]) -> tuple[Arrival, ...]:
    absolute = [one.at.seconds for one in submissions if one.at.is_absolute]
    begin = min(absolute, default=0.0)
    found = [
        Arrival(round(one.at.seconds - begin, 6), one.job, one.entry.file, one.entry.line)
        for one in submissions
    ]
    return tuple(sorted(found, key=lambda arrival: arrival.at_s))
