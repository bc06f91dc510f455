"""Events on a job, for the people who describe it.

Reasons and words are Volcano's. The name is made from what happened and to which version of
the job, so that telling it twice is telling it once.
"""

from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from stromboli.api.batch import Job
from stromboli.api.core import Event, EventSource, ObjectReference
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.kinds import VC_JOB
from stromboli.api.meta import ObjectMeta
from stromboli.api.timestamps import format_time
from stromboli.lifecycle.manifests import compact_manifest

__all__ = ["action_event", "command_event"]

_COMPONENT: Final = "vc-controller-manager"


def action_event(job: Job, action: str, *, now: float) -> OpaqueObject:
    return _event(job, "ExecuteAction", f"Start to execute action {action} ", now=now)


def command_event(job: Job, action: str, *, now: float) -> OpaqueObject:
    message = (
        f"Start to execute command {action}, and clean it up to make sure executed not more "
        "than once."
    )
    return _event(job, "CommandIssued", message, now=now)


def _event(job: Job, reason: str, message: str, *, now: float) -> OpaqueObject:
    metadata = job.metadata
    about = f"{metadata.uid} {job.status.version} {job.status.state.phase} {reason} {message}"
    digest = blake2b(about.encode(), digest_size=8).hexdigest()
    moment = format_time(datetime.fromtimestamp(now, UTC))
    event = Event(
        metadata=ObjectMeta(name=f"{metadata.name}.{digest}", namespace=metadata.namespace),
        involved_object=ObjectReference(
            api_version=VC_JOB.api_version,
            kind=VC_JOB.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        ),
        type="Normal",
        reason=reason,
        message=message,
        count=1,
        source=EventSource(component=_COMPONENT),
        first_timestamp=moment,
        last_timestamp=moment,
        reporting_component=_COMPONENT,
    )
    return compact_manifest(event)
