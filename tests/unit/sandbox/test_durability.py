import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from tests.unit.sandbox.conftest import (
    CONFIG_MAPS,
    DEFINITIONS,
    PODS,
    WIDGETS,
    Client,
    config_map,
    eventually,
    pod,
    widget,
    widget_definition,
)

from stromboli.sandbox import SandboxConfig, SandboxServer
from stromboli.sandbox.errors import JournalCorrupt
from stromboli.sandbox.journal import Journal, Put, Record, Removed, framed, read_records


@asynccontextmanager
async def running(config: SandboxConfig) -> AsyncGenerator[tuple[SandboxServer, Client]]:
    async with SandboxServer(config) as server, aiohttp.ClientSession() as session:
        client = Client(session, server.url, server.token)
        yield server, client
        client.close_watches()


async def state(client: Client) -> dict[str, object]:
    """Everything a client can see, to compare before and after."""
    paths = (CONFIG_MAPS, PODS, "/api/v1/namespaces", DEFINITIONS, WIDGETS)
    return {path: (await client.get(path)).body for path in paths}


async def fill(client: Client) -> None:
    await client.made(DEFINITIONS, widget_definition())
    await client.made(WIDGETS, widget("w"))
    await client.made(PODS, pod("p"))
    for number in range(20):
        await client.made(CONFIG_MAPS, config_map(f"c-{number}"))
    await client.delete(f"{CONFIG_MAPS}/c-3")
    await client.merge(f"{CONFIG_MAPS}/c-4", {"data": {"n": "2"}})


async def test_a_restart_keeps_objects_and_counts_on(config: SandboxConfig) -> None:
    async with running(config) as (_, client):
        await fill(client)
        before = await state(client)
    async with running(config) as (_, client):
        assert await state(client) == before
        made = await client.made(CONFIG_MAPS, config_map("new"))
        last = before[CONFIG_MAPS]["metadata"]["resourceVersion"]  # type: ignore[index]
        assert int(made.meta["resourceVersion"]) == int(last) + 1


async def test_a_watch_goes_on_over_a_restart(config: SandboxConfig) -> None:
    async with running(config) as (_, client):
        await client.made(CONFIG_MAPS, config_map("a"))
        then = await client.revision()
        await client.made(CONFIG_MAPS, config_map("b"))
    async with running(config) as (_, client):
        events = await client.watch(CONFIG_MAPS, f"resourceVersion={then}")
        await client.made(CONFIG_MAPS, config_map("c"))

        assert await events.seen(2) == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_snapshot_replaces_the_journal_and_says_the_same(config: SandboxConfig) -> None:
    async with running(config) as (server, client):
        await fill(client)
        await server.snapshot()
        await client.made(CONFIG_MAPS, config_map("after"))
        before = await state(client)
        files = sorted(path.name.split("-")[0] for path in config.data_dir.glob("*-*"))
        assert files == ["journal", "snapshot"]
    async with running(config) as (server, client):
        assert await state(client) == before
        await server.snapshot()
        await server.snapshot()
    async with running(config) as (_, client):
        assert await state(client) == before


async def test_history_from_before_a_snapshot_is_gone_after_a_restart(
    config: SandboxConfig,
) -> None:
    async with running(config) as (server, client):
        then = await client.revision()
        await client.made(CONFIG_MAPS, config_map("a"))
        await server.snapshot()
    async with running(config) as (_, client):
        (event,) = await (await client.watch(CONFIG_MAPS, f"resourceVersion={then}")).rest()
        assert event["object"]["code"] == 410


async def test_the_journal_is_bounded_by_snapshots(tmp_path: Path) -> None:
    config = SandboxConfig(data_dir=tmp_path, tls=False, snapshot_bytes=50_000)
    async with running(config) as (_, client):
        for number in range(300):
            body = {"data": {"blob": f"{number}" * 200}}
            await client.merge(f"{CONFIG_MAPS}/a", body)
            if number == 0:
                await client.made(CONFIG_MAPS, config_map("a"))
        await eventually(lambda: any(tmp_path.glob("snapshot-*")))
        before = await state(client)
    async with running(config) as (_, client):
        assert await state(client) == before


