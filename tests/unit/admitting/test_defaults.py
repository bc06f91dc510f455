"""Defaults: filled in once, by patches that another library applies as we do."""

import copy
from typing import Any, Final

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.admitting.conf import AdmissionConf, read_resource_groups
from stromboli.admitting.patching import applied
from stromboli.admitting.questions import PatchOperation, Review
from stromboli.admitting.reviewing import PATHS, review
from stromboli.admitting.snapshot import Snapshot
from stromboli.api.scheduling import Queue
from stromboli.testkit.admission_cases import (
    CONF,
    AdmissionCase,
    load_cases,
    review_of,
    surroundings_of,
)
from stromboli.testkit.manifests import Manifest, pod

CASES: Final = [case for case in load_cases() if case.verb == "CREATE" and not case.needs_schema]
HERE: Final = Snapshot(queues=[msgspec.convert({"metadata": {"name": "default"}}, Queue)])

GROUPS: Final = """
resourceGroups:
- resourceGroup: management
  object: {key: namespace, value: [mng-ns-1, mng-ns-2]}
  schedulerName: default-scheduler
  tolerations: [{effect: NoSchedule, key: taint, operator: Exists}]
  labels: {volcano.sh/nodetype: management}
  affinity: '{"nodeAffinity": {}}'
- resourceGroup: cpu
  object: {key: annotation, value: ["volcano.sh/resource-group: cpu"]}
  labels: {volcano.sh/nodetype: cpu}
- resourceGroup: gpu
  schedulerName: volcano
  labels: {volcano.sh/nodetype: gpu}
"""


def _patch(path: str, item: Manifest, *, namespace: str = "default") -> list[PatchOperation]:
    request = Review(uid="u", operation="CREATE", namespace=namespace, object=item)
    conf = AdmissionConf(resource_groups=read_resource_groups(GROUPS), scheduling_gates=True)
    verdict = review(path, request, HERE, conf)
    assert verdict.allowed, verdict.message
    return verdict.patch or []


def _defaulted(item: Manifest, path: str, *, namespace: str = "default") -> Manifest:
    operations = _patch(path, item, namespace=namespace)
    theirs: Manifest = jsonpatch.apply_patch(item, operations)
    assert applied(item, operations) == theirs
    return theirs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
def test_what_was_defaulted_once_needs_no_defaults(case: AdmissionCase) -> None:
    for path in PATHS.values():
        if not path.mutates or path.kind != case.kind:
            continue
        before = copy.deepcopy(case.object)
        first = review(path.path, review_of(case), surroundings_of(case), CONF)
        assert case.object == before, "a review must not change what it looks at"
        once = jsonpatch.apply_patch(case.object, first.patch or [])
        assert applied(case.object, first.patch or []) == once
        for operation in first.patch or []:
            others = [each for each in first.patch or [] if each is not operation]
            if operation["value"] != {}:  # an object made for a member to go into
                assert applied(case.object, others) != once, "an operation that changes nothing"

        second = review(path.path, review_of(case, once), surroundings_of(case), CONF)

        assert second.patch is None


def _task(**fields: Any) -> Manifest:
    return {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}, **fields}


TASKS: Final = st.lists(
    st.fixed_dictionaries(
        {"replicas": st.integers(1, 9)},
        optional={"minAvailable": st.just(1), "maxRetry": st.integers(0, 5)},
    ).map(lambda fields: _task(**fields)),
    min_size=1,
    max_size=4,
)
SPECS: Final = st.fixed_dictionaries(
    {"tasks": TASKS},
    optional={
        "queue": st.sampled_from(["", "default", None]),
        "maxRetry": st.integers(0, 5),
        "minAvailable": st.integers(0, 1),
        "schedulerName": st.sampled_from(["", "volcano"]),
        "plugins": st.dictionaries(
            st.sampled_from(["svc", "ssh", "env", "tensorflow", "pytorch", "ray"]),
            st.just(list[str]()),
        ),
    },
)


@settings(max_examples=100, deadline=None)
@given(spec=SPECS)
def test_a_job_that_was_defaulted_is_valid(spec: Manifest) -> None:
    job = {"metadata": {"name": "a"}, "spec": spec}

    once = _defaulted(job, "/jobs/mutate")

    request = Review(uid="u", operation="CREATE", namespace="default", object=once)
    assert review("/jobs/validate", request, HERE, CONF).message == ""
    assert _patch("/jobs/mutate", once) == []


def test_a_job_without_a_spec_gets_one() -> None:
    for bare in ({"metadata": {"name": "a"}}, {"metadata": {"name": "a"}, "spec": None}):
        assert _defaulted(bare, "/jobs/mutate")["spec"]["queue"] == "default"


def test_a_pod_of_a_namespace_gets_what_its_group_has() -> None:
    made = _defaulted(pod("a"), "/pods/mutate", namespace="mng-ns-1")

    spec = made["spec"]
    assert spec["nodeSelector"] == {"volcano.sh/nodetype": "management"}
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["tolerations"] == [{"effect": "NoSchedule", "key": "taint", "operator": "Exists"}]
    assert spec["affinity"] == {"nodeAffinity": {}}
    assert _patch("/pods/mutate", made, namespace="mng-ns-1") == []


def test_what_a_pod_has_is_joined_by_what_its_group_has() -> None:
    own: dict[str, Any] = {
        "nodeSelector": {"zone": "1"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAffinity": {}},
    }
    made = _defaulted(pod("a", **own), "/pods/mutate", namespace="mng-ns-2")

    spec = made["spec"]
    assert spec["nodeSelector"] == {"zone": "1", "volcano.sh/nodetype": "management"}
    assert [one["operator"] for one in spec["tolerations"]] == ["Exists", "Exists"]
    assert spec["affinity"] == {"podAffinity": {}}


@pytest.mark.parametrize("group", ["cpu", "gpu"])
def test_a_pod_is_in_the_group_that_its_annotation_names(group: str) -> None:
    item = pod("a")
    item["metadata"]["annotations"] = {"volcano.sh/resource-group": group}

    made = _defaulted(item, "/pods/mutate")

    assert made["spec"]["nodeSelector"] == {"volcano.sh/nodetype": group}


def test_a_pod_of_no_group_is_left_alone() -> None:
    assert _patch("/pods/mutate", pod("a")) == []


@pytest.mark.parametrize("gates", [[], [{"name": "example.com/mine"}]])
def test_a_pod_that_asks_for_the_gate_of_its_queue_gets_it_once(gates: list[Manifest]) -> None:
    name = "scheduling.volcano.sh/queue-allocation-gate"
    item = pod("a", schedulingGates=gates)
    item["metadata"]["annotations"] = {name: "true"}

    made = _defaulted(item, "/pods/mutate")

    assert made["spec"]["schedulingGates"] == [*gates, {"name": name}]
    assert _patch("/pods/mutate", made) == []
