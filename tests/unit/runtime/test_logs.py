"""Log lines: their form, what is added, what is starred, and what is kept quiet."""

import io
import logging
import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import structlog

from stromboli.runtime import logs
from stromboli.runtime.logs import LogFormat, LogLevel, LogSettings, get_logger
from stromboli.runtime.quiet import OncePer
from stromboli.runtime.redaction import Secret
from stromboli.runtime.telemetry import in_job_context


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def lines() -> Callable[[], list[dict[str, Any]]]:
    """Everything logged as JSON from now on."""
    stream = io.BytesIO()
    logs.configure(LogSettings(level=LogLevel.DEBUG), service="test", stream=stream, environ={})
    return lambda: [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_its_service_and_process(lines: Callable[[], list[dict[str, Any]]]):
    get_logger("a.module").info("gang.bound", nodes=3)

    (line,) = lines()
    assert list(line)[:3] == ["time", "level", "event"]
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "event": "gang.bound",
        "nodes": 3,
        "service": "test",
        "pid": os.getpid(),
        "logger": "a.module",
    }


def test_a_line_inside_a_span_tells_its_trace(lines: Callable[[], list[dict[str, Any]]]):
    uid = str(uuid.uuid4())
    with in_job_context(uid):
        get_logger().info("pod.bound")
    get_logger().info("pod.seen")

    inside, outside = lines()
    assert inside["trace_id"] == uid.replace("-", "")
    assert len(inside["span_id"]) == 16
    assert "trace_id" not in outside


def test_bound_fields_are_on_every_line_inside(lines: Callable[[], list[dict[str, Any]]]):
    with logs.bound(job="ns/j"):
        get_logger().info("pod.bound")
    get_logger().info("pod.seen")

    assert [line.get("job") for line in lines()] == ["ns/j", None]


def test_secrets_are_starred(lines: Callable[[], list[dict[str, Any]]]):
    get_logger().info(
        "bus.connected",
        password="hunter2",
        options={"ssh_key": "hunter2"},
        url="nats://me:hunter2@host",
        wrapped=Secret("hunter2"),
    )

    assert "hunter2" not in str(lines())


def test_an_exception_is_told_with_its_traceback(lines: Callable[[], list[dict[str, Any]]]):
    try:
        raise ValueError("nats://me:hunter2@host is down")
    except ValueError:
        get_logger().exception("bus.failed")

    (line,) = lines()
    assert "Traceback" in line["exception"]
    assert "ValueError: nats://" in line["exception"]
    assert "hunter2" not in line["exception"]


def test_anything_can_be_logged(lines: Callable[[], list[dict[str, Any]]]):
    get_logger().info("odd.seen", thing=object(), error=OSError("gone"), raw=b"\xff", keys={1: 2})

    (line,) = lines()
    assert line["thing"].startswith("<object object")
    assert line["error"] == "gone"


def test_lines_below_the_level_are_not_written():
    stream = io.BytesIO()
    logs.configure(LogSettings(level=LogLevel.WARNING), service="t", stream=stream, environ={})

    get_logger().info("pod.seen")
    get_logger().warning("pod.lost")

    assert b"pod.seen" not in stream.getvalue()
    assert b"pod.lost" in stream.getvalue()


@pytest.mark.parametrize(
    ("chosen", "variable", "stream", "is_json"),
    [
        (LogFormat.AUTO, "", io.BytesIO, True),
        (LogFormat.AUTO, "", Terminal, False),
        (LogFormat.AUTO, "json", Terminal, True),
        (LogFormat.AUTO, "console", io.BytesIO, False),
        (LogFormat.JSON, "console", Terminal, True),
        (LogFormat.CONSOLE, "json", io.BytesIO, False),
    ],
)
def test_the_form_follows_setting_then_variable_then_terminal(
    chosen: LogFormat, variable: str, stream: type[io.BytesIO], *, is_json: bool
):
    out = stream()
    logs.configure(
        LogSettings(format=chosen), service="t", stream=out, environ={"LOG_FORMAT": variable}
    )

    get_logger().info("pod.seen", name="a")

    assert out.getvalue().startswith(b"{") == is_json


def test_a_traceback_on_the_console_shows_no_secrets_either():
    out = Terminal()
    logs.configure(LogSettings(), service="t", stream=out, environ={})
    password = "hunter" + "2"
    try:
        raise ValueError(f"nats://me:{password}@host")
    except ValueError:
        get_logger().exception("bus.failed")

    assert b"ValueError" in out.getvalue()
    assert b"hunter2" not in out.getvalue()


def test_libraries_and_warnings_take_the_same_way(lines: Callable[[], list[dict[str, Any]]]):
    logging.getLogger("nats.aio").warning("retry %d", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    first, second = lines()
    assert first["event"] == second["event"] == "library.logged"
    assert (first["logger"], first["message"], first["level"]) == ("nats.aio", "retry 1", "warning")
    assert "old" in second["message"]


def test_a_library_that_repeats_itself_is_quoted_once(lines: Callable[[], list[dict[str, Any]]]):
    for attempt in range(100):
        logging.getLogger("nats.aio").error("attempt %d failed", attempt)

    assert len(lines()) == 1


def test_configuring_twice_does_not_double_the_lines(lines: Callable[[], list[dict[str, Any]]]):
    stream = io.BytesIO()
    logs.configure(LogSettings(), service="t", stream=stream, environ={})

    logging.getLogger("nats").error("once")

    assert len(stream.getvalue().splitlines()) == 1
    assert lines() == []


# -- once per interval ---------------------------------------------------------------------


class Now:
    value = 0.0

    def __call__(self) -> float:
        return self.value


def test_the_same_event_is_written_once_per_interval_with_the_number_left_out(
    lines: Callable[[], list[dict[str, Any]]],
):
    now = Now()
    quiet = OncePer(get_logger(), 30, now)

    for second in range(61):
        now.value = float(second)
        quiet.warning("bus.unreachable")

    assert [line.get("suppressed") for line in lines()] == [None, 29, 29]


def test_another_key_is_another_event(lines: Callable[[], list[dict[str, Any]]]):
    quiet = OncePer(get_logger(), 30, Now())

    for kind in ("pod", "node", "pod"):
        quiet.info("watch.broken", key=kind, kind=kind)

    assert [line["kind"] for line in lines()] == ["pod", "node"]


def test_the_memory_of_what_was_said_is_bounded(lines: Callable[[], list[dict[str, Any]]]):
    quiet = OncePer(get_logger(), 30, Now())

    for number in range(5000):
        quiet.debug("pod.lost", key=number)

    assert len(quiet._seen) == 1024
