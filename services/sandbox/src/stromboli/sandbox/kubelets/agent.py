"""One process that plays many kubelets: it registers their nodes and runs their pods."""

import asyncio
import contextlib
import random
from contextlib import aclosing
from dataclasses import dataclass, field

from stromboli.api import kinds
from stromboli.api.core.node import Node
from stromboli.api.core.pod import Pod
from stromboli.api.errors import ApiError
from stromboli.api.wire import decode_object
from stromboli.kube import (
    Changed,
    EventType,
    KubeClient,
    ListDone,
    ListPage,
    ListStarted,
    Reflector,
)
from stromboli.kube.errors import AlreadyExists, KubeError, NotFound
from stromboli.kube.wire import PatchType
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.kubelets.fleet import NodeGroup, node_manifest, node_status
from stromboli.sandbox.kubelets.pods import PodLife
from stromboli.sandbox.kubelets.questions import Questions
from stromboli.sandbox.kubelets.runtimes import Runtime

_MANAGER = "stromboli-kubelet"
_NOT_READY = "node.kubernetes.io/not-ready"
_clock = Clock()


@dataclass(slots=True)
class KubeletAgent:
    """The kubelets of a fleet."""

    kube: KubeClient
    fleet: list[NodeGroup]
    runtime: Runtime
    heartbeat_s: float = 10.0
    _lives: dict[str, PodLife] = field(default_factory=dict[str, PodLife])
    _seen_pods: dict[str, Pod] = field(default_factory=dict[str, Pod])
    _port: int = 0
    _lists: int = 0
    _nodes: dict[str, NodeGroup] = field(default_factory=dict[str, NodeGroup])

    async def run(self) -> None:
        """Ends only by cancellation; pods that run as processes are stopped then."""
        self._nodes = {name: group for group in self.fleet for name in group.names()}
        questions = Questions(self.runtime, self._find)
        async with questions.served():
            self._port = questions.port
            for name, group in self._nodes.items():
                await self._register(name, group)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat(), name="heartbeats")
                await self._follow(group)

    def _find(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name as it was last heard of, if it lives here."""
        found = [
            pod
            for pod in self._seen_pods.values()
            if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)
        ]
        return found[-1] if found else None

    @property
    def is_ready(self) -> bool:
        """All nodes are registered, and what happened before is known."""
        return self._lists > 0

    @property
    def nodes(self) -> list[str]:
        return sorted(self._nodes)

    async def _register(self, name: str, group: NodeGroup) -> None:
        while True:
            try:
                with contextlib.suppress(AlreadyExists):
                    await self.kube.create(
                        kinds.NODE, None, node_manifest(name, group), field_manager=_MANAGER
                    )
                await self._report_node(name, group)
                await self._take_off_not_ready(name)
            except KubeError:
                await asyncio.sleep(0.5)
            else:
                return

    async def _take_off_not_ready(self, name: str) -> None:
        """A new node starts with the taint "not ready"; others on it are somebody's wish."""
        node: Node = decode_object(kinds.NODE, await self.kube.get(kinds.NODE, None, name))
        kept = [taint for taint in node.spec.taints if taint.key != _NOT_READY]
        if len(kept) == len(node.spec.taints):
            return
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": kept or None},
        }
        await self.kube.patch(
            kinds.NODE, None, name, body, patch_type=PatchType.MERGE, field_manager=_MANAGER
        )

    async def _report_node(self, name: str, group: NodeGroup) -> None:
        await self.kube.patch(
            kinds.NODE,
            None,
            name,
            node_status(group, now=_clock.timestamp(), port=self._port),
            patch_type=PatchType.MERGE,
            subresource="status",
            field_manager=_MANAGER,
        )

    async def _beat(self) -> None:
        """A lease per node, as kubelets do: cheap, and no fact changes by it."""
        while True:
            for name, group in self._nodes.items():
                try:
                    await self._renew(name)
                except NotFound:
                    await self._register(name, group)
                except KubeError:
                    break
            await asyncio.sleep(self.heartbeat_s)

    async def _renew(self, name: str) -> None:
        body = {"spec": {"holderIdentity": name, "renewTime": _clock.precise_timestamp()}}
        try:
            await self.kube.patch(
                kinds.LEASE,
                "kube-node-lease",
                name,
                body,
                patch_type=PatchType.MERGE,
                field_manager=_MANAGER,
            )
        except NotFound:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": "kube-node-lease"},
                **body,
            }
            await self.kube.create(kinds.LEASE, "kube-node-lease", lease, field_manager=_MANAGER)

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        rng = random.Random(0)  # noqa: S311 (spreads retries, guards nothing)
        reflector = Reflector(self.kube, kinds.POD, rng=rng)
        listed: set[str] = set()
        async with aclosing(reflector.changes()) as changes:
            async for change in changes:
                match change:
                    case ListStarted():
                        listed = set()
                    case ListPage(items):
                        listed |= {self._seen(raw, group) for raw in items}
                    case ListDone():
                        for uid in [uid for uid in self._lives if uid not in listed]:
                            self._gone(uid)
                        if not self._lists:
                            await self.runtime.discard_all_but(listed)
                        self._lists += 1
                    case Changed(event) if event.type is EventType.DELETED:
                        self._gone(event.uid)
                    case Changed(event):
                        self._seen(event.object, group)
                    case _:
                        pass

    def _seen(self, raw: bytes, group: asyncio.TaskGroup) -> str:
        try:
            pod: Pod = decode_object(kinds.POD, raw)
        except ApiError:
            return ""
        uid = pod.metadata.uid
        if pod.spec.node_name not in self._nodes:
            return uid
        self._seen_pods[uid] = pod
        life = self._lives.get(uid)
        if life is None:
            self._lives[uid] = life = PodLife(self.kube, self.runtime, pod)
            group.create_task(self._run(uid, life), name=f"pod {pod.metadata.name}")
        if pod.metadata.deletion_timestamp is not None:
            life.stopping.set()
        return uid

    def _gone(self, uid: str) -> None:
        life = self._lives.get(uid)
        if life is not None:
            life.stopping.set()

    async def _run(self, uid: str, life: PodLife) -> None:
        try:
            await life.run()
        finally:
            self._lives.pop(uid, None)
            self._seen_pods.pop(uid, None)
