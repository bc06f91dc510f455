import asyncio
from functools import partial

import msgspec
import pytest

from stromboli.api import kinds
from stromboli.contracts import codec
from stromboli.contracts.intents import BINDS_PER_PART, PatchType
from stromboli.contracts.outcomes import Applied, GangBound, Reason, Refused
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.kube_objects import ClusterBuilder, owned_by, pod_manifest
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


def shows(peer: BusPeer, key: tuple[str, str, str], version: int) -> bool:
    entry = peer.view.get(*key)
    return entry is not None and int(entry.resource_version) >= version


async def test_a_created_object_is_answered_with_its_uid_and_seen_as_a_fact(
    controllers: BusPeer, cluster: ClusterBuilder
):
    job = await cluster.job("mpi")
    manifest = owned_by(pod_manifest("mpi-0", namespace=cluster.namespace), job, kinds.VC_JOB)
    outcome = await controllers.ask_and_hear(controllers.create("pod", manifest, owner_uid=job.uid))

    assert isinstance(outcome, Applied)
    assert not outcome.already
    entry = await controllers.until_seen("pod", cluster.namespace, "mpi-0")
    assert entry.uid == outcome.uid


async def test_creating_it_again_for_the_same_owner_counts_as_done(
    controllers: BusPeer, cluster: ClusterBuilder
):
    job = await cluster.job("mpi")
    manifest = owned_by(pod_manifest("mpi-0", namespace=cluster.namespace), job, kinds.VC_JOB)
    first = await controllers.ask_and_hear(controllers.create("pod", manifest, owner_uid=job.uid))
    again = await controllers.ask_and_hear(controllers.create("pod", manifest, owner_uid=job.uid))

    assert isinstance(first, Applied)
    assert isinstance(again, Applied)
    assert again.already
    assert again.uid == first.uid


async def test_a_name_that_belongs_to_another_owner_is_refused(
    controllers: BusPeer, cluster: ClusterBuilder
):
    job = await cluster.job("mpi")
    await cluster.pod("mpi-0")
    manifest = owned_by(pod_manifest("mpi-0", namespace=cluster.namespace), job, kinds.VC_JOB)
    outcome = await controllers.ask_and_hear(controllers.create("pod", manifest, owner_uid=job.uid))

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.STALE
    assert "belongs to" in outcome.message


