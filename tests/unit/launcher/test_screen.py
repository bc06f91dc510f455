"""What is printed is what was said, and what can't be printed is an error in a sentence."""

import errno
import io
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stromboli.launcher.errors import LauncherError
from stromboli.launcher.screen import Screen, guarded
from stromboli.testkit.effort import examples

lines = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=300)


@settings(max_examples=examples(200))
@given(line=lines)
@example(line="/tmp/[bold]x[/bold]/:smile:/a[/]")
@example(line="no tag [/nothing] was opened")
@example(line="x" * 300)
def test_text_is_printed_as_it_is(line: str):
    screen = Screen()
    screen.file = io.StringIO()
    screen.print(line)
    screen.tell(line)

    assert screen.file.getvalue() == f"{line}\n{line}\n"


class Broken(io.StringIO):
    """An output that takes nothing."""

    def __init__(self, problem: OSError) -> None:
        super().__init__()
        self._problem = problem

    def write(self, _: str) -> int:
        raise self._problem


@pytest.mark.parametrize(
    "problem", [OSError(errno.ENOSPC, "full"), BrokenPipeError(errno.EPIPE, "closed")]
)
def test_news_that_can_not_be_printed_disturb_nobody(problem: OSError):
    screen = Screen()
    screen.file = Broken(problem)
    screen.tell("news")
    with screen.busy("doing something"):
        screen.tell("more news")


def failing(problem: BaseException) -> object:
    raise problem


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (LauncherError("no [such] luck"), "error: no [such] luck\n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            "error: /x: Permission denied\n",
        ),
        (OSError(errno.ENOSPC, "No space left"), "error: can't write the output: No space left\n"),
        (OSError(errno.EMFILE, "Too many open files"), "error: Too many open files\n"),
    ],
)
def test_what_goes_wrong_is_told_in_a_sentence(
    problem: Exception,
    sentence: str,
    capfd: pytest.CaptureFixture[str],
):
    assert guarded(lambda: failing(problem)) == 1
    assert capfd.readouterr().err == sentence


def test_the_exit_code_is_the_commands_own():
    assert guarded(lambda: 3) == 3
    assert guarded(lambda: None) == 0
    assert guarded(lambda: sys.exit(4)) == 4
    assert guarded(lambda: failing(KeyboardInterrupt())) == 130
