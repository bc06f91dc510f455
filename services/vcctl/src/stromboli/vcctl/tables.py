"""Tables for people, with rich: they line up, and say so when they are empty.

On a terminal there are colours and lines fit its width; into a file or a pipe goes plain text,
one row per line. After some lines the rest is only counted.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["MOST_LINES", "count", "section", "stdout"]

MOST_LINES: Final = 24
_PLAIN_WIDTH: Final = 1_000
"""Of a line that nobody looks at on a terminal: nothing is broken."""
_PHASES: Final[Mapping[str, str]] = {
    "Running": "green",
    "Completed": "green",
    "Inqueue": "yellow",
    "Pending": "yellow",
    "Unknown": "red",
}


def stdout() -> Console:
    """Standard output; into a file or a pipe, lines are never broken."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def section(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], none: str
) -> None:
    console.print()
    if not rows:
        console.print(Text(f"{title}: {none}", style="dim"))
        return
    console.print(Text(title, style="bold"))
    is_terminal = console.is_terminal
    table = Table(box=SIMPLE_HEAD if is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=not is_terminal)
    for row in rows[:MOST_LINES]:
        table.add_row(*(_cell(text) for text in row))
    console.print(table)
    if len(rows) > MOST_LINES:
        left = len(rows) - MOST_LINES
        console.print(Text(f"… and {count(left, 'line')} more: -o json shows all", style="dim"))


def _cell(text: str) -> Text:
    return Text(text, style=_PHASES.get(text, ""))
