"""What there is to see of a job, and whether it is as a case expects it."""

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from stromboli.testkit.lifecycle_cases import Expectation
from stromboli.testkit.sample_jobs import Manifest

__all__ = ["Comparison", "Picture", "uids_of"]


class Picture(msgspec.Struct, kw_only=True):
    """What there is to see of a job."""

    job: Manifest
    phases: list[str]
    objects: dict[str, dict[str, Manifest]]
    """Kind → name → object."""

    @property
    def status(self) -> Manifest:
        return self.job.get("status", {})

    @property
    def pods(self) -> dict[str, Manifest]:
        return self.objects.get("pod", {})


@dataclass
class Comparison:
    """Compares pictures with expectations; an AssertionError says what differs."""

    name: str
    """Of the job."""
    noted: dict[str, str] = field(default_factory=dict[str, str])
    """Pod → uid at the last `note`."""

    def compare(self, expected: Expectation, picture: Picture) -> None:
        status = picture.status
        if expected.phase is not None:
            found = status.get("state", {}).get("phase")
            assert found == expected.phase, f"it is {found}: {picture.phases}"
        if expected.phases is not None:
            assert picture.phases == expected.phases, picture.phases
        if expected.status is not None:
            _holds(status, expected.status, "status")
        for name in expected.absent or ():
            assert name not in status, f"{name} is {status[name]}"
        self._compare_pods(expected, picture)
        self._compare_others(expected, picture)

    def _compare_pods(self, expected: Expectation, picture: Picture) -> None:
        shown = {
            name.removeprefix(f"{self.name}-"): _shown_phase(pod)
            for name, pod in picture.pods.items()
        }
        if isinstance(expected.pods, int):
            assert len(shown) == expected.pods, shown
        elif expected.pods is not None:
            assert shown == expected.pods, shown
        if expected.made_anew is not None:
            now = uids_of(picture)
            changed = sorted(name for name, uid in now.items() if self.noted.get(name) != uid)
            assert changed == [f"{self.name}-{name}" for name in expected.made_anew], changed
        for name, part in (expected.pod or {}).items():
            full = f"{self.name}-{name}"
            assert full in picture.pods, sorted(picture.pods)
            _holds(picture.pods[full], part, full)

    def _compare_others(self, expected: Expectation, picture: Picture) -> None:
        objects = picture.objects
        if expected.gang is not None:
            gangs = list(objects.get("vcpodgroup", {}).values())
            assert len(gangs) == 1, [gang["metadata"]["name"] for gang in gangs]
            _holds(gangs[0], expected.gang, "gang")
        for kind, names in (expected.objects or {}).items():
            found = sorted(objects.get(kind, {}))
            assert found == sorted(names), f"{kind}: {found}"
        for place, part in (expected.object or {}).items():
            kind, _, name = place.partition("/")
            assert name in objects.get(kind, {}), sorted(objects.get(kind, {}))
            _holds(objects[kind][name], part, place)
        events = list(objects.get("event", {}).values())
        said = [(event["reason"], event["message"]) for event in events]
        for wanted in expected.events or ():
            assert any(_is_told(event, wanted) for event in events), said
        for reason, number in (expected.event_count or {}).items():
            assert sum(one == reason for one, _ in said) == number, said


def uids_of(picture: Picture) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in picture.pods.items()}


def _shown_phase(pod: Manifest) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    return pod.get("status", {}).get("phase") or "Pending"


def _is_told(event: Manifest, wanted: Manifest) -> bool:
    return all(
        value in event["message"] if key == "message" else event.get(key) == value
        for key, value in wanted.items()
    )


def _holds(found: object, wanted: object, where: str) -> None:
    """Is everything that is wanted in what was found?"""
    if isinstance(wanted, dict):
        assert isinstance(found, dict), f"{where} is {found!r}"
        for key, value in cast("dict[str, Any]", wanted).items():
            _holds(cast("dict[str, Any]", found).get(key), value, f"{where}.{key}")
    elif isinstance(wanted, list):
        assert isinstance(found, list), f"{where} is {found!r}"
        for item in cast("list[Any]", wanted):
            assert any(_is_in(one, item) for one in cast("list[Any]", found)), (
                f"{where} has no {item!r}: {found!r}"
            )
    else:
        assert found == wanted, f"{where} is {found!r}, not {wanted!r}"


def _is_in(found: object, wanted: object) -> bool:
    try:
        _holds(found, wanted, "")
    except AssertionError:
        return False
    return True
