"""The arrays against plain sums."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.scheduling.nodes import NodeFacts, NodeTable
from stromboli.scheduling.occupancy import Occupancy
from stromboli.scheduling.pods import Task, TaskClass, TaskStatus
from stromboli.scheduling.resources import Amounts, ResourceIndex
from stromboli.testkit.effort import examples


def standing(uid: str, node: str, request: Amounts, *, ending: bool) -> Task:
    return Task(
        namespace="test",
        name=uid,
        uid=uid,
        group="",
        role="",
        kind=TaskClass(request=request),
        status=TaskStatus.RELEASING if ending else TaskStatus.RUNNING,
        node=node,
        priority=0,
        created="",
        bound_at="",
        gated=False,
    )


names = st.sampled_from(["n1", "n2", "n3", "n10", "m"])
amounts: st.SearchStrategy[Amounts] = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "x/y"]), st.integers(1, 9), max_size=3
).map(lambda found: tuple(sorted(found.items())))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), names, amounts),
        st.tuples(st.just("no node"), names, st.none()),
        st.tuples(st.just("pod"), names, st.tuples(st.integers(0, 5), amounts, st.booleans())),
        st.tuples(st.just("no pod"), names, st.integers(0, 5)),
        st.tuples(st.just("settle"), names, st.none()),
    ),
    max_size=30,
)


@given(steps)
@settings(max_examples=examples(100), deadline=None)
def test_sums_are_kept_delta_by_delta_as_if_summed_anew(taken: list[Any]):
    """Nodes come and go in any order, pods stand on nodes that are not there, and move."""
    resources = ResourceIndex()
    table = NodeTable(resources)
    occupancy = Occupancy(table)
    nodes: dict[str, Amounts] = {}
    pods: dict[str, Task] = {}
    for what, name, detail in taken:
        match what:
            case "node":
                nodes[name] = detail
                occupancy.node_came(NodeFacts(name), detail)
            case "no node":
                nodes.pop(name, None)
                table.remove(name)
            case "pod":
                number, request, ending = detail
                pods[f"pod{number}"] = standing(f"pod{number}", name, request, ending=ending)
                occupancy.occupy(pods[f"pod{number}"])
            case "no pod":
                assert occupancy.vacate(f"pod{detail}") == (f"pod{detail}" in pods)
                pods.pop(f"pod{detail}", None)
            case _:
                table.settle()
    table.settle()

    assert table.names == sorted(nodes)
    for slot, name in enumerate(table.names):
        on_node = [task for task in pods.values() if task.node == name]
        for row, resource in enumerate(resources.names):
            used = sum(dict(task.kind.request).get(resource, 0) for task in on_node)
            ending = sum(
                dict(task.kind.request).get(resource, 0)
                for task in on_node
                if task.status is TaskStatus.RELEASING
            )
            assert table.allocatable[row, slot] == dict(nodes[name]).get(resource, 0)
            assert (table.used[row, slot], table.releasing[row, slot]) == (used, ending)
    assert np.array_equal(table.idle, table.allocatable - table.used)
