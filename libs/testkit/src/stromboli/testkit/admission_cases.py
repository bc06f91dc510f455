"""Admission's cases as data, and one way to check them wherever they were submitted.

The files under tests/conformance/admission say what is submitted, what is there already, and
what must come of it. A test hands each case to its own `Submit`: the pure rules, HTTPS, the
sandbox with kubectl, or a real API server. Cases whose refusal is the CRD schema's work say so
(`layer: schema`); those who have no schema leave them out.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import jsonpatch
import jsonpointer
import msgspec
import yaml

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.questions import Resource, Review, UserInfo, Verdict
from stromboli.admitting.reviewing import PATHS, review
from stromboli.admitting.snapshot import Snapshot
from stromboli.api.scheduling import Queue
from stromboli.testkit.manifests import Manifest

__all__ = [
    "CASES_FOLDER",
    "CONF",
    "GATEWAY_USER",
    "AdmissionCase",
    "Expectation",
    "Outcome",
    "Scene",
    "Submit",
    "check",
    "load_cases",
    "review_of",
    "submit_to_rules",
    "surroundings_of",
]

CASES_FOLDER: Final = Path(__file__).parents[5] / "tests" / "conformance" / "admission"
"""The testkit is always installed from the working copy."""

GATEWAY_USER: Final = "system:serviceaccount:volcano-system:stromboli-gateway"
CONF: Final = AdmissionConf(trusted_users=(GATEWAY_USER,))
"""The settings that the cases were written for."""

_ALWAYS: Final = ("default", "root")
_RESOURCES: Final[Mapping[str, Resource]] = {each.kind: each.resource for each in PATHS.values()}


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is there before the case; queues `default` and `root` always are."""

    queues: tuple[Manifest, ...] = ()
    allocated_pods: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """By queue. An API server can't be told; who submits to one leaves such cases out."""
    namespace_annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing said means: accepted."""

    refused: tuple[str, ...] = ()
    """Parts of the message."""
    rule: str = ""
    layer: str = "rule"
    warned: tuple[str, ...] | None = None
    """Parts of the warnings, one of each; not said means that nobody looks."""
    patched: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """By JSON pointer; null means that nothing is there."""


class AdmissionCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody submits something. With `old` it is an update, of what was there before."""

    case: str
    object: Manifest
    expect: Expectation
    old: Manifest | None = None
    operation: str = ""
    namespace: str = "default"
    user: UserInfo = UserInfo(username="admin", groups=("system:masters",))
    surroundings: Scene = Scene()

    @property
    def verb(self) -> str:
        return self.operation or ("CREATE" if self.old is None else "UPDATE")

    @property
    def kind(self) -> str:
        return str(self.object["kind"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def needs_schema(self) -> bool:
        return self.expect.layer == "schema"

    @property
    def needs_facts(self) -> bool:
        """Whether the scene holds what no manifest can bring about."""
        return bool(self.surroundings.allocated_pods)

    @property
    def is_cluster_wide(self) -> bool:
        return self.kind in ("Queue", "HyperNode")


class Outcome(msgspec.Struct, frozen=True):
    """What came of a submission; `stored` is the object after its defaults, if accepted."""

    allowed: bool
    message: str = ""
    stored: Manifest | None = None
    rule: str = ""
    """Only the pure rules can tell."""
    warnings: tuple[str, ...] | None = None
    """None if whoever submitted can't tell."""


Submit: TypeAlias = Callable[[AdmissionCase], Awaitable[Outcome]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cases: tuple[AdmissionCase, ...]
    parts: Any = None


def load_cases(folder: Path = CASES_FOLDER) -> list[AdmissionCase]:
    """Every case of every file; the sentence of a case names it once."""
    found: list[AdmissionCase] = []
    for file in sorted(folder.glob("*.yaml")):
        found += _read(file).cases
    names = [each.case for each in found]
    if len(set(names)) != len(names) or not found:
        raise ValueError(f"cases in {folder} must exist and have names of their own")
    return found


@cache
def _read(file: Path) -> _File:
    """Parsed once per process: every test module asks for all of them."""
    return msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), _File)


def surroundings_of(case: AdmissionCase) -> Snapshot:
    """The cluster that the case takes place in."""
    always = [{"metadata": {"name": name}, "status": {"state": "Open"}} for name in _ALWAYS]
    queues = [msgspec.convert(one, Queue) for one in (*always, *case.surroundings.queues)]
    return Snapshot(
        queues=queues,
        allocated_pods=case.surroundings.allocated_pods,
        namespace_annotations={case.namespace: case.surroundings.namespace_annotations},
    )


def review_of(case: AdmissionCase, manifest: Manifest | None = None) -> Review:
    """The request that an API server would send; `manifest` takes the object's place."""
    item = case.object if manifest is None else manifest
    is_deletion = case.verb == "DELETE"
    return Review(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        kind=case.kind,
        resource=_RESOURCES[case.kind],
        operation=case.verb,
        namespace="" if case.is_cluster_wide else case.namespace,
        name=case.name,
        object=None if is_deletion else item,
        old_object=item if is_deletion else case.old,
        user_info=case.user,
    )


async def submit_to_rules(case: AdmissionCase) -> Outcome:
    """Default and judge with the rules alone, patches applied by a library that is not ours."""
    surroundings = surroundings_of(case)
    stored = case.object
    verdict = Verdict(allowed=True)
    for path in PATHS.values():
        if path.kind != case.kind or case.verb not in path.operations or not verdict.allowed:
            continue
        verdict = review(path.path, review_of(case, stored), surroundings, CONF)
        if verdict.patch:
            stored = jsonpatch.apply_patch(stored, verdict.patch)
    return Outcome(verdict.allowed, verdict.message, stored, verdict.rule, verdict.warnings)


def check(case: AdmissionCase, outcome: Outcome) -> None:
    """Assert that the outcome is what the case expects."""
    expected = case.expect
    assert outcome.allowed == (not expected.refused), outcome.message or "it was accepted"
    for part in expected.refused:
        assert part in outcome.message
    if outcome.rule and expected.rule:
        assert outcome.rule == expected.rule
    if expected.warned is not None and outcome.warnings is not None:
        assert len(outcome.warnings) == len(expected.warned), outcome.warnings
        for part, warning in zip(expected.warned, outcome.warnings, strict=True):
            assert part in warning
    for pointer, value in expected.patched.items():
        assert jsonpointer.resolve_pointer(outcome.stored, pointer, None) == value, pointer
