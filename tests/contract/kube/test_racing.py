"""Many writers at once: one wins where only one can, and nobody's change is lost."""

import asyncio

from stromboli.api.kinds import CONFIG_MAP, POD, VC_POD_GROUP
from stromboli.kube import KubeClient, PatchType
from stromboli.kube.errors import AlreadyExists, Conflict
from stromboli.testkit.manifests import config_map, decoded, pod, pod_group

ME = "contract"


async def test_patches_of_different_fields_are_all_applied(
    kube: KubeClient, namespace: str
) -> None:
    for kind, body in ((CONFIG_MAP, config_map("a")), (VC_POD_GROUP, pod_group("a"))):
        await kube.create(kind, namespace, body, field_manager=ME)
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                patch = {"metadata": {"annotations": {f"example.com/{number}": "x"}}}
                group.create_task(
                    kube.patch(
                        kind,
                        namespace,
                        "a",
                        patch,
                        patch_type=PatchType.MERGE,
                        field_manager=ME,
                    )
                )
        stored = decoded(await kube.get(kind, namespace, "a"))

        assert len(stored["metadata"]["annotations"]) == 20


async def test_one_of_many_creators_wins(kube: KubeClient, namespace: str) -> None:
    async def create(number: int) -> str | None:
        body = config_map("a", {"by": str(number)})
        try:
            return (await kube.create(CONFIG_MAP, namespace, body, field_manager=ME)).uid
        except AlreadyExists:
            return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(create(number)) for number in range(20)]
    winners = [uid for task in tasks if (uid := task.result())]

    assert len(winners) == 1
    stored = decoded(await kube.get(CONFIG_MAP, namespace, "a"))
    assert stored["metadata"]["uid"] == winners[0]


async def test_one_of_many_schedulers_binds_the_pod(kube: KubeClient, namespace: str) -> None:
    written = await kube.create(POD, namespace, pod("a"), field_manager=ME)

    async def bind(node: str) -> str | None:
        try:
            await kube.bind(namespace, "a", uid=written.uid, node=node)
        except Conflict:
            return None
        return node

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bind(f"n{number}")) for number in range(20)]
    winners = [node for task in tasks if (node := task.result())]

    assert len(winners) == 1
    assert decoded(await kube.get(POD, namespace, "a"))["spec"]["nodeName"] == winners[0]


async def test_no_two_writes_share_a_version(kube: KubeClient, namespace: str) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(kube.create(kind, namespace, body, field_manager=ME))
            for number in range(15)
            for kind, body in (
                (CONFIG_MAP, config_map(f"a-{number}")),
                (VC_POD_GROUP, pod_group(f"a-{number}")),
            )
        ]
    versions = [task.result().resource_version for task in tasks]

    assert len(set(versions)) == 30


async def test_one_patch_with_a_given_version_wins(kube: KubeClient, namespace: str) -> None:
    """How a leader is elected on a Lease."""
    written = await kube.create(CONFIG_MAP, namespace, config_map("a"), field_manager=ME)

    async def claim(name: str) -> bool:
        patch = {
            "metadata": {"resourceVersion": written.resource_version},
            "data": {"holder": name},
        }
        try:
            await kube.patch(
                CONFIG_MAP, namespace, "a", patch, patch_type=PatchType.MERGE, field_manager=ME
            )
        except Conflict:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(claim(f"n{number}")) for number in range(10)]

    assert [task.result() for task in tasks].count(True) == 1
