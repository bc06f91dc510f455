"""Volcano's configuration file, and what is said of one that can't be used."""

import pytest
import yaml

from stromboli.scheduling.conf import DEFAULT_TIERS, MetricsConf, SchedulingConf
from stromboli.scheduling.conf_file import DEFAULT_CONF_FILE, read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration, BadFile
from stromboli.scheduling.plugins.registry import build_all

GOOD = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: drf
    enableHierarchy: true
  - name: predicates
    arguments:
      predicate.NodeAffinityEnable: "true"
  - name: overcommit
    arguments:
      overcommit-factor: 2
configurations:
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
"""


def test_a_file_of_volcano_is_read_as_it_is():
    conf = read_conf(GOOD)

    assert conf.actions == ("enqueue", "allocate", "preempt")
    assert [[plugin.name for plugin in tier] for tier in conf.tiers] == [
        ["priority", "gang"],
        ["drf", "predicates", "overcommit"],
    ]
    assert conf.action_arguments == {"preempt": {"enableTopologyAwarePreemption": True}}
    SchedulerCore(conf)


def test_flags_are_on_unless_set_but_for_the_hierarchy():
    conf = read_conf(GOOD)
    priority, gang = conf.tiers[0]

    assert priority.is_on("enablePreemptable")
    assert not priority.is_on("enableHierarchy")
    assert not gang.is_on("enablePreemptable")
    assert gang.is_on("enableReclaimable")
    assert conf.tiers[1][0].is_on("enableHierarchy")


def test_the_default_is_what_volcanos_chart_installs():
    conf = read_conf(DEFAULT_CONF_FILE)

    assert conf == SchedulingConf()
    assert conf.tiers == DEFAULT_TIERS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("actions: [", "it is not YAML"),
        ("- a", "expected a mapping with the keys actions and tiers"),
        ("actions: allocate", "tiers: expected a list of tiers"),
        ("actions: 3\ntiers: []", "actions: expected names of actions"),
        ("actions: allocates\ntiers: []", "did you mean 'allocate'"),
        ("actions: allocate\ntires: []", "the key 'tires' .*did you mean 'tiers'"),
        ("actions: allocate\ntiers: [{plugins: [{name: gnag}]}]", "did you mean 'gang'"),
        ("actions: allocate\ntiers: [{plugins: [{named: gang}]}]", "expected a plugin with a name"),
        ("actions: allocate\ntiers: [{plugin: []}]", "tier 1: expected a list of plugins"),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOder: true}]}]",
            "the flag of plugin gang 'enableJobOder' .*did you mean 'enableJobOrder'",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: 1}]}]",
            "plugin gang: enableJobOrder is 1, expected true or false",
        ),
        (
            (
                "actions: allocate\n"
                "tiers: [{plugins: [{name: overcommit, arguments: {overcommit-factor: much}}]}]"
            ),
            "the argument .overcommit-factor. of overcommit is .much., expected a number",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, enableHierarchy: true}]}]",
            "the argument of gang 'enableHierarchy'",
        ),
        (
            (
                "actions: preempt\ntiers: []\n"
                "configurations: [{name: preempt, arguments: {maxCandidateNodes: 1}}]"
            ),
            "did you mean 'maxCandidateNodesAbsolute'",
        ),
        (
            (
                "actions: allocate\n"
                "tiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]}]"
            ),
            "proportion and drf with hierarchy enabled conflicts",
        ),
    ],
)
def test_what_is_wrong_is_said_with_a_suggestion(text: str, said: str):
    with pytest.raises(BadFile, match=said):
        read_conf(text)


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(BadFile) as caught:
        read_conf("actions: allocates\ntiers: [{plugins: [{name: gnag}, {name: binpac}]}]")

    assert len(caught.value.problems) == 3


def test_all_four_kinds_of_mistakes_are_told_together_each_argument_by_itself():
    """Actions, plugins, flags and arguments, the last by name and by type."""
    plugins = [
        "{name: gnag}",
        "{name: priority, enableJobOrdr: true}",
        "{name: overcommit, arguments: {overcommit-facto: 2}}",
        "{name: nodeorder, arguments: {leastrequested.weights: 1, mostrequested.weight: [1]}}",
    ]
    with pytest.raises(BadFile) as caught:
        read_conf(f"actions: enqeue\ntiers: [{{plugins: [{', '.join(plugins)}]}}]")

    problems = caught.value.problems
    guesses = [part.partition("'?")[0] for one in problems for part in one.split("mean '")[1:]]
    assert guesses == [
        "enqueue",
        "gang",
        "enableJobOrder",
        "overcommit-factor",
        "leastrequested.weight",
    ]
    bad = "line 2: the argument 'mostrequested.weight' of nodeorder is [1], "
    bad += "expected a whole number from 0 to 1000000"
    assert bad in problems


WITH_LINES = """\
actions: "allocate, allocates"
tiers:
- plugins:
  - name: gnag
  - name: priority
    enableJobOrdr: true
