"""The end of a log, as it is shown to somebody who waits."""

from pathlib import Path

from stromboli.launcher.log_tails import last_lines, last_words, written_since

INFO = '{"time":"t","level":"info","event":"list.started","kind":"pod","service":"gateway"}'
WARNING = (
    '{"time":"t","level":"warning","event":"watch.interrupted","problem":"connection refused",'
    '"service":"gateway","pid":7,"logger":"x"}'
)
ERROR = (
    '{"time":"t","level":"error","event":"process.failed","exception":"Traceback (most recent call '
    'last):\\n  File \\"x\\", line 1\\nValueError: what is wrong\\n"}'
)


def test_of_one_that_is_stuck_the_last_warning_is_shown():
    text = f"{INFO}\n{WARNING}\n{INFO}\n"

    assert last_words(text) == "warning watch.interrupted problem: connection refused"


def test_without_a_warning_the_last_line_is_shown_as_it_is():
    assert last_words(f"{INFO}\n[1] Server is [ready]\n\n") == "[1] Server is [ready]"
    assert last_words(INFO) == "info list.started kind: pod"
    assert last_words("[1, 2]\nnull") == "null"
    assert last_words("") == ""


def test_of_a_traceback_the_exception_is_shown():
    assert last_words(ERROR) == "error process.failed exception: ValueError: what is wrong"


def test_of_one_that_has_ended_some_lines_are_shown():
    assert last_lines(f"a\nb\n{WARNING}\nc", 2).splitlines() == [
        "warning watch.interrupted problem: connection refused",
        "c",
    ]


def test_what_a_predecessor_wrote_is_not_shown(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("before\n")
    start = log.stat().st_size
    with log.open("a") as file:
        file.write("after\n")

    assert written_since(log, start) == "after\n"
    log.write_text("new")  # somebody emptied it
    assert written_since(log, start) == ""
    log.unlink()
    assert written_since(log, start) == ""


def test_of_a_long_log_only_the_end_is_read(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("x" * 1_000_000 + "\nthe end")

    assert len(written_since(log, 0)) < 100_000
    assert last_words(written_since(log, 0)) == "the end"