@pytest.mark.parametrize("policy", ["interval", "always"])
async def test_stricter_policies_keep_the_same_promises(tmp_path: Path, policy: str) -> None:
    config = msgspec.convert(
        {"data_dir": str(tmp_path), "tls": False, "fsync": policy, "fsync_interval_s": 0.01},
        SandboxConfig,
        dec_hook=lambda kind, value: kind(value),
    )
    async with running(config) as (_, client):
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(client.made(CONFIG_MAPS, config_map(f"c-{number}")))
        before = await state(client)
    async with running(config) as (_, client):
        assert await state(client) == before


class TestJournalFile:
    RECORDS: tuple[Record, ...] = (
        Put(1, "things", "ns", "a", b"{}"),
        Put(2, "things", "ns", "b", b"x" * 1000),
        Removed(3, "things", "ns", "a"),
    )

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "journal-00000000000000000000"
        path.write_bytes(b"".join(framed(record) for record in self.RECORDS))
        return path

    def test_records_come_back_as_written(self, file: Path) -> None:
        assert tuple(read_records(file, torn_tail_is_cut=False)) == self.RECORDS

    def test_a_torn_tail_is_cut_wherever_it_tears(
        self, file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        whole = file.read_bytes()
        kept = len(framed(self.RECORDS[0])) + len(framed(self.RECORDS[1]))
        for length in range(kept + 1, len(whole)):
            file.write_bytes(whole[:length])
            with caplog.at_level(logging.WARNING):
                caplog.clear()
                found = tuple(read_records(file, torn_tail_is_cut=True))

            assert found == self.RECORDS[:2]
            assert file.stat().st_size == kept
            assert caplog.messages == ["journal.torn_tail_cut"]

    def test_damage_in_the_middle_is_not_passed_over(self, file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[len(framed(self.RECORDS[0])) + 20] ^= 0xFF
        file.write_bytes(data)

        with pytest.raises(JournalCorrupt, match="damaged record"):
            list(read_records(file, torn_tail_is_cut=True))

    def test_a_torn_record_in_an_older_file_is_not_cut(self, tmp_path: Path, file: Path) -> None:
        file.write_bytes(file.read_bytes()[:-3])
        (tmp_path / "journal-00000000000000000003").write_bytes(b"")

        with pytest.raises(JournalCorrupt):
            list(Journal(tmp_path, fsync="never", snapshot_bytes=1000).replay())

    def test_a_snapshot_without_its_end_is_refused(self, tmp_path: Path) -> None:
        record = framed(self.RECORDS[0])
        (tmp_path / "snapshot-00000000000000000003").write_bytes(record)

        with pytest.raises(JournalCorrupt, match="no last record"):
            list(Journal(tmp_path, fsync="never", snapshot_bytes=1000).replay())

    def test_a_snapshot_that_was_never_finished_is_ignored(
        self, tmp_path: Path, file: Path
    ) -> None:
        (tmp_path / "snapshot-00000000000000000003.tmp").write_bytes(b"half")

        journal = Journal(tmp_path, fsync="never", snapshot_bytes=1000)

        assert tuple(journal.replay()) == self.RECORDS
        assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.faults
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    command = [
        *(sys.executable, "-m", "stromboli.sandbox", "api", "--insecure-http"),
        *("--data-dir", str(tmp_path / "data"), "--kubeconfig-out", str(kubeconfig)),
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(20):
        url = (await process.stdout.readline()).decode().split()[-1]
    token = (tmp_path / "data" / "pki" / "admin.token").read_text()
    acknowledged: set[str] = set()

    async def write(client: Client, worker: int) -> None:
        for number in range(10_000):
            name = f"c-{worker}-{number}"
            try:
                reply = await client.post(CONFIG_MAPS, config_map(name))
            except aiohttp.ClientError:
                return
            assert reply.code == 201
            acknowledged.add(name)
            if len(acknowledged) == 300:
                os.kill(process.pid, signal.SIGKILL)

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        client = Client(session, url, token)
        for worker in range(8):
            group.create_task(write(client, worker))
    await process.wait()

    config = SandboxConfig(data_dir=tmp_path / "data", tls=False)
    async with running(config) as (_, client):
        kept = set((await client.get(CONFIG_MAPS)).names)
        assert acknowledged <= kept
        # A write may have been stored whose answer was not read, one per connection at most.
        assert len(kept - acknowledged) <= 8
