import pytest
from tests.unit.sandbox.conftest import CONFIG_MAPS, PODS, Client, binding, config_map, pod


async def some(client: Client, *names: str) -> None:
    for name in names:
        await client.made(CONFIG_MAPS, config_map(name, labels={"first": name[0]}))


async def test_a_list_is_sorted_and_says_which_revision_it_is(client: Client) -> None:
    await some(client, "b", "a", "c")

    reply = await client.get(CONFIG_MAPS)

    assert reply.names == ["a", "b", "c"]
    assert (reply.body["kind"], reply.body["apiVersion"]) == ("ConfigMapList", "v1")
    newest = max(int(item["metadata"]["resourceVersion"]) for item in reply.body["items"])
    assert int(reply.meta["resourceVersion"]) == newest


async def test_all_namespaces_can_be_listed_at_once(client: Client) -> None:
    await some(client, "a")
    await client.made("/api/v1/namespaces/kube-system/configmaps", config_map("z"))

    assert (await client.get("/api/v1/configmaps")).names == ["a", "z"]


async def test_pages_show_the_world_as_of_the_first_page(client: Client) -> None:
    await some(client, "a", "b", "c", "d")
    first = await client.get(f"{CONFIG_MAPS}?limit=2")
    await client.delete(f"{CONFIG_MAPS}/c")
    await client.made(CONFIG_MAPS, config_map("e"))
    await client.merge(f"{CONFIG_MAPS}/d", {"data": {"key": "newer"}})

    token = first.meta["continue"]
    second = await client.get(f"{CONFIG_MAPS}?limit=2&continue={token}")

    assert first.meta["remainingItemCount"] == 2
    assert (first.names, second.names) == (["a", "b"], ["c", "d"])
    assert second.body["items"][1]["data"] == {"key": "value"}
    assert second.meta["resourceVersion"] == first.meta["resourceVersion"]
    assert "continue" not in second.meta


async def test_a_page_after_compaction_is_gone_but_can_go_on(client: Client) -> None:
    await some(client, "a", "b", "c")
    token = (await client.get(f"{CONFIG_MAPS}?limit=1")).meta["continue"]
    await some(client, "bb")
    await client.call("POST", "/sandbox/compact", {})

    gone = await client.get(f"{CONFIG_MAPS}?limit=5&continue={token}")
    on = await client.get(f"{CONFIG_MAPS}?limit=5&continue={gone.meta['continue']}")

    assert (gone.code, gone.reason) == (410, "Expired")
    assert on.names == ["b", "bb", "c"]


async def test_an_exact_revision_is_listed_as_long_as_it_is_remembered(client: Client) -> None:
    await some(client, "a")
    then = await client.revision()
    await some(client, "b")
    query = f"?resourceVersion={then}&resourceVersionMatch=Exact"

    exact = await client.get(CONFIG_MAPS + query)
    newer = await client.get(f"{CONFIG_MAPS}?resourceVersion={then}")
    await client.call("POST", "/sandbox/compact", {})
    gone = await client.get(CONFIG_MAPS + query)

    assert (exact.names, exact.meta["resourceVersion"]) == (["a"], then)
    assert newer.names == ["a", "b"]
    assert (gone.code, gone.reason) == (410, "Expired")


async def test_a_revision_from_the_future_times_out(client: Client) -> None:
    reply = await client.get(f"{CONFIG_MAPS}?resourceVersion=999999")

    assert (reply.code, reply.reason) == (504, "Timeout")
    assert "Too large resource version: 999999" in reply.message


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("first%3Da", ["a", "aa"]),
        ("first!%3Da", ["b", "plain"]),
        ("first", ["a", "aa", "b"]),
        ("!first", ["plain"]),
        ("first+in+(a,c)", ["a", "aa"]),
        ("first+notin+(a)", ["b", "plain"]),
        ("first%3Da,first!%3Da", []),
    ],
)
async def test_labels_select(client: Client, selector: str, names: list[str]) -> None:
    await some(client, "a", "aa", "b")
    await client.made(CONFIG_MAPS, config_map("plain"))

    assert (await client.get(f"{CONFIG_MAPS}?labelSelector={selector}")).names == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("metadata.namespace=default", ["a", "b"]),
        ("metadata.namespace=other", []),
        ("spec.nodeName=n1", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("status.phase=Pending,spec.nodeName!=n1", ["a"]),
        ("spec.schedulerName=volcano", ["a"]),
        ("spec.restartPolicy=Always", ["a", "b"]),
    ],
)
async def test_fields_select(client: Client, selector: str, names: list[str]) -> None:
    await client.made(PODS, pod("a", schedulerName="volcano"))
    await client.made(PODS, pod("b"))
    await client.made(f"{PODS}/b/binding", binding("b"))

    assert (await client.get(f"{PODS}?fieldSelector={selector}")).names == names


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("fieldSelector=spec.colour=red", 400),
        ("fieldSelector=nonsense", 400),
        ("labelSelector=a+b+c", 400),
        ("labelSelector=a+in+(", 400),
        ("limit=many", 400),
        ("resourceVersion=abc", 400),
        ("resourceVersion=-1", 400),
        ("continue=garbage", 400),
        ("continue=garbage&resourceVersion=5", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=5&resourceVersionMatch=Roughly", 422),
        ("&".join(["a=b"] * 200), 400),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(
    client: Client, query: str, code: int
) -> None:
    reply = await client.get(f"{PODS}?{query}")

    assert (reply.code, reply.body["kind"]) == (code, "Status")


async def test_selected_pages_do_not_guess_how_many_remain(client: Client) -> None:
    await some(client, "a", "aa", "b")

    reply = await client.get(f"{CONFIG_MAPS}?limit=1&labelSelector=first%3Da")

    assert reply.names == ["a"]
    assert "remainingItemCount" not in reply.meta
