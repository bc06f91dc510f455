"""Pods read from the bus are the same tasks as pods read whole, and many facts the same as one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stromboli.api.core import (
    Affinity,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    Toleration,
)
from stromboli.api.core.volumes import (
    EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Volume,
)
from stromboli.api.errors import ObjectUnreadable
from stromboli.api.kinds import kind_of
from stromboli.api.meta import Condition, KubeObject
from stromboli.api.projections import encode_projection
from stromboli.api.selectors import LabelSelector
from stromboli.api.wellknown import PREEMPTABLE, REVOCABLE_ZONE, TASK_PRIORITY, TASK_SPEC
from stromboli.contracts.stimuli import FactChanged, Instruction, Ready, Stimulus, WokeUp, tell
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.fact_reading import FactReader, UnfitPod
from stromboli.scheduling.pods import Task, read_task
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import PLAIN, gang, node, pod, queue

OURS = frozenset({"volcano"})

TERM = PodAffinityTerm(
    label_selector=LabelSelector(match_labels={"app": "a"}), topology_key="kubernetes.io/hostname"
)
APART = Affinity(
    pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(TERM,))
)
BOUND = Condition(type="PodScheduled", status="True", last_transition_time="2030-01-01T00:00:01Z")
TOKEN = (Volume(name="kube-api-access-x7k2z"),)
CLAIMED = (
    Volume(
        name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="data")
    ),
)
EPHEMERAL = (Volume(name="scratch", ephemeral=EphemeralVolumeSource()),)

pods = st.builds(
    lambda name, options, spec, status, annotations, labels: changed(
        pod(name, labels=labels, **options), spec, status, annotations
    ),
    st.sampled_from(["job-main-0", "job-main-1", "job-7", "plain"]),
    st.fixed_dictionaries(
        {},
        optional={
            "group": st.sampled_from(["job", "other", ""]),
            "role": st.sampled_from(["main", "side"]),
            "cpu": st.sampled_from(["1", "2", ""]),
            "namespace": st.sampled_from(["test", "elsewhere"]),
            "on": st.sampled_from(["n1", "n2"]),
            "phase": st.sampled_from(["Pending", "Running", "Succeeded", ""]),
            "ending": st.booleans(),
            "scheduler": st.sampled_from(["volcano", "default"]),
            "tolerations": st.just((Toleration(key="a", operator="Exists"),)),
            "affinity": st.sampled_from([APART, Affinity(node_affinity=NodeAffinity())]),
            "node_selector": st.sampled_from([{"disk": "ssd"}, {"disk": "hdd"}]),
            "host_port": st.just(8080),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "hostname": st.sampled_from(["a", "b"]),
            "volumes": st.sampled_from([TOKEN, CLAIMED, EPHEMERAL]),
            "priority": st.sampled_from([0, 5]),
            "priority_class_name": st.just("high"),
            "preemption_policy": st.sampled_from(["Never", "PreemptLowerPriority"]),
            "scheduling_gates": st.just((PodSchedulingGate(name="wait"),)),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "conditions": st.just((BOUND,)),
            "nominated_node_name": st.just("n2"),
            "start_time": st.just("2030-01-01T00:00:02Z"),
            "pod_ip": st.just("10.0.0.1"),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            TASK_PRIORITY: st.sampled_from(["3", "-2", "high"]),
            PREEMPTABLE: st.sampled_from(["true", "false"]),
            REVOCABLE_ZONE: st.just("*"),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "app": st.sampled_from(["a", "b"]),
            TASK_SPEC: st.just("labelled"),
            PREEMPTABLE: st.sampled_from(["true", "false"]),
        },
    ),
)


def changed(
    found: Pod, spec: dict[str, Any], status: dict[str, Any], annotations: dict[str, str]
) -> Pod:
    metadata = found.metadata
    return replace(
        found,
        metadata=replace(metadata, annotations={**metadata.annotations, **annotations}),
        spec=replace(found.spec, **spec),
        status=replace(found.status, **status),
    )


@given(st.lists(pods, min_size=1, max_size=8))
@settings(max_examples=examples(150), deadline=None)
def test_a_pod_read_from_the_bus_is_the_task_that_the_whole_pod_is(seen: list[Pod]):
    """Whatever was read before it: what pods have in common must not hide what they have not."""
    reader = FactReader(OURS)

    for item in seen:
        assert reader("pod", encode_projection(item)) == read_task(item, OURS)


def test_pods_of_one_template_share_what_they_have_in_common():
    reader = FactReader(OURS)
    one, two = (
        reader("pod", encode_projection(pod(f"job-main-{n}", group="job", role="main")))
        for n in range(2)
    )

    assert isinstance(one, Task)
    assert isinstance(two, Task)
    assert one.kind is two.kind
    assert one.annotations is two.annotations
    assert (one.index, two.index) == (0, 1)


def test_a_pod_with_amounts_that_make_no_sense_is_read_and_its_problem_told():
    reader = FactReader(OURS)

    for _ in range(2):
        unfit = reader("pod", encode_projection(pod("p", cpu="-2")))

        assert isinstance(unfit, UnfitPod)
        assert "cpu is '-2'" in str(unfit.problem)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"metadata": 7}),
        msgspec.msgpack.encode({"spec": {"containers": "none"}}),
        msgspec.msgpack.encode({"spec": []}),
        msgspec.msgpack.encode({"status": {"phase": 1}}),
        msgspec.msgpack.encode({"metadata": {"annotations": ["a"]}}),
    ],
)
def test_what_is_no_pod_is_unreadable(packed: bytes):
    with pytest.raises(ObjectUnreadable, match="the projection of a Pod"):
        FactReader(OURS)("pod", packed)


def test_other_kinds_are_read_as_they_are():
    assert FactReader(OURS)("queue", encode_projection(queue("q"))) == queue("q")


# Many at once.


def fact(item: KubeObject, after: Any) -> FactChanged:
    metadata = item.metadata
    return FactChanged(
        kind=kind_of(item).token,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version="1",
        after=after,
    )


jobs = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["1", "2", "x"]), st.sampled_from([None, APART])),
    max_size=5,
)


@given(jobs, st.lists(pods, max_size=4), st.randoms(use_true_random=False), st.integers(0, 30))
@settings(max_examples=examples(50), deadline=None)
def test_facts_told_together_lead_to_what_they_lead_to_one_by_one(
    jobs: list[Any], others: list[Pod], rng: Any, woken_after: int
):
    objects: list[KubeObject] = [queue(), node("n1", cpu="8"), node("n2", cpu="4"), *others]
    for number, (size, cpu, affinity) in enumerate(jobs):
        objects += gang(f"job{number}", size, cpu=cpu, affinity=affinity, role="main")
    if rng.random() < 0.5:
        rng.shuffle(objects)
    reader = FactReader(OURS)
    stimuli: list[Stimulus] = [
        Ready(),
        *(fact(o, reader(kind_of(o).token, encode_projection(o))) for o in objects),
        WokeUp(),
    ]
    stimuli.insert(woken_after % len(stimuli), WokeUp())
    together, apart = SchedulerCore(PLAIN), SchedulerCore(PLAIN)
    said: list[Instruction] = []
    for stimulus in stimuli:
        said += apart.handle(stimulus, now=100.0)

    assert tell(together, stimuli, now=100.0) == said
    assert together.cluster.aside.why == apart.cluster.aside.why
