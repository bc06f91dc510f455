"""Manifests as people write them, and the words for those that can't be read."""

import json

import pytest

from stromboli.api.timestamps import parse_time
from stromboli.simulating.conf_text import conf_from
from stromboli.simulating.errors import BadInput
from stromboli.simulating.manifests import Manifests, Source, read_manifests
from stromboli.simulating.simulate import cluster_of, load, run_until_idle
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

    assert found.warnings[0].endswith("(did you mean policy/v1 PodDisruptionBudget?)")


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
    ],
)
def test_what_can_not_be_used_is_an_error_that_says_where_and_why(text: str, words: str):
    assert words in problem_of(text)


def warnings_of(*texts: str) -> list[str]:
    sources = [Source(f"file{n}.yaml", text) for n, text in enumerate(texts, start=1)]
    return load(sources)[1]


JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: bad}
spec:
  minAvailable: %s
  tasks:
  - name: one
    replicas: 1
    template: {spec: {containers: [{name: c, image: x}]}}
"""


def test_an_object_may_be_given_twice_if_it_is_the_same():
    assert names(read(NODE, NODE)) == ["n1"]
    assert warnings_of(NODE, NODE) == []


def test_of_two_nodes_with_one_name_the_second_is_set_aside():
    (warning,) = warnings_of(NODE, f"{NODE}spec: {{unschedulable: true}}\n")

    assert warning == (
        "file2.yaml:1: document 1: Node n1 was given before, differently, "
        "in file1.yaml:1: document 1; this one is set aside"
    )


def test_a_job_that_is_given_twice_differently_is_an_error():
    problem = problem_of(f"{JOB % 1}---\n{JOB % 0}")

    assert "Job bad was given before, differently, in file1.yaml:1: document 1" in problem


@pytest.mark.parametrize("cpu", ["lots", "-4"])
def test_a_node_that_can_not_be_reckoned_with_is_set_aside_with_its_place(cpu: str):
    (warning,) = warnings_of(NODE, f"{NODE.replace('n1', 'n')}status: {{capacity: {{cpu: {cpu}}}}}")

    assert warning.startswith("file2.yaml:1: document 1: node n is set aside: cpu")


def test_queues_that_admission_would_refuse_are_there_all_the_same():
    """They may have come by another way; the scheduler says what is wrong with them."""
    cluster, warnings = load(
        [Source("q.yaml", f"{QUEUE % ('a', '{parent: b}')}---\n{QUEUE % ('b', '{parent: a}')}")]
    )

    assert {("queue", "", "a"), ("queue", "", "b")} <= cluster.objects.keys()
    (warning,) = warnings
    assert warning == (
        "q.yaml:1: document 1: the parents of Queue a go round in a circle: a → b → a; "
        "all are there all the same"
    )


def test_only_those_in_a_circle_of_queues_are_named_and_who_is_below_comes_after():
    circle = [QUEUE % ("a", "{parent: b}"), QUEUE % ("b", "{parent: a}")]

    found = read("---\n".join((QUEUE % ("below", "{parent: b}"), *circle)))

    assert names(found) == ["b", "a", "below"]
    assert found.circling == {("queue", "", "a"), ("queue", "", "b")}


def test_a_job_that_admission_refuses_is_told_with_its_place():
    problem = problem_of(f"{NODE}---\n{JOB % 3}")

    assert problem.startswith("file1.yaml:5: document 2: Job default/bad is refused: ")
    assert "minAvailable" in problem


NO_FIELD = "is not a field of it and means nothing"
REFUSED = "an API server would refuse that"
TOO_LOW = f"spec.weight is -1, expected at least 1: {REFUSED}"
POLICIES = "retain, delete (did you mean 'delete'?)"
FLOW = "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\nspec: %s\n"


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (QUEUE % ("q", "{weihgt: 3}"), f"Queue q: spec.weihgt {NO_FIELD} (did you mean 'weight'?)"),
        (QUEUE % ("q", "{zzz: 3}"), f"Queue q: spec.zzz {NO_FIELD}"),
        (
            QUEUE % ("q", "{guarantee: {resourcee: {cpu: 1}}, weight: -1}"),
            f"Queue q: spec.guarantee.resourcee {NO_FIELD} (did you mean 'resource'?); {TOO_LOW}",
        ),
        (
            f"{JOB % 1}  - {{name: two, replcas: 1, template: {{spec: {{}}}}}}\n",
            f"Job bad: spec.tasks[1].replcas {NO_FIELD} (did you mean 'replicas'?)",
        ),
        (
            FLOW % "{jobRetainPolicy: deleet}",
            f"JobFlow f: spec.jobRetainPolicy is 'deleet', expected one of {POLICIES}: {REFUSED}",
        ),
    ],
)
def test_what_an_api_server_would_drop_or_refuse_is_one_warning_for_each_object(
    manifest: str, words: str
):
    assert read(manifest).warnings == [f"file1.yaml:1: document 1: {words}"]


@pytest.mark.parametrize(
    "manifest",
    [
        QUEUE % ("q", "{weight: 0, reclaimable: null, capability: {example.com/x: 1}}"),
        (QUEUE % ("q", "{weihgt: 3}")).replace("name: q", "name: q, resourceVersion: '7'"),
        QUEUE % ("q", "{}") + "status: {sttae: Open}\n",
        (JOB % 1).replace("image: x", "image: x, lifecylce: {}"),
        NODE + "spec: {unknown: 1}\n",
    ],
)
def test_what_is_left_open_or_was_taken_by_an_api_server_is_not_judged(manifest: str):
    assert read(manifest).warnings == []


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


def test_a_misspelt_kind_is_told_what_it_may_have_been():
    found = read(NODE.replace("Node", "Nod"), "# nothing\n")

    assert found.warnings[0].endswith("(did you mean v1 Node?)")
    assert found.warnings[1] == "file2.yaml: there is nothing in it"


def test_what_can_not_be_reckoned_with_is_set_aside_and_the_others_go_on():
    bad = "%sstatus: {allocatable: {cpu: %s}}\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    good, worse = bad % (NODE, "4"), bad % (NODE.replace("n1", "n2"), '"-4"')

    cluster, warnings = load([Source("all.yaml", f"{good}---\n{worse}---\n{pod}")])
    run_until_idle(cluster)

    assert warnings == [
        "all.yaml:6: document 2: node n2 is set aside: cpu is '-4', expected 0 or more"
    ]
    assert cluster.binds == {("default", "p"): "n1"}


def test_a_workload_whose_pods_are_not_given_is_a_warning():
    """Nothing would happen, and nobody would say why."""
    workload = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: %s}\n"

    _, warnings = load(
        [Source("w.yaml", workload % "web" + "---\n" + workload % "known, uid: known")]
    )

    [warning] = warnings
    assert warning.startswith("w.yaml:1: document 1: the pods of ReplicaSet default/web are made")


def test_everything_that_is_wrong_with_a_configuration_is_a_line():
    conf = "actions: allocates\ntiers: [{plugins: [{name: gnag}]}]\n"
    with pytest.raises(BadInput) as caught:
        conf_from(Source("c.conf", conf))

    first, *problems = str(caught.value).splitlines()
    assert first == "c.conf: 2 problems"
    assert [problem.partition(" (did")[0] for problem in problems] == [
        "  line 1: the action 'allocates' is not known",
        "  line 2: the plugin 'gnag' is not known",
    ]


PG = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: pg}\nspec: %s\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%s}\nspec: {%s}\n"
SILENT = "{priorityClassName: system-node-critical}"


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (
            POD % ("", "containers: [{name: c, resources: {requests: {cpu: '-1'}}}]"),
            "Pod default/p is set aside: cpu is '-1', expected 0 or more",
        ),
        (
            (
                "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\n"
                "metadata: {name: h, uid: h}\nspec: {tier: 1, members: "
                "[{type: HyperNode, selector: {exactMatch: {name: h}}}]}\n"
            ),
            "HyperNode h is set aside: its member h has tier 1, expected less than its own 1",
        ),
        (
            PG % '{minResources: {cpu: "-1"}}',
            "podgroup default/pg is set aside: cpu is '-1', expected 0 or more",
        ),
        (
            PG % "{priorityClassName: gold}",
            "PodGroup default/pg: there is no PriorityClass 'gold', so it counts as without one",
        ),
        (
            (JOB % 1).replace("spec:", "spec:\n  priorityClassName: gold", 1),
            "Job default/bad: there is no PriorityClass 'gold', so it counts as without one",
        ),
        (
            POD % ("", "priorityClassName: gold"),
            "Pod default/p: there is no PriorityClass 'gold', so it counts as without one",
        ),
        (
            POD % (", annotations: {scheduling.volcano.sh/group-name: pg}", ""),
            (
                "Pod default/p names its PodGroup by scheduling.volcano.sh/group-name, which is "
                "not read here: without scheduling.k8s.io/group-name it gets a PodGroup of its own"
            ),
        ),
    ],
)
def test_what_is_rarely_meant_is_a_warning_that_names_the_object(manifest: str, words: str):
    assert warnings_of(manifest)[-1] == f"file1.yaml:1: document 1: {words}"


@pytest.mark.parametrize(
    "manifest",
    [
        PG % SILENT,
        POD % ("", "priorityClassName: gold, priority: 7"),
        POD % (", annotations: {scheduling.volcano.sh/group-name: pg}", "schedulerName: other"),
    ],
)
def test_what_may_well_be_meant_is_no_warning(manifest: str):
    assert warnings_of(manifest) == []
