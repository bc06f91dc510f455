"""Manifests as people write them, and the words for those that can't be read."""

import json

import pytest

from stromboli.api.timestamps import parse_time
from stromboli.simulating.conf_text import conf_from
from stromboli.simulating.errors import BadInput
from stromboli.simulating.manifests import Manifests, Source, read_manifests
from stromboli.simulating.simulate import cluster_of, load
from stromboli.simulating.store import START

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
QUEUE = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: %s}\nspec: %s\n"


def read(*texts: str) -> Manifests:
    return read_manifests(Source(f"file{n}.yaml", text) for n, text in enumerate(texts, start=1))


def problem_of(*texts: str) -> str:
    with pytest.raises(BadInput) as caught:
        load([Source(f"file{n}.yaml", text) for n, text in enumerate(texts, start=1)])
    return str(caught.value)


def names(manifests: Manifests) -> list[str]:
    return [one.item.metadata.name for one in manifests.given]


def test_documents_lists_and_several_files_are_read_alike():
    pods = {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [{"metadata": {"name": "p1"}}, {"metadata": {"name": "p2"}}],
    }
    listed = {"apiVersion": "v1", "kind": "List", "items": [json.loads(json.dumps(pods))]}

    found = read(f"---\n{NODE}---\n---\n{NODE.replace('n1', 'n2')}", json.dumps(listed))

    assert names(found) == ["n1", "n2", "p1", "p2"]
    assert [one.item.metadata.namespace for one in found.given] == ["", "", "default", "default"]


def test_what_others_name_comes_first_and_parents_before_their_children():
    found = read(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\n"
        + QUEUE % ("child", "{parent: top}")
        + "---\n"
        + QUEUE % ("top", "{}")
    )

    assert names(found) == ["top", "child", "p"]


def test_a_kind_that_nobody_decides_by_is_a_warning_with_its_place():
    found = read(f"{NODE}---\napiVersion: example.com/v1\nkind: Toaster\nmetadata: {{name: t}}\n")

    assert names(found) == ["n1"]
    (warning,) = found.warnings
    assert warning.startswith("file1.yaml:5: document 2: example.com/v1 Toaster is passed over: ")


def test_a_known_kind_of_another_version_is_a_warning_with_a_guess():
    found = read("apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n")

    assert found.warnings[0].endswith("(did you mean policy/v1?)")


def test_bad_yaml_is_told_with_file_and_line():
    assert problem_of(NODE, "apiVersion: v1\nkind: [Node\n").startswith("file2.yaml:3: ")
    assert problem_of("a: b: c\n").startswith("file1.yaml:1: this is not YAML: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1\n", "file1.yaml:1: document 1: expected an object with apiVersion and kind"),
        ("just words\n", "expected an object with apiVersion and kind"),
        ("apiVersion: v1\n", "it has no kind"),
        ("kind: Node\nmetadata: {name: n}\n", "a Node without apiVersion"),
        ("apiVersion: v1\nkind: Node\n", "a Node without metadata.name"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {a: 1}}\n",
            "cannot read this as a Node: Expected `str`, got `int`",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: yesterday}\n",
            "bad timestamp 'yesterday'",
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {capacity: {cpu: lots}}\n",
            "file1.yaml:1: document 1: ",
        ),
    ],
)
def test_what_can_not_be_used_is_an_error_that_says_where_and_why(text: str, words: str):
    assert words in problem_of(text)


def test_an_object_may_be_given_twice_if_it_is_the_same():
    assert names(read(NODE, NODE)) == ["n1"]
    assert "Node n1 was given before, differently, in file1.yaml:1" in problem_of(
        NODE, f"{NODE}spec: {{unschedulable: true}}\n"
    )


def test_what_admission_refuses_is_told_with_its_place():
    job = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: bad}
spec:
  minAvailable: 3
  tasks:
  - name: one
    replicas: 1
    template: {spec: {containers: [{name: c, image: x}]}}
"""

    problem = problem_of(f"{NODE}---\n{job}")

    assert problem.startswith("file1.yaml:5: document 2: Job default/bad is refused: ")
    assert "minAvailable" in problem


def test_timestamps_stay_text_and_the_newest_is_where_time_begins():
    moment = "2026-05-04T03:02:01Z"

    found = read(
        f"{NODE.replace('n1', 'n0')}", NODE.replace("}", f", creationTimestamp: {moment}}}")
    )

    assert found.latest == parse_time(moment).timestamp()
    assert read(NODE).latest == START


def test_what_is_left_out_is_filled_in_the_same_every_time():
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: n1}\n"

    one, other = (cluster_of(read(NODE, pod)) for _ in range(2))

    assert one.objects == other.objects
    found = one.get("pod", "default", "p")
    assert (found.status.phase, found.spec.scheduler_name) == ("Running", "volcano")
    assert (
        found.metadata.creation_timestamp == one.get("node", "", "n1").metadata.creation_timestamp
    )
    assert one.get("node", "", "n1").status.allocatable == {"pods": "110"}


def test_statuses_are_believed():
    queue = QUEUE % ("shut", "{}") + "status: {state: Closed}\n"
    group = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {queue: shut}
status: {phase: Inqueue}
"""

    cluster = cluster_of(read(queue, group))

    assert cluster.get("queue", "", "shut").status.state == "Closed"
    assert cluster.get("vcpodgroup", "default", "g").status.phase == "Inqueue"


CONF = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'


@pytest.mark.parametrize("key", ["volcano-scheduler.conf", "my.conf"])
def test_the_configuration_is_a_file_or_the_config_map_around_it(key: str):
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": {key: CONF}}

    assert conf_from(Source("c", json.dumps(config_map))) == conf_from(Source("c", CONF))


def test_a_bad_configuration_is_told_with_its_file():
    with pytest.raises(BadInput, match=r"^c\.conf: .*'gnag' is not known \(did you mean 'gang'"):
        conf_from(Source("c.conf", CONF.replace("gang", "gnag")))
    with pytest.raises(BadInput, match=r"expected 'volcano-scheduler\.conf'"):
        conf_from(Source("c", "kind: ConfigMap\ndata: {other: x}\n"))
