from pathlib import Path

import pytest

from stromboli.scheduling.actions.registry import ACTIONS
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.plugins import api
from stromboli.scheduling.plugins.registry import GROUP, IN_TREE, build, installed

POINTS = tuple(
    point
    for name in api.__all__
    if isinstance(point := getattr(api, name), type)
    and getattr(point, "_is_runtime_protocol", False)
    and point not in (api.Plugin, api.Opened, api.Closed)
)


@pytest.mark.parametrize("name", sorted(IN_TREE.keys() - {"ownership"}))
def test_every_plugin_has_a_say_in_something(name: str):
    plugin = build(PluginConf(name))

    assert plugin.name == name
    assert any(isinstance(plugin, point) for point in POINTS)


def test_the_plugin_ownership_is_accepted_and_has_nothing_to_add():
    plugin = build(PluginConf("ownership"))

    assert not any(isinstance(plugin, point) for point in POINTS)


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        (
            PluginConf("gnag"),
            "the plugin 'gnag' is not known .did you mean 'gang'.*expected one of",
        ),
        (PluginConf("gang", {"x": 1}), "the argument of gang 'x' is not known"),
        (
            PluginConf("overcommit", {"overcommit-factor": "a"}),
            "of overcommit is 'a', expected a number",
        ),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(conf: PluginConf, said: str):
    with pytest.raises(BadConfiguration, match=said):
        build(conf)


def test_an_action_that_does_not_exist_is_refused():
    with pytest.raises(BadConfiguration, match=", ".join(ACTIONS)):
        SchedulerCore(SchedulingConf(actions=("enqueue", "allocates")))


PLUGIN = """
class Mine:
    name = "mine"

    def job_order(self, contender):
        return (0,)


def build(arguments):
    return Mine()
"""


def test_a_plugin_of_another_distribution_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "mine_plugin.py").write_text(PLUGIN)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = mine_plugin:build\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed.cache_clear()
    try:
        plugin = build(PluginConf("mine"))
        with pytest.raises(BadConfiguration, match="did you mean 'mine'"):
            build(PluginConf("mien"))
    finally:
        installed.cache_clear()

    assert isinstance(plugin, api.JobOrder)
