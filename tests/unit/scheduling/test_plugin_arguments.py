"""Every argument of every plugin: Volcano's name and default, and an error for a wrong type."""

import types
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest

from stromboli.scheduling.conf import PluginConf
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.plugins import (
    binpack,
    capacity,
    extender,
    network_topology_aware,
    nodegroup,
    nodeorder,
    overcommit,
    predicates,
    resource_strategy_fit,
    sla,
    usage,
)
from stromboli.scheduling.plugins.registry import IN_TREE, build

DEFAULTS: dict[types.ModuleType, dict[str, Any]] = {
    binpack: {
        "binpack.weight": 1,
        "binpack.cpu": 1,
        "binpack.memory": 1,
        "binpack.resources": "",
    },
    capacity: {
        "ancestorReclaimLevel": 0,
        "capacity.DynamicResourceAllocationEnable": False,
        "capacity.DRAConsumableCapacityEnable": False,
        "enableHierarchy": False,
    },
    extender: {
        "extender.urlPrefix": "",
        "extender.httpTimeout": "1s",
        "extender.ignorable": False,
        "extender.managedResources": [],
        "extender.onSessionOpenVerb": "",
        "extender.onSessionCloseVerb": "",
        "extender.predicateVerb": "",
        "extender.prioritizeVerb": "",
        "extender.preemptableVerb": "",
        "extender.reclaimableVerb": "",
        "extender.queueOverusedVerb": "",
        "extender.jobEnqueueableVerb": "",
        "extender.jobEnqueuedVerb": "",
        "extender.jobReadyVerb": "",
        "extender.allocateFuncVerb": "",
        "extender.deallocateFuncVerb": "",
    },
    network_topology_aware: {
        "weight": 1,
        "hypernode.binpack.cpu": 1,
        "hypernode.binpack.memory": 1,
        "hypernode.binpack.resources": "",
        "hypernode.binpack.normal-pod.enable": True,
        "hypernode.binpack.normal-pod.fading": 0.8,
        "hypernode.gradient.evict.max-hypernodes": 8,
    },
    nodegroup: {"strict": True, "enablePreferredOrder": False, "enableHierarchy": False},
    nodeorder: {
        "leastrequested.weight": 1,
        "mostrequested.weight": 0,
        "balancedresource.weight": 1,
        "nodeaffinity.weight": 2,
        "podaffinity.weight": 2,
        "tainttoleration.weight": 3,
        "imagelocality.weight": 1,
        "podtopologyspread.weight": 2,
    },
    overcommit: {"overcommit-factor": 1.2},
    predicates: {
        "predicate.NodeAffinityEnable": True,
        "predicate.NodePortsEnable": True,
        "predicate.TaintTolerationEnable": True,
        "predicate.PodAffinityEnable": True,
        "predicate.NodeVolumeLimitsEnable": True,
        "predicate.VolumeZoneEnable": True,
        "predicate.PodTopologySpreadEnable": True,
        "predicate.VolumeBindingEnable": True,
        "predicate.CacheEnable": False,
        "predicate.DynamicResourceAllocationEnable": False,
        "volumebinding.bindTimeoutSeconds": 600,
        "volumebinding.weight": 1.0,
        "volumebinding.shape": None,
        "dynamicresources.filterTimeoutSeconds": 10,
    },
    resource_strategy_fit: {
        "resourceStrategyFitWeight": 10,
        "resources": {
            "cpu": {"type": "LeastAllocated", "weight": 1},
            "memory": {"type": "LeastAllocated", "weight": 1},
        },
        "sra": {"enable": False, "resources": "", "weight": 10, "resourceWeight": {}},
        "proportional": {"enable": False, "resources": "", "resourceProportion": {}},
    },
    sla: {"sla-waiting-time": ""},
    usage: {
        "usage.weight": 5,
        "cpu.weight": 1,
        "memory.weight": 1,
        "thresholds": {"cpu": 80.0, "mem": 80.0},
        "estimator": {
            "request_ratio": 0.7,
            "burst_ratio": 0.0,
            "risk_threshold": 0.6,
            "risk_factor": 1.2,
            "be_cpu": "250m",
            "be_mem": "200Mi",
        },
    },
}


