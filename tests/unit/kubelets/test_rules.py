from pathlib import Path

import pytest

from stromboli.api import kinds
from stromboli.api.core.pod import Pod
from stromboli.api.wire import read_object
from stromboli.sandbox.errors import ConfigError
from stromboli.sandbox.kubelets.fleet import node_manifest, node_status, read_fleet
from stromboli.sandbox.kubelets.rules import Behaviour, Rule, behaviour_of, read_rules


def pod(*command: str, labels: dict[str, str] | None = None, **annotations: str) -> Pod:
    return read_object(
        kinds.POD,
        {
            "metadata": {
                "name": "p",
                "labels": labels or {},
                "annotations": {f"sandbox.stromboli.sh/{k}": v for k, v in annotations.items()},
            },
            "spec": {"containers": [{"name": "c", "command": list(command)}]},
        },
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["sleep", "3"], Behaviour(run_s=3)),
        (["sh", "-c", "sleep 3"], Behaviour(run_s=3)),
        (["/bin/sh", "-c", "sleep 1.5 && exit 2"], Behaviour(run_s=1.5, exit_code=2)),
        (["sh", "-c", "exit 7"], Behaviour(run_s=0, exit_code=7)),
        (["sh", "-c", "sleep 10s; exit 1"], Behaviour(run_s=10, exit_code=1)),
        (["/usr/sbin/sshd", "-D"], Behaviour()),
        (["sh", "-c", "sleep 3 && boom"], Behaviour()),
        ([], Behaviour()),
    ],
)
def test_a_command_that_is_understood_says_how_the_pod_behaves(
    command: list[str], expected: Behaviour
):
    assert behaviour_of(pod(*command), []) == expected


def test_a_rule_wins_over_the_command_and_annotations_win_over_rules():
    rules = [Rule(match={"role": "master"}, start="200ms", run="3s", exit=4)]
    labels = {"role": "master", "x": "y"}

    assert behaviour_of(pod("sleep", "9", labels=labels), rules) == Behaviour(0.2, 3, 4)
    assert behaviour_of(pod("sleep", "9"), rules) == Behaviour(run_s=9)
    assert behaviour_of(pod("sleep", "9", labels=labels, run="1s"), rules) == Behaviour(0, 1, 0)


def test_a_bad_annotation_does_not_keep_a_pod_from_running():
    assert behaviour_of(pod("sleep", "2", run="soon"), []) == Behaviour(run_s=2)


@pytest.mark.parametrize("text", ["- match: 3", "- run: soon", "- colour: red", "{", "- exit: x"])
def test_a_rules_file_that_is_wrong_is_refused_by_name(tmp_path: Path, text: str):
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="rules"):
        read_rules(path)


def test_a_number_of_nodes_makes_as_many_nodes_alike():
    [group] = read_fleet("3")

    assert group.names() == ["node-0", "node-1", "node-2"]


def test_a_file_of_node_groups_gives_names_resources_labels_and_taints(tmp_path: Path):
    path = tmp_path / "nodes.yaml"
    path.write_text(
        "- {name: gpu, cpu: 16, memory: 64Gi, gpu: 4, labels: {zone: a},"
        " taints: [{key: gpu, value: x, effect: NoSchedule}]}\n- {name: cpu, count: 2}\n"
    )
    gpu, cpu = read_fleet(str(path))

    assert gpu.names() == ["gpu"]
    assert cpu.names() == ["cpu-0", "cpu-1"]
    assert node_status(gpu, now="now")["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node_manifest("gpu", gpu)["metadata"]["labels"]["zone"] == "a"
    assert node_manifest("gpu", gpu)["spec"]["taints"][0]["key"] == "gpu"


@pytest.mark.parametrize(
    "text", ["- {cpu: 1}", "- {name: a, cpu: many}", "- {name: a, colour: red}"]
)
def test_a_file_of_nodes_that_is_wrong_is_refused_with_the_reason(tmp_path: Path, text: str):
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="nodes"):
        read_fleet(str(path))


def test_neither_a_number_nor_a_file_is_refused():
    with pytest.raises(ConfigError, match="neither a number nor a readable file"):
        read_fleet("no-such-file.yaml")
