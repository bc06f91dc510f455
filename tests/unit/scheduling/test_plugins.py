import pytest

from stromboli.scheduling.actions.registry import ACTIONS
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.plugins import api
from stromboli.scheduling.plugins.registry import IN_TREE, build

POINTS = (
    api.Enqueueable,
    api.Filter,
    api.JobOrder,
    api.JobPipelined,
    api.JobReady,
    api.JobValid,
    api.PlacementListener,
    api.QueueOrder,
    api.Score,
)


@pytest.mark.parametrize("name", sorted(IN_TREE))
def test_every_plugin_has_a_say_in_something(name: str):
    plugin = build(PluginConf(name))

    assert plugin.name == name
    assert any(isinstance(plugin, point) for point in POINTS)


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        (PluginConf("gnag"), "the plugin 'gnag' is not known; expected one of gang"),
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
