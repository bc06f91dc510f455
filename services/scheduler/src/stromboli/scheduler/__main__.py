"""`stromboli-scheduler`: read the settings, and let the scheduling core decide."""

import asyncio
import sys
from pathlib import Path

from stromboli.api.kinds import CONFIG_MAP
from stromboli.contracts.permissions import SCHEDULER
from stromboli.runtime.deciding import DecidingShell
from stromboli.runtime.deciding_service import run_deciding_service
from stromboli.runtime.settings import BAD_SETTINGS, load_or_exit
from stromboli.scheduler.config import SchedulerSettings
from stromboli.scheduler.configuration import Configuration
from stromboli.scheduler.extending import HttpRemote
from stromboli.scheduler.measuring import Measuring
from stromboli.scheduler.reloading import ConfFile, ConfMap, ReloadingCore
from stromboli.scheduling.conf_doubts import doubts_about
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import KINDS
from stromboli.scheduling.errors import BadConfiguration, BadFile
from stromboli.scheduling.fact_reading import FactReader

EXAMPLES = (
    "stromboli-scheduler --bus-url nats://127.0.0.1:4222",
    "stromboli-scheduler --bus-user scheduler --bus-password-file /etc/nats/password",
    "stromboli-scheduler --check-config volcano-scheduler.conf",
)


def main() -> None:
    settings = load_or_exit(SchedulerSettings, service=SCHEDULER, examples=EXAMPLES)
    if settings.check_config:
        sys.exit(check(Path(settings.check_config)))
    file, conf_map = sources(settings)
    if file is not None:
        configuration = file.configuration
        try:
            file.read_or_raise()
        except (OSError, UnicodeDecodeError, BadConfiguration) as problem:
            sys.stderr.write(f"{settings.scheduler_conf} can't be used: {problem}\n")
            sys.exit(BAD_SETTINGS)
    elif conf_map is not None:
        configuration = conf_map.configuration
    else:
        configuration = Configuration(settings.scheduling())
    measuring = Measuring(configuration)
    remote = HttpRemote()

    async def beside(shell: DecidingShell) -> None:
        async with remote, asyncio.TaskGroup() as group:
            if file is not None:
                group.create_task(file.follow(shell, float(settings.reload_every)))
            group.create_task(measuring.follow(shell))

    sys.exit(
        run_deciding_service(
            SCHEDULER,
            settings,
            kinds=KINDS if conf_map is None else (*KINDS, CONFIG_MAP.token),
            read=FactReader(configuration.conf.scheduler_names),
            make_core=lambda: ReloadingCore(
                configuration,
                conf_map=conf_map,
                loads=lambda: measuring.loads,
                remote=remote,
            ),
            beside=beside,
        )
    )


def sources(settings: SchedulerSettings) -> tuple[ConfFile | None, ConfMap | None]:
    """Where the configuration comes from: a file if one is named, else a ConfigMap."""
    conf, path = settings.scheduling(), settings.conf_path
    if path is not None:
        return ConfFile.at(path, conf, settings.pod), None
    if settings.scheduler_conf_configmap:
        return None, ConfMap.called(settings.scheduler_conf_configmap, conf)
    return None, None


def check(path: Path) -> int:
    """Say everything that is wrong with a configuration file, or odd about it; the exit code."""
    try:
        text = path.read_text()
        conf, doubts = read_conf(text), doubts_about(text)
    except (OSError, UnicodeDecodeError) as problem:
        sys.stderr.write(f"{path} can't be read: {problem}\n")
        return BAD_SETTINGS
    except BadFile as bad:
        for problem in bad.problems:
            sys.stderr.write(f"{path}: {problem}\n")
        return 1
    for doubt in doubts:
        sys.stderr.write(f"{path}: warning: {doubt}\n")
    plugins = ", ".join(plugin.name for tier in conf.tiers for plugin in tier)
    sys.stdout.write(f"{path} is good: actions {', '.join(conf.actions)}; plugins {plugins}\n")
    return 0


if __name__ == "__main__":
    main()
