"""Places where a fault test may kill the process, named in the code they interrupt.

    APPLIED = declare("gateway.intent.applied", "applied to the API server, not yet acknowledged")
    …
    reach(APPLIED)

With STROMBOLI_CRASH_AT=gateway.intent.applied (or …:3, the third time it is reached) the
process sends itself SIGKILL there: no handler, no flush, as if the power had gone. For
fault tests only; never set it in production. A name that nobody declared is an error at
start, because a fault test whose fault never happens proves nothing.
"""

import difflib
import os
import signal
from collections.abc import Mapping
from typing import Final, NoReturn

from stromboli.runtime.errors import UnknownCrashPoint

__all__ = ["VARIABLE", "arm", "declare", "declared", "reach"]

VARIABLE: Final = "STROMBOLI_CRASH_AT"

_declared: Final[dict[str, str]] = {}
# Point -> how often it may still be reached. Empty in production, which makes `reach` cheap.
_armed: Final[dict[str, int]] = {}


def declare(name: str, meaning: str) -> str:
    """Register a point at import; `meaning` says what has and has not happened there."""
    if name in _declared:
        raise ValueError(f"the crash point {name!r} is declared already ({_declared[name]})")
    if name.count(".") < 1 or ":" in name:
        raise ValueError(f"expected a crash point such as 'service.thing.happened', got {name!r}")
    _declared[name] = meaning
    return name


def declared() -> Mapping[str, str]:
    """All points of this process with their meaning."""
    return dict(_declared)


def arm(environ: Mapping[str, str] | None = None) -> None:
    """Read STROMBOLI_CRASH_AT; called once at start, after all imports."""
    _armed.clear()
    given = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if not given:
        return
    name, colon, count = given.partition(":")
    if name not in _declared:
        near = difflib.get_close_matches(name, _declared, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UnknownCrashPoint(given, reason=f"no such point{hint}", known=sorted(_declared))
    if colon and (not count.isdecimal() or int(count) < 1):
        raise UnknownCrashPoint(
            given, reason="expected a number from 1 after the colon", known=sorted(_declared)
        )
    _armed[name] = int(count) if colon else 1


def reach(name: str) -> None:
    """Nothing, unless this is where the process was told to die."""
    if name in _armed:
        _armed[name] -= 1
        if _armed[name] == 0:
            _die(name)


def _die(name: str) -> NoReturn:
    # Straight to the descriptor: whoever reads the log sees where, and nothing is flushed.
    os.write(2, f"crash point reached: {name}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable: SIGKILL can't be survived")
