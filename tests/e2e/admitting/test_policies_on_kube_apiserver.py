"""The CEL policies, on the API server that evaluates them."""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from stromboli.admitting.jobs.policies import policy_faults
from stromboli.admitting.reference import policies
from stromboli.admitting.reviewing import PATHS
from stromboli.api.batch import Job
from stromboli.api.kinds import VC_JOB
from stromboli.api.wire import read_object
from stromboli.kube import KubeClient, PatchType, Resource
from stromboli.kube.errors import ApiError
from stromboli.testkit.admission_cases import AdmissionCase, load_cases
from stromboli.testkit.kube_apiserver import KubeApiServer
from stromboli.testkit.manifests import queue, vc_job
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.e2e

ME: Final = "e2e"
_GROUP: Final = "admissionregistration.k8s.io"
_KINDS: Final = {
    "ValidatingAdmissionPolicy": Resource(
        _GROUP, "v1", "validatingadmissionpolicies", namespaced=False
    ),
    "ValidatingAdmissionPolicyBinding": Resource(
        _GROUP, "v1", "validatingadmissionpolicybindings", namespaced=False
    ),
}
_RESOURCES: Final = {
    each.kind: Resource(
        each.resource.group,
        each.resource.version,
        each.resource.resource,
        namespaced=each.kind not in ("Queue", "HyperNode"),
    )
    for each in PATHS.values()
}
_IN_CEL: Final = {
    rule.name
    for path in PATHS.values()
    for rules in path.rules.values()
    for rule in rules
    if rule.cel is not None
}
_OF_POLICIES: Final = ("job-policies", "task-policies")


def _rule_of(case: AdmissionCase) -> str:
    """The rule that a case breaks; of policies, the one within."""
    if case.expect.rule not in _OF_POLICIES:
        return case.expect.rule
    job: Job = read_object(VC_JOB, case.object)
    lists = [job.spec.policies, *(task.policies for task in job.spec.tasks)]
    found = [policy_faults(one, "") for one in lists]
    return next(fault[0] for fault in found if fault is not None)


def _matters(case: AdmissionCase) -> bool:
    is_static = case.expect.refused == () or _rule_of(case) in _IN_CEL
    return case.verb == "CREATE" and is_static and not case.needs_schema


CASES: Final = [case for case in load_cases() if _matters(case)]


async def _install(server: KubeApiServer) -> None:
    async with KubeClient.connect(server.access()) as kube:
        for manifests in policies().values():
            for manifest in manifests:
                kind = _KINDS[manifest["kind"]]
                await kube.create(kind, None, manifest, field_manager=ME)

        first = {case.kind: case for case in CASES if case.expect.refused}

        async def refuses() -> bool:
            answers = [await _refusal(kube, case) for case in first.values()]
            return all("ValidatingAdmissionPolicy" in answer for answer in answers)

        await eventually(refuses, deadline_s=30, describe="policies to be in force")


async def _refusal(kube: KubeClient, case: AdmissionCase) -> str:
    """What the server has against the case; empty when it accepts."""
    resource = _RESOURCES[case.kind]
    namespace = "default" if resource.namespaced else None
    try:
        await kube.create(resource, namespace, case.object, field_manager=ME, dry_run=True)
    except ApiError as fault:
        return str(fault)
    return ""


@pytest.fixture(scope="module")
def guarded_server(real_server: KubeApiServer) -> Iterator[KubeApiServer]:
    """The server with every policy in force; they go again, for the sake of other tests."""
    asyncio.run(_install(real_server))
    yield real_server
    asyncio.run(_remove(real_server))


async def _remove(server: KubeApiServer) -> None:
    async with KubeClient.connect(server.access()) as kube:
        for manifests in policies().values():
            for manifest in reversed(manifests):
                await kube.delete(_KINDS[manifest["kind"]], None, manifest["metadata"]["name"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
async def test_the_policies_refuse_what_the_rules_refuse_and_nothing_else(
    guarded_server: KubeApiServer, case: AdmissionCase
) -> None:
    async with KubeClient.connect(guarded_server.access()) as kube:
        refusal = await _refusal(kube, case)

    assert bool(refusal) == bool(case.expect.refused), refusal or "it was accepted"
    if refusal:
        assert "ValidatingAdmissionPolicy" in refusal


async def test_the_policies_hold_for_updates_and_deletions(guarded_server: KubeApiServer) -> None:
    async with KubeClient.connect(guarded_server.access()) as kube:
        await kube.create(VC_JOB, "default", vc_job("steady", minAvailable=1), field_manager=ME)
        greedy = {"spec": {"minAvailable": 5}}
        with pytest.raises(ApiError, match="must not be greater than total replicas"):
            await kube.patch(
                VC_JOB, "default", "steady", greedy, patch_type=PatchType.MERGE, field_manager=ME
            )
        await kube.create(_RESOURCES["Queue"], None, queue("default", weight=1), field_manager=ME)
        with pytest.raises(ApiError, match="`default` queue can not be deleted"):
            await kube.delete(_RESOURCES["Queue"], None, "default")
