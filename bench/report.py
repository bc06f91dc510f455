"""Figures as people and as programs read them: aligned text, Markdown, JSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.calibration import Calibration, Machine
from bench.figures import Cell, Result, Table

__all__ = ["Report", "as_markdown", "as_text", "write"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    started: str
    quick: bool
    machine: Machine
    before: Calibration
    after: Calibration
    results: list[Result]


def as_text(report: Report) -> str:
    """For a terminal."""
    lines = list(_header(report))
    for result in report.results:
        lines += ["", f"== {result.figure}: {result.question}"]
        for table in result.tables:
            lines += ["", table.title, *_aligned(table), *(f"  ({note})" for note in table.notes)]
        lines += _absences(result)
        lines.append(f"  took {result.took_s:.0f} s; load average {result.load_average:.1f}")
    return "\n".join(lines)


def as_markdown(report: Report) -> str:
    """For a document."""
    lines = [f"- {line}" for line in _header(report)]
    for result in report.results:
        lines += ["", f"## {result.figure}", "", result.question]
        for table in result.tables:
            lines += ["", f"**{table.title}**", "", *_piped(table)]
            lines += ["", *(f"{note}" for note in table.notes)] if table.notes else []
        lines += ["", *(line.strip() for line in _absences(result))]
    return "\n".join(lines).rstrip() + "\n"


def write(report: Report, folder: Path, also: Path | None) -> list[Path]:
    """Write `report.json` and `report.md` into the folder; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    encoded = msgspec.json.format(msgspec.json.encode(report), indent=1)
    written = [folder / "report.json", folder / "report.md"]
    written[0].write_bytes(encoded)
    written[1].write_text(as_markdown(report))
    if also is not None:
        also.write_bytes(encoded)
        written.append(also)
    return written


def _header(report: Report) -> Iterator[str]:
    machine = report.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    yield f"{report.started}{' (quick: too few rounds to quote)' if report.quick else ''}"
    yield f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:.0f} GiB"
    yield f"Python {machine.python}, {packages}"
    for when, calibration in (("before", report.before), ("after", report.after)):
        yield (
            f"calibration {when}: "
            f"{calibration.python_loops_per_s / 1e6:.1f} million loops/s, "
            f"{calibration.json_decodes_per_s / 1e3:.1f} thousand JSON decodes/s "
            f"({calibration.json_bytes} bytes each), "
            f"{calibration.disk_syncs_per_s:,.0f} disk syncs/s, "
            f"load average {calibration.load_average:.1f}"
        )


def _absences(result: Result) -> list[str]:
    lines = [f"  not measured: {gap.what}: {gap.reason}" for gap in result.not_measured]
    if result.failed:
        lines.append(f"  FAILED: {result.failed}")
    return lines


def _columns(table: Table) -> list[str]:
    return list(dict.fromkeys(column for row in table.rows for column in row))


def _shown(cell: Cell | None) -> str:
    match cell:
        case None:
            return ""
        case str() | int():
            return f"{cell:,}" if isinstance(cell, int) else cell
        case float() if abs(cell) >= 100:
            return f"{cell:,.0f}"
        case float():
            return f"{cell:.2f}"


def _texts(table: Table) -> list[list[str]]:
    columns = _columns(table)
    return [columns, *([_shown(row.get(column)) for column in columns] for row in table.rows)]


def _numeric(table: Table) -> list[bool]:
    return [
        all(not isinstance(row.get(column, 0), str) for row in table.rows)
        for column in _columns(table)
    ]


def _aligned(table: Table) -> list[str]:
    texts = _texts(table)
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [_line(line, widths, _numeric(table)) for line in texts]


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return ("  " + "  ".join(padded)).rstrip()


def _piped(table: Table) -> list[str]:
    head, *body = _texts(table)
    rule = ["---:" if right else "---" for right in _numeric(table)]
    return [f"| {' | '.join(cell.strip() for cell in line)} |" for line in (head, rule, *body)]
