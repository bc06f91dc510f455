"""The manifests follow from the types, and the files follow from the manifests."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stromboli.api.crds import CRDS, Crd, manifest, manifests
from stromboli.api.crds.__main__ import main

DEPLOYED = Path(__file__).parents[3] / "deploy" / "crds"
BY_NAME: dict[str, dict[str, Any]] = {crd.kind.kind: manifest(crd) for crd in CRDS}


def schema(kind: str, *path: str) -> dict[str, Any]:
    node = BY_NAME[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        node = node["items"] if name == "[]" else node["properties"][name]
    return node


def test_the_deployed_manifests_are_up_to_date(capsys: pytest.CaptureFixture[str]):
    assert main(["--check", str(DEPLOYED)]) == 0, capsys.readouterr().out


def test_written_manifests_pass_the_check(tmp_path: Path):
    assert main(["--write", str(tmp_path / "new" / "crds")]) == 0
    assert main(["--check", str(tmp_path / "new" / "crds")]) == 0


def test_the_check_names_what_is_missing_changed_or_left_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    main(["--write", str(tmp_path)])
    (tmp_path / "bus.volcano.sh_commands.yaml").unlink()
    jobs = tmp_path / "batch.volcano.sh_jobs.yaml"
    jobs.write_text(jobs.read_text().replace("default: 3", "default: 4"))
    (tmp_path / "old.yaml").write_text("")
    capsys.readouterr()

    assert main(["--check", str(tmp_path)]) == 1

    told = capsys.readouterr().out
    assert "bus.volcano.sh_commands.yaml: missing" in told
    assert "batch.volcano.sh_jobs.yaml: differs from the types" in told
    assert "default: 4" in told
    assert "old.yaml: no kind of ours has this manifest" in told
    assert "3 manifest(s) out of date" in told


def test_manifests_are_read_in_the_order_people_expect():
    for text in manifests().values():
        document = yaml.safe_load(text)
        assert list(document) == ["apiVersion", "kind", "metadata", "spec"]
        assert "&id" not in text


@pytest.mark.parametrize(
    ("kind", "name", "scope", "short_names", "has_status"),
    [
        ("Job", "jobs.batch.volcano.sh", "Namespaced", ["vcjob", "vj"], True),
        ("PodGroup", "podgroups.scheduling.volcano.sh", "Namespaced",
         ["pg", "podgroup-v1beta1"], False),
        ("Queue", "queues.scheduling.volcano.sh", "Cluster", ["q", "queue-v1beta1"], True),
        ("Command", "commands.bus.volcano.sh", "Namespaced", None, False),
        ("CronJob", "cronjobs.batch.volcano.sh", "Namespaced", ["cronvcjob", "cronvj"], True),
        ("JobFlow", "jobflows.flow.volcano.sh", "Namespaced", ["jf"], True),
        ("JobTemplate", "jobtemplates.flow.volcano.sh", "Namespaced", ["jt"], True),
        ("HyperNode", "hypernodes.topology.volcano.sh", "Cluster", ["hn"], True),
    ],
)  # fmt: skip
def test_names_scope_and_subresources_are_volcanos(
    kind: str, name: str, scope: str, short_names: list[str] | None, *, has_status: bool
):
    crd = BY_NAME[kind]

    assert crd["metadata"]["name"] == name
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert crd["spec"]["scope"] == scope
    assert crd["spec"]["names"].get("shortNames") == short_names
    assert ("subresources" in crd["spec"]["versions"][0]) is has_status


def test_columns_are_volcanos():
    columns = {
        kind: [
            (column["name"], column["type"], column["jsonPath"], column.get("priority", 0))
            for column in crd["spec"]["versions"][0].get("additionalPrinterColumns", [])
        ]
        for kind, crd in BY_NAME.items()
    }

    assert columns == {
        "Job": [
            ("STATUS", "string", ".status.state.phase", 0),
            ("minAvailable", "integer", ".status.minAvailable", 0),
            ("RUNNINGS", "integer", ".status.running", 0),
            ("AGE", "date", ".metadata.creationTimestamp", 0),
            ("QUEUE", "string", ".spec.queue", 1),
        ],
        "PodGroup": [
            ("STATUS", "string", ".status.phase", 0),
            ("minMember", "integer", ".spec.minMember", 0),
            ("RUNNINGS", "integer", ".status.running", 0),
            ("AGE", "date", ".metadata.creationTimestamp", 0),
            ("QUEUE", "string", ".spec.queue", 1),
        ],
        "Queue": [("PARENT", "string", ".spec.parent", 0)],
        "Command": [],
        "CronJob": [],
        "JobFlow": [
            ("Status", "string", ".status.state.phase", 0),
            ("Age", "date", ".metadata.creationTimestamp", 0),
        ],
        "JobTemplate": [],
        "HyperNode": [
            ("Tier", "string", ".spec.tier", 0),
            ("TierName", "string", ".spec.tierName", 0),
            ("NodeCount", "integer", ".status.nodeCount", 0),
            ("Age", "date", ".metadata.creationTimestamp", 0),
        ],
    }


def test_bounds_defaults_and_enums_reach_the_schema():
    assert schema("Job", "spec", "maxRetry") == {
        "type": "integer", "format": "int32", "minimum": 0, "default": 3,
    }  # fmt: skip
    assert schema("Job", "spec", "minSuccess")["minimum"] == 1
    assert schema("Job", "spec", "tasks")["minItems"] == 1
    assert schema("Job", "spec", "queue")["default"] == "default"
    assert schema("Job", "spec", "volumes", "[]")["required"] == ["mountPath"]
    assert schema("Job", "spec", "tasks", "[]", "partitionPolicy")["required"] == [
        "totalPartitions",
        "partitionSize",
    ]
    assert "TaskFailed" in schema("Job", "spec", "policies", "[]", "event")["enum"]
    assert schema("Job", "spec", "networkTopology", "mode") == {
        "type": "string", "enum": ["hard", "soft"], "default": "hard",
    }  # fmt: skip
    assert schema("Job", "spec", "networkTopology", "highestTierAllowed") == {
        "type": "integer", "minimum": 0,
    }  # fmt: skip
    assert schema("Job", "status", "conditions", "[]")["required"] == ["status"]
    assert schema("Job", "status", "state", "lastTransitionTime") == {
        "type": "string", "format": "date-time",
    }  # fmt: skip
    assert schema("Queue", "spec", "weight") == {
        "type": "integer", "format": "int32", "default": 1, "minimum": 1, "maximum": 65535,
    }  # fmt: skip
    assert schema("Command", "target")["required"] == ["apiVersion", "kind", "name", "uid"]
    sub_group = ("spec", "subGroupPolicy", "[]")
    assert schema("PodGroup", *sub_group, "subGroupSize")["default"] == 1
    assert schema("PodGroup", *sub_group, "minSubGroups")["default"] == 0
    assert schema("PodGroup", *sub_group, "matchLabelKeys")["x-kubernetes-list-type"] == "atomic"
    member = ("spec", "members", "[]")
    assert schema("HyperNode", "spec")["required"] == ["tier"]
    assert schema("HyperNode", "spec", "members")["minItems"] == 1
    assert schema("HyperNode", *member)["required"] == ["type"]
    assert schema("HyperNode", *member, "selector", "exactMatch")["required"] == ["name"]
    assert [
        rule["message"]
        for rule in schema("HyperNode", *member, "selector")["x-kubernetes-validations"]
    ] == [
        "Either ExactMatch or RegexMatch or LabelMatch must be specified",
        "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
    ]


def test_quantities_are_integers_or_text_with_kubernetes_pattern():
    amount = schema("Queue", "spec", "capability")["additionalProperties"]

    assert amount["x-kubernetes-int-or-string"] is True
    assert amount["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert amount["pattern"].startswith(r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))")


def test_templates_and_claims_are_passed_through_whole():
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    assert schema("Job", "spec", "tasks", "[]", "template") == whole
    assert schema("Job", "spec", "volumes", "[]", "volumeClaim") == whole


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd.kind.kind)
def test_schemas_are_structural(crd: Crd):
    """Every node has a type (or is int-or-string), and a default is one the schema allows."""
    seen = 0

    def look(node: dict[str, Any], path: str) -> None:
        nonlocal seen
        seen += 1
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert "$ref" not in node, path
        if "default" in node:
            assert node["default"] in node.get("enum", [node["default"]]), path
            if node["type"] == "integer":
                assert node["default"] >= node.get("minimum", 0), path
        assert set(node.get("required", [])) <= set(node.get("properties", {})), path
        for name, child in node.get("properties", {}).items():
            look(child, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            if key in node:
                look(node[key], f"{path}.{key}")

    look(schema(crd.kind.kind), crd.kind.kind)
    assert seen > 5
