"""The `--admission-conf` file, read again when it changes.

At the start a bad file ends the process, because an operator is watching; later the last good
one stays in force and the problem is logged, because a ConfigMap is edited while jobs come in.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from stromboli.admission.errors import UnusableConf
from stromboli.admitting.conf import AdmissionConf, read_resource_groups
from stromboli.admitting.errors import BadAdmissionConf
from stromboli.runtime.logs import get_logger

__all__ = ["ConfFile"]

log = get_logger(__name__)


@dataclass(slots=True)
class ConfFile:
    """What is in force; without a file, what the flags say alone."""

    flags: AdmissionConf
    path: Path | None
    look_every_s: float = 2.0
    current: AdmissionConf = field(init=False)
    _text: str = ""

    def __post_init__(self) -> None:
        self.current = self.flags
        if self.path is not None:
            self.read()

    def read(self) -> None:
        """Take the file as it is now; raises UnusableConf and changes nothing if it is bad."""
        path = self.path
        if path is None:
            return
        try:
            text = path.read_text(encoding="utf-8")
            if text == self._text:
                return
            groups = read_resource_groups(text)
        except (OSError, UnicodeDecodeError, BadAdmissionConf) as problem:
            raise UnusableConf(str(path), str(problem)) from problem
        self._text = text
        self.current = msgspec.structs.replace(self.flags, resource_groups=groups)
        log.info("conf.loaded", path=str(path), resource_groups=len(groups))

    async def watch(self) -> None:
        """Look at the file now and then; ends only by cancellation."""
        told = ""
        while True:
            await asyncio.sleep(self.look_every_s)
            try:
                self.read()
            except UnusableConf as problem:
                if str(problem) != told:
                    log.warning("conf.unusable", problem=str(problem))
                told = str(problem)
            else:
                told = ""
