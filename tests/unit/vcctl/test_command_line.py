"""What vcctl answers to lines that can not be carried out: the sentence, and status 255."""

from pathlib import Path

import pytest

from stromboli.vcctl.__main__ import main


def answer(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """What a failing line prints on standard output, where Volcano prints it."""
    with pytest.raises(SystemExit) as ended:
        main(list(line))
    assert ended.value.code == 255
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kubeconfig that leads to a port where nobody listens."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        'clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]\n'
        "users: [{name: u, user: {}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "current-context: x\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("job run", "job name cannot be left blank"),
        (
            "job view",
            "job name (specified by --name or -N) is mandatory to view a particular job",
        ),
        ("job delete", "job name is mandatory to delete a particular job"),
        ("job suspend", "job name is mandatory to suspend a particular job"),
        ("job resume", "job name is mandatory to resume a particular job"),
        (
            "job run -N a -R cpu",
            "invalid argument syntax cpu, expected <resource>=<value>",
        ),
        (
            "job run -N a -L cpu=1,memory=1=2",
            "invalid argument syntax memory=1=2, expected <resource>=<value>",
        ),
        ("job run -f job.json", "only support yaml file"),
    ],
)
def test_volcanos_own_sentences_are_kept(
    capsys: pytest.CaptureFixture[str], line: str, sentence: str
):
    command = " ".join(line.split()[:2])
    assert answer(capsys, *line.split()) == f"Failed to vcctl {command}: {sentence}\n"


@pytest.mark.parametrize(
    ("line", "beginning"),
    [
        ("job list --quueue x", "Failed to vcctl job list: unknown flag or argument: --quueue x"),
        ("job list --all", "Failed to vcctl job list: unknown flag or argument: --all"),
        ("job run -r many", "Failed to vcctl job run: argument -r/--replicas: invalid int value"),
        ("job frob", "Failed to vcctl job: argument <command>: invalid choice: 'frob'"),
        ("", "Failed to vcctl: the following arguments are required: <command>"),
        ("job list", "Failed to vcctl job list: GET /apis/batch.volcano.sh/v1alpha1/"),
    ],
)
def test_a_line_that_is_not_understood_names_the_command_and_the_problem(
    capsys: pytest.CaptureFixture[str], line: str, beginning: str
):
    assert answer(capsys, *line.split()).startswith(beginning)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: [", "failed to unmarshal file"),
        ("", "holds 0 objects, expected one Job"),
        ("just text", "holds no object, expected a Job"),
        ("kind: Pod\napiVersion: v1", "holds a v1 Pod, expected a batch.volcano.sh/v1alpha1 Job"),
        ("metadata: {name: a}\n---\nmetadata: {name: b}", "holds 2 objects, expected one Job"),
        ("spec: {[1, 2]: x}", "failed to unmarshal file"),
        ("spec: {null: x}", "can not be sent as JSON"),
        ("spec: &me {inside: *me}", "can not be sent as JSON"),
        ("metadata: name", "is no object: expected a name in it"),
    ],
)
def test_a_file_that_is_no_job_is_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, problem: str
):
    path = tmp_path / "job.yaml"
    path.write_text(content)

    assert problem in answer(capsys, "job", "run", "-f", str(path))


def test_the_version_is_told_in_volcanos_order(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["version"])

    assert ended.value.code == 0
    names = [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [
        *("API Version", "Version", "Git SHA", "Built At"),
        *("Python Version", "Python OS/Arch"),
    ]


@pytest.mark.parametrize("line", ["", "job", "job run", "job view", "queue list", "bus tail"])
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], line: str):
    with pytest.raises(SystemExit) as ended:
        main([*line.split(), "--help"])

    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "commands:" in shown or f"examples:\n  vcctl {line}" in shown
