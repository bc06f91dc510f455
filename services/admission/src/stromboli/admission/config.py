"""What can be set about admission's process; how objects are judged is `AdmissionConf`."""

from pathlib import Path
from typing import Annotated

import msgspec

from stromboli.admitting.conf import AdmissionConf
from stromboli.api.wellknown import SCHEDULER_NAME
from stromboli.kube import KubeAccess, Limits
from stromboli.kube.settings import AccessSettings
from stromboli.runtime.bus.connection import BusSettings
from stromboli.runtime.health import HealthSettings
from stromboli.runtime.logs import LogSettings
from stromboli.runtime.units import Duration, Size

__all__ = ["AdmissionSettings", "HttpsSettings", "KubeSettings"]


class HttpsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the API server reaches us, and how much we agree to read from it."""

    host: Annotated[str, msgspec.Meta(description="address to listen on; 0.0.0.0 in a pod")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int, msgspec.Meta(ge=0, le=65535, description="port to listen on; 0 takes a free one")
    ] = 8443
    certificate: Annotated[
        Path, msgspec.Meta(description="the server's certificate (PEM); read again when it changes")
    ] = Path("/etc/stromboli/tls/tls.crt")
    key: Annotated[
        Path, msgspec.Meta(description="its private key (PEM); read again when it changes")
    ] = Path("/etc/stromboli/tls/tls.key")
    look_every: Annotated[
        Duration, msgspec.Meta(description="how often the two files are looked at")
    ] = Duration(1)
    max_body: Annotated[Size, msgspec.Meta(description="largest review that is read")] = Size(
        3 * 1024 * 1024
    )
    max_bodies: Annotated[
        Size, msgspec.Meta(description="memory for reviews that are being received, all together")
    ] = Size(128 * 1024 * 1024)
    max_connections: Annotated[
        int, msgspec.Meta(ge=1, description="connections at once; one more is closed at once")
    ] = 1024
    max_reviews: Annotated[
        int, msgspec.Meta(ge=1, description="reviews at once; more wait for their turn")
    ] = 64
    patience: Annotated[
        Duration,
        msgspec.Meta(
            description="for a handshake, a request's header, its body, and its turn to be reviewed"
        ),
    ] = Duration(4)
    grace: Annotated[
        Duration,
        msgspec.Meta(
            description="how long it goes on serving when told to end, until API servers ask others"
        ),
    ] = Duration(5)
    idle: Annotated[
        Duration, msgspec.Meta(description="a connection without a request for longer is closed")
    ] = Duration(120)


class KubeSettings(AccessSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a queue that STATE does not show yet is looked up."""

    lookup_timeout: Annotated[
        Duration, msgspec.Meta(description="how long such a lookup may take")
    ] = Duration(1)
    remember_missing: Annotated[
        Duration, msgspec.Meta(description="a queue that was not there is not looked up again for")
    ] = Duration.parse("500ms")

    @property
    def access(self) -> KubeAccess:
        return KubeAccess(
            kubeconfig=self.kubeconfig or None,
            context=self.context or None,
            in_cluster=self.in_cluster,
            user_agent="stromboli-admission",
            limits=Limits(max_in_flight=16, max_connections=16),
        )


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `stromboli-admission`."""

    bus: BusSettings = BusSettings()
    kube: KubeSettings = KubeSettings()
    https: HttpsSettings = HttpsSettings()
    health: HealthSettings = HealthSettings(port=8084)
    log: LogSettings = LogSettings()
    admission_conf: Annotated[
        str,
        msgspec.Meta(
            description="YAML file with resourceGroups, as Volcano's; read again when it changes"
        ),
    ] = ""
    scheduler_names: Annotated[
        str,
        msgspec.Meta(description="schedulerNames that are ours, by commas; the first is a default"),
    ] = SCHEDULER_NAME
    max_queue_depth: Annotated[
        int, msgspec.Meta(ge=1, description="how deep queues may be nested")
    ] = 5
    enable_root_queue_protection: Annotated[
        bool, msgspec.Meta(description="the root queue's resources can't be changed")
    ] = True
    enable_queue_allocated_pods_check: Annotated[
        bool, msgspec.Meta(description="a queue whose pods hold resources can't be deleted")
    ] = False
    scheduling_gates: Annotated[
        bool,
        msgspec.Meta(description="pods that ask for it are gated until their queue has room"),
    ] = False
    trusted_users: Annotated[
        str,
        msgspec.Meta(
            description="users, by commas, whom no queue's access list stops: the gateway"
        ),
    ] = ""

    def judging(self) -> AdmissionConf:
        """What the rules are given; the resource groups come from their file."""
        return AdmissionConf(
            scheduler_names=_listed(self.scheduler_names),
            scheduling_gates=self.scheduling_gates,
            max_queue_depth=self.max_queue_depth,
            root_queue_protection=self.enable_root_queue_protection,
            queue_allocated_pods_check=self.enable_queue_allocated_pods_check,
            trusted_users=_listed(self.trusted_users),
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))
