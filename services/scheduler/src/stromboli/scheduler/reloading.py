"""Follow the configuration while the scheduler runs: a file, or a ConfigMap.

The file is read in full each time: a mounted ConfigMap is a link that is changed to another
file, which is easily missed by watching, and it is small. A ConfigMap itself comes as a fact, as
everything else does: the scheduler has no rights in the cluster.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stromboli.api.core import ConfigMap
from stromboli.api.kinds import CONFIG_MAP, NAMESPACE, POD
from stromboli.api.wellknown import SCHEDULER_CONFIG_KEY
from stromboli.contracts.stimuli import FactChanged, Instruction, Ready, Stimulus, WokeUp
from stromboli.runtime.deciding import DecidingShell
from stromboli.runtime.logs import get_logger
from stromboli.scheduler.configuration import Configuration
from stromboli.scheduler.figures import Figures
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.kube_events import reference
from stromboli.scheduling.loads import NO_LOADS, Loads
from stromboli.scheduling.remote import Remote

__all__ = ["ConfFile", "ConfMap", "ReloadingCore"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ConfFile:
    """A file that the configuration comes from."""

    path: Path
    configuration: Configuration

    @classmethod
    def at(cls, path: Path, conf: SchedulingConf, pod: str = "") -> "ConfFile":
        """`pod` is the namespace/name of the scheduler's own, where it has one."""
        namespace, _, name = pod.partition("/")
        about = reference(NAMESPACE, "", "default", "")
        if name:
            about = reference(POD, namespace, name, "")
        return cls(path, Configuration(conf, str(path), about))

    def read_or_raise(self) -> None:
        """At the start a file that can't be used is the end. Raises BadConfiguration, OSError."""
        self.configuration.start(self.path.read_text())

    def look(self) -> bool:
        """Whether there is another configuration to use from now on."""
        try:
            changed_at = str(self.path.stat().st_mtime_ns)
            return self.configuration.offer(self.path.read_text(), changed_at)
        except (OSError, UnicodeDecodeError) as problem:
            self.configuration.unreadable(str(problem), "")
            return False

    async def follow(self, shell: DecidingShell, every_s: float) -> None:
        """Look again and again; ends only by cancellation."""
        while True:
            await asyncio.sleep(every_s)
            before = self.configuration.problem
            if await asyncio.to_thread(self.look) or self.configuration.problem != before:
                shell.wake()


@dataclass(frozen=True, slots=True)
class ConfMap:
    """A ConfigMap that the configuration comes from; until there is one, it is the default."""

    namespace: str
    name: str
    key: str
    """Empty: Volcano's, or the only one that there is."""
    configuration: Configuration

    @classmethod
    def called(cls, text: str, conf: SchedulingConf) -> "ConfMap":
        """`text` is namespace/name or namespace/name:key."""
        place, _, key = text.partition(":")
        namespace, _, name = place.partition("/")
        about = reference(CONFIG_MAP, namespace, name, "")
        configuration = Configuration(conf, f"ConfigMap {place}", about)
        configuration.start(None)
        return cls(namespace, name, key, configuration)

    def noted(self, fact: FactChanged) -> None:
        if (fact.namespace, fact.name) != (self.namespace, self.name):
            return
        configuration, version = self.configuration, fact.resource_version
        match fact.after:
            case ConfigMap(data=data) as found:
                configuration.about = reference(
                    CONFIG_MAP, self.namespace, self.name, found.metadata.uid
                )
                text = data.get(self._key(data))
                if text is None:
                    there = ", ".join(sorted(data)) or "none"
                    wanted = self.key or SCHEDULER_CONFIG_KEY
                    configuration.unreadable(
                        f"expected the key {wanted!r} in its data, found {there}", version
                    )
                else:
                    configuration.offer(text, version)
            case _:
                configuration.unreadable("it is gone", version)

    def _key(self, data: dict[str, str]) -> str:
        if self.key or SCHEDULER_CONFIG_KEY in data or len(data) != 1:
            return self.key or SCHEDULER_CONFIG_KEY
        return next(iter(data))


class ReloadingCore:
    """The core, with the configuration and the measurements that are in use now."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        conf_map: ConfMap | None = None,
        loads: Callable[[], Loads] = lambda: NO_LOADS,
        remote: Remote | None = None,
    ) -> None:
        self._configuration = configuration
        self._conf_map = conf_map
        self._core = SchedulerCore(configuration.conf, remote=remote)
        self._core.tally.stopwatch = time.perf_counter
        self._loads = loads
        self._known: Loads = NO_LOADS
        self._figures = Figures()
        self._ready = False

    @property
    def conf(self) -> SchedulingConf:
        return self._core.conf

    @property
    def waits_for_others(self) -> bool:
        """Whether the next cycle may have to ask other servers; one that is new might."""
        is_new = self._core.conf is not self._configuration.conf
        return is_new or self._core.asks_others

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        return self.handle_all((stimulus,), now=now)

    def handle_all(self, stimuli: Sequence[Stimulus], *, now: float) -> list[Instruction]:
        for stimulus in stimuli:
            if isinstance(stimulus, FactChanged):
                if self._conf_map is not None and stimulus.kind == CONFIG_MAP.token:
                    self._conf_map.noted(stimulus)
            elif isinstance(stimulus, Ready):
                self._ready = True
        if self._core.conf is not self._configuration.conf:
            self._core.reconfigure(self._configuration.conf)
        loads = self._loads()
        if loads is not self._known:
            self._known = loads
            self._core.measured(loads)
        said = self._core.handle_all(stimuli, now=now)
        if self._ready and (told := self._configuration.tell(now)):
            said = [*said, *told]
        self._figures.count(self._core.tally.take())
        woken = any(isinstance(stimulus, WokeUp) for stimulus in stimuli)
        if woken and self._figures.is_due(now):
            self._figures.show(self._core.gauges(), waiting=len(self._core.explanations))
        return said
