"""The configuration file while the scheduler runs, and `--check-config`."""

import json
from pathlib import Path

import pytest

from stromboli.contracts.stimuli import Ready
from stromboli.runtime.logs import LogSettings
from stromboli.scheduler.__main__ import check
from stromboli.scheduler.config import SchedulerSettings
from stromboli.scheduler.reloading import ConfFile, ReloadingCore
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.errors import BadConfiguration

ONE = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"
OTHER = "actions: allocate, backfill\ntiers: [{plugins: [{name: priority}, {name: gang}]}]\n"
BAD = "actions: allocates\ntiers: [{plugins: [{name: gnag}]}]\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.conf"
    path.write_text(ONE)
    return path


def read(path: Path) -> ConfFile:
    file = ConfFile.at(path, SchedulingConf(default_queue="team"))
    file.read_or_raise()
    return file


def test_the_file_is_read_and_everything_else_stays_as_set(path: Path):
    file = read(path)

    assert file.configuration.conf.actions == ("allocate",)
    assert file.configuration.conf.default_queue == "team"


def test_a_changed_file_is_used_by_the_core_from_its_next_stimulus_on(path: Path):
    file = read(path)
    core = ReloadingCore(file.configuration)
    assert not file.look()

    path.write_text(OTHER)
    assert file.look()
    core.handle(Ready(), now=0.0)
    assert core.conf.actions == ("allocate", "backfill")
    assert not file.look()


def test_a_bad_file_keeps_the_old_configuration_until_it_is_mended(path: Path):
    file = read(path)
    path.write_text(BAD)
    assert not file.look()
    assert file.configuration.conf.actions == ("allocate",)
    assert "did you mean 'gang'" in file.configuration.problem

    path.write_text(OTHER)
    assert file.look()
    assert file.configuration.problem == ""


def test_a_file_that_is_gone_keeps_the_old_configuration(path: Path):
    file = read(path)
    path.unlink()

    assert not file.look()
    assert file.configuration.conf.actions == ("allocate",)


def test_a_bad_file_at_the_start_is_the_end(path: Path):
    path.write_text(BAD)

    with pytest.raises(BadConfiguration):
        read(path)


def test_checking_says_everything_that_is_wrong(path: Path, capsys: pytest.CaptureFixture[str]):
    path.write_text(BAD)

    assert check(path) == 1
    said = capsys.readouterr().err
    assert "did you mean 'allocate'" in said
    assert "did you mean 'gang'" in said


def test_checking_a_good_file_names_what_it_has(path: Path, capsys: pytest.CaptureFixture[str]):
    assert check(path) == 0
    assert "actions allocate; plugins gang" in capsys.readouterr().out


def test_checking_takes_the_config_map_around_a_file_too(path: Path):
    config_map = {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": path.read_text()}}
    path.write_text(json.dumps(config_map))

    assert check(path) == 0
    assert read(path).configuration.conf.actions == ("allocate",)


def test_checking_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert check(tmp_path / "none") == 2
    assert "can't be read" in capsys.readouterr().err


def test_settings_name_the_file():
    assert SchedulerSettings(log=LogSettings()).conf_path is None
    assert SchedulerSettings(scheduler_conf="a.conf").conf_path == Path("a.conf")