async def test_what_no_row_allows_is_refused_and_not_done(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    pod = await cluster.pod("mine")
    outcome = await scheduler.ask_and_hear(
        scheduler.delete("pod", cluster.namespace, "mine", uid=pod.uid)
    )

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.NOT_ALLOWED
    assert await cluster.fetch("pod", "mine") is not None


async def test_a_status_patch_is_applied_and_becomes_visible_even_if_nothing_changed(
    controllers: BusPeer, cluster: ClusterBuilder
):
    job = await cluster.job("mpi")
    await controllers.until_seen("vcjob", cluster.namespace, "mpi")
    body = {"status": {"state": {"phase": "Pending"}, "minAvailable": 1}}
    for _ in range(2):
        outcome = await controllers.ask_and_hear(
            controllers.patch(
                "vcjob", cluster.namespace, "mpi", uid=job.uid, body=body, subresource="status"
            )
        )

        assert isinstance(outcome, Applied), outcome
        version = int(outcome.resource_version)
        await eventually(
            partial(shows, controllers, ("vcjob", cluster.namespace, "mpi"), version),
            describe="the view shows the write",
        )
    status = controllers.view.objects("vcjob")[cluster.namespace, "mpi"].object.status
    assert status.state.phase == "Pending"


@pytest.mark.parametrize("patch_type", [PatchType.MERGE, PatchType.JSON])
async def test_a_patch_never_touches_a_successor_of_the_same_name(
    controllers: BusPeer, cluster: ClusterBuilder, patch_type: PatchType
):
    first = await cluster.pod("twin")
    await cluster.delete("pod", "twin")
    second = await cluster.pod("twin")
    merge = {"metadata": {"labels": {"hit": "yes"}}}
    json = [{"op": "add", "path": "/metadata/labels/hit", "value": "yes"}]
    outcome = await controllers.ask_and_hear(
        controllers.patch(
            "pod",
            cluster.namespace,
            "twin",
            uid=first.uid,
            body=merge if patch_type is PatchType.MERGE else json,
            patch_type=patch_type,
        )
    )

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.STALE
    found = await cluster.fetch("pod", "twin")
    assert found is not None
    assert found["metadata"]["uid"] == second.uid
    assert "hit" not in found["metadata"]["labels"]


@pytest.mark.parametrize("shown", [False, True], ids=["never watched", "watched"])
async def test_a_status_patch_never_touches_a_successor_of_the_same_name(
    controllers: BusPeer, cluster: ClusterBuilder, shown: bool
):
    """The API server ignores a uid in a status patch of a custom resource."""
    first = await cluster.job("twin")
    if shown:
        await controllers.until_seen("vcjob", cluster.namespace, "twin")
    await cluster.delete("vcjob", "twin")
    await cluster.job("twin")
    outcome = await controllers.ask_and_hear(
        controllers.patch(
            "vcjob",
            cluster.namespace,
            "twin",
            uid=first.uid,
            body={"status": {"state": {"phase": "Completed"}}},
            subresource="status",
        )
    )

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.STALE
    found = await cluster.fetch("vcjob", "twin")
    assert found is not None
    assert "status" not in found


async def test_deleting_what_is_gone_or_replaced_counts_as_done(
    controllers: BusPeer, cluster: ClusterBuilder
):
    first = await cluster.pod("twin")
    await cluster.delete("pod", "twin")
    second = await cluster.pod("twin")
    outcome = await controllers.ask_and_hear(
        controllers.delete("pod", cluster.namespace, "twin", uid=first.uid)
    )

    assert isinstance(outcome, Applied)
    assert outcome.already
    assert (await cluster.names("pod"))["twin"] == second.uid


async def test_a_gang_is_bound_whole_and_reported_per_pod(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    node = await cluster.node()
    pods = [await cluster.pod(f"gang-{n}") for n in range(4)]
    outcome = await scheduler.ask_and_hear(
        scheduler.bind(cluster.namespace, "gang", [(p.name, p.uid, node) for p in pods])
    )

    assert isinstance(outcome, GangBound)
    assert [(p.name, p.bound) for p in outcome.pods] == [(p.name, True) for p in pods]
    await eventually(
        lambda: all(
            scheduler.view.objects("pod")[cluster.namespace, p.name].object.spec.node_name == node
            for p in pods
        ),
        describe="the view shows all pods on the node",
    )


async def test_no_pod_of_a_gang_is_bound_when_one_does_not_pass_the_check(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    node = await cluster.node()
    pods = [await cluster.pod(f"gang-{n}") for n in range(3)]
    binds = [(p.name, p.uid, node) for p in pods]
    binds[2] = (pods[2].name, "another-uid", node)
    outcome = await scheduler.ask_and_hear(scheduler.bind(cluster.namespace, "gang", binds))

    assert isinstance(outcome, GangBound)
    assert [p.bound for p in outcome.pods] == [False, False, False]
    assert outcome.pods[2].reason is Reason.STALE
    for pod in pods:
        found = await cluster.fetch("pod", pod.name)
        assert found is not None
        assert "nodeName" not in found["spec"]


async def test_a_gang_on_a_node_that_is_gone_is_not_bound(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    pod = await cluster.pod("lonely")
    outcome = await scheduler.ask_and_hear(
        scheduler.bind(cluster.namespace, "gang", [(pod.name, pod.uid, "no-such-node")])
    )

    assert isinstance(outcome, GangBound)
    assert outcome.pods[0].reason is Reason.NOT_FOUND
    assert "no-such-node" in outcome.pods[0].message


async def test_parts_of_a_gang_wait_for_each_other(scheduler: BusPeer, cluster: ClusterBuilder):
    node = await cluster.node()
    pods = [await cluster.pod(f"gang-{n}") for n in range(4)]
    binds = [(p.name, p.uid, node) for p in pods]
    first = scheduler.bind(cluster.namespace, "gang", binds[:2], part=0, parts=2)
    second = scheduler.bind(cluster.namespace, "gang", binds[2:], part=1, parts=2)
    await scheduler.ask(first)
    other = await scheduler.ask_and_hear(
        scheduler.bind(cluster.namespace, "elsewhere", [("none", "none", node)])
    )
    assert isinstance(other, GangBound)
    assert not scheduler.outcomes[:-1]  # the lone part has no answer: it waits
    await scheduler.ask(second)

    for part in (first, second):
        outcome = await scheduler.outcome_of(part)
        assert isinstance(outcome, GangBound)
        assert all(p.bound for p in outcome.pods)


async def test_a_gang_with_a_part_missing_is_refused_when_its_time_is_over(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    node = await cluster.node()
    pod = await cluster.pod("gang-0")
    outcome = await scheduler.ask_and_hear(
        scheduler.bind(
            cluster.namespace, "gang", [(pod.name, pod.uid, node)], part=0, parts=2, lives_s=2
        )
    )

    assert isinstance(outcome, GangBound)
    assert [pod.reason for pod in outcome.pods] == [Reason.EXPIRED]
    found = await cluster.fetch("pod", "gang-0")
    assert found is not None
    assert "nodeName" not in found["spec"]


async def test_too_many_binds_in_one_part_are_refused(scheduler: BusPeer, cluster: ClusterBuilder):
    binds = [(f"p{n}", f"u{n}", "n") for n in range(BINDS_PER_PART + 1)]
    outcome = await scheduler.ask_and_hear(scheduler.bind(cluster.namespace, "gang", binds))

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.BAD_REQUEST


async def test_intents_of_one_job_are_applied_in_order(
    controllers: BusPeer, cluster: ClusterBuilder
):
    pod = await cluster.pod("ordered")
    intents = [
        controllers.patch(
            "pod",
            cluster.namespace,
            "ordered",
            uid=pod.uid,
            body={"metadata": {"annotations": {"step": str(step)}}},
        )
        for step in range(20)
    ]
    for intent in intents:
        await controllers.ask(intent)
    await controllers.outcome_of(intents[-1])

    versions = [int(o.resource_version) for o in controllers.outcomes if isinstance(o, Applied)]
    assert [o.intent_id for o in controllers.outcomes] == [i.id for i in intents]
    assert versions == sorted(versions)
    found = await cluster.fetch("pod", "ordered")
    assert found is not None
    assert found["metadata"]["annotations"]["step"] == "19"


async def test_the_same_intent_sent_twice_is_applied_once(
    controllers: BusPeer, cluster: ClusterBuilder
):
    job = await cluster.job("mpi")
    manifest = owned_by(pod_manifest("once", namespace=cluster.namespace), job, kinds.VC_JOB)
    intent = controllers.create("pod", manifest, owner_uid=job.uid)
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(controllers.ask(intent))
    outcome = await controllers.outcome_of(intent)
    marker = await controllers.ask_and_hear(
        controllers.delete("pod", cluster.namespace, "no-such-pod", uid="x")
    )

    assert isinstance(outcome, Applied)
    assert [o.intent_id for o in controllers.outcomes] == [intent.id, marker.intent_id]


async def test_an_object_that_the_api_server_refuses_is_refused_with_its_words(
    controllers: BusPeer, cluster: ClusterBuilder
):
    job = await cluster.job("mpi")
    broken = pod_manifest("broken", namespace=cluster.namespace)
    broken["spec"]["containers"] = []
    outcome = await controllers.ask_and_hear(
        controllers.create("pod", owned_by(broken, job, kinds.VC_JOB), owner_uid=job.uid)
    )

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.INVALID
    assert "spec.containers" in outcome.message


async def test_an_eviction_ends_the_pod_that_was_meant(scheduler: BusPeer, cluster: ClusterBuilder):
    pod = await cluster.pod("victim")
    await scheduler.until_seen("pod", cluster.namespace, "victim")
    outcome = await scheduler.ask_and_hear(
        scheduler.evict(cluster.namespace, "victim", uid=pod.uid)
    )

    assert isinstance(outcome, Applied)
    await eventually(
        lambda: scheduler.view.get("pod", cluster.namespace, "victim") is None,
        describe="the pod is gone from the view",
    )


async def test_an_intent_that_claims_another_service_is_refused(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    pod = await cluster.pod("target")
    forged = msgspec.structs.replace(
        scheduler.delete("pod", cluster.namespace, "target", uid=pod.uid), service="controllers"
    )
    honest = scheduler.evict(cluster.namespace, "target", uid=pod.uid)
    async with BusPeer("controllers", scheduler.url) as listener:
        await scheduler.publisher.publish(honest.subject(), codec.encode(forged))
        outcome = await listener.outcome_of(forged)

    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.NOT_ALLOWED
    assert await cluster.fetch("pod", "target") is not None
