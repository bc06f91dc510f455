"""`ssh`: the job's pods can log in to each other without a password.

The key pair is made by the gateway, from the recipe named here: no key ever travels on the
bus. A pair that the job gives itself as arguments is read there, too; all that this module
sees of it is that it was redacted.
"""

from collections.abc import Sequence
from typing import Final

from stromboli.api.batch import Job
from stromboli.lifecycle.arguments import read_arguments
from stromboli.lifecycle.plugins.drafts import (
    NeededObject,
    NeededSecret,
    PodDraft,
    hosts_of,
    port_of,
)
from stromboli.lifecycle.pod_parts import volume_name

__all__ = ["RECIPE", "SshPlugin"]

RECIPE: Final = "ssh-key-pair"

_HOME: Final = "/root/.ssh"
_DEFAULTS: Final = {
    "ssh-key-file-path": _HOME,
    "ssh-private-key": "",
    "ssh-public-key": "",
    "ssh-port": "22",
}
_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_PREAMBLE: Final = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"


class SshPlugin:
    name = "ssh"

    def __init__(self, arguments: Sequence[str]) -> None:
        values = read_arguments(arguments, _DEFAULTS)
        self._path = values["ssh-key-file-path"]
        self._port = port_of(values["ssh-port"], _DEFAULTS["ssh-port"])

    def dress(self, job: Job, pod: PodDraft) -> None:
        secret = _secret_name(job)
        pod.add_volume(
            {
                "name": volume_name(secret),
                "secret": {
                    "secretName": secret,
                    "items": [{"key": file, "path": f".ssh/{file}"} for file in _FILES],
                    # Elsewhere than in root's home, other users must be able to read them.
                    "defaultMode": 0o600 if self._path == _HOME else 0o644,
                },
            }
        )
        for container in pod.all_containers:
            pod.mount(
                container, {"name": volume_name(secret), "mountPath": self._path, "subPath": ".ssh"}
            )

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:
        config = _PREAMBLE + "".join(
            f"Host {host}\n  HostName {host}.{subdomain}\n  Port {self._port}\n"
            for task in job.spec.tasks
            for host, subdomain in hosts_of(job, task)
        )
        return [NeededSecret(name=_secret_name(job), recipe=RECIPE, parameters={"config": config})]


def _secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
