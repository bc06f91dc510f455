import pytest

from stromboli.scheduling.actions.registry import ACTIONS
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.plugins import api
from stromboli.scheduling.plugins.registry import IN_TREE, build

POINTS = tuple(
    point
    for name in api.__all__
    if isinstance(point := getattr(api, name), type)
    and getattr(point, "_is_runtime_protocol", False)
    and point not in (api.Plugin, api.Opened, api.Closed)
)


@pytest.mark.parametrize("name", sorted(IN_TREE))
def test_every_plugin_has_a_say_in_something(name: str):
    plugin = build(PluginConf(name))

    assert plugin.name == name
    assert any(isinstance(plugin, point) for point in POINTS)


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        (
            PluginConf("gnag"),
            "the plugin 'gnag' is not known; expected one of .*did you mean 'gang'",
        ),
        (PluginConf("gang", {"x": 1}), "the argument of gang 'x' is not known"),
        (PluginConf("overcommit", {"overcommit-factor": "a"}), "an argument of overcommit"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(conf: PluginConf, said: str):
    with pytest.raises(BadConfiguration, match=said):
        build(conf)


def test_an_action_that_does_not_exist_is_refused():
    with pytest.raises(BadConfiguration, match=", ".join(ACTIONS)):
        SchedulerCore(SchedulingConf(actions=("enqueue", "allocates")))
