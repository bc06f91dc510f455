"""Before the queues have been read, nothing that hangs on them is accepted."""

from typing import Final

import msgspec
import pytest

from stromboli.admitting.questions import Review, UserInfo
from stromboli.admitting.reviewing import queues_named, review
from stromboli.admitting.snapshot import Snapshot
from stromboli.api.scheduling import Queue
from stromboli.testkit.admission_cases import CONF
from stromboli.testkit.manifests import Manifest, pod, pod_group, queue, vc_job

UNREAD: Final = Snapshot(is_synced=False)


def _request(item: Manifest, operation: str = "CREATE", old: Manifest | None = None) -> Review:
    is_end = operation == "DELETE"
    return Review(
        uid="u",
        operation=operation,
        namespace="default",
        name=item["metadata"]["name"],
        object=None if is_end else item,
        old_object=item if is_end else old,
        user_info=UserInfo(username="alice"),
    )


@pytest.mark.parametrize(
    ("path", "item", "operation"),
    [
        ("/jobs/validate", vc_job("a", queue="default"), "CREATE"),
        ("/queues/validate", queue("a", parent="b"), "CREATE"),
        ("/queues/validate", queue("a"), "DELETE"),
        ("/podgroups/mutate", pod_group("a", queue="default"), "CREATE"),
        ("/podgroups/validate", pod_group("a", queue="q"), "CREATE"),
        ("/pods/validate", pod("a", schedulerName="volcano"), "CREATE"),
        (
            "/cronjobs/validate",
            {
                "metadata": {"name": "a"},
                "spec": {"schedule": "@daily", "jobTemplate": {"spec": vc_job("a")["spec"]}},
            },
            "CREATE",
        ),
    ],
)
def test_what_hangs_on_queues_may_be_tried_again(path: str, item: Manifest, operation: str) -> None:
    verdict = review(path, _request(item, operation), UNREAD, CONF)

    assert (verdict.allowed, verdict.code, verdict.rule) == (False, 503, "not-synced")
    assert "try again" in verdict.message


def test_a_fault_that_needs_no_queues_is_told_at_once() -> None:
    verdict = review("/jobs/validate", _request(vc_job("a", minAvailable=9)), UNREAD, CONF)

    assert (verdict.code, verdict.rule) == (400, "job-min-available")


@pytest.mark.parametrize(
    ("path", "item"),
    [
        ("/jobs/mutate", vc_job("a")),
        ("/queues/mutate", queue("a")),
        ("/podgroups/mutate", pod_group("a", queue="q")),
        ("/pods/mutate", pod("a")),
        ("/pods/validate", pod("a", schedulerName="default-scheduler")),
    ],
)
def test_what_does_not_hang_on_queues_goes_on(path: str, item: Manifest) -> None:
    assert review(path, _request(item), UNREAD, CONF).allowed


def test_labels_of_a_queue_may_change_before_the_others_are_known() -> None:
    old = queue("a", parent="b", deserved={"cpu": "1"})
    new = {**old, "metadata": {"name": "a", "labels": {"x": "y"}}}

    assert review("/queues/validate", _request(new, "UPDATE", old), UNREAD, CONF).allowed


def test_the_queues_to_look_up_are_those_that_the_verdict_hangs_on() -> None:
    assert queues_named("/jobs/validate", _request(vc_job("a", queue="q"))) == {"q"}
    assert queues_named("/jobs/validate", _request(vc_job("a"))) == {"default"}
    assert queues_named("/queues/validate", _request(queue("a", parent="b"))) == {"b"}
    assert queues_named("/queues/validate", _request(queue("a", parent="root"))) == set()
    assert queues_named("/podgroups/validate", _request(pod_group("a", queue="q"))) == {"q"}
    assert queues_named("/jobs/mutate", _request(vc_job("a", queue="q"))) == set()


def test_a_queue_without_a_state_is_open() -> None:
    """Its controller has not come by yet; one file with a Queue and its Job must apply."""
    fresh = Snapshot(queues=[msgspec.convert(queue("q"), Queue)])

    assert review("/jobs/validate", _request(vc_job("a", queue="q")), fresh, CONF).allowed
