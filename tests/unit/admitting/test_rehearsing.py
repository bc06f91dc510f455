"""Dry runs say what submitting would."""

import pytest

from stromboli.admitting.questions import UserInfo
from stromboli.admitting.rehearsing import rehearse
from stromboli.admitting.snapshot import Snapshot
from stromboli.testkit.admission_cases import (
    CONF,
    AdmissionCase,
    Outcome,
    check,
    load_cases,
    surroundings_of,
)
from stromboli.testkit.manifests import config_map


@pytest.mark.parametrize(
    "case", [each for each in load_cases() if not each.needs_schema], ids=lambda case: case.case
)
def test_a_dry_run_comes_out_as_the_submission_would(case: AdmissionCase) -> None:
    came = rehearse(
        case.object,
        surroundings_of(case),
        conf=CONF,
        user=case.user,
        namespace=case.namespace,
        operation=case.verb,
        old=case.old,
    )

    check(case, Outcome(came.verdict.allowed, came.verdict.message, came.object, came.verdict.rule))


@pytest.mark.parametrize("manifest", [config_map("a"), {}, None, [], {"kind": 5, "metadata": 5}])
def test_what_admission_has_no_rules_for_is_allowed(manifest: object) -> None:
    assert rehearse(manifest, Snapshot(), conf=CONF, user=UserInfo()).verdict.allowed


@pytest.mark.parametrize(("filling", "fits"), [(10_000, True), (1_000_000, False)])
def test_a_job_that_no_message_can_carry_is_refused(filling: int, fits: bool) -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "DATA", "value": "x" * filling}]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "big", "namespace": "test"},
        "spec": {"tasks": [{"name": "a", "replicas": 1, "template": template}]},
    }

    verdict = rehearse(job, Snapshot(), conf=CONF, user=UserInfo(), namespace="test").verdict

    assert (verdict.rule != "job-size") is fits
    assert fits or "keep large data in ConfigMaps" in verdict.message
