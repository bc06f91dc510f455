"""Events on a job, for the people who describe it.

Reasons and words are Volcano's. The name is made from what happened and to which version of
the job, so that telling it twice is telling it once. A warning is told when it is new, and
another with the same reason not before a while has passed: what keeps a job back is tried
again and again, and each time may word it differently.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

import msgspec

from stromboli.api.batch import Job, JobPhase
from stromboli.api.core import Event, EventSource, ObjectReference
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.kinds import VC_JOB
from stromboli.api.meta import ObjectMeta
from stromboli.api.numerals import as_number
from stromboli.api.timestamps import format_time
from stromboli.lifecycle.manifests import compact_manifest

__all__ = ["Notice", "action_event", "command_event", "delay_notice", "tell"]

_COMPONENT: Final = "vc-controller-manager"
_QUIET_S: Final = 60
"""For so long, a reason that was told is not told with other words."""
_LONGEST_MESSAGE: Final = 1024
"""The API server refuses longer ones."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What people should know; it is told once."""

    reason: str
    message: str
    type: str = "Warning"
    topic: str = ""
    """Of the notices with one topic, only the latest is remembered; the reason if empty."""
    same_as: str = ""
    """What does not change while it only finds other words; the message if empty."""


def action_event(job: Job, action: str, *, now: float) -> OpaqueObject:
    message = f"Start to execute action {action} "
    return _event(job, Notice(reason="ExecuteAction", message=message, type="Normal"), now=now)


def command_event(job: Job, action: str, does_something: bool, *, now: float) -> OpaqueObject:  # noqa: FBT001 (what it is about)
    """Of a Command; one that means nothing in the job's phase must not claim to be carried out."""
    if not does_something:
        phase = job.status.state.phase or JobPhase.PENDING
        message = f"command {action} does nothing while the job is {phase}; it was removed"
        return _event(job, Notice(reason="CommandIgnored", message=message), now=now)
    message = (
        f"Start to execute command {action}, and clean it up to make sure executed not more "
        "than once."
    )
    return _event(job, Notice(reason="CommandIssued", message=message, type="Normal"), now=now)


def delay_notice(action: str, timeout: str) -> Notice:
    return Notice(
        reason="ExecuteAction",
        message=f"Execute action {action} after {timeout}",
        type="Normal",
        topic=f"delayed-{action}",
    )


def tell(
    job: Job, notice: Notice, told: Mapping[str, str], *, now: float
) -> tuple[OpaqueObject | None, dict[str, str]]:
    """The event, unless it was told before or too lately; and what is told from now on."""
    topic = notice.topic or notice.reason
    digest = _digest(notice.same_as or notice.message)
    before, _, at = told.get(topic, "").partition("@")
    told_at = as_number(at)
    is_quiet = told_at is not None and now - told_at < _QUIET_S
    if digest == before or is_quiet:
        return None, dict(told)
    return _event(job, notice, now=now), {**told, topic: f"{digest}@{int(now)}"}


def _event(job: Job, notice: Notice, *, now: float) -> OpaqueObject:
    metadata = job.metadata
    message = notice.message[:_LONGEST_MESSAGE]
    phase = job.status.state.phase
    about = f"{metadata.uid} {job.status.version} {phase} {notice.reason} {message}"
    moment = format_time(datetime.fromtimestamp(now, UTC))
    event = Event(
        metadata=ObjectMeta(name=f"{metadata.name}.{_digest(about)}", namespace=metadata.namespace),
        involved_object=ObjectReference(
            api_version=VC_JOB.api_version,
            kind=VC_JOB.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        ),
        type=notice.type,
        reason=notice.reason,
        message=message,
        count=1,
        source=EventSource(component=_COMPONENT),
        first_timestamp=moment,
        last_timestamp=moment,
        reporting_component=_COMPONENT,
    )
    return compact_manifest(event)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
