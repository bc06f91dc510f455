"""Whether a flow can ever end: every dependency is in it, and none leads back to itself."""

from collections.abc import Mapping, Sequence

from stromboli.api.flow import Flow

__all__ = ["problem_of"]


def problem_of(flows: Mapping[str, Flow]) -> str:
    """In words, what is wrong with a flow; empty if nothing is."""
    targets = {name: _targets(flow) for name, flow in flows.items()}
    for name, others in targets.items():
        for target in others:
            if target not in flows:
                said = f"{name} depends on {target}, which is not part of the flow"
                return f"jobflow Flow is not DAG: vertex is not defined: {target} ({said})"
    waiting = dict(targets)
    while waiting:
        ready = [name for name, others in waiting.items() if not set(others) & waiting.keys()]
        if not ready:
            return f"jobflow Flow is not DAG: {_circle(waiting)} wait for each other"
        for name in ready:
            del waiting[name]
    return ""


def _targets(flow: Flow) -> Sequence[str]:
    return flow.depends_on.targets if flow.depends_on is not None else ()


def _circle(waiting: Mapping[str, Sequence[str]]) -> str:
    """One circle among those that wait, told from its smallest name."""
    path = [min(waiting)]
    while True:
        following = min(target for target in waiting[path[-1]] if target in waiting)
        if following in path:
            return " -> ".join([*path[path.index(following) :], following])
        path.append(following)
