"""ResourceQuotas and deadlines, as the scheduler reads them."""

import pytest

from stromboli.api.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from stromboli.api.fieldtypes import ResourceList
from stromboli.scheduling.deadlines import deadline_of, waiting_time
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.quotas import (
    asked_of_quotas,
    quotas_by_namespace,
    shown,
    used_by_pods,
    weights,
)
from stromboli.testkit.scheduling_objects import pod_group


def quota(hard: ResourceList, used: ResourceList | None = None) -> ResourceQuota:
    return ResourceQuota(
        spec=ResourceQuotaSpec(hard=hard), status=ResourceQuotaStatus(used=used or {})
    )


def test_a_request_counts_under_both_names_that_quotas_have_for_it():
    assert asked_of_quotas({"cpu": "2", "limits.cpu": "3", "count/pods": "4"}) == {
        "cpu": 2000,
        "requests.cpu": 2000,
        "limits.cpu": 3000,
        "count/pods": 4,
    }
    assert asked_of_quotas({"requests.memory": "1Ki"}) == {"memory": 1024, "requests.memory": 1024}
    assert used_by_pods({"cpu": 5, "pods": 1}) == {"cpu": 5, "requests.cpu": 5, "pods": 1}


def test_quotas_are_found_by_namespace_under_their_own_names():
    found = quotas_by_namespace(
        {("a", "two"): quota({"cpu": "2"}, {"cpu": "500m"}), ("a", "one"): quota({"pods": "x"})}
    )

    assert [(one.name, one.hard, one.used) for one in found["a"]] == [
        ("one", {}, {}),
        ("two", {"cpu": 2000}, {"cpu": 500}),
    ]


def test_the_largest_weight_of_a_namespace_counts():
    weight = "volcano.sh/namespace.weight"

    found = weights(
        {
            ("a", "one"): quota({weight: "2"}),
            ("a", "two"): quota({weight: "5"}),
            ("b", "one"): quota({weight: "0"}),
            ("c", "one"): quota({weight: "many"}),
            ("d", "one"): quota({"cpu": "1"}),
        }
    )

    assert found == {"a": 5}


def test_amounts_are_shown_as_kubernetes_lists_them():
    assert shown({"requests.cpu": 1500, "memory": 1 << 30}) == "memory=1Gi,requests.cpu=1500m"


# Deadlines.


def job(created: str = "2030-01-01T00:00:00Z", **annotations: str) -> Job:
    group = pod_group("g", min_member=1, created=created)
    group.metadata.annotations.update(
        {key.replace("_", "-"): value for key, value in annotations.items()}
    )
    found = Job(("test", "g"))
    found.read(group, "1")
    return found


NEW_YEAR = 1_893_456_000.0


def test_a_job_waits_for_ever_unless_somebody_says_otherwise():
    assert deadline_of(job(), otherwise_s=None) is None
    assert deadline_of(job(), otherwise_s=60.0) == NEW_YEAR + 60


def test_a_jobs_own_waiting_time_counts_first():
    assert deadline_of(job(sla_waiting_time="1h"), otherwise_s=60.0) == NEW_YEAR + 3600


@pytest.mark.parametrize("text", ["", "soon", "0s", "-5m"])
def test_what_is_no_positive_duration_says_nothing(text: str):
    assert waiting_time(text) is None
    assert deadline_of(job(sla_waiting_time=text), otherwise_s=60.0) == NEW_YEAR + 60


def test_a_job_that_was_created_nobody_knows_when_has_no_deadline():
    assert deadline_of(job(created=""), otherwise_s=60.0) is None
    assert deadline_of(job(created="yesterday"), otherwise_s=60.0) is None
