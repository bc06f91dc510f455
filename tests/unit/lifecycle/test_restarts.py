"""A core may die between any two of its acts, and hear anything twice; the end is the same."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stromboli.contracts.outcomes import Uncertain
from stromboli.contracts.stimuli import FactChanged, OutcomeHeard, WokeUp
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, mpi_job, task, tensorflow_job

pytestmark = pytest.mark.timeout(180)

AT = "2023-11-14T22:13:20Z"

Make = Callable[[], JobScenario]
Life = Callable[[JobScenario, Callable[[], None]], None]


def mpi_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(mpi_job()),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Succeeded", of="mpimaster"),
        scenario.release_pods,
    ]
    for act in acts:
        act()
        settle()


def restarted_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(tensorflow_job()),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.lose_pod("tensorflow-benchmark-worker-1"),
        scenario.release_pods,
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Succeeded", of="worker"),
        scenario.release_pods,
    ]
    for act in acts:
        act()
        settle()


def resumed_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(job("j", task("t", 2))),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.order("AbortJob", "j", name="a"),
        scenario.release_pods,
        lambda: scenario.order("ResumeJob", "j", name="b"),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Succeeded"),
    ]
    for act in acts:
        act()
        settle()


def partly_restarted_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartTask"}]
    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(
            job("j", task("a", 3), task("b", 1), policies=policies, minAvailable=1)
        ),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.lose_pod("j-a-0"),
        scenario.release_pods,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Succeeded"),
    ]
    for act in acts:
        act()
        settle()


def delayed_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    policies = [
        {"event": "PodFailed", "action": "RestartJob", "timeout": "1m"},
        {"event": "PodPending", "action": "AbortJob", "timeout": "1h"},
    ]

    def pass_time(seconds: float) -> None:
        scenario.gateway.now += seconds
        scenario.gateway.stimuli.append(WokeUp())

    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(job("j", task("t", 2), policies=policies, plugins={"svc": []})),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Failed", of="t-0", exit_code=1),
        lambda: pass_time(59),
        lambda: pass_time(2),
        scenario.release_pods,
        scenario.enqueue,
        lambda: pass_time(3600),
    ]
    for act in acts:
        act()
        settle()


def scaled_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    def scale(replicas: int) -> None:
        tasks = [task("t", replicas)]
        scenario.gateway.patch("vcjob", "j", {"spec": {"tasks": tasks}})

    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(
            job("j", task("t", 3), policies=policies, plugins={"svc": []}, minAvailable=1)
        ),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scale(1),
        scenario.release_pods,
        lambda: scale(4),
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Succeeded"),
    ]
    for act in acts:
        act()
        settle()


def drained_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    """Pods of a node go together, one of them slowly."""

    def drain() -> None:
        scenario.gateway.patch("pod", "j-t-2", {"metadata": {"deletionTimestamp": AT}})
        scenario.lose_pod("j-t-0")
        scenario.lose_pod("j-t-1")

    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(job("j", task("t", 5), policies=policies, minAvailable=1)),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        drain,
        lambda: scenario.lose_pod("j-t-3"),
        scenario.release_pods,
        lambda: scenario.set_pods("Running"),
    ]
    for act in acts:
        act()
        settle()


def cleared_life(scenario: JobScenario, settle: Callable[[], None]) -> None:
    """Pods are cleared away as soon as they end."""
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    acts: list[Callable[[], object]] = [
        lambda: scenario.submit(
            job("j", task("a", 2), task("b", 2, dependsOn={"name": ["a"]}), policies=policies)
        ),
        scenario.enqueue,
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Running"),
        lambda: scenario.set_pods("Succeeded", of="j-a"),
        lambda: scenario.lose_pod("j-a-0"),
        lambda: scenario.lose_pod("j-a-1"),
        lambda: scenario.set_pods("Succeeded", of="j-b"),
    ]
    for act in acts:
        act()
        settle()


LIVES: list[Life] = [
    drained_life,
    cleared_life,
    mpi_life,
    restarted_life,
    resumed_life,
    partly_restarted_life,
    delayed_life,
    scaled_life,
]


def outcome(scenario: JobScenario) -> dict[str, Any]:
    """How it ended, without what differs from life to life."""
    shown: dict[str, Any] = {}
    for (kind, _, name), found in scenario.gateway.objects.items():
        status = dict(found.get("status", {}))
        records = status.get("controlledResources", {})
        status["controlledResources"] = {
            key: value
            for key, value in records.items()
            if not key.startswith(("stromboli/made", "stromboli/command", "stromboli/ended"))
        }
        shown[f"{kind}/{name}"] = (found.get("spec"), status)
    return shown


def crash_points(make: Make, life: Life) -> int:
    reached = itertools.count()
    scenario = make()
    live(scenario, life, crash_at=-1, reached=reached)
    return next(reached)


def live(scenario: JobScenario, life: Life, *, crash_at: int, reached: Iterator[int]) -> None:
    """A life with a crash at one point: before a stimulus, or before an intent is applied."""
    scenario.settles = False
    driver = scenario.driver

    def dies() -> bool:
        if next(reached) != crash_at:
            return False
        driver.start()
        return True

    def settle() -> None:
        for _ in range(1000):
            if not scenario.gateway.stimuli:
                return
            dies()
            for intent in driver.tell(scenario.gateway.stimuli.popleft()):
                if dies():
                    break
                scenario.gateway.apply(intent)
        raise AssertionError("it did not come to rest")

    life(scenario, settle)


@pytest.mark.parametrize("life", LIVES)
def test_a_core_that_dies_at_any_point_changes_nothing_about_the_end(
    make_scenario: Make, life: Life
):
    undisturbed = make_scenario()
    live(undisturbed, life, crash_at=-1, reached=itertools.count())
    expected = outcome(undisturbed)
    points = crash_points(make_scenario, life)

    assert points > 40
    for crash_at in range(points):
        scenario = make_scenario()
        live(scenario, life, crash_at=crash_at, reached=itertools.count())
        assert outcome(scenario) == expected, f"crashed at point {crash_at}"
        assert scenario.gateway.refused == [], f"crashed at point {crash_at}"


@pytest.mark.parametrize("life", LIVES)
def test_hearing_everything_twice_asks_for_nothing_more(make_scenario: Make, life: Life):
    once, twice = make_scenario(), make_scenario()
    live(once, life, crash_at=-1, reached=itertools.count())
    twice.settles = False

    def settle() -> None:
        while twice.gateway.stimuli:
            stimulus = twice.gateway.stimuli[0]
            twice.driver.step()
            if isinstance(stimulus, FactChanged | OutcomeHeard):
                for intent in twice.driver.tell(stimulus):
                    twice.gateway.apply(intent)

    life(twice, settle)

    assert outcome(twice) == outcome(once)
    assert len(twice.gateway.applied) == len(once.gateway.applied)


def test_no_two_intents_ever_have_the_same_id(scenario: JobScenario):
    """The bus drops a second one, and then nobody would ever answer it."""
    scenario.settles = False
    for life in LIVES:
        life(scenario, scenario.driver.settle)
        scenario.driver.start()
        scenario.driver.settle()
        for name in scenario.gateway.names("vcjob"):
            scenario.gateway.delete("vcjob", name)
    ids = [intent.id for intent in scenario.gateway.applied]

    assert len(ids) > 50
    assert len(ids) == len(set(ids))


def test_what_may_have_been_done_is_decided_again_after_a_pause(scenario: JobScenario):
    scenario.settles = False
    scenario.submit(job("j", task("t", 1)))
    lost = scenario.driver.tell(scenario.gateway.stimuli.popleft())
    assert lost
    for intent in lost:
        unknown = Uncertain(
            intent_id=intent.id,
            service=intent.service,
            verb=intent.verb,
            kind=intent.kind,
            key=intent.key,
            message="nobody knows",
        )
        assert scenario.driver.tell(OutcomeHeard(unknown)) == []
    scenario.driver.wait(1)

    applied = {intent.id for intent in scenario.gateway.applied}
    assert not {intent.id for intent in lost} & applied
    assert scenario.phase("j") == "Pending"
    assert len(scenario.gateway.names("vcpodgroup")) == 1


def test_nothing_is_decided_about_a_key_while_something_of_it_is_open(scenario: JobScenario):
    """Facts come before the answers that speak of them; only an answer lets it go on."""
    scenario.settles = False
    scenario.submit(job("j", task("t", 1)))
    scenario.driver.step()
    answers = [s for s in scenario.gateway.stimuli if isinstance(s, OutcomeHeard)]
    facts = [s for s in scenario.gateway.stimuli if isinstance(s, FactChanged)]
    scenario.gateway.stimuli.clear()

    for fact in facts:
        asked = [i for i in scenario.driver.tell(fact) if i.kind != "queue"]
        assert asked == []
    assert answers
    for answer in answers:
        scenario.driver.tell(answer)
    scenario.driver.settle()
    scenario.enqueue()
    scenario.driver.settle()
    assert scenario.pods() == {"j-t-0": "Pending"}


def test_a_refusal_is_tried_again_later_and_ever_later(scenario: JobScenario):
    """Nothing hammers the API server over a name that is still taken."""
    scenario.gateway.put("configmap", {"metadata": {"name": "j-svc"}})
    scenario.submit(job("j", task("t", 1), plugins={"svc": []}))
    first = len(scenario.gateway.refused)
    for _ in range(20):
        scenario.driver.wait(0.05)
    assert first == 1
    assert 2 <= len(scenario.gateway.refused) <= 8
    message = scenario.status("j")["state"]["message"]
    assert message == "ConfigMap j-svc could not be made: it belongs to []"
    scenario.gateway.delete("configmap", "j-svc")
    scenario.driver.wait(60)
    scenario.enqueue()

    assert scenario.pods() == {"j-t-0": "Pending"}
    assert "message" not in scenario.status("j")["state"]
