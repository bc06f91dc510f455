import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.kube.lines import Lines, LineTooLong


def test_a_line_that_comes_in_pieces_is_one_line() -> None:
    lines = Lines(limit_bytes=100)

    assert lines.feed(b'{"a"') == []
    assert lines.feed(b':1}\n{"b":') == [b'{"a":1}']
    assert lines.feed(b"2}\n") == [b'{"b":2}']
    assert lines.pending_bytes == 0


def test_an_unfinished_line_is_counted_as_pending() -> None:
    lines = Lines(limit_bytes=100)
    lines.feed(b"whole\npart")

    assert lines.pending_bytes == len(b"part")


@given(
    st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b" "))),
    st.lists(st.integers(min_value=1, max_value=17)),
)
def test_the_lines_do_not_depend_on_how_the_body_was_cut(
    written: list[bytes], cuts: list[int]
) -> None:
    body = b"".join(line + b"\n" for line in written)
    lines = Lines(limit_bytes=64)
    read: list[bytes] = []
    for size in cuts:
        piece, body = body[:size], body[size:]
        read += lines.feed(piece)
    read += lines.feed(body)

    assert read == [line for line in written if line]
    assert lines.pending_bytes == 0


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000])
def test_a_line_of_exactly_the_limit_passes_and_one_byte_more_does_not(chunk_bytes: int) -> None:
    def feed(size: int) -> list[bytes]:
        lines = Lines(limit_bytes=50)
        body = b"x" * size + b"\n"
        return [
            line
            for start in range(0, len(body), chunk_bytes)
            for line in lines.feed(body[start : start + chunk_bytes])
        ]

    assert feed(50) == [b"x" * 50]
    with pytest.raises(LineTooLong) as caught:
        feed(51)
    assert caught.value.limit_bytes == 50


def test_a_line_without_an_end_is_refused_as_soon_as_it_passes_the_limit() -> None:
    lines = Lines(limit_bytes=10)
    lines.feed(b"0123456789")

    with pytest.raises(LineTooLong) as caught:
        lines.feed(b"A")
    assert caught.value.head == b"0123456789"


def test_lines_longer_than_a_stream_readers_own_limit_pass() -> None:
    """aiohttp's readline gives up at 64 KiB to 2 MiB, depending on its settings."""
    long_line = b"y" * (5 * 1024 * 1024)
    lines = Lines(limit_bytes=8 * 1024 * 1024)
    read = [
        line
        for start in range(0, len(long_line), 65536)
        for line in lines.feed(long_line[start : start + 65536])
    ]

    assert read == []
    assert lines.feed(b"\n") == [long_line]
