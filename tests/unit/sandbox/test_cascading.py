"""Deletion of owners: in the foreground, with orphans, also over a restart."""

from pathlib import Path
from typing import Any

from tests.unit.sandbox.conftest import CONFIG_MAPS, Client, Reply, config_map

from stromboli.sandbox import SandboxConfig, SandboxServer

HOLD = "example.com/hold"


def owned_by(*owners: Reply, blocks: bool = True) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": one.meta["name"],
            "uid": one.meta["uid"],
            "blockOwnerDeletion": blocks,
        }
        for one in owners
    ]


def gone(reply: Reply) -> bool:
    return reply.code == 404


def going(reply: Reply) -> bool:
    return "deletionTimestamp" in reply.meta


async def delete(client: Client, name: str, policy: str) -> Reply:
    return await client.delete(f"{CONFIG_MAPS}/{name}", {"propagationPolicy": policy})


async def release(client: Client, name: str) -> None:
    await client.merge(f"{CONFIG_MAPS}/{name}", {"metadata": {"finalizers": None}})


async def test_in_the_foreground_the_owner_goes_last(client: Client) -> None:
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    child = config_map("child", ownerReferences=owned_by(owner), finalizers=[HOLD])
    await client.made(CONFIG_MAPS, child)
    answer = await delete(client, "owner", "Foreground")

    assert answer.meta["finalizers"] == ["foregroundDeletion"]
    await client.until(f"{CONFIG_MAPS}/child", going)
    assert going(await client.get(f"{CONFIG_MAPS}/owner"))

    await release(client, "child")
    await client.until(f"{CONFIG_MAPS}/owner", gone)
    assert (await client.get(CONFIG_MAPS)).names == []


async def test_dependents_that_do_not_block_are_deleted_but_not_awaited(client: Client) -> None:
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    references = owned_by(owner, blocks=False)
    await client.made(
        CONFIG_MAPS, config_map("child", ownerReferences=references, finalizers=[HOLD])
    )
    await delete(client, "owner", "Foreground")

    await client.until(f"{CONFIG_MAPS}/owner", gone)
    await client.until(f"{CONFIG_MAPS}/child", going)


async def test_grandchildren_go_before_children(client: Client) -> None:
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    child = await client.made(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
    await client.made(
        CONFIG_MAPS, config_map("grandchild", ownerReferences=owned_by(child), finalizers=[HOLD])
    )
    await delete(client, "owner", "Foreground")
    await client.until(f"{CONFIG_MAPS}/grandchild", going)
    between = await client.get(f"{CONFIG_MAPS}/child")

    assert between.meta["finalizers"] == ["foregroundDeletion"]
    await release(client, "grandchild")
    await client.until(f"{CONFIG_MAPS}/owner", gone)
    assert (await client.get(CONFIG_MAPS)).names == []


async def test_a_dependent_with_another_owner_stays_with_that_one(client: Client) -> None:
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    keeper = await client.made(CONFIG_MAPS, config_map("keeper"))
    await client.made(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner, keeper)))
    await delete(client, "owner", "Foreground")

    await client.until(f"{CONFIG_MAPS}/owner", gone)
    child = await client.get(f"{CONFIG_MAPS}/child")
    assert [one["name"] for one in child.meta["ownerReferences"]] == ["keeper"]
    assert not going(child)


async def test_objects_that_own_each_other_do_not_wait_forever(client: Client) -> None:
    one = await client.made(CONFIG_MAPS, config_map("one"))
    other = await client.made(CONFIG_MAPS, config_map("other", ownerReferences=owned_by(one)))
    await client.merge(f"{CONFIG_MAPS}/one", {"metadata": {"ownerReferences": owned_by(other)}})
    await delete(client, "one", "Foreground")

    await client.until(f"{CONFIG_MAPS}/one", gone)
    await client.until(f"{CONFIG_MAPS}/other", gone)


async def test_orphans_forget_their_owner_before_it_goes(client: Client) -> None:
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    await client.made(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
    answer = await delete(client, "owner", "Orphan")

    assert answer.meta["finalizers"] == ["orphan"]
    await client.until(f"{CONFIG_MAPS}/owner", gone)
    child = await client.get(f"{CONFIG_MAPS}/child")
    assert "ownerReferences" not in child.meta
    assert not going(child)


async def test_a_second_thought_changes_what_the_owner_waits_for(client: Client) -> None:
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    child = config_map("child", ownerReferences=owned_by(owner), finalizers=[HOLD])
    await client.made(CONFIG_MAPS, child)
    await delete(client, "owner", "Foreground")
    await client.until(f"{CONFIG_MAPS}/child", going)
    await delete(client, "owner", "Background")

    await client.until(f"{CONFIG_MAPS}/owner", gone)
    assert going(await client.get(f"{CONFIG_MAPS}/child"))


async def test_old_kinds_leave_orphans_unless_told_otherwise(client: Client) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    made = await client.made(jobs, {"metadata": {"name": "old"}, "spec": {}})
    reference = {**owned_by(made)[0], "apiVersion": "batch/v1", "kind": "Job"}
    await client.made(CONFIG_MAPS, config_map("child", ownerReferences=[reference]))
    await client.delete(f"{jobs}/old")

    await client.until(f"{jobs}/old", gone)
    assert "ownerReferences" not in (await client.get(f"{CONFIG_MAPS}/child")).meta


async def test_a_foreground_deletion_goes_on_after_a_restart(
    tmp_path: Path, client: Client, server: SandboxServer
) -> None:
    """The finalizer is stored: whoever starts next sees who waits for whom."""
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    child = config_map("child", ownerReferences=owned_by(owner), finalizers=[HOLD])
    await client.made(CONFIG_MAPS, child)
    await delete(client, "owner", "Foreground")
    await client.until(f"{CONFIG_MAPS}/child", going)
    await server.__aexit__()

    async with SandboxServer(SandboxConfig(data_dir=tmp_path / "data", tls=False)) as again:
        later = Client(client.session, again.url, again.token)
        assert going(await later.get(f"{CONFIG_MAPS}/owner"))
        await release(later, "child")
        await later.until(f"{CONFIG_MAPS}/owner", gone)
