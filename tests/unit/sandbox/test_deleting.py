import asyncio

from tests.unit.sandbox.conftest import CONFIG_MAPS, PODS, Client, binding, config_map, pod


async def bound_pod(client: Client, name: str = "a") -> None:
    await client.made(PODS, pod(name))
    await client.made(f"{PODS}/{name}/binding", binding(name))


async def test_most_objects_vanish_at_once_and_a_status_says_which(client: Client) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a"))

    reply = await client.delete(f"{CONFIG_MAPS}/a")

    assert reply.body["status"] == "Success"
    uid = made.meta["uid"]
    assert reply.body["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    assert (await client.get(f"{CONFIG_MAPS}/a")).code == 404


async def test_preconditions_protect_a_namesake(client: Client) -> None:
    made = await client.made(CONFIG_MAPS, config_map("a"))
    path = f"{CONFIG_MAPS}/a"

    other_uid = await client.delete(path, {"preconditions": {"uid": "other"}})
    old_version = await client.delete(path, {"preconditions": {"resourceVersion": "1"}})
    right = await client.delete(path, {"preconditions": {"uid": made.meta["uid"]}})

    assert (other_uid.code, other_uid.reason) == (409, "Conflict")
    assert "the UID in the precondition (other) does not match" in other_uid.message
    assert (old_version.code, right.code) == (409, 200)


async def test_an_unbound_pod_goes_at_once(client: Client) -> None:
    await client.made(PODS, pod("a"))

    reply = await client.delete(f"{PODS}/a")

    assert reply.body["kind"] == "Pod"
    assert reply.meta["deletionGracePeriodSeconds"] == 0
    assert (await client.get(f"{PODS}/a")).code == 404


async def test_a_bound_pod_waits_for_its_kubelet(client: Client) -> None:
    await bound_pod(client)

    reply = await client.delete(f"{PODS}/a")
    again = await client.delete(f"{PODS}/a")
    shorter = await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 5})
    longer = await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 60})

    assert reply.meta["deletionGracePeriodSeconds"] == 30
    assert reply.meta["generation"] == 2
    assert again.meta["resourceVersion"] == reply.meta["resourceVersion"]
    assert shorter.meta["deletionGracePeriodSeconds"] == 5
    assert longer.meta == shorter.meta

    await client.delete(f"{PODS}/a?gracePeriodSeconds=0")
    assert (await client.get(f"{PODS}/a")).code == 404


async def test_a_finished_pod_needs_no_grace(client: Client) -> None:
    await bound_pod(client)
    await client.merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})

    await client.delete(f"{PODS}/a")

    assert (await client.get(f"{PODS}/a")).code == 404


async def test_watchers_see_the_order_to_die_before_the_death(client: Client) -> None:
    made = await client.made(PODS, pod("a"))
    events = await client.watch(PODS, f"resourceVersion={made.meta['resourceVersion']}")

    await client.delete(f"{PODS}/a")

    first, second = await events.next(), await events.next()
    assert (first["type"], second["type"]) == ("MODIFIED", "DELETED")
    assert "deletionTimestamp" in first["object"]["metadata"]
    first_revision = int(first["object"]["metadata"]["resourceVersion"])
    assert int(second["object"]["metadata"]["resourceVersion"]) == first_revision + 1


async def test_finalizers_hold_an_object_until_they_are_gone(client: Client) -> None:
    path = f"{CONFIG_MAPS}/a"
    await client.made(CONFIG_MAPS, config_map("a", finalizers=["x/one", "x/two"]))

    reply = await client.delete(path)
    added = await client.merge(path, {"metadata": {"finalizers": ["x/one", "x/three"]}})
    fewer = await client.merge(path, {"metadata": {"finalizers": ["x/two"]}})
    assert "deletionTimestamp" in reply.meta
    assert (added.code, fewer.code) == (422, 200)
    assert (await client.get(path)).code == 200

    await client.merge(path, {"metadata": {"finalizers": None}})
    assert (await client.get(path)).code == 404


async def test_a_collection_is_deleted_by_selector(client: Client) -> None:
    for name, team in (("a", "red"), ("b", "red"), ("c", "blue")):
        await client.made(CONFIG_MAPS, config_map(name, labels={"team": team}))

    reply = await client.delete(f"{CONFIG_MAPS}?labelSelector=team%3Dred")

    assert reply.names == ["a", "b"]
    assert (await client.get(CONFIG_MAPS)).names == ["c"]


async def test_a_large_collection_lets_others_work_meanwhile(client: Client) -> None:
    for number in range(200):
        await client.made(CONFIG_MAPS, config_map(f"c-{number}"))

    async with asyncio.TaskGroup() as group:
        deleting = group.create_task(client.delete(CONFIG_MAPS))
        reading = group.create_task(client.get("/api/v1/namespaces/default"))

    assert (deleting.result().code, reading.result().code) == (200, 200)
    assert (await client.get(CONFIG_MAPS)).names == []


async def test_a_dry_run_deletes_nothing(client: Client) -> None:
    await bound_pod(client)

    by_query = await client.delete(f"{PODS}/a?dryRun=All")
    by_body = await client.delete(f"{PODS}/a", {"dryRun": ["All"]})

    assert by_query.meta["deletionGracePeriodSeconds"] == 30
    assert by_body.code == 200
    assert "deletionTimestamp" not in (await client.get(f"{PODS}/a")).meta


async def test_unknown_propagation_and_unreadable_options_are_refused(client: Client) -> None:
    await client.made(CONFIG_MAPS, config_map("a"))
    path = f"{CONFIG_MAPS}/a"

    assert (await client.delete(path, {"propagationPolicy": "Sideways"})).code == 422
    assert (await client.delete(path, b"x")).code == 400
    assert (await client.delete(path, {"gracePeriodSeconds": "soon"})).code == 400
    assert (await client.get(path)).code == 200


async def test_options_in_the_body_replace_those_in_the_query(client: Client) -> None:
    """A dry run asked for in the query only is not one, as in the real server."""
    await client.made(CONFIG_MAPS, config_map("a"))

    await client.delete(f"{CONFIG_MAPS}/a?dryRun=All", {"kind": "DeleteOptions"})

    assert (await client.get(f"{CONFIG_MAPS}/a")).code == 404
