"""Tables for people, with rich: they line up, and say so when they are empty.

On a terminal there are colours and lines fit its width: where a table does not, its last columns
stand below each row. Into a file or a pipe goes plain text, one row per line, unless that would
be too long to be read. No line ends in blanks. After some lines the rest is only counted.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["MOST_LINES", "count", "paragraph", "section", "stdout", "tell_rest", "warn"]

MOST_LINES: Final = 24
_PLAIN_WIDTH: Final = 1_000
"""Of a line that nobody looks at on a terminal: it is not broken."""
_PLAIN_TABLE: Final = 120
"""Of a table there: a row that is longer can not be read as one."""
_GAP: Final = 2
"""Between two columns."""
_NOTHING: Final = frozenset({"", "-"})
_PHASES: Final[Mapping[str, str]] = {
    "Running": "green",
    "Completed": "green",
    "Inqueue": "yellow",
    "Pending": "yellow",
    "Unknown": "red",
}


def stdout() -> Console:
    """Standard output; into a file or a pipe, lines are never broken."""
    return _console(is_error=False)


def warn(text: str) -> None:
    """A line on standard error."""
    console = _console(is_error=True)
    console.print(Text(f"warning: {text}"), soft_wrap=not console.is_terminal)


def _console(*, is_error: bool) -> Console:
    console = Console(highlight=False, stderr=is_error)
    if console.is_terminal:
        return console
    return Console(highlight=False, stderr=is_error, width=_PLAIN_WIDTH)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def section(
    console: Console,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    none: str,
    *,
    below: int = 1,
) -> None:
    """A table under its title; the last `below` columns may stand below their rows."""
    console.print()
    if not rows:
        console.print(Text(f"{title}: {none}", style="dim"))
        return
    console.print(Text(title, style="bold"))
    shown = rows[:MOST_LINES]
    if _total(_widths(columns, shown)) <= _room(console):
        _table(console, columns, shown)
    else:
        _stacked(console, columns, shown, len(columns) - below)
    tell_rest(console, len(rows), "line")


def _room(console: Console) -> int:
    """How wide a table may be."""
    return console.width if console.is_terminal else min(console.width, _PLAIN_TABLE)


def _table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    box, gap = (SIMPLE_HEAD, _GAP - 1) if console.is_terminal else (None, _GAP)
    table = Table(box=box, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(text) for text in row))
    _show(console, table)


def _stacked(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], beside: int
) -> None:
    """At most so many columns are beside each other."""
    widths, room = _widths(columns, rows), _room(console)
    while beside > 1 and _total(widths[:beside]) > room:
        beside -= 1
    widths = widths[: max(beside, 1)]
    beside = len(widths)
    console.print(_line(columns[:beside], widths, style="bold"), overflow="fold")
    if console.is_terminal:
        console.print("─" * min(_total(widths), room))
    for row in rows:
        console.print(_line(row[:beside], widths), overflow="fold")
        for column, text in zip(columns[beside:], row[beside:], strict=True):
            if text not in _NOTHING:
                several = len(columns) - beside > 1
                paragraph(console, f"{column.lower()}: {text}" if several else text, room)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(row[n]) for row in (columns, *rows)) for n in range(len(columns))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _line(cells: Sequence[str], widths: Sequence[int], style: str = "") -> Text:
    padded = zip(cells, widths, strict=True)
    parts = ((set_cell_size(text, width), _PHASES.get(text, style)) for text, width in padded)
    line = Text(" " * _GAP).join(Text(*part) for part in parts)
    line.rstrip()
    return line


def paragraph(console: Console, text: str, width: int | None = None) -> None:
    """A line, or several, below something and set in; as wide as there is room."""
    _show(console, Padding(Text(text), (0, 0, 0, 4)), width)


def tell_rest(console: Console, number: int, noun: str) -> None:
    """How many of so many were left out."""
    left = number - MOST_LINES
    if left > 0:
        console.print(Text(f"… and {count(left, noun)} more: -o json shows all", style="dim"))


def _show(console: Console, shown: RenderableType, width: int | None = None) -> None:
    """Rich fills every line up with blanks; nobody wants to find those in a file, or copy them."""
    options = console.options if width is None else console.options.update_width(width)
    for segments in console.render_lines(shown, options, pad=False):
        line = Text.assemble(*((each.text, each.style or "") for each in segments), end="\n")
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _cell(text: str) -> Text:
    return Text(text, style=_PHASES.get(text, ""))
