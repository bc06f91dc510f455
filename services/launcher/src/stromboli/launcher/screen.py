"""What people read on the terminal, exactly as it was said.

Paths, log lines and messages of others may contain what rich takes for markup or an emoji, so
nothing is interpreted: styles are given beside the text. And output may fail, on a full disk or
a closed pipe. That is an error like any other: told in a sentence, and never in the way of
stopping what was started.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Generator
from typing import Any, Final, NoReturn

from rich.console import Console
from rich.text import Text

from stromboli.launcher.errors import LauncherError
from stromboli.runtime.errors import NatsServerNotFound

__all__ = ["Screen", "guarded"]

_INTERRUPTED: Final = 130
_OF_WRITING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF})
"""Files of ours are named where they can't be written."""


class Screen(Console):
    """A console that prints text as it is, however long and whatever is in it."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> NoReturn:
        """Rich would end the process from wherever it printed."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    @contextlib.contextmanager
    def busy(self, what: str) -> Generator[None]:
        """Show that something takes its time, where that can be shown."""
        status = self.status(Text(what))
        with contextlib.suppress(OSError):
            status.start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                status.stop()

    def tell(self, line: str) -> None:
        """Print news; who can't be told must not be in the way of what it is about."""
        with contextlib.suppress(OSError):
            self.print(line, style="yellow")


def guarded(run: Callable[[], Any]) -> int:
    """The exit code of `run`; what goes wrong becomes a sentence on stderr and 1."""
    try:
        try:
            code = run()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (LauncherError, NatsServerNotFound) as problem:
        return _failed(str(problem))
    except BrokenPipeError:
        _discard(sys.stdout.fileno())
        return 1
    except OSError as problem:
        _discard(sys.stdout.fileno())
        return _failed(_sentence(problem))
    return code if isinstance(code, int) else int(code is not None)


def _sentence(problem: OSError) -> str:
    why = problem.strerror or str(problem)
    if problem.filename:
        return f"{problem.filename}: {why}"
    return f"can't write the output: {why}" if problem.errno in _OF_WRITING else why


def _failed(sentence: str) -> int:
    screen = Screen(stderr=True)
    try:
        screen.print("error:", style="bold red", end=" ")
        screen.print(sentence)
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr.fileno())
    return 1


def _discard(descriptor: int) -> None:
    """Let what is still buffered go nowhere: Python would complain of it once more at its end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
