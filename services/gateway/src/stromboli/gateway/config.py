"""What can be set about a gateway."""

from typing import Annotated, Literal

import msgspec

from stromboli.api.wellknown import SCHEDULER_CONFIG_MAP, SCHEDULER_NAME
from stromboli.gateway.webhooks import Place
from stromboli.kube.settings import AccessSettings
from stromboli.runtime.bus.connection import BusSettings
from stromboli.runtime.health import HealthSettings
from stromboli.runtime.logs import LogSettings
from stromboli.runtime.units import Duration, Size


class KubeSettings(AccessSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which API server, and as whom."""

    max_in_flight: Annotated[
        int, msgspec.Meta(description="requests to the API server at once", ge=1)
    ] = 64
    relist_every: Annotated[
        Duration, msgspec.Meta(description="full comparison of every kind, as a safety net")
    ] = Duration(1800)


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How API servers are led to admission, and the certificates that make them trust it."""

    mode: Annotated[
        Literal["off", "keep", "remove"],
        msgspec.Meta(description="keep the webhook configurations, remove them, or mind neither"),
    ] = "off"
    url: Annotated[
        str, msgspec.Meta(description="https://host:port of admission, where it has no service")
    ] = ""
    service: Annotated[str, msgspec.Meta(description="the service in front of admission")] = (
        "stromboli-admission"
    )
    port: Annotated[int, msgspec.Meta(description="the service's port", ge=1, le=65535)] = 443
    namespace: Annotated[
        str, msgspec.Meta(description="Stromboli's own; what is in it is never reviewed")
    ] = "stromboli-system"
    secret: Annotated[
        str, msgspec.Meta(description="Secret for the certificate; its authority's ends -authority")
    ] = "stromboli-admission"  # noqa: S105 (the name of a Secret)
    folder: Annotated[
        str, msgspec.Meta(description="folder for the certificates, instead of Secrets")
    ] = ""
    ca_file: Annotated[
        str, msgspec.Meta(description="PEM of the authorities to trust: no certificate is made")
    ] = ""
    authority_life: Annotated[
        Duration, msgspec.Meta(description="life of the authority; replaced when a third is left")
    ] = Duration(3 * 365 * 86400)
    certificate_life: Annotated[
        Duration, msgspec.Meta(description="life of a certificate; replaced when a third is left")
    ] = Duration(90 * 86400)
    settle: Annotated[
        Duration, msgspec.Meta(description="a new authority is trusted for so long before it signs")
    ] = Duration(60)
    overlap: Annotated[
        Duration, msgspec.Meta(description="a former authority stays trusted for so long after")
    ] = Duration(3600)
    look_every: Annotated[
        Duration, msgspec.Meta(description="how often the certificates' ages are looked at")
    ] = Duration(5)
    compare_every: Annotated[
        Duration, msgspec.Meta(description="how often the configurations are put right again")
    ] = Duration(60)
    timeout: Annotated[
        int, msgspec.Meta(description="seconds an API server waits for a review", ge=1, le=5)
    ] = 5
    scheduler_names: Annotated[
        str, msgspec.Meta(description="only pods for these schedulers are reviewed, by commas")
    ] = SCHEDULER_NAME
    every_pod: Annotated[
        bool,
        msgspec.Meta(description="review all pods: for resource groups that choose by namespace"),
    ] = False

    @property
    def place(self) -> Place:
        return Place(url=self.url, service=self.service, namespace=self.namespace, port=self.port)

    @property
    def schedulers(self) -> tuple[str, ...]:
        return tuple(name for part in self.scheduler_names.split(",") if (name := part.strip()))


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `stromboli-gateway`."""

    bus: BusSettings = BusSettings()
    kube: KubeSettings = KubeSettings()
    webhooks: WebhookSettings = WebhookSettings()
    health: HealthSettings = HealthSettings(port=8081)
    log: LogSettings = LogSettings()
    instance: Annotated[
        str,
        msgspec.Meta(
            description="a name that the supervisor gives to one process at a time, such as the "
            "pod's name: after a restart it leads at once; empty for a new name each time"
        ),
    ] = ""
    lease_life: Annotated[
        Duration,
        msgspec.Meta(description="how long a silent leader still counts; at least 1s"),
    ] = Duration(3)
    stream_replicas: Annotated[
        int, msgspec.Meta(description="copies of every stream in a NATS cluster", ge=1, le=5)
    ] = 1
    state_max_bytes: Annotated[
        Size,
        msgspec.Meta(
            description="size limit of STATE, 0 for none; a pod or a node takes about 2.3 KiB, so "
            "2 GiB are 900,000 of them",
        ),
    ] = Size(2 * 1024**3)
    journal: Annotated[
        bool,
        msgspec.Meta(
            description="record every fact in the stream JOURNAL, for a day: for `stromboli replay`"
        ),
    ] = False
    scheduler_configmap: Annotated[
        str,
        msgspec.Meta(
            description="namespace/name of the ConfigMap with the scheduler's configuration, "
            "the only one that is read; empty for none",
            pattern=r"^([a-z0-9][-a-z0-9.]*/[a-z0-9][-a-z0-9.]*)?$",
        ),
    ] = SCHEDULER_CONFIG_MAP

    @property
    def config_map(self) -> tuple[str, str] | None:
        namespace, _, name = self.scheduler_configmap.partition("/")
        return (namespace, name) if name else None
