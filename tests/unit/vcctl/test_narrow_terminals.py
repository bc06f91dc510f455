"""Tables on a terminal: beside each other what fits, below its row what does not."""

import re
from io import StringIO

import pytest
from rich.console import Console

from stromboli.vcctl.tables import section

SENTENCE = "it needs 4 cpu at once, short of 3 cpu; it goes on when running pods end, or a node is"
COLUMNS = ("Job", "Phase", "Why")


def shown(*rows: tuple[str, ...], width: int = 60, terminal: bool = True, below: int = 1) -> str:
    text = StringIO()
    console = Console(file=text, width=width, force_terminal=terminal, color_system=None)
    section(console, "Title", COLUMNS, rows, "none", below=below)
    assert not re.search(r" \n", text.getvalue()), "a line ends in blanks"
    return text.getvalue().removesuffix("\n")


def test_a_table_that_fits_has_its_columns_beside_each_other():
    assert shown(("default/a", "Running", "x")) == (
        "\nTitle\nJob        Phase    Why\n───────────────────────\ndefault/a  Running  x"
    )


def test_a_sentence_that_does_not_fit_stands_below_its_row_and_is_broken_between_words():
    assert shown(("default/a", "Running", SENTENCE), ("default/b", "Running", "-")) == (
        "\nTitle\nJob        Phase\n──────────────────\n"
        "default/a  Running\n"
        "    it needs 4 cpu at once, short of 3 cpu; it goes on when\n"
        "    running pods end, or a node is\n"
        "default/b  Running"
    )


def test_of_several_columns_below_a_row_each_says_what_it_is():
    text = shown(("default/a", "7 cpu, 9Gi memory", SENTENCE), below=2)

    assert "default/a\n    phase: 7 cpu, 9Gi memory\n    why: it needs 4 cpu at once" in text


@pytest.mark.parametrize("width", [10, 24, 60, 79])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(width: int):
    row = ("namespace/a-name-of-a-job-that-is-very-long", "Running", SENTENCE)

    text = shown(row, width=width)

    assert max(map(len, text.splitlines())) <= width
    for cell in row:
        assert cell.replace(" ", "") in text.replace(" ", "").replace("\n", "")


def test_into_a_pipe_goes_one_line_for_each_row():
    text = shown(("default/a", "Running", SENTENCE), width=200, terminal=False)

    assert text == f"\nTitle\nJob        Phase    Why\ndefault/a  Running  {SENTENCE}"


def test_into_a_pipe_goes_no_row_that_is_too_long_to_be_read():
    text = shown(("default/a", "Running", f"{SENTENCE} {SENTENCE}"), width=1000, terminal=False)

    title, columns, row, *sentence = text.splitlines()[1:]
    assert (title, columns, row) == ("Title", "Job        Phase", "default/a  Running")
    assert " ".join(line.strip() for line in sentence) == f"{SENTENCE} {SENTENCE}"
    assert max(map(len, sentence)) <= 120
