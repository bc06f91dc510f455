"""What a file may say although hardly anybody means it: it is told of, with its line."""

from pathlib import Path

import pytest

from stromboli.scheduler.__main__ import check
from stromboli.scheduling.conf_doubts import doubts_about
from stromboli.scheduling.conf_file import DEFAULT_CONF_FILE

FILE = """\
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: predicates
  - name: {plugin}
    arguments:
      a-comment-in-between: 0
configurations:
- name: preempt
  arguments: {{enableTopologyAwarePreemption: true}}
"""


def file_of(actions: str = "allocate, preempt", plugin: str = "gang", arguments: str = "") -> str:
    text = FILE.format(actions=actions, plugin=plugin)
    return text.replace("      a-comment-in-between: 0\n", arguments or "      {}\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            file_of(actions="allocate, preempt, allocate"),
            "line 1: the action 'allocate' stands 2 times, expected once",
        ),
        (
            file_of(actions="backfill, preempt"),
            "line 1: without the action 'allocate' no pod is bound that asks for anything",
        ),
        (
            file_of(actions="allocate"),
            "line 10: the action 'preempt' is configured, and is none of the actions",
        ),
        (
            file_of().replace("  - name: predicates\n", ""),
            (
                "line 2: without the plugin 'predicates' selectors, taints, ports and volumes "
                "do not count"
            ),
        ),
        (
            file_of(plugin="capacity").replace("  - name: priority", "  - name: proportion"),
            (
                "line 6: 'proportion' and 'capacity' both say what queues may have; "
                "expected one of them"
            ),
        ),
        (
            file_of(plugin="ownership"),
            (
                "line 6: the plugin 'ownership' changes nothing: room that was freed for a pod is "
                "that pod's without it"
            ),
        ),
        (
            file_of(
                plugin="binpack",
                arguments="      binpack.cpu: 2\n      binpack.weight: -5\n",
            ),
            "line 9: the argument 'binpack.weight' of binpack is -5, expected nothing below 0",
        ),
        (
            file_of(
                plugin="binpack",
                arguments="      binpack.resources: gpu\n      binpack.resources.gpu: '-3'\n",
            ),
            (
                "line 9: the argument 'binpack.resources.gpu' of binpack is -3, "
                "expected nothing below 0"
            ),
        ),
        (
            file_of(plugin="overcommit", arguments="      overcommit-factor: 0.1\n"),
            (
                "line 8: the argument 'overcommit-factor' of overcommit is 0.1, "
                "expected nothing below 1"
            ),
        ),
        (
            file_of(plugin="capacity", arguments="      ancestorReclaimLevel: -3\n"),
            (
                "line 8: the argument 'ancestorReclaimLevel' of capacity is -3, "
                "expected nothing below 0"
            ),
        ),
    ],
)
def test_what_hardly_anybody_means_is_told_with_its_line(text: str, said: str):
    assert said in doubts_about(text)


@pytest.mark.parametrize("text", [DEFAULT_CONF_FILE, file_of(), file_of(plugin="drf")])
def test_about_a_file_that_makes_sense_there_is_no_doubt(text: str):
    assert doubts_about(text) == []


def test_in_a_config_map_lines_are_those_of_its_text():
    text = "\n".join(f"    {line}" for line in file_of(actions="backfill, preempt").splitlines())
    config_map = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
        f"  volcano-scheduler.conf: |\n{text}\n"
    )

    (doubt,) = doubts_about(config_map)

    assert doubt.startswith("line 1 of volcano-scheduler.conf: without the action 'allocate'")


def test_check_config_warns_and_calls_the_file_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "scheduler.conf"
    path.write_text(file_of(plugin="ownership"))

    assert check(path) == 0

    said = capsys.readouterr()
    assert said.err.startswith(f"{path}: warning: line 6: the plugin 'ownership'")
    assert "is good" in said.out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [("enableTopologyAwarePreemption: perhaps", 11), ("minCandidateNodesPercentage: 150", 11)],
)
def test_a_mistake_in_the_arguments_of_an_action_has_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, line: int
):
    path = tmp_path / "scheduler.conf"
    path.write_text(file_of().replace("enableTopologyAwarePreemption: true", arguments))

    assert check(path) == 1
    assert capsys.readouterr().err.startswith(f"{path}: line {line}: the argument ")


def test_no_tiers_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "scheduler.conf"
    path.write_text("actions: allocate\ntiers: []\n")

    assert check(path) == 1
    assert "line 2: tiers: expected a list of tiers" in capsys.readouterr().err
