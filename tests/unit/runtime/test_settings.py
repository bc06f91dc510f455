"""Settings: who wins, what is refused, and what the messages say."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
import yaml
from msgspec import Meta

from stromboli.runtime.errors import SettingsError
from stromboli.runtime.settings import BAD_SETTINGS, Duration, Secret, Size, load, load_or_exit


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Bus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the bus is."""

    url: Annotated[str, Meta(description="Address of NATS.")] = "nats://127.0.0.1:4222"
    password: Annotated[Secret | None, Meta(description="Password of this service.")] = None


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates."""

    certificate: Annotated[Path, Meta(description="PEM file.")]


class Gateway(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Between the API server and the bus."""

    lease_life: Annotated[Duration, Meta(description="How long a lease lasts.")] = Duration(4)
    max_body: Annotated[Size, Meta(description="Largest answer read.")] = Size(2**20)
    workers: Annotated[int, Meta(ge=1, le=64, description="Parallel writers.")] = 8
    dry_run: Annotated[bool, Meta(description="Write nothing.")] = False
    kinds: Annotated[tuple[str, ...], Meta(description="Kinds to watch.")] = ("pod", "node")
    mode: Annotated[Literal["fast", "safe"], Meta(description="How careful.")] = "safe"
    colour: Annotated[Colour, Meta(description="For people.")] = Colour.RED
    labels: Annotated[dict[str, str], Meta(description="Labels to set.")] = {}
    bus: Bus = Bus(url="nats://default:4222")
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if self.dry_run and self.mode == "fast":
            raise ValueError("dry_run and mode fast exclude each other")


def settle(argv: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Gateway:
    return load(Gateway, service="gateway", argv=argv, environ=environ or {})


def problem(argv: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        settle(argv, environ)
    assert len(caught.value.problems) == 1, caught.value.problems
    return caught.value.problems[0]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


def test_without_any_source_the_defaults_hold():
    assert settle() == Gateway()


def test_a_group_may_change_the_defaults_of_its_members():
    assert settle().bus.url == "nats://default:4222"


def test_the_file_beats_the_default_the_environment_the_file_and_the_flag_all(config: Path):
    config.write_text("lease_life: 1s\nworkers: 1\nmax_body: 1Ki\n")
    environ = {"STROMBOLI_GATEWAY_WORKERS": "2", "STROMBOLI_GATEWAY_MAX_BODY": "2Ki"}

    settings = settle(["--config", str(config), "--max-body", "3Ki"], environ)

    assert (settings.lease_life, settings.workers, settings.max_body) == (1.0, 2, 3072)


def test_every_type_can_be_given_as_text():
    settings = settle(
        [
            "--lease-life=300ms",
            "--workers=3",
            "--dry-run",
            "--kinds=pod, queue",
            "--colour",
            "blue",
            '--labels={"a":"b"}',
            "--bus-url=nats://x",
            "--tls-certificate=/tls.pem",
        ]
    )

    assert settings == Gateway(
        lease_life=Duration(0.3),
        workers=3,
        dry_run=True,
        kinds=("pod", "queue"),
        colour=Colour.BLUE,
        labels={"a": "b"},
        bus=Bus(url="nats://x"),
        tls=Tls(certificate=Path("/tls.pem")),
    )


def test_a_file_may_nest_and_hold_lists_and_maps(config: Path):
    config.write_text("bus:\n  url: nats://file\nkinds: [job]\nlabels:\n  a: b\ndry_run: true\n")

    settings = settle([f"--config={config}"])

    assert settings == Gateway(
        bus=Bus(url="nats://file"), kinds=("job",), labels={"a": "b"}, dry_run=True
    )


def test_a_json_file_will_do(tmp_path: Path):
    path = tmp_path / "gateway.json"
    path.write_text('{\n\t"workers": 5\n}')

    assert settle(["--config", str(path)]).workers == 5


def test_the_file_may_be_named_by_the_environment(config: Path):
    config.write_text("workers: 6")

    assert settle(environ={"STROMBOLI_GATEWAY_CONFIG": str(config)}).workers == 6


def test_an_empty_file_changes_nothing(config: Path):
    config.write_text("# nothing yet\n")

    assert settle(["--config", str(config)]) == Gateway()


@pytest.mark.parametrize("text", ["true", "Yes", "on", "1"])
def test_a_switch_may_be_put_on_in_words(text: str):
    assert settle(environ={"STROMBOLI_GATEWAY_DRY_RUN": text}).dry_run


def test_a_switch_may_be_put_off_by_its_no_flag():
    assert not settle(["--no-dry-run"], {"STROMBOLI_GATEWAY_DRY_RUN": "true"}).dry_run


def test_an_empty_variable_counts_as_not_set():
    assert settle(environ={"STROMBOLI_GATEWAY_WORKERS": ""}).workers == 8


def test_variables_of_other_services_are_not_ours():
    assert settle(environ={"STROMBOLI_SCHEDULER_WORKERS": "x", "PATH": "/bin"}) == Gateway()


def test_addresses_that_kubernetes_injects_are_not_taken_for_settings():
    """A Service named stromboli-gateway puts these into every pod of its namespace."""
    environ = {
        "STROMBOLI_GATEWAY_SERVICE_HOST": "10.0.0.7",
        "STROMBOLI_GATEWAY_SERVICE_PORT": "80",
        "STROMBOLI_GATEWAY_SERVICE_PORT_HTTP": "80",
        "STROMBOLI_GATEWAY_PORT": "tcp://10.0.0.7:80",
        "STROMBOLI_GATEWAY_PORT_80_TCP": "tcp://10.0.0.7:80",
        "STROMBOLI_GATEWAY_PORT_80_TCP_ADDR": "10.0.0.7",
        "STROMBOLI_GATEWAY_METRICS_SERVICE_HOST": "10.0.0.8",
    }

    assert settle(environ=environ) == Gateway()


# -- what is refused, and how --------------------------------------------------------------


def test_a_misspelt_flag_is_refused_with_the_nearest_one():
    assert problem(["--lease-lief", "4s"]) == (
        "flag --lease-lief: there is no such flag; did you mean --lease-life?"
    )


def test_a_misspelt_variable_is_refused_with_the_nearest_one():
    assert problem(environ={"STROMBOLI_GATEWAY_BUS_URL": "x"}) == (
        "environment variable STROMBOLI_GATEWAY_BUS_URL: there is no such setting; "
        "did you mean STROMBOLI_GATEWAY_BUS__URL?"
    )


def test_a_misspelt_key_is_refused_with_its_line_and_the_nearest_one(config: Path):
    config.write_text("workers: 2\nleaseLife: 4s\n")

    assert problem(["--config", str(config)]) == (
        f"leaseLife (file {config} line 2): there is no such setting; did you mean lease_life?"
    )


def test_a_wrong_value_names_key_source_expectation_and_value(config: Path):
    config.write_text("bus:\n  url: x\nworkers: 100\n")

    assert problem(["--config", str(config)]) == (
        f"workers (file {config} line 3): expected a whole number (>= 1, <= 64), got 100"
    )


def test_a_wrong_variable_names_key_source_expectation_and_value():
    assert problem(environ={"STROMBOLI_GATEWAY_LEASE_LIFE": "4 parsecs"}) == (
        "lease_life (environment variable STROMBOLI_GATEWAY_LEASE_LIFE): "
        "expected a duration such as 4s or 300ms, got '4 parsecs'"
    )


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--mode", "wild"], "mode (flag --mode): expected one of fast, safe, got 'wild'"),
        (["--dry-run=perhaps"], "dry_run (flag --dry-run): expected true or false, got 'perhaps'"),
        (["--no-dry-run=no"], "flag --no-dry-run: takes no value, got 'no'"),
        (["--workers"], "flag --workers: a value must follow"),
        (["--workers", "--dry-run"], "flag --workers: a value must follow"),
        (["up"], "argument 'up': only flags (--key value) are expected"),
    ],
)
def test_a_wrong_command_line_is_explained(argv: list[str], expected: str):
    assert problem(argv) == expected


