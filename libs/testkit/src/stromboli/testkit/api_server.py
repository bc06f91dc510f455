"""What a test may ask of an API server, whichever of the two it is.

`KubeApiServer` is the real one, `SandboxServer` is ours; a test that takes an `ApiServer` runs
on both, and what it asserts is therefore what Kubernetes does. Where the real one needs a
controller-manager (collecting what an owner left behind, finishing a namespace's deletion),
nobody does it here.
"""

from pathlib import Path
from typing import Literal, Protocol

from stromboli.kube import KubeAccess, Limits

__all__ = ["ApiServer", "ServerKind", "write_kubeconfig"]

ServerKind = Literal["sandbox", "kube-apiserver"]


class ApiServer(Protocol):
    """A server process with an address and credentials that survive a restart."""

    @property
    def kind(self) -> ServerKind: ...

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator."""
        ...

    @property
    def url(self) -> str: ...

    @property
    def running(self) -> bool: ...

    def access(self, *, limits: Limits | None = None) -> KubeAccess:
        """The administrator's access, for `KubeClient.connect`."""
        ...

    async def start(self) -> None:
        """Start it (again), with the data it had, on the port it had; return when ready."""
        ...

    async def stop(self) -> None:
        """The clean way: running watches end, everything is written down."""
        ...

    def kill(self) -> None:
        """The hard way, kill -9."""
        ...

    def destroy(self) -> None:
        """Kill it with everything that belongs to it; for the end of a test."""
        ...

    async def restart(self, *, hard: bool = False) -> None: ...

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        ...

    def resume(self) -> None: ...

    async def forget_history(self) -> None:
        """From now on watching or paging at any earlier resourceVersion is 410 Gone."""
        ...


def write_kubeconfig(
    path: Path,
    *,
    url: str,
    authority: Path,
    token: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> None:
    """A kubeconfig with one cluster, one user and one context."""
    user = ""
    if token is not None:
        user += f"    token: {token}\n"
    if certificate is not None:
        user += f"    client-certificate: {certificate}\n    client-key: {key}\n"
    path.write_text(
        f"""\
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: {url}
    certificate-authority: {authority}
users:
- name: test
  user:
{user or "    {}"}
contexts:
- name: test
  context: {{cluster: test, user: test}}
current-context: test
"""
    )
    path.chmod(0o600)
