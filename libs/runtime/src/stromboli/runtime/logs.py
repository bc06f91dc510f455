"""Structured logs: JSON lines for machines, readable lines on a terminal.

An event is a constant `noun.verb`, its details are fields: `log.info("gang.bound",
nodes=3)`. Every line tells its service, its process and, inside a span, its trace. Logs of
libraries (nats, aiohttp, asyncio) take the same way out, at most once per half minute for
the same sentence, because a library that retries in a loop must not bury everything else.
Secrets are starred by name and shape before a line is written. The core never logs.
"""

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from enum import StrEnum
from typing import Annotated, Any, BinaryIO, Final, TypeAlias, cast

import msgspec
import structlog
from msgspec import Meta
from opentelemetry import trace
from structlog.typing import FilteringBoundLogger, Processor

from stromboli.runtime.quiet import OncePer, once_per
from stromboli.runtime.redaction import redact, redact_text

__all__ = [
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "Logger",
    "OncePer",
    "bound",
    "configure",
    "get_logger",
    "once_per",
]

Logger: TypeAlias = FilteringBoundLogger
_Event: TypeAlias = MutableMapping[str, Any]

bound = structlog.contextvars.bound_contextvars
"""`with bound(job=…, cause=…):` adds fields to every line logged inside, in this task."""

_LIBRARY_INTERVAL_S: Final = 30.0


class LogLevel(StrEnum):
    """What is worth a line: debug = a developer asked, error = a person must look."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        return logging.getLevelNamesMapping()[self.upper()]


class LogFormat(StrEnum):
    """How a line is written."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is logged, and in which form."""

    level: Annotated[LogLevel, Meta(description="The least important lines to write.")] = (
        LogLevel.INFO
    )
    format: Annotated[
        LogFormat,
        Meta(description="auto: as LOG_FORMAT says, else readable on a terminal, JSON elsewhere."),
    ] = LogFormat.AUTO


def get_logger(name: str | None = None) -> Logger:
    """A logger; safe to create at import, before `configure`."""
    return cast("Logger", structlog.get_logger(*([name] if name else [])))


def configure(
    settings: LogSettings | None = None,
    *,
    service: str,
    stream: BinaryIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Set up logging for this process, once, before the first line."""
    settings = settings or LogSettings()
    environ = os.environ if environ is None else environ
    out = sys.stdout.buffer if stream is None else stream
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _Identity(service),
        _add_trace,
    ]
    processors += [
        structlog.processors.StackInfoRenderer(),
        # Text before redaction, so that a secret inside an exception's message is starred too.
        structlog.processors.format_exc_info,
        _redact,
    ]
    if _is_json(settings.format, out, environ):
        processors += [_first_things_first, _to_json]
    else:
        processors.append(_Console(colors=out.isatty()))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(settings.level.number),
        logger_factory=structlog.BytesLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    _route_libraries(settings.level)


def _is_json(chosen: LogFormat, out: BinaryIO, environ: Mapping[str, str]) -> bool:
    if chosen is LogFormat.AUTO:
        asked = environ.get("LOG_FORMAT", "").lower()
        return asked == LogFormat.JSON or (asked != LogFormat.CONSOLE and not out.isatty())
    return chosen is LogFormat.JSON


class _Identity:
    """Which process of which service wrote the line, and which logger in it."""

    def __init__(self, service: str) -> None:
        self._fields = {"service": service, "pid": os.getpid()}

    def __call__(self, logger: Any, _method: str, event: _Event) -> _Event:
        for key, value in self._fields.items():
            event.setdefault(key, value)
        if name := getattr(logger, "name", None):
            event.setdefault("logger", name)
        return event


def _add_trace(_logger: Any, _method: str, event: _Event) -> _Event:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = f"{context.trace_id:032x}"
        event["span_id"] = f"{context.span_id:016x}"
    return event


def _redact(_logger: Any, _method: str, event: _Event) -> _Event:
    return redact(event)


def _first_things_first(_logger: Any, _method: str, event: _Event) -> _Event:
    first = ("time", "level", "event")
    return {key: event.pop(key) for key in first if key in event} | dict(event)


def _to_json(_logger: Any, _method: str, event: _Event) -> bytes:
    return _encoder.encode(event)


def _as_text(value: Any) -> str | float:
    # A Duration or Size is a number with manners.
    return float(value) if isinstance(value, (int, float)) else redact_text(repr(value))


# Anything may be logged: what msgspec can't write is written as its repr.
_encoder: Final = msgspec.json.Encoder(enc_hook=_as_text)


class _Console:
    """structlog's readable lines, as bytes, and without the values of local variables."""

    def __init__(self, *, colors: bool) -> None:
        self._render = structlog.dev.ConsoleRenderer(
            colors=colors,
            timestamp_key="time",
            # The default shows local variables where rich is installed, secrets among them.
            exception_formatter=structlog.dev.plain_traceback,
        )

    def __call__(self, logger: Any, method: str, event: _Event) -> bytes:
        event.pop("pid", None)
        return self._render(logger, method, event).encode()


# -- libraries -----------------------------------------------------------------------------


class _LibraryHandler(logging.Handler):
    """Passes the standard library's log records on to structlog."""

    def __init__(self) -> None:
        super().__init__()
        self._log = OncePer(get_logger(), _LIBRARY_INTERVAL_S)

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        try:
            self._log.log(
                record.levelno,
                "library.logged",
                # The template, not the sentence: "retry 17 failed" is the same news as 16.
                key=(record.name, record.levelno, str(record.msg), kind),
                logger=record.name,
                message=record.getMessage(),
                **({"exc_info": record.exc_info} if record.exc_info else {}),
            )
        except Exception:  # noqa: BLE001 - a broken log line must not break the library
            self.handleError(record)


def _route_libraries(level: LogLevel) -> None:
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _LibraryHandler):
            root.removeHandler(handler)
    root.addHandler(_LibraryHandler())
    # Their "info" is our debug.
    root.setLevel(logging.DEBUG if level is LogLevel.DEBUG else max(level.number, logging.WARNING))
    logging.captureWarnings(capture=True)
