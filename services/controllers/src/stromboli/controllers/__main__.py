"""`stromboli-controllers`: read the settings, and let the lifecycle core decide."""

import sys
import uuid

from stromboli.contracts.permissions import CONTROLLERS
from stromboli.controllers.config import ControllersSettings
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.world import READS
from stromboli.runtime.deciding_service import run_deciding_service
from stromboli.runtime.settings import load_or_exit

EXAMPLES = (
    "stromboli-controllers --bus-url nats://127.0.0.1:4222",
    "stromboli-controllers --bus-user controllers --bus-password-file /etc/nats/password",
)


def make_core() -> LifecycleCore:
    """A core for one turn as leader; no two turns may use the same intent ids."""
    return LifecycleCore(turn=uuid.uuid4().hex)


def main() -> None:
    settings = load_or_exit(ControllersSettings, service=CONTROLLERS, examples=EXAMPLES)
    sys.exit(run_deciding_service(CONTROLLERS, settings, kinds=READS, make_core=make_core))


if __name__ == "__main__":
    main()