@pytest.mark.parametrize("module", DEFAULTS, ids=lambda module: module.NAME)
def test_arguments_have_volcanos_names_and_defaults(module: types.ModuleType):
    assert msgspec.to_builtins(module.Args()) == DEFAULTS[module]


def wrong_values(type_: Any) -> list[Any]:
    if get_origin(type_) is Annotated:
        return [*wrong_values(type_.__origin__), -1]
    if type_ is int:
        return ["many", 1.5, [1], {}, None]
    if type_ is float:
        return ["much", [1.0], {}, None, float("nan"), float("inf")]
    if type_ is bool:
        return ["perhaps", 7, [True], None]
    if type_ is str:
        return [7, ["a"], {}, None]
    if get_origin(type_) is list or (get_args(type_) and get_origin(type_) is dict):
        return ["text", 7, None]
    return ["text", 7] if type_ is not Any else []


WRONG = [
    (module.NAME, one.encode_name, value)
    for module in DEFAULTS
    for one in msgspec.structs.fields(module.Args)
    for value in wrong_values(one.type)
]


@pytest.mark.parametrize(("plugin", "argument", "value"), WRONG)
def test_an_argument_of_a_wrong_type_is_an_error_that_names_it(
    plugin: str, argument: str, value: Any
):
    with pytest.raises(BadConfiguration) as refused:
        build(PluginConf(plugin, {argument: value}))

    assert f"{argument!r} of {plugin}" in str(refused.value)
    assert "expected" in str(refused.value)


@pytest.mark.parametrize("plugin", sorted(IN_TREE))
def test_an_argument_that_does_not_exist_is_an_error_that_names_those_that_do(plugin: str):
    with pytest.raises(BadConfiguration, match=r"'no-such-thing' is not known.*expected one of"):
        build(PluginConf(plugin, {"no-such-thing": 1}))


@pytest.mark.parametrize(
    ("plugin", "arguments", "said"),
    [
        ("binpack", {"binpack.weihgt": 1}, "did you mean 'binpack.weight'"),
        ("binpack", {"binpack.resources": "a", "binpack.resources.a": "x"}, "a whole number"),
        ("nodeorder", {"nodeafinity.weight": 1}, "did you mean 'nodeaffinity.weight'"),
        ("predicates", {"predicate.NodePortEnable": False}, "predicate.NodePortsEnable"),
        ("sla", {"sla-waiting-time": "soon"}, "a duration such as"),
        ("tdm", {"tdm.evict.period": "often"}, "a duration such as"),
        ("tdm", {"tdm.evict.period": "0s"}, "a duration such as"),
        ("eviction-budget", {"window": "0s"}, "a duration such as"),
        ("eviction-budget", {"window": "-1m"}, "a duration such as"),
        ("min-run-time", {"min-run-time": "-5m"}, "one such as 10m"),
        ("usage", {"thresholds": {"cpu": 500}}, "<= 100"),
        ("usage", {"thresholds": {"mem": -4}}, ">= 0"),
        ("nodeorder", {"leastrequested.weight": -1}, "a whole number from 0 to 1000000"),
        ("nodeorder", {"mostrequested.weight": 10**20}, "a whole number from 0 to 1000000"),
        ("tdm", {"tdm.revocable-zone.a": "noon"}, "hours such as"),
        ("extender", {"extender.httpTimeout": "fast"}, "duration"),
        ("resource-strategy-fit", {"resources": {"cpu": {"type": "Most"}}}, "Most"),
        ("resource-strategy-fit", {"sra": {"enabled": True}}, "enabled"),
    ],
)
def test_values_that_mean_nothing_are_refused(plugin: str, arguments: dict[str, Any], said: str):
    with pytest.raises(BadConfiguration, match=said):
        build(PluginConf(plugin, arguments))


@pytest.mark.parametrize(
    ("plugin", "arguments"),
    [
        ("nodeorder", {"leastrequested.weight": "2"}),
        ("overcommit", {"overcommit-factor": 2}),
        ("predicates", {"predicate.NodePortsEnable": "false"}),
        ("capacity", {"ancestorReclaimLevel": -3}),
        ("binpack", {"binpack.cpu": -1}),
    ],
)
def test_what_volcano_takes_is_taken(plugin: str, arguments: dict[str, Any]):
    assert build(PluginConf(plugin, arguments)).name == plugin
