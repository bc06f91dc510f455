"""Typed settings of a service, from a file, the environment and flags.

A service declares one frozen msgspec Struct; each field carries its help text:

    class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
        '''Between the API server and the bus.'''

        lease_life: Annotated[Duration, Meta(description="How long a lease lasts.")] = Duration(4)
        nats: NatsSettings = NatsSettings()

    settings = load_or_exit(GatewaySettings, service="gateway")

`lease_life` may then be given as `lease_life: 4s` in a file, as
STROMBOLI_GATEWAY_LEASE_LIFE=4s, or as `--lease-life 4s`; `url` of the group `nats` as
STROMBOLI_GATEWAY_NATS__URL or `--nats-url`. A field of type `Secret` is also accepted as
`…_file`, the path of a file that holds it.
"""

from stromboli.runtime.redaction import Secret
from stromboli.runtime.settings.loading import BAD_SETTINGS, load, load_or_exit
from stromboli.runtime.units import Duration, Size

__all__ = ["BAD_SETTINGS", "Duration", "Secret", "Size", "load", "load_or_exit"]
