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
    lease_life: Annotated[
        Duration,
        msgspec.Meta(description="how long a silent leader still counts; at least 1s"),
    ] = Duration(4)
    safety_every: Annotated[
        Duration, msgspec.Meta(description="look at every job and queue again, as a safety net")
    ] = Duration(30)
