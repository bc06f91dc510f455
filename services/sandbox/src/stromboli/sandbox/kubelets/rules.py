"""How a simulated pod behaves: annotations first, then a rules file, then its own command.

    - match: {volcano.sh/task-spec: mpimaster}    # all of these labels
      start: 200ms                                # until it runs
      run: 3s                                     # how long; left out means until it is stopped
      exit: 0

The annotations `sandbox.stromboli.sh/start`, `/run` and `/exit` say the same for one pod. Without
either, `sleep N`, `exit N` and `sleep N && exit M` are understood in a command; anything else
runs until it is stopped.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from stromboli.api.core.pod import Pod
from stromboli.api.durations import parse_duration
from stromboli.sandbox.errors import ConfigError

PREFIX = "sandbox.stromboli.sh/"
_NANOSECONDS = 1_000_000_000
_SLEEP_EXIT = re.compile(
    r"\s*(?:sleep\s+(?P<sleep>[\d.]+)s?)?\s*(?:&&|;)?\s*(?:exit\s+(?P<exit>\d+))?\s*;?\s*"
)


class Behaviour(msgspec.Struct, frozen=True):
    """What happens to a container."""

    start_s: float = 0.0
    run_s: float | None = None
    """None: until it is stopped."""
    exit_code: int = 0


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pods with all of these labels behave like this."""

    match: dict[str, str] = {}
    start: str = "0s"
    run: str = ""
    exit: int = 0

    def behaviour(self) -> Behaviour:
        return Behaviour(_seconds(self.start), _seconds(self.run) if self.run else None, self.exit)


def read_rules(path: Path | None) -> list[Rule]:
    if path is None:
        return []
    try:
        rules = msgspec.convert(yaml.safe_load(path.read_text()) or [], list[Rule])
        for rule in rules:
            rule.behaviour()
    except (OSError, yaml.YAMLError, ValueError) as problem:
        raise ConfigError("--rules", f"{path}: {problem}") from problem
    return rules


def behaviour_of(pod: Pod, rules: Sequence[Rule]) -> Behaviour:
    """The first that applies: annotations, a rule, the command."""
    notes = pod.metadata.annotations
    if any(key.startswith(PREFIX) for key in notes):
        try:
            return Rule(
                start=notes.get(f"{PREFIX}start", "0s"),
                run=notes.get(f"{PREFIX}run", ""),
                exit=int(notes.get(f"{PREFIX}exit", "0")),
            ).behaviour()
        except ValueError:
            pass  # a bad annotation is no reason not to run the pod
    for rule in rules:
        if all(pod.metadata.labels.get(key) == value for key, value in rule.match.items()):
            return rule.behaviour()
    return _understood(pod)


def _understood(pod: Pod) -> Behaviour:
    container = pod.spec.containers[0]
    words = [*container.command, *container.args]
    if words[:2] in (["sh", "-c"], ["/bin/sh", "-c"], ["bash", "-c"], ["/bin/bash", "-c"]):
        words = words[2:]
    text = " ".join(words)
    found = _SLEEP_EXIT.fullmatch(text)
    if not text.strip() or found is None or not (found["sleep"] or found["exit"]):
        return Behaviour()
    return Behaviour(run_s=float(found["sleep"] or 0), exit_code=int(found["exit"] or 0))


def _seconds(text: str) -> float:
    return parse_duration(text) / _NANOSECONDS
