"""`stromboli-scheduler`: read the settings, and let the scheduling core decide."""

import sys

from stromboli.contracts.permissions import SCHEDULER
from stromboli.runtime.deciding_service import run_deciding_service
from stromboli.runtime.settings import load_or_exit
from stromboli.scheduler.config import SchedulerSettings
from stromboli.scheduling.core import KINDS, SchedulerCore

EXAMPLES = (
    "stromboli-scheduler --bus-url nats://127.0.0.1:4222",
    "stromboli-scheduler --bus-user scheduler --bus-password-file /etc/nats/password",
)


def main() -> None:
    settings = load_or_exit(SchedulerSettings, service=SCHEDULER, examples=EXAMPLES)
    conf = settings.scheduling()
    sys.exit(
        run_deciding_service(
            SCHEDULER, settings, kinds=KINDS, make_core=lambda: SchedulerCore(conf)
        )
    )


if __name__ == "__main__":
    main()
