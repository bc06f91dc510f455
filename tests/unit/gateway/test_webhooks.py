"""The webhook configurations say what the design says, for every path there is."""

import base64
from typing import Any

import pytest

from stromboli.admitting.reviewing import PATHS
from stromboli.gateway.webhooks import Place, WebhookPlan, configurations

SERVICE = Place(service="stromboli-admission", namespace="stromboli-system")
PLAN = WebhookPlan(
    place=SERVICE,
    scheduler_names=("volcano", "other"),
    excluded_namespaces=("kube-system", "stromboli-system"),
)


def webhooks(plan: WebhookPlan = PLAN) -> dict[str, dict[str, Any]]:
    made = configurations(plan, PATHS.values(), b"authorities")
    return {hook["name"]: hook for _, _, manifest in made for hook in manifest["webhooks"]}


def test_every_path_is_registered_once_under_its_own_name():
    paths = {hook["clientConfig"]["service"]["path"] for hook in webhooks().values()}

    assert paths == set(PATHS)


def test_what_mutates_is_apart_from_what_validates():
    (mutating, _, first), (validating, _, second) = configurations(PLAN, PATHS.values(), b"")

    assert (mutating.plural, validating.plural) == (
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    )
    for manifest, end in ((first, "/mutate"), (second, "/validate")):
        for hook in manifest["webhooks"]:
            assert hook["clientConfig"]["service"]["path"].endswith(end)


def test_only_our_own_kinds_are_refused_while_admission_is_away():
    policies = {
        (hook["rules"][0]["apiGroups"][0].endswith(".volcano.sh"), hook["failurePolicy"])
        for hook in webhooks().values()
    }

    assert policies == {(True, "Fail"), (False, "Ignore")}


def test_only_pods_for_our_schedulers_are_sent():
    for hook in webhooks().values():
        conditions = [one["expression"] for one in hook.get("matchConditions", ())]
        if hook["rules"][0]["resources"] == ["pods"]:
            assert conditions == ["object.spec.schedulerName in ['volcano', 'other']"]
        else:
            assert not any("schedulerName" in condition for condition in conditions)


def test_a_change_of_status_alone_is_not_sent():
    """PodGroups have no status subresource: each of the scheduler's writes would be reviewed."""
    hooks = webhooks()
    for name in ("validatejob.volcano.sh", "validatepodgroup.volcano.sh"):
        (condition,) = hooks[name]["matchConditions"]
        assert "object.spec != oldObject.spec" in condition["expression"]


def test_nothing_in_kube_system_or_our_own_namespace_is_sent():
    for hook in webhooks().values():
        (excluded,) = hook["namespaceSelector"]["matchExpressions"]
        assert (excluded["operator"], excluded["values"]) == (
            "NotIn",
            ["kube-system", "stromboli-system"],
        )


def test_an_api_server_waits_at_most_five_seconds_and_may_dry_run():
    for hook in webhooks().values():
        assert hook["timeoutSeconds"] <= 5
        assert hook["sideEffects"] == "NoneOnDryRun"
        assert hook["admissionReviewVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("place", "config", "hosts"),
    [
        (
            Place(url="https://127.0.0.1:8443"),
            {"url": "https://127.0.0.1:8443/jobs/mutate"},
            ("127.0.0.1",),
        ),
        (
            Place(url="https://[::1]:8443/"),
            {"url": "https://[::1]:8443/jobs/mutate"},
            ("::1",),
        ),
        (
            SERVICE,
            {
                "service": {
                    "name": "stromboli-admission",
                    "namespace": "stromboli-system",
                    "path": "/jobs/mutate",
                    "port": 443,
                }
            },
            (
                "stromboli-admission.stromboli-system.svc",
                "stromboli-admission.stromboli-system.svc.cluster.local",
            ),
        ),
    ],
)
def test_admission_is_found_by_url_or_by_service(
    place: Place, config: dict[str, Any], hosts: tuple[str, ...]
):
    bundle = base64.b64encode(b"authorities").decode()

    assert place.client_config("/jobs/mutate", b"authorities") == {**config, "caBundle": bundle}
    assert place.hosts == hosts
