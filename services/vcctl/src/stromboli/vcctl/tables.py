"""Tables for people, with rich: they line up, and say so when they are empty.

On a terminal there are colours and lines fit its width; into a file or a pipe goes plain text,
one row per line. After some lines the rest is only counted.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["MOST_LINES", "count", "paragraph", "section", "stdout", "tell_rest"]

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
    _show(console, table)
    tell_rest(console, len(rows), "line")


def paragraph(console: Console, text: str) -> None:
    """A line, or several, below something and set in."""
    _show(console, Padding(Text(text), (0, 0, 0, 4)))


def tell_rest(console: Console, number: int, noun: str) -> None:
    """How many of so many were left out."""
    left = number - MOST_LINES
    if left > 0:
        console.print(Text(f"… and {count(left, noun)} more: -o json shows all", style="dim"))


def _show(console: Console, shown: RenderableType) -> None:
    if console.is_terminal:
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    # Rich fills every line up; nobody wants to find that in a file.
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _cell(text: str) -> Text:
    return Text(text, style=_PHASES.get(text, ""))
