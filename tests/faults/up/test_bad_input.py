"""Rubbish at every door: files, requests, and bytes on every subject of the bus.

What is wrong is said, or put aside in DEAD with the reason; no process ends, and a job that is
submitted afterwards completes.
"""

import io
import itertools
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
import yaml

from stromboli.api import kinds
from stromboli.contracts.permissions import BUS
from stromboli.contracts.streams import DEAD, STREAMS
from stromboli.kube import KubeClient
from stromboli.kube.errors import KubeError
from stromboli.runtime.bus.connection import connect
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import publishing
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.installations import Installation
from stromboli.testkit.waiting import eventually

pytestmark = [
    pytest.mark.nats,
    pytest.mark.faults,
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

JOBS = f"/apis/{kinds.VC_JOB.api_version}/namespaces/default/jobs"
GARBAGE = {
    "nothing": b"",
    "noise": random.Random(7).randbytes(300),
    "a letter": b"a",
    "a null": msgspec.msgpack.encode(None),
    "a list": msgspec.msgpack.encode([1, 2, 3]),
    "an unknown type": msgspec.msgpack.encode({"type": "what.is.this.v9"}),
    "wrong fields": msgspec.msgpack.encode({"type": "object.seen.v1", "kind": 7}),
    "very deep": b"\x91" * 5000,
    "very long": b"\xc6\x00\x0a\x00\x00" + b"x" * (640 * 1024),
}
SUBJECTS = (
    "vc.state.vcjob.default.rubbish",
    "vc.state.pod.default.rubbish",
    "vc.state.sync.-.pod",
    "vc.state.nosuchkind.default.rubbish",
    "vc.state.pod",
    "vc.intent.3.controllers.create.pod",
    "vc.intent.4.controllers.fence.-",
    "vc.intent.5.scheduler.bind.pod",
    "vc.intent.99.scheduler.bind.pod",
    "vc.outcome.controllers.create.pod",
    "vc.outcome.scheduler.bind.pod",
    "vc.history.default.rubbish",
    "vc.dead.INTENT",
    "$KV.LEASES.gateway.-",
    "$KV.LEASES.controllers.-",
    "$KV.LEASES.scheduler.-",
)
"""At least one of every stream, and those that somebody believes in."""


@dataclass
class House:
    """What the rubbish is thrown at."""

    up: Installation
    kube: KubeClient
    pids: dict[str, int]
    numbers: Iterator[int]

    async def stands(self) -> None:
        """No process ended, and a job runs through."""
        assert self.up.pids == self.pids, self.up.said
        name = f"after-{next(self.numbers)}"
        await self.kube.create(kinds.VC_JOB, "default", job(name), field_manager="test")

        async def completed() -> bool:
            found = msgspec.json.decode(await self.kube.get(kinds.VC_JOB, "default", name))
            return found.get("status", {}).get("state", {}).get("phase") == "Completed"

        await eventually(completed, deadline_s=60, interval_s=0.2, describe=f"{name} to complete")
        assert self.up.pids == self.pids, self.up.said

    def vcctl(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        flags = ["--kubeconfig", str(self.up.folder / "kubeconfig")]
        argv = [sys.executable, "-m", "stromboli.vcctl", *map(str, arguments), *flags]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    async def post(self, path: str, body: bytes, content_type: str) -> tuple[int, str]:
        """The API server's answer to any bytes: its status, and its words."""
        config = yaml.safe_load((self.up.folder / "kubeconfig").read_text())
        server = config["clusters"][0]["cluster"]["server"]
        token = config["users"][0]["user"]["token"]
        headers = {"Content-Type": content_type, "Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
            session.post(f"{server}{path}", data=io.BytesIO(body), headers=headers) as answer,
        ):
            said = await answer.text()
        return answer.status, msgspec.json.decode(said)["message"]


def job(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": ["exit", "0"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": kinds.VC_JOB.api_version,
        "kind": kinds.VC_JOB.kind,
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "minAvailable": 2,
            "tasks": [{"name": "task", "replicas": 2, "template": template}],
            **spec,
        },
    }


def padded(name: str, size: int) -> dict[str, Any]:
    manifest = job(name)
    manifest["metadata"]["annotations"] = {"padding": "x" * size}
    return manifest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("up") / "stromboli"
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(Installation(folder))
        kube = await stack.enter_async_context(KubeClient.connect(up.access()))
        # From here on its connections are known to be those of all tests, however many it opens.
        await kube.get(kinds.NAMESPACE, None, "default")
        yield House(up, kube, up.pids, itertools.count())


async def test_there_is_rubbish_for_every_stream():
    prefixes = {subject.removesuffix(">") for spec in STREAMS for subject in spec.subjects}

    assert all(any(one.startswith(prefix) for one in SUBJECTS) for prefix in prefixes)


async def test_files_that_are_no_job_are_refused_with_the_reason(house: House, tmp_path: Path):
    files = {
        "tabs.yaml": ("a:\n\t- b", "failed to unmarshal file"),
        "bytes.yaml": ("\udcff\udcfe", "failed to read file"),
        "empty.yaml": ("", "expected one Job"),
        "list.yaml": ("[1, 2]", "expected a Job"),
        "kind.yaml": ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "expected a batch"),
        "types.yaml": (yaml.safe_dump(job("x", minAvailable="three")), "minAvailable"),
        "tasks.yaml": (yaml.safe_dump(job("x", tasks={"a": 1})), "tasks"),
        "large.yaml": (yaml.safe_dump(padded("x", 5 * 1024 * 1024)), "large"),
    }
    for name, (text, expected) in files.items():
        path = tmp_path / name
        path.write_bytes(text.encode(errors="surrogateescape"))
        done = house.vcctl("job", "run", "-f", path)

        assert done.returncode != 0, name
        assert expected in done.stdout + done.stderr, f"{name}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr, name
    await house.stands()


