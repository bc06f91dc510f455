"""Is a view the same as the API server? The one question behind every fault test.

Compared are names, uids and whole projections of every kind, not only of what the test made:
what a fault broke may be somebody else's object.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from stromboli.api import kinds
from stromboli.api.projections import project
from stromboli.kube import KubeClient
from stromboli.kube.wire import read_meta
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.waiting import NeverHappened, eventually

__all__ = ["EVERY_KIND", "differences", "until_equal"]

EVERY_KIND = (
    "namespace",
    "node",
    "priorityclass",
    "resourcequota",
    "poddisruptionbudget",
    "queue",
    "vcjob",
    "vcpodgroup",
    "vccronjob",
    "jobflow",
    "jobtemplate",
    "hypernode",
    "command",
    "replicaset",
    "statefulset",
    "daemonset",
    "k8sjob",
    "persistentvolumeclaim",
    "persistentvolume",
    "storageclass",
    "csinode",
    "pod",
)
"""The kinds that a gateway makes facts of."""


async def differences(peer: BusPeer, kube: KubeClient) -> list[str]:
    """What the view and the API server disagree about, in words; empty if nothing."""
    found = [f"{kind} is not synced" for kind in peer.view.unsynced]
    for token in peer.kinds:
        found += await _differences_of(token, peer, kube)
    return found


async def until_equal(
    *peers: BusPeer, kube: KubeClient, deadline_s: float = 15.0, allow: Sequence[str] = ()
) -> None:
    """Return when every peer's view is synced and equals the API server.

    `allow` are beginnings of differences that the test is about.
    """
    last: list[str] = []

    async def equal() -> bool:
        nonlocal last
        last = [
            difference
            for peer in peers
            for difference in await differences(peer, kube)
            if not difference.startswith(tuple(allow))
        ]
        return not last

    try:
        await eventually(equal, deadline_s=deadline_s, interval_s=0.05)
    except NeverHappened as error:
        listed = "\n  ".join(last[:20])
        raise AssertionError(f"the view differs from the API server:\n  {listed}") from error


async def _differences_of(token: str, peer: BusPeer, kube: KubeClient) -> list[str]:
    kind = kinds.by_token(token)
    there: dict[tuple[str, str], tuple[str, Any]] = {}
    async for page in kube.list_pages(kind):
        for raw in page.items:
            meta = read_meta(raw)
            # The window on the page is copied: what is compared may be shown later.
            copied = msgspec.Raw(bytes(raw))
            there[meta.namespace, meta.name] = (meta.uid, project(kind, copied))
    here = peer.view.objects(token)
    found = [f"{token} {_named(key)} is not in the view" for key in there.keys() - here.keys()]
    found += [f"{token} {_named(key)} is only in the view" for key in here.keys() - there.keys()]
    for key in there.keys() & here.keys():
        uid, projection = there[key]
        entry = here[key]
        if entry.uid != uid:
            found.append(f"{token} {_named(key)} is {uid}, in the view {entry.uid}")
        elif entry.object != projection:
            found.append(f"{token} {_named(key)} is not as in the view")
    return sorted(found)


def _named(key: tuple[str, str]) -> str:
    return "/".join(part for part in key if part)
