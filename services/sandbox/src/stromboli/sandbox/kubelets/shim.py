"""Stands between the kubelets and one process pod, so that neither needs the other to live.

It runs the command, writes what it prints as log lines with their times, and leaves a note of how
it ended. The kubelets may die and come back meanwhile: they find the container running, or the
note. It is started as a file, without the package around it, and knows only its folder:

    claim   there from the first moment, and only once: two shims never run one container
    pid     its own process and the command's, with the time the former started
    log     lines of `<time> <stream> <F|P> <text>`, as kubelets keep them everywhere
    exit    how it ended; written once, whole
"""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

_MAX_LINE = 16 * 1024
_LINGER_S = 0.5
"""How long output is awaited from what the command left behind, once it has ended itself."""
_NOT_STARTED = 127


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def start_time_of(pid: int) -> str:
    """When a process started, by the kernel's count; tells a pid's owners apart."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def write_whole(path: Path, document: Mapping[str, object]) -> None:
    scratch = path.with_name(f"{path.name}.new")
    scratch.write_text(json.dumps(document))
    scratch.rename(path)


class Log:
    """Splits what arrives into lines, each with the time at which its end came."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._rest: dict[str, bytes] = {}

    def add(self, stream: str, data: bytes) -> None:
        *lines, rest = (self._rest.get(stream, b"") + data).split(b"\n")
        out = b"".join(self._line(stream, line) for line in lines)
        while len(rest) > _MAX_LINE:
            out += self._entry(stream, b"P", rest[:_MAX_LINE])
            rest = rest[_MAX_LINE:]
        self._rest[stream] = rest
        if out:
            self._file.write(out)

    def finish(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                self._file.write(self._line(stream, rest))
        self._file.close()

    def _line(self, stream: str, line: bytes) -> bytes:
        out = b""
        while len(line) > _MAX_LINE:
            out += self._entry(stream, b"P", line[:_MAX_LINE])
            line = line[_MAX_LINE:]
        return out + self._entry(stream, b"F", line)

    def _entry(self, stream: str, tag: bytes, text: bytes) -> bytes:
        return b"%b %b %b %b\n" % (now().encode(), stream.encode(), tag, text)


def pass_on(process: "subprocess.Popen[bytes]", log: Log) -> None:
    """Write down what the command prints until it has ended and is silent."""
    with selectors.DefaultSelector() as selector:
        pipes: dict[str, IO[bytes] | None] = {"stdout": process.stdout, "stderr": process.stderr}
        for stream, pipe in pipes.items():
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, stream)
        ended_at: float | None = None
        while selector.get_map():
            if ended_at is None and process.poll() is not None:
                ended_at = time.monotonic()
            if ended_at is not None and time.monotonic() - ended_at > _LINGER_S:
                return
            for key, _ in selector.select(timeout=0.1):
                data = os.read(key.fd, 65536)
                if data:
                    log.add(key.data, data)
                else:
                    selector.unregister(key.fileobj)


def main(folder: Path, command: list[str]) -> None:
    try:
        (folder / "claim").touch(exist_ok=False)
    except FileExistsError:
        return
    log = Log(folder / "log")
    started = now()
    own = {"shim": os.getpid(), "started": start_time_of(os.getpid())}
    try:
        process = subprocess.Popen(  # noqa: S603 - running this command is what it is for
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as problem:
        log.add("stderr", f"can't start {command[0]!r}: {problem}\n".encode())
        code = _NOT_STARTED
    else:
        write_whole(folder / "pid", {**own, "process": process.pid})
        pass_on(process, log)
        code = process.wait()
    log.finish()
    ended = {
        "code": code if code >= 0 else 128 - code,
        "started": started,
        "finished": now(),
    }
    write_whole(folder / "exit", ended)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