@pytest.mark.parametrize(
    ("path", "body", "content_type", "status"),
    [
        (JOBS, b"\x00\xff\x00", "application/json", 400),
        (JOBS, b"{", "application/json", 400),
        (JOBS, b"[]", "application/json", 400),
        (JOBS, b"a:\n\t- b", "application/yaml", 400),
        (JOBS, msgspec.json.encode({**job("x"), "kind": "Toaster"}), "application/json", 422),
        (JOBS, msgspec.json.encode(job("x", minAvailable="many")), "application/json", 400),
        (JOBS, msgspec.json.encode(job("x", tasks=7)), "application/json", 400),
        (JOBS, msgspec.json.encode(job("Not_A_Name")), "application/json", 422),
        (JOBS, msgspec.json.encode(padded("x", 5 << 20)), "application/json", 413),
        (JOBS, msgspec.json.encode(job("x")), "application/x-toaster", 415),
        ("/apis/example.com/v1/toasters", b"{}", "application/json", 404),
    ],
    ids=[
        "bytes",
        "half of an object",
        "a list",
        "no YAML",
        "another kind",
        "a word for a number",
        "a number for a list",
        "no name",
        "5 MB",
        "no format",
        "no such kind",
    ],
)
async def test_requests_that_make_no_sense_are_refused_with_the_reason(
    house: House, path: str, body: bytes, content_type: str, status: int
):
    answered, said = await house.post(path, body, content_type)

    assert answered == status, said
    assert said


async def test_after_such_requests_everything_goes_on(house: House):
    await house.stands()


def wide(manifest: dict[str, Any]) -> dict[str, Any]:
    """The API server takes up to 3 MB, a message has at most one."""
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "WIDE", "value": "x" * (1100 * 1024)}]
    return manifest


async def test_a_job_that_does_not_fit_on_the_bus_is_refused_with_advice(house: House):
    with pytest.raises(KubeError, match="keep large data in ConfigMaps or volumes"):
        await house.kube.create(kinds.VC_JOB, "default", wide(job("wide")), field_manager="test")
    await house.stands()


async def test_what_does_not_fit_on_the_bus_is_put_aside_and_all_else_goes_on(house: House):
    template = wide(job("wide"))
    template |= {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"}
    await house.kube.create(kinds.JOB_TEMPLATE, "default", template, field_manager="test")
    await house.stands()

    lines = house.up.log("gateway").splitlines()
    told = [line for line in lines if "message.dead" in line and "jobtemplate.default.wide" in line]
    assert told, "nothing was said about the template that is too large"
    assert "over the bus limit" in told[0]


async def test_rubbish_on_every_subject_is_put_aside_and_everything_goes_on(house: House):
    sent = 0
    for subject in SUBJECTS:
        async with (
            connect(house.up.bus(speaker(subject)), speaker(subject)) as connection,
            publishing(connection, SystemClock()) as publisher,
        ):
            for payload in GARBAGE.values():
                await publisher.publish(subject, payload)
                sent += 1
    await house.stands()

    async with connect(house.up.bus("operator"), "operator") as connection:
        info = await JetStream(connection).stream_info(DEAD.name)
    assert sent == len(SUBJECTS) * len(GARBAGE)
    assert info.state.messages > len(GARBAGE), "less was put aside than was sent as intents"


def speaker(subject: str) -> str:
    """A user of the NATS server who may publish there."""
    for user, rights in BUS.items():
        if any(matches(pattern, subject) for pattern in rights.publish):
            return user
    raise AssertionError(f"nobody may publish on {subject}")


def matches(pattern: str, subject: str) -> bool:
    ours, theirs = pattern.split("."), subject.split(".")
    for place, token in enumerate(ours):
        if token == ">":
            return len(theirs) > place
        if place >= len(theirs) or token not in {"*", theirs[place]}:
            return False
    return len(ours) == len(theirs)
