"""What a person can choose about a Stromboli on this machine."""

from pathlib import Path

import msgspec

from stromboli.launcher.errors import NoExamples


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Chosen at the first start on a folder and kept there; a later start may change them."""

    crds: str = ""
    """Folder with CRD manifests that the embedded API server loads."""
    nodes: str = "3"
    """A number of virtual nodes, or a YAML file of node groups."""
    runtime: str = "simulate"
    rules: str = ""
    kubeconfig: str = ""
    """A real cluster instead of the embedded API server and its nodes."""
    nats: str = ""
    """A NATS server instead of the embedded one; without users and passwords."""
    admission: bool = True
    """Whether jobs are defaulted and checked before they are stored."""


def find_crds(given: Path | None) -> str:
    """The folder given, or `deploy/crds` of a working copy we were installed from."""
    if given is not None:
        return str(given.resolve())
    found = _in_working_copy("deploy", "crds")
    return "" if found is None else str(found)


def find_examples(given: Path | None) -> Path:
    """The folder given, or `examples` of a working copy."""
    found = given.resolve() if given is not None else _in_working_copy("examples")
    if found is None or not found.is_dir():
        raise NoExamples(str(found or "examples"))
    return found


def _in_working_copy(*parts: str) -> Path | None:
    for parent in Path(__file__).resolve().parents:
        if (folder := parent.joinpath(*parts)).is_dir():
            return folder
    return None
