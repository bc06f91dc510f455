"""Volcano's admission cases as a user submits them: to an API server that asks admission.

All cases share one cluster, and are dry runs: what is tried leaves nothing behind. What an API
server refuses by itself (its schema, its own rules for names) is told in its words, before
admission is asked.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import jsonpatch
import msgspec
import pytest

from stromboli.admitting.reviewing import PATHS
from stromboli.kube import KubeClient, PatchType, Resource
from stromboli.kube.errors import AlreadyExists, ApiError
from stromboli.kube.paths import object_path
from stromboli.testkit.admission_cases import AdmissionCase, Outcome, check, load_cases
from stromboli.testkit.admissions import AdmissionStack
from stromboli.testkit.waiting import NeverHappened, eventually

pytestmark = [pytest.mark.nats, pytest.mark.slow, pytest.mark.timeout(240)]

NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", namespaced=False)
MANAGER = "test"
OUR_WORDS = "denied the request"
ADMIN = "admin"


def resource_of(case: AdmissionCase) -> Resource:
    found = next(path.resource for path in PATHS.values() if path.kind == case.kind)
    return Resource(found.group, found.version, found.resource, namespaced=not case.is_cluster_wide)


class Cluster:
    def __init__(self, kube: KubeClient) -> None:
        self.kube = kube

    async def has(self, case: AdmissionCase) -> bool:
        return await self.kube.serves(resource_of(case))

    async def queue(self, manifest: dict[str, Any]) -> None:
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **manifest}
        name = manifest["metadata"]["name"]

        async def is_made() -> bool:
            # Its parent was made a moment ago, and admission may not have heard of it yet.
            try:
                await self.kube.create(QUEUES, None, body, field_manager=MANAGER)
            except AlreadyExists:
                return True
            except ApiError as refused:
                raise AssertionError(str(refused)) from refused
            return True

        await eventually(is_made, deadline_s=5)
        if "status" in manifest:
            await self.kube.patch(
                QUEUES,
                None,
                name,
                {"status": manifest["status"]},
                patch_type=PatchType.MERGE,
                field_manager=MANAGER,
                subresource="status",
            )

    async def annotate_namespace(self, name: str, annotations: dict[str, str | None]) -> None:
        body = {"metadata": {"annotations": annotations}}
        await self.kube.patch(
            NAMESPACES, None, name, body, patch_type=PatchType.MERGE, field_manager=MANAGER
        )

    @asynccontextmanager
    async def scene(self, case: AdmissionCase) -> AsyncGenerator[None]:
        """What the case takes for granted; it is taken away again afterwards."""
        if case.namespace != "default":
            body = {"metadata": {"name": case.namespace}}
            with suppress(AlreadyExists):
                await self.kube.create(NAMESPACES, None, body, field_manager=MANAGER)
        annotations: dict[str, str | None] = dict(case.surroundings.namespace_annotations)
        if annotations:
            await self.annotate_namespace(case.namespace, annotations)
        for queue in case.surroundings.queues:
            await self.queue(queue)
        try:
            yield
        finally:
            if annotations:
                await self.annotate_namespace(case.namespace, dict.fromkeys(annotations))
            for queue in reversed(case.surroundings.queues):
                await self.remove(QUEUES, None, queue["metadata"]["name"])

    async def remove(self, resource: Resource, namespace: str | None, name: str) -> None:
        async def is_gone() -> bool:
            # Its children were deleted a moment ago, and admission may still know them.
            try:
                await self.kube.delete(resource, namespace, name)
            except ApiError as refused:
                if refused.code == 404:
                    return True
                raise AssertionError(str(refused)) from refused
            return True

        await eventually(is_gone, deadline_s=5)

    async def submit(self, case: AdmissionCase) -> Outcome:
        resource = resource_of(case)
        namespace = None if case.is_cluster_wide else case.namespace
        try:
            match case.verb:
                case "CREATE":
                    made = await self.kube.create(
                        resource, namespace, case.object, field_manager=MANAGER, dry_run=True
                    )
                    return Outcome(allowed=True, stored=msgspec.json.decode(made.raw))
                case "DELETE":
                    await self.kube.delete(resource, namespace, case.name, dry_run=True)
                    return Outcome(allowed=True, stored=case.object)
                case _:
                    stored = msgspec.json.decode(
                        await self.kube.get(resource, namespace, case.name)
                    )
                    # As `kubectl edit` does it: what was stored, and in it what the user changed.
                    change = jsonpatch.make_patch(case.old, case.object)
                    answer = await self.kube.transport.send(
                        "PUT",
                        object_path(resource, namespace, case.name),
                        query={"dryRun": "All", "fieldManager": MANAGER},
                        body=msgspec.json.encode(change.apply(stored)),
                    )
                    return Outcome(allowed=True, stored=msgspec.json.decode(answer.body))
        except ApiError as refused:
            return Outcome(allowed=False, message=refused.message)

    async def comes_out_right(self, case: AdmissionCase) -> bool:
        outcome = await self.submit(case)
        if case.expect.refused and not outcome.allowed and OUR_WORDS not in outcome.message:
            return True  # the API server was faster, in words of its own
        check(case, outcome)
        return True


def is_for_api_servers(case: AdmissionCase) -> bool:
    """Without what can't be brought about from outside: other users, pods that hold nodes."""
    return case.user.username == ADMIN and not case.needs_facts


def existing_in(case: AdmissionCase) -> dict[str, Any] | None:
    """What must be there before it can be changed or deleted."""
    return {"UPDATE": case.old, "DELETE": case.object}.get(case.verb)


def is_in_the_scene(case: AdmissionCase) -> bool:
    there = {"root", "default"} | {one["metadata"]["name"] for one in case.surroundings.queues}
    return case.kind == "Queue" and case.name in there


async def test_every_case_comes_out_as_it_does_with_volcano(stack: AdmissionStack):
    wrong: list[str] = []
    tried = 0
    async with KubeClient.connect(stack.api.access()) as kube:
        cluster = Cluster(kube)
        for name in ("root", "default"):
            await cluster.queue({"metadata": {"name": name}, "spec": {"weight": 1}})
        for case in filter(is_for_api_servers, load_cases()):
            if not await cluster.has(case):
                continue
            tried += 1
            existing = None if is_in_the_scene(case) else existing_in(case)
            namespace = None if case.is_cluster_wide else case.namespace
            try:
                async with cluster.scene(case):
                    if existing is not None:
                        await kube.create(
                            resource_of(case), namespace, existing, field_manager=MANAGER
                        )
                    await eventually(lambda c=case: cluster.comes_out_right(c), deadline_s=3)
                    if existing is not None:
                        await cluster.remove(resource_of(case), namespace, case.name)
            except (NeverHappened, ApiError) as problem:
                wrong.append(f"{case.case}: {problem}")

    assert not wrong, "\n".join(wrong)
    assert tried > 80
