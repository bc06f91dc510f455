"""Dependencies that must not go in circles."""

from collections.abc import Mapping, Sequence

__all__ = ["cycle_in", "undefined_in"]


def undefined_in(graph: Mapping[str, Sequence[str]]) -> str | None:
    """The first name that something depends on and nobody has."""
    for targets in graph.values():
        for target in targets:
            if target not in graph:
                return target
    return None


def cycle_in(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """A circle, its first name repeated at the end; empty if there is none.

    Iterative: a chain of ten thousand tasks must not exhaust the stack.
    """
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        trail = [start]
        on_trail = {start: 0}
        pending = [iter(graph[start])]
        while pending:
            following = next(pending[-1], None)
            if following is None:
                pending.pop()
                finished = trail.pop()
                del on_trail[finished]
                done.add(finished)
            elif following in on_trail:
                return [*trail[on_trail[following] :], following]
            elif following not in done and following in graph:
                on_trail[following] = len(trail)
                trail.append(following)
                pending.append(iter(graph[following]))
    return []
