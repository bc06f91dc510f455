"""The configuration in use, and what is wrong with the one that was offered instead.

One that can't be used leaves things as they are and says why: in the log, in a metric, and in a
Kubernetes event, one for each bad version and another when it is good again. Only a leader tells
events; a standby that becomes one says it again in the same words, which makes no second event.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stromboli.contracts.intents import CreateObject
from stromboli.contracts.partitions import job_key
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter, gauge
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.conf_doubts import doubts_about
from stromboli.scheduling.conf_file import read_conf_with
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.kube_events import Said, event

__all__ = ["Configuration"]

log = get_logger(__name__)

_refused = counter(
    "stromboli.scheduler.configurations.refused", "Configurations that could not be used"
)
_in_use = gauge(
    "stromboli.scheduler.configuration.current",
    "1 while the configuration in use is the one that was given, else 0",
)

REFUSED: Final = "ConfigurationRefused"
ACCEPTED: Final = "ConfigurationAccepted"


@dataclass(slots=True)
class Configuration:
    """What is in use."""

    conf: SchedulingConf
    origin: str = ""
    """Where it comes from, for people."""
    about: Mapping[str, str] = field(default_factory=dict[str, str])
    """The object that events about it are told of."""
    problem: str = field(default="", init=False)
    """Why what was offered last is not in use; empty when it is."""
    _seen: str | None = None
    _untold: tuple[Said, str] | None = None

    def start(self, text: str | None) -> None:
        """At the start there is nothing to keep. Raises BadConfiguration."""
        if text is not None:
            self.conf = read_conf_with(self.conf, text)
            self._seen = text
            self._warn(text)
        _in_use.set(1)

    def offer(self, text: str, version: str) -> bool:
        """Whether there is another configuration to use from now on."""
        if text == self._seen:
            return False
        self._seen = text
        try:
            conf = read_conf_with(self.conf, text)
        except BadConfiguration as bad:
            self.refuse(str(bad), version)
            return False
        if self.problem:
            self.problem = ""
            message = f"the configuration from {self.origin} is in use again"
            self._untold = (Said("Normal", ACCEPTED, message), version)
        _in_use.set(1)
        if conf == self.conf:
            return False
        self.conf = conf
        log.info("configuration.changed", actions=conf.actions, origin=self.origin)
        self._warn(text)
        return True

    def _warn(self, text: str) -> None:
        """It is in use, but hardly what anybody meant."""
        for doubt in doubts_about(text):
            log.warning("configuration.doubtful", origin=self.origin, doubt=doubt)

    def refuse(self, problem: str, version: str) -> None:
        """What is there now can't be used; the configuration in use stays."""
        if problem == self.problem:
            return
        self.problem = problem
        _refused.add(1)
        _in_use.set(0)
        log.error("configuration.refused", origin=self.origin, problem=problem, keeps="the old")
        message = f"{self.origin} can't be used, the configuration stays as it was: {problem}"
        self._untold = (Said("Warning", REFUSED, message), version)

    def unreadable(self, problem: str, version: str) -> None:
        """It is gone, or can't be read at all; whatever comes next is new."""
        self._seen = None
        self.refuse(problem, version)

    def tell(self, now: float) -> list[CreateObject]:
        """The event that has not been told yet, if there is one."""
        if self._untold is None or not self.about:
            return []
        (said, version), self._untold = self._untold, None
        key = job_key("configuration", self.about.get("namespace", ""), self.about["name"])
        return [event(self.about, said, now, key=key, version=version)]