- plugins:
  - name: binpac
  - name: overcommit
    arguments: {overcommit-factor: much}
configurations:
- name: prempt
"""


def problems_of(text: str) -> tuple[str, ...]:
    with pytest.raises(BadFile) as caught:
        read_conf(text)
    return caught.value.problems


def test_every_problem_has_its_line_and_the_first_comes_first():
    lines = [problem.partition(":")[0] for problem in problems_of(WITH_LINES)]

    assert lines == [f"line {number}" for number in (1, 4, 6, 8, 10, 12)]


def test_text_that_is_no_yaml_says_in_which_line_it_ends_to_be():
    (problem,) = problems_of("actions: allocate\ntiers: [{\n")

    assert problem.startswith("line 3: it is not YAML: while parsing a flow node, ")


def test_the_names_that_would_do_are_listed_once():
    said = "\n".join(problems_of(WITH_LINES))

    assert said.count("nodeorder, overcommit") == 1
    assert said.count("gangpreempt, gangreclaim") == 1
    assert "'binpac' is not known (did you mean 'binpack'?)\n" in said


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        ("[{plugins: [{name: gang}, {name: gang}]}]", "stands twice in tier 1"),
        (
            "[{plugins: [{name: gang}]}, {plugins: [{name: gang}]}]",
            "stands in tier 1 and in tier 2",
        ),
    ],
)
def test_a_plugin_stands_in_one_place(tiers: str, said: str):
    (problem,) = problems_of(f"actions: allocate\ntiers: {tiers}")

    assert problem == f"line 2: the plugin 'gang' {said}, expected once"


@pytest.mark.parametrize("name", ["deviceshare", "numa-aware", "rescheduling", "task-topology"])
def test_a_plugin_of_volcano_that_is_missing_is_not_called_misspelt(name: str):
    (problem,) = problems_of(f"actions: allocate\ntiers: [{{plugins: [{{name: {name}}}]}}]")

    assert f"'{name}' is a plugin of Volcano that Stromboli does not have yet" in problem
    assert "did you mean" not in problem
    assert "expected one of" not in problem


def in_a_map(text: str, key: str = "volcano-scheduler.conf") -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": {key: text}})


@pytest.mark.parametrize("key", ["volcano-scheduler.conf", "my.conf"])
def test_the_config_map_around_a_configuration_is_read_too(key: str):
    assert read_conf(in_a_map(GOOD, key)) == read_conf(GOOD)


def test_lines_in_a_config_map_are_those_of_its_key():
    first, *_ = problems_of(in_a_map(WITH_LINES))

    assert first.startswith("line 1 of volcano-scheduler.conf: the action 'allocates'")


def test_a_config_map_without_a_configuration_says_what_is_missing():
    assert problems_of(in_a_map(GOOD, "other")) == (
        "the ConfigMap has 0 keys that end in .conf, expected 'volcano-scheduler.conf'",
    )


def test_a_flag_that_is_off_takes_the_plugins_say_away():
    on = build_all(read_conf("actions: allocate\ntiers: [{plugins: [{name: gang}]}]").tiers)
    off = build_all(
        read_conf(
            "actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: false}]}]"
        ).tiers
    )

    assert len(on.job_order) == 1
    assert off.job_order == []


def test_a_core_goes_on_with_another_configuration_and_keeps_the_old_if_that_is_bad():
    core = SchedulerCore()
    conf = read_conf(GOOD)
    core.reconfigure(conf)
    assert core.conf is conf

    with pytest.raises(BadConfiguration):
        core.reconfigure(SchedulingConf(actions=("nothing",)))
    assert core.conf is conf


def test_the_metrics_of_volcano_are_all_texts():
    conf = read_conf("""
actions: allocate
tiers: [{plugins: [{name: gang}]}]
metrics: {type: prometheus, address: "http://p:9090", tls.insecureSkipVerify: "true"}
""")

    assert conf.metrics == MetricsConf(address="http://p:9090", insecure=True)


def test_the_arguments_of_every_action_are_read():
    conf = read_conf("""
actions: "enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim, shuffle"
tiers: [{plugins: [{name: gang}]}]
configurations:
- {name: allocate, arguments: {predicateErrorCacheEnable: false}}
- {name: backfill, arguments: {predicateErrorCacheEnable: "true"}}
- {name: reclaim, arguments: {predicateErrorCacheEnable: true}}
- name: preempt
  arguments:
    predicateErrorCacheEnable: true
    enableTopologyAwarePreemption: true
    topologyAwarePreemptWorkerNum: 16
    minCandidateNodesPercentage: 10
    minCandidateNodesAbsolute: 1
    maxCandidateNodesAbsolute: 100
- {name: gangpreempt, arguments: {maxDomains: 0, allowWholeBundle: true}}
- {name: gangreclaim, arguments: {maxDomains: 8, allowWholeBundle: false}}
""")

    assert len(conf.actions) == 8
    assert sorted(conf.action_arguments) == sorted(set(conf.actions) - {"enqueue", "shuffle"})
