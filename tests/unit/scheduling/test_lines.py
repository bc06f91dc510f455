"""Who is ahead of whom, without sorting all that wait."""

from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.lines import Lines

Steps = list[tuple[str, int | None, str]]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.one_of(st.none(), st.integers(0, 3)),
            st.sampled_from(("q1", "q2")),
        )
    )
)
def test_those_ahead_are_what_sorting_would_say(steps: Steps):
    lines, waiting = Lines(), dict[str, tuple[int, str]]()
    for name, turn, queue in steps:
        if turn is None:
            lines.leave(("ns", name))
            waiting.pop(name, None)
        else:
            lines.put(("ns", name), queue, (turn,))
            waiting[name] = (turn, queue)

    for name in "abcdef":
        ahead: list[str] = []
        if name in waiting:
            turn, queue = waiting[name]
            line = sorted((t, other) for other, (t, q) in waiting.items() if q == queue)
            ahead = [other for t, other in line if (t, other) < (turn, name)]
        number, first = lines.ahead_of(("ns", name), 2)
        assert number == len(ahead)
        assert [other for _, other in first] == ahead[:2]
