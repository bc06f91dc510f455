"""What usage makes of a measurement and of what was placed since, in numbers."""

from typing import Any

import pytest
from msgspec.structs import replace

from stromboli.api.core import Pod, ResourceRequirements
from stromboli.api.fieldtypes import ResourceList
from stromboli.scheduling.conf import PluginConf
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.loads import NodeLoad
from stromboli.scheduling.plugins.registry import build
from stromboli.scheduling.pods import read_task
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Placement
from stromboli.testkit.plugin_scores import contender_of, scores, scoring_session
from stromboli.testkit.scheduling_objects import node, pod

ASKING = pod("p", cpu="1", memory="1Gi")


def measured(cpu: float, memory: float, **arguments: Any) -> Session:
    """One node of 10 cpus and 10Gi."""
    return scoring_session(
        "usage",
        node("n", cpu="10", memory="10Gi"),
        arguments={"usage.weight": 1, **arguments},
        loads={"n": NodeLoad(cpu, memory)},
    )


def put(session: Session, *pods: Pod) -> None:
    for number, one in enumerate(pods):
        named = replace(one, metadata=replace(one.metadata, uid=f"u{number}"))
        task = read_task(named, frozenset())
        contender = contender_of(task.job)
        outlook = session.choosing.outlook(contender, task.kind)
        slots = outlook.choose(1, pipelined=False)
        session.trial.apply(
            Placement(contender, outlook.kind, outlook.vector, (task,), slots, pipelined=False)
        )


def limited(cpu: str, memory: str, made: Pod = ASKING) -> Pod:
    (main,) = made.spec.containers
    limits: ResourceList = {"cpu": cpu, "memory": memory}
    resources = ResourceRequirements(requests=main.resources.requests, limits=limits)
    return replace(made, spec=replace(made.spec, containers=(replace(main, resources=resources),)))


def test_the_score_is_what_is_free_by_weight():
    assert scores(measured(0.2, 0.4), ASKING) == {"n": 70.0}
    weighted = measured(0.2, 0.4, **{"cpu.weight": 3, "memory.weight": 1})
    assert scores(weighted, ASKING) == {"n": (3 * 80 + 60) / 4}


def test_a_node_that_nobody_measured_is_worth_nothing():
    session = scoring_session("usage", node("n"), node("m"), loads={"n": NodeLoad(0.5, 0.5)})

    assert scores(session, ASKING) == {"m": 0.0, "n": 250.0}


def test_who_was_placed_since_counts_with_a_part_of_its_request_until_it_is_taken_back():
    session = measured(0.2, 0.2)
    put(session, ASKING, ASKING)

    assert scores(session, ASKING) == {"n": 100 * (1 - 0.2 - 2 * 0.07)}
    session.trial.rollback(0)
    assert scores(session, ASKING) == {"n": 80.0}


def test_what_limits_allow_beyond_the_request_counts_by_burst_ratio():
    session = measured(0.0, 0.0, estimator={"burst_ratio": 0.5})
    put(session, limited("5", "3Gi"))
    cpu, memory = (0.7 + 0.5 * 4) / 10, (0.7 + 0.5 * 2) / 10

    assert scores(session, ASKING)["n"] == pytest.approx(100 * (1 - (cpu + memory) / 2))


def test_an_estimate_is_at_most_the_limit():
    session = measured(0.7, 0.7, estimator={"request_ratio": 1.0, "risk_factor": 3.0})
    put(session, ASKING)

    assert scores(session, ASKING)["n"] == pytest.approx(100 * (1 - 0.8))


def test_a_pod_that_asks_for_nothing_counts_as_configured():
    modest = pod("p", cpu="", memory="")
    by_default = measured(0.0, 0.0)
    put(by_default, modest)
    cpu, memory = 0.25 / 10, 200 / 10240
    assert scores(by_default, modest)["n"] == pytest.approx(100 * (1 - (cpu + memory) / 2))

    session = measured(0.0, 0.0, estimator={"be_cpu": "1", "be_mem": "2Gi"})
    put(session, modest)
    assert scores(session, modest)["n"] == pytest.approx(100 * (1 - (0.1 + 0.2) / 2))


def test_on_a_node_at_risk_estimates_count_for_more():
    below, above = measured(0.5, 0.5), measured(0.6, 0.6)
    put(below, ASKING)
    put(above, ASKING)

    assert scores(below, ASKING)["n"] == pytest.approx(100 * (1 - 0.5 - 0.07))
    assert scores(above, ASKING)["n"] == pytest.approx(100 * (1 - 0.6 - 0.07 * 1.2))


def test_a_risk_factor_below_one_is_none():
    session = measured(0.7, 0.3, estimator={"risk_factor": 0.5, "risk_threshold": 0.1})
    put(session, ASKING)

    assert scores(session, ASKING)["n"] == pytest.approx(100 * (1 - 0.5 - 0.07))


def test_each_threshold_has_its_default_and_says_what_is_exceeded():
    session = measured(0.5, 0.81, thresholds={"cpu": 60})
    task = read_task(ASKING, frozenset())
    verdicts = session.choosing.verdicts(contender_of(task.job), task.kind)

    assert {verdict.reason: verdict.passes.tolist() for verdict in verdicts} == {
        "the CPU load of the node exceeds the upper limit": [True],
        "the memory load of the node exceeds the upper limit": [False],
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"thresholds": {"memory": 80}}, "memory"),
        ({"thresholds": {"cpu": "high"}}, "thresholds"),
        ({"estimator": {"be_cpu": "lots"}}, "an amount such as 250m"),
        ({"estimator": {"be_mem": "-1"}}, "an amount such as 250m"),
        ({"estimator": {"burst": 1}}, "burst"),
        ({"usage.weight": "heavy"}, "a whole number"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], said: str):
    with pytest.raises(BadConfiguration, match=said):
        build(PluginConf("usage", arguments))
