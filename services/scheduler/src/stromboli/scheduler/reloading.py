"""Follow the configuration file while the scheduler runs.

A file that can't be used leaves things as they are, and says why in the log and in a metric.
The file is read in full each time: a mounted ConfigMap is a link that is changed to another
file, which is easily missed by watching, and it is small.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stromboli.contracts.stimuli import Instruction, Stimulus, WokeUp
from stromboli.runtime.deciding import DecidingShell
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter, gauge
from stromboli.scheduler.figures import Figures
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.conf_file import read_conf_with
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.loads import NO_LOADS, Loads

__all__ = ["ConfFile", "ReloadingCore"]

log = get_logger(__name__)

_refused = counter(
    "stromboli.scheduler.configurations.refused", "Configuration files that could not be used"
)
_in_use = gauge(
    "stromboli.scheduler.configuration.current",
    "1 while the configuration in use is what the file says, else 0",
)


@dataclass(slots=True)
class ConfFile:
    """The configuration in use, and the file that it comes from."""

    conf: SchedulingConf
    path: Path | None = None
    problem: str = field(default="", init=False)
    """Why what the file says now is not in use; empty when it is."""
    _seen: str = ""

    def read_or_raise(self) -> None:
        """At the start a file that can't be used is the end. Raises BadConfiguration, OSError."""
        if self.path is not None:
            text = self.path.read_text()
            self.conf = read_conf_with(self.conf, text)
            self._seen = text
        _in_use.set(1)

    def look(self) -> bool:
        """Whether there is another configuration to use from now on."""
        if self.path is None:
            return False
        try:
            text = self.path.read_text()
            if text == self._seen:
                return False
            self._seen = text
            conf = read_conf_with(self.conf, text)
        except (OSError, UnicodeDecodeError, BadConfiguration) as problem:
            self._say(str(problem))
            return False
        self.problem = ""
        _in_use.set(1)
        if conf == self.conf:
            return False
        self.conf = conf
        log.info("configuration.changed", actions=conf.actions, path=str(self.path))
        return True

    def _say(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        _refused.add(1)
        _in_use.set(0)
        log.error("configuration.refused", path=str(self.path), problem=problem, keeps="the old")

    async def follow(self, shell: DecidingShell, every_s: float) -> None:
        """Look again and again; ends only by cancellation."""
        while True:
            await asyncio.sleep(every_s)
            if await asyncio.to_thread(self.look):
                shell.wake()


class ReloadingCore:
    """The core, with the configuration and the measurements that are in use now."""

    def __init__(self, file: ConfFile, loads: Callable[[], Loads] = lambda: NO_LOADS) -> None:
        self._file = file
        self._core = SchedulerCore(file.conf)
        self._loads = loads
        self._known: Loads = NO_LOADS
        self._figures = Figures()

    @property
    def conf(self) -> SchedulingConf:
        return self._core.conf

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        if self._core.conf is not self._file.conf:
            self._core.reconfigure(self._file.conf)
        loads = self._loads()
        if loads is not self._known:
            self._known = loads
            self._core.measured(loads)
        said = self._core.handle(stimulus, now=now)
        if isinstance(stimulus, WokeUp) and self._figures.is_due(now):
            self._figures.show(self._core.gauges())
        return said
