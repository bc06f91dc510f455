"""What can be set about the controllers."""

from typing import Annotated

import msgspec

from stromboli.runtime.bus.connection import BusSettings
from stromboli.runtime.health import HealthSettings
from stromboli.runtime.logs import LogSettings
from stromboli.runtime.units import Duration


class ControllersSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `stromboli-controllers`."""

    bus: BusSettings = BusSettings()
    health: HealthSettings = HealthSettings(port=8082)
    log: LogSettings = LogSettings()
    controllers: Annotated[
        str,
        msgspec.Meta(
            description="which to run: names separated by commas, * for all, -name for all but"
            " that one; processes that run at the same time have the same set, or sets that"
            " have no controller in common"
        ),
    ] = "*"
    scheduler_name: Annotated[
        str,
        msgspec.Meta(
            description="pods of these schedulers, separated by commas, get a PodGroup if they"
            " have none"
        ),
    ] = "volcano"
    inherit_owner_annotations: Annotated[
        bool,
        msgspec.Meta(description="a PodGroup of pods takes annotations of what owns the pods"),
    ] = True
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
        Duration,
        msgspec.Meta(description="look at everything again in this time, as a safety net"),
    ] = Duration(120)
