"""`stromboli-controllers`: read the settings, and let the lifecycle core decide."""

import sys
import uuid

from stromboli.contracts.permissions import CONTROLLERS
from stromboli.controllers.config import ControllersSettings
from stromboli.controllers.probing import carry_out
from stromboli.lifecycle.controllers.registry import (
    Options,
    chosen,
    kinds_read_by,
    made,
    shard_of,
)
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.errors import LifecycleError
from stromboli.runtime.deciding_service import run_deciding_service
from stromboli.runtime.settings import load_or_exit

EXAMPLES = (
    "stromboli-controllers --bus-url nats://127.0.0.1:4222",
    "stromboli-controllers --bus-user controllers --bus-password-file /etc/nats/password",
    "stromboli-controllers --controllers '*,-gc-controller'",
)


def main() -> None:
    settings = load_or_exit(ControllersSettings, service=CONTROLLERS, examples=EXAMPLES)
    try:
        names = chosen(settings.controllers)
    except LifecycleError as problem:
        sys.exit(f"stromboli-controllers: --controllers: {problem}")
    options = Options.of(
        scheduler_names=settings.scheduler_name,
        inherit_owner_annotations=settings.inherit_owner_annotations,
    )

    def make_core() -> LifecycleCore:
        """A core for one turn as leader; no two turns may use the same intent ids."""
        return LifecycleCore(
            turn=uuid.uuid4().hex,
            controllers=made(names, options),
        )

    code = run_deciding_service(
        CONTROLLERS,
        settings,
        kinds=kinds_read_by(names),
        make_core=make_core,
        shard=shard_of(names),
        probe=carry_out,
    )
    sys.exit(code)


if __name__ == "__main__":
    main()
