"""What a log says last, for people who wait for something."""

from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["last_lines", "last_words", "written_since"]

_MOST_BYTES: Final = 64 * 1024
_TELLING: Final = frozenset({"warning", "error", "critical"})
_BESIDE: Final = frozenset({"time", "level", "event", "service", "pid", "logger"})
_MOST_CHARACTERS: Final = 600

_line: Final = msgspec.json.Decoder(dict[str, Any])


def written_since(log: Path, start: int) -> str:
    """What was written from there on; of much, the end."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(min(start, end), end - _MOST_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def last_lines(text: str, count: int) -> str:
    """For one that has ended: the whole of it may be needed to understand the last line."""
    return "\n".join(_shown(line) for line in text.splitlines()[-count:])


def last_words(text: str) -> str:
    """For one that is stuck: the last warning or worse, or else the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _is_telling(line)]
    return _shown((telling or lines or [""])[-1])


def _is_telling(line: str) -> bool:
    fields = _fields(line)
    return fields is not None and fields.get("level") in _TELLING


def _shown(line: str) -> str:
    fields = _fields(line)
    if fields is not None and "event" in fields:
        values = [f"{key}: {_brief(value)}" for key, value in fields.items() if key not in _BESIDE]
        line = f"{fields.get('level', '')} {fields['event']} {', '.join(values)}".strip()
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]} …"


def _brief(value: object) -> str:
    """Of a traceback, the exception."""
    lines = str(value).strip().splitlines()
    return lines[-1] if lines else ""


def _fields(line: str) -> dict[str, Any] | None:
    try:
        return _line.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
