"""The files and the environment of a pod that runs as a local process.

ConfigMaps and Secrets become files in the pod's folder. A process can't have its own root, so
absolute mount paths in its command and in its environment are rewritten to where the files
are; what a program has compiled in is out of reach.
"""

import asyncio
import base64
import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stromboli.api import kinds
from stromboli.api.core.containers import EnvVar
from stromboli.api.core.pod import Pod
from stromboli.kube import KubeClient
from stromboli.kube.errors import KubeError

_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "USER")


class _Data(msgspec.Struct):
    data: dict[str, str] | None = None


@dataclass(slots=True)
class PodFiles:
    """Lays out pods below one folder."""

    kube: KubeClient
    root: Path

    def folder_of(self, pod: Pod) -> Path:
        return self.root / f"{pod.metadata.namespace}_{pod.metadata.name}_{pod.metadata.uid}"

    async def lay_out(self, pod: Pod) -> Path:
        folder = self.folder_of(pod)
        (folder / "work").mkdir(parents=True, exist_ok=True)
        for mount in pod.spec.containers[0].volume_mounts:
            target = self._inside(folder, mount.mount_path)
            target.mkdir(parents=True, exist_ok=True)
            for name, content in (await self._volume(pod, mount.name)).items():
                (target / name).write_bytes(content)
        return folder

    def folders(self) -> list[Path]:
        """Those of all pods that were ever laid out and not removed."""
        return sorted(self.root.iterdir()) if self.root.exists() else []

    def remove(self, pod: Pod) -> None:
        shutil.rmtree(self.folder_of(pod), ignore_errors=True)

    def localised(self, words: Sequence[str], folder: Path) -> list[str]:
        """The words of a command with mount paths replaced by where the files are."""
        root = folder / "root"
        mounted = sorted((p for p in root.rglob("*") if p.is_dir()), key=lambda p: -len(str(p)))
        localised: list[str] = []
        for word in words:
            for path in mounted:
                inside = "/" + str(path.relative_to(root))
                if any(path.iterdir()) and inside in word and str(path) not in word:
                    word = word.replace(inside, str(path))  # noqa: PLW2901 (rewritten step by step)
            localised.append(word)
        return localised

    async def environment(self, pod: Pod, folder: Path) -> dict[str, str]:
        found = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        found["HOSTNAME"] = pod.spec.hostname or pod.metadata.name
        for variable in pod.spec.containers[0].env:
            value = await self._value(pod, variable)
            if value is not None:
                [found[variable.name]] = self.localised([value], folder)
        return found

    async def _value(self, pod: Pod, variable: EnvVar) -> str | None:
        source = variable.value_from
        if source is None:
            return variable.value
        if source.field_ref is not None:
            return _field(pod, source.field_ref.field_path)
        if source.config_map_key_ref is not None:
            reference = source.config_map_key_ref
            data = await self._config_map(pod.metadata.namespace, reference.name)
            content = data.get(reference.key)
            return None if content is None else content.decode(errors="replace")
        if source.secret_key_ref is not None:
            reference = source.secret_key_ref
            data = await self._secret(pod.metadata.namespace, reference.name)
            content = data.get(reference.key)
            return None if content is None else content.decode(errors="replace")
        return None

    async def _volume(self, pod: Pod, name: str) -> dict[str, bytes]:
        volume = next((v for v in pod.spec.volumes if v.name == name), None)
        if volume is None:
            return {}
        if volume.config_map is not None:
            return await self._config_map(pod.metadata.namespace, volume.config_map.name)
        if volume.secret is not None:
            return await self._secret(pod.metadata.namespace, volume.secret.secret_name)
        return {}

    async def _config_map(self, namespace: str, name: str) -> dict[str, bytes]:
        raw = await self._waited(kinds.CONFIG_MAP, namespace, name)
        return {key: value.encode() for key, value in (raw.data or {}).items()}

    async def _secret(self, namespace: str, name: str) -> dict[str, bytes]:
        raw = await self._waited(kinds.SECRET, namespace, name)
        return {key: base64.b64decode(value) for key, value in (raw.data or {}).items()}

    async def _waited(self, kind: Any, namespace: str, name: str) -> _Data:
        """As a kubelet does, wait for what is not there yet: the pod starts when it is.

        An API server that is away is waited for too.
        """
        while True:
            with contextlib.suppress(KubeError):
                raw = await self.kube.get_or_none(kind, namespace, name)
                if raw is not None:
                    return msgspec.json.decode(raw, type=_Data)
            await asyncio.sleep(0.5)

    def _inside(self, folder: Path, mount_path: str) -> Path:
        root = (folder / "root").resolve()
        target = (root / mount_path.lstrip("/")).resolve()
        if not target.is_relative_to(root):
            raise OSError(f"mount path {mount_path!r} leaves the pod's folder")
        return target


def _field(pod: Pod, path: str) -> str | None:
    fields = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "status.podIP": pod.status.pod_ip or "127.0.0.1",
        "status.hostIP": "127.0.0.1",
    }
    if path.startswith("metadata.annotations['"):
        return pod.metadata.annotations.get(path[len("metadata.annotations['") : -2])
    if path.startswith("metadata.labels['"):
        return pod.metadata.labels.get(path[len("metadata.labels['") : -2])
    return fields.get(path)