def test_a_bare_number_is_no_duration(config: Path):
    config.write_text("lease_life: 4")

    assert "expected a duration such as 4s or 300ms, got 4" in problem(["--config", str(config)])


def test_a_key_given_twice_is_refused(config: Path):
    config.write_text("workers: 1\nworkers: 2\n")

    assert "line 2): given twice, first on line 1" in problem(["--config", str(config)])


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "workers: [1"])
def test_a_file_that_is_no_mapping_is_refused(config: Path, text: str):
    config.write_text(text)

    assert str(config) in problem(["--config", str(config)])


def test_a_missing_file_is_refused(config: Path):
    assert "can't be read" in problem(["--config", str(config)])


def test_a_group_that_is_no_mapping_is_refused(config: Path):
    config.write_text("bus: nats://x\n")

    assert problem(["--config", str(config)]) == (
        f"bus (file {config} line 1): expected keys and values, got 'nats://x'"
    )


def test_all_problems_are_told_at_once(config: Path):
    config.write_text("workers: many\n")

    with pytest.raises(SettingsError) as caught:
        settle(["--config", str(config), "--lease-lif=1s"], {"STROMBOLI_GATEWAY_MODE": "wild"})

    assert len(caught.value.problems) == 3


def test_values_that_exclude_each_other_are_refused_by_the_struct_itself():
    assert problem(["--dry-run", "--mode=fast"]) == (
        "Gateway: dry_run and mode fast exclude each other"
    )


class Required(msgspec.Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="Who.")]


def test_a_required_setting_that_is_missing_tells_how_to_set_it():
    with pytest.raises(SettingsError, match=r"must be set: --name, STROMBOLI_X_NAME, or name in"):
        load(Required, service="x", argv=[], environ={})


# -- secrets -------------------------------------------------------------------------------


def test_a_secret_may_come_from_a_file(tmp_path: Path):
    path = tmp_path / "password"
    path.write_text("hunter2\n")

    for settings in (
        settle([f"--bus-password-file={path}"]),
        settle(environ={"STROMBOLI_GATEWAY_BUS__PASSWORD_FILE": str(path)}),
        settle(environ={"STROMBOLI_GATEWAY_BUS__PASSWORD": "hunter2"}),
    ):
        assert settings.bus.password == Secret("hunter2")


