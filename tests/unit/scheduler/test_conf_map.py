"""The configuration from a ConfigMap, and the events that tell of a bad one."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api.core import ConfigMap
from stromboli.api.meta import ObjectMeta
from stromboli.contracts.intents import CreateObject
from stromboli.contracts.stimuli import FactChanged, Instruction, Ready, WakeAt, WokeUp
from stromboli.scheduler.__main__ import sources
from stromboli.scheduler.config import SchedulerSettings
from stromboli.scheduler.reloading import ConfFile, ConfMap, ReloadingCore
from stromboli.scheduling.conf import SchedulingConf

PLACE = ("volcano-system", "volcano-scheduler-configmap")
KEY = "volcano-scheduler.conf"
ONE = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"
OTHER = "actions: allocate, backfill\ntiers: [{plugins: [{name: priority}, {name: gang}]}]\n"
BAD = "actions: allocates\ntiers: [{plugins: [{name: gnag}]}]\n"
WORSE = "actions: nothing\ntiers: []\n"


class Cluster:
    """A scheduler that is told about ConfigMaps."""

    def __init__(self, named: str = "/".join(PLACE)) -> None:
        self.map = ConfMap.called(named, SchedulingConf(default_queue="team"))
        self.core = ReloadingCore(self.map.configuration, conf_map=self.map)
        self.version = 0
        self.said: list[Instruction] = []
        self.now = 1_700_000_000.0

    def holds(self, data: dict[str, str] | None, place: tuple[str, str] = PLACE) -> "Cluster":
        self.version += 1
        self.now += 10
        found = None
        if data is not None:
            meta = ObjectMeta(namespace=place[0], name=place[1], uid="map-1")
            found = ConfigMap(metadata=meta, data=data)
        fact = FactChanged(
            kind="configmap",
            namespace=place[0],
            name=place[1],
            uid="map-1",
            resource_version=str(self.version),
            after=found,
        )
        self.said += self.core.handle(fact, now=self.now)
        return self

    def is_ready(self) -> "Cluster":
        self.said += self.core.handle(Ready(), now=self.now)
        return self

    @property
    def events(self) -> list[dict[str, Any]]:
        return [
            msgspec.json.decode(one.manifest) for one in self.said if isinstance(one, CreateObject)
        ]

    @property
    def actions(self) -> tuple[str, ...]:
        return self.core.conf.actions


def test_what_the_config_map_says_is_in_use_before_the_first_decision():
    cluster = Cluster().holds({KEY: ONE}).is_ready()

    assert cluster.actions == ("allocate",)
    assert cluster.core.conf.default_queue == "team"
    assert not cluster.events


def test_without_the_config_map_the_default_is_in_use():
    cluster = Cluster().holds({KEY: ONE}, place=("elsewhere", PLACE[1])).is_ready()

    assert cluster.actions == SchedulingConf().actions
    assert not cluster.events


def test_a_changed_config_map_is_in_use_at_once_and_everything_is_looked_at():
    cluster = Cluster().holds({KEY: ONE}).is_ready()
    cluster.said.clear()

    cluster.holds({KEY: OTHER})

    assert cluster.actions == ("allocate", "backfill")
    assert [one for one in cluster.said if isinstance(one, WakeAt)] == [WakeAt(cluster.now)]


def test_a_bad_version_is_told_once_and_so_is_the_next_good_one():
    cluster = Cluster().holds({KEY: ONE}).is_ready()

    cluster.holds({KEY: BAD})
    for _ in range(5):
        cluster.said += cluster.core.handle(WokeUp(), now=cluster.now)
    cluster.holds({KEY: BAD, "note": "still bad"})

    assert cluster.actions == ("allocate",)
    (event,) = cluster.events
    assert event["type"] == "Warning"
    assert event["reason"] == "ConfigurationRefused"
    assert "did you mean 'gang'" in event["message"]
    assert event["metadata"]["namespace"] == PLACE[0]
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": PLACE[0],
        "name": PLACE[1],
        "uid": "map-1",
    }

    cluster.holds({KEY: WORSE}).holds({KEY: ONE})

    assert [event["reason"] for event in cluster.events[1:]] == [
        "ConfigurationRefused",
        "ConfigurationAccepted",
    ]


def test_two_leaders_tell_of_one_bad_version_in_one_event():
    first = Cluster().holds({KEY: BAD}).is_ready()
    second = Cluster().holds({KEY: BAD})
    second.now += 1000
    second.is_ready()

    names = {event["metadata"]["name"] for event in (*first.events, *second.events)}
    assert len(names) == 1


def test_a_bad_one_at_the_start_leaves_the_default_and_says_so():
    cluster = Cluster().holds({KEY: BAD})
    assert not cluster.events

    cluster.is_ready()
    assert cluster.actions == SchedulingConf().actions
    assert [event["reason"] for event in cluster.events] == ["ConfigurationRefused"]


def test_one_that_is_gone_leaves_what_was_in_use():
    cluster = Cluster().holds({KEY: ONE}).is_ready().holds(None)

    assert cluster.actions == ("allocate",)
    assert "it is gone" in cluster.events[0]["message"]

    cluster.holds({KEY: ONE})
    assert cluster.events[1]["reason"] == "ConfigurationAccepted"


@pytest.mark.parametrize(
    ("named", "data", "actions"),
    [
        ("", {"mine.conf": ONE}, ("allocate",)),
        ("", {"mine.conf": ONE, KEY: OTHER}, ("allocate", "backfill")),
        (":mine.conf", {"mine.conf": ONE, KEY: OTHER}, ("allocate",)),
    ],
)
def test_the_key_is_the_named_one_or_volcanos_or_the_only_one(
    named: str, data: dict[str, str], actions: tuple[str, ...]
):
    assert Cluster("/".join(PLACE) + named).holds(data).is_ready().actions == actions


@pytest.mark.parametrize("data", [{}, {"a.conf": ONE, "b.conf": ONE}])
def test_a_key_that_is_missing_is_named(data: dict[str, str]):
    cluster = Cluster().holds(data).is_ready()

    assert f"expected the key '{KEY}'" in cluster.events[0]["message"]


@pytest.mark.parametrize(
    ("pod", "about"), [("", ("Namespace", "default")), ("team/s-0", ("Pod", "s-0"))]
)
def test_a_bad_file_is_told_of_the_schedulers_pod_or_of_a_namespace(
    tmp_path: Path, pod: str, about: tuple[str, str]
):
    path = tmp_path / "scheduler.conf"
    path.write_text(ONE)
    file = ConfFile.at(path, SchedulingConf(), pod)
    file.read_or_raise()
    core = ReloadingCore(file.configuration)
    core.handle(Ready(), now=0.0)

    path.write_text(BAD)
    file.look()
    said = [core.handle(WokeUp(), now=now) for now in (1.0, 2.0)]

    (event,) = [one for some in said for one in some if isinstance(one, CreateObject)]
    manifest = msgspec.json.decode(event.manifest)
    assert manifest["metadata"]["namespace"] == (pod.partition("/")[0] or "default")
    assert (manifest["involvedObject"]["kind"], manifest["involvedObject"]["name"]) == about


def test_a_file_comes_before_a_config_map_and_both_can_be_left_out():
    both = sources(SchedulerSettings(scheduler_conf="a.conf"))
    config_map = sources(SchedulerSettings(scheduler_conf_configmap="a/b:c"))
    neither = sources(SchedulerSettings(scheduler_conf_configmap=""))

    assert both[0] is not None
    assert both[1] is None
    assert config_map[1] is not None
    assert (config_map[1].namespace, config_map[1].name, config_map[1].key) == ("a", "b", "c")
    assert neither == (None, None)
