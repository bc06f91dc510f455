"""What can be set about a gateway."""

from typing import Annotated

import msgspec

from stromboli.runtime.bus.connection import BusSettings
from stromboli.runtime.health import HealthSettings
from stromboli.runtime.logs import LogSettings
from stromboli.runtime.units import Duration


class KubeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which API server, and as whom."""

    kubeconfig: Annotated[
        str, msgspec.Meta(description="kubeconfig file; empty means $KUBECONFIG or ~/.kube/config")
    ] = ""
    context: Annotated[
        str, msgspec.Meta(description="context of the kubeconfig; empty means its current one")
    ] = ""
    in_cluster: Annotated[
        bool, msgspec.Meta(description="use the pod's service account instead of a kubeconfig")
    ] = False
    max_in_flight: Annotated[
        int, msgspec.Meta(description="requests to the API server at once", ge=1)
    ] = 64
    relist_every: Annotated[
        Duration, msgspec.Meta(description="full comparison of every kind, as a safety net")
    ] = Duration(1800)


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `stromboli-gateway`."""

    bus: BusSettings = BusSettings()
    kube: KubeSettings = KubeSettings()
    health: HealthSettings = HealthSettings(port=8081)
    log: LogSettings = LogSettings()
    lease_life: Annotated[
        Duration,
        msgspec.Meta(description="how long a silent leader still counts; at least 1s"),
    ] = Duration(4)
    watermark_every: Annotated[
        Duration,
        msgspec.Meta(description="how often it is noted how far STATE is, for a take-over"),
    ] = Duration(5)
    stream_replicas: Annotated[
        int, msgspec.Meta(description="copies of every stream in a NATS cluster", ge=1, le=5)
    ] = 1
