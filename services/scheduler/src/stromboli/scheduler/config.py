"""What can be set about the scheduler's process; how it schedules is Volcano's own file."""

from pathlib import Path
from typing import Annotated

import msgspec

from stromboli.api.wellknown import DEFAULT_QUEUE, SCHEDULER_CONFIG_MAP, SCHEDULER_NAME
from stromboli.runtime.bus.connection import BusSettings
from stromboli.runtime.health import HealthSettings
from stromboli.runtime.logs import LogSettings
from stromboli.runtime.units import Duration
from stromboli.scheduling.conf import SchedulingConf


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `stromboli-scheduler`."""

    bus: BusSettings = BusSettings()
    health: HealthSettings = HealthSettings(port=8083)
    log: LogSettings = LogSettings()
    instance: Annotated[
        str,
        msgspec.Meta(
            description="a name that the supervisor gives to one process at a time, such as the "
            "pod's name: after a restart it leads at once; empty for a name of its own"
        ),
    ] = ""
    lease_life: Annotated[
        Duration,
        msgspec.Meta(description="how long a silent leader still counts; at least 1s"),
    ] = Duration(4)
    safety_every: Annotated[
        Duration, msgspec.Meta(description="look at every waiting job again, as a safety net")
    ] = Duration(30)
    scheduler_names: Annotated[
        str, msgspec.Meta(description="place pods with one of these schedulerNames, by commas")
    ] = SCHEDULER_NAME
    default_queue: Annotated[str, msgspec.Meta(description="queue of PodGroups that name none")] = (
        DEFAULT_QUEUE
    )
    node_selector: Annotated[
        str,
        msgspec.Meta(
            description="use only nodes with one of these labels, as key:value, by commas; "
            "empty for all nodes",
            pattern=r"^([^:,]+:[^:,]*(,[^:,]+:[^:,]*)*)?$",
        ),
    ] = ""
    gang_bind_timeout: Annotated[
        Duration,
        msgspec.Meta(description="a gang bound only in part for longer is evicted whole"),
    ] = Duration(30)
    scheduler_conf: Annotated[
        str,
        msgspec.Meta(
            description="Volcano's configuration file: actions and tiers of plugins; "
            "read again when it changes"
        ),
    ] = ""
    scheduler_conf_configmap: Annotated[
        str,
        msgspec.Meta(
            description="the same from a ConfigMap, as namespace/name or namespace/name:key, "
            "where no file is named; the gateway must follow it (--scheduler-configmap); "
            "empty for none",
            pattern=r"^([a-z0-9][-a-z0-9.]*/[a-z0-9][-a-z0-9.]*(:[-._a-zA-Z0-9]+)?)?$",
        ),
    ] = SCHEDULER_CONFIG_MAP
    pod: Annotated[
        str,
        msgspec.Meta(
            description="namespace/name of the pod that this is, if it is one: events about a "
            "configuration file are about it, else about the namespace default",
            pattern=r"^([a-z0-9][-a-z0-9.]*/[a-z0-9][-a-z0-9.]*)?$",
        ),
    ] = ""
    reload_every: Annotated[
        Duration, msgspec.Meta(description="how often that file is compared with what is in use")
    ] = Duration(2)
    check_config: Annotated[
        str,
        msgspec.Meta(description="say what is wrong with this configuration file, and end"),
    ] = ""

    def scheduling(self) -> SchedulingConf:
        names = (name.strip() for name in self.scheduler_names.split(","))
        return SchedulingConf(
            scheduler_names=tuple(name for name in names if name),
            default_queue=self.default_queue,
            node_selector=tuple(_pair(one) for one in self.node_selector.split(",") if one),
            gang_bind_timeout_s=float(self.gang_bind_timeout),
        )

    @property
    def conf_path(self) -> Path | None:
        return Path(self.scheduler_conf) if self.scheduler_conf else None


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition(":")
    return key.strip(), value.strip()