def test_a_secret_may_be_named_as_a_file_in_the_file(tmp_path: Path, config: Path):
    (tmp_path / "password").write_text("hunter2")
    config.write_text(f"bus:\n  password_file: {tmp_path / 'password'}\n")

    assert settle(["--config", str(config)]).bus.password == Secret("hunter2")


def test_a_secret_on_the_command_line_is_refused_without_repeating_it():
    text = problem(["--bus-password=hunter2"])

    assert "--bus-password-file" in text
    assert "hunter2" not in text


def test_a_secret_given_twice_in_one_source_is_refused():
    environ = {
        "STROMBOLI_GATEWAY_BUS__PASSWORD": "a",
        "STROMBOLI_GATEWAY_BUS__PASSWORD_FILE": "/dev/null",
    }

    with pytest.raises(SettingsError, match="keep one"):
        settle(environ=environ)


def test_a_wrong_secret_is_not_repeated_in_the_message(config: Path):
    config.write_text("bus:\n  password: [hunter2]\n")

    assert "hunter2" not in problem(["--config", str(config)])


def test_an_empty_secret_file_is_refused():
    assert "is empty" in problem(["--bus-password-file", "/dev/null"])


# -- what people read ----------------------------------------------------------------------


def shown(argv: Sequence[str], capsys: pytest.CaptureFixture[str], **environ: str) -> str:
    with pytest.raises(SystemExit) as caught:
        settle(argv, environ)
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_help_teaches_every_setting(capsys: pytest.CaptureFixture[str]):
    text = shown(["--help"], capsys)

    assert "Between the API server and the bus." in text
    for expected in (
        "--lease-life DURATION",
        "How long a lease lasts.",
        "a duration such as 4s or 300ms; default: 4s",
        "[STROMBOLI_GATEWAY_LEASE_LIFE]",
        "--dry-run, --no-dry-run",
        "--mode fast|safe",
        "default: pod,node",
        "--bus-password-file PATH",
        "STROMBOLI_GATEWAY_BUS__PASSWORD_FILE",
        "--tls-certificate PATH",
        "--print-config",
        "examples:",
    ):
        assert expected in text


def test_help_works_even_when_everything_else_is_wrong(capsys: pytest.CaptureFixture[str]):
    assert "usage:" in shown(["--nonsense", "-h"], capsys)


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]):
    assert shown(["--version"], capsys).startswith("stromboli-gateway 0.")


def test_the_effective_settings_show_their_sources_and_no_secret(
    config: Path, capsys: pytest.CaptureFixture[str]
):
    config.write_text("workers: 2\n")

    text = shown(
        ["--config", str(config), "--lease-life", "90s", "--print-config"],
        capsys,
        STROMBOLI_GATEWAY_BUS__PASSWORD="hunter2",
        STROMBOLI_GATEWAY_BUS__URL="nats://me:hunter2@host",
    )

    assert 'lease_life: "1m30s"  # flag --lease-life' in text
    assert f"workers: 2  # file {config} line 1" in text
    assert 'max_body: "1Mi"  # default' in text
    assert "# password: ********  # environment variable STROMBOLI_GATEWAY_BUS__PASSWORD" in text
    assert "hunter2" not in text


def test_the_effective_settings_can_be_used_as_a_file(
    config: Path, capsys: pytest.CaptureFixture[str]
):
    argv = ["--lease-life=1500ms", "--kinds=a,b", "--bus-url=nats://x", "--colour=blue"]
    config.write_text(shown([*argv, "--print-config"], capsys))

    assert yaml.safe_load(config.read_text())["bus"] == {"url": "nats://x"}
    assert settle(["--config", str(config)]) == settle(argv)


def test_a_main_ends_with_code_2_and_the_problems_on_stderr(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        load_or_exit(Gateway, service="gateway", argv=["--nonsense=1"], environ={})

    assert caught.value.code == BAD_SETTINGS
    assert "flag --nonsense: there is no such flag" in capsys.readouterr().err


# -- mistakes of the author ----------------------------------------------------------------


def test_a_setting_without_help_text_is_refused():
    class Silent(msgspec.Struct, frozen=True):
        workers: int = 1

    with pytest.raises(TypeError, match=r"Silent\.workers has no help text"):
        load(Silent, service="x", argv=[], environ={})


def test_two_settings_with_one_flag_are_refused():
    class Clash(msgspec.Struct, frozen=True, kw_only=True):
        bus_url: Annotated[str, Meta(description="One.")] = ""
        bus: Bus = Bus()

    with pytest.raises(TypeError, match="--bus-url is the flag of bus_url already"):
        load(Clash, service="x", argv=[], environ={})


def test_settings_that_could_change_are_refused():
    class Loose(msgspec.Struct):
        workers: Annotated[int, Meta(description="How many.")] = 1

    with pytest.raises(TypeError, match="frozen=True"):
        load(Loose, service="x", argv=[], environ={})
