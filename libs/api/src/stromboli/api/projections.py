"""The part of an object that travels on the bus: what we decide by, and never a secret.

A projection is the object's own type, less what must not travel or would only make noise:

- `metadata.resourceVersion` changes with every write, so it travels beside the projection: equal
  projections mean that nothing we use has changed (`generation` stays, it moves with the spec);
- kubectl's last-applied copy of the whole object, which would smuggle in everything below;
- private keys given to the plugins of a job, or of what jobs are made from, as arguments; a
  Secret's contents were never decoded;
- what the containers of a pod run and with which environment: nobody decides by it, and people
  put passwords there;
- what every pod of a gang has of its own and nobody decides by: its host name, and volumes that
  are no claims (a token's has another name in each). So their specs are equal to the byte.

Encoding is deterministic: equal projections are equal bytes, so comparing bytes is enough.
"""

import re
from functools import cache
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from stromboli.api.batch import Job, JobSpec
from stromboli.api.core import Container, Pod, PodStatus
from stromboli.api.core.volumes import Volume
from stromboli.api.cron import CronJob
from stromboli.api.errors import ObjectUnreadable
from stromboli.api.flow import Flow, FlowPatch, JobFlow, JobTemplate
from stromboli.api.kinds import Kind
from stromboli.api.meta import KubeObject, ObjectMeta
from stromboli.api.wellknown import LAST_APPLIED_CONFIGURATION
from stromboli.api.wire import UNREADABLE, decode_object

__all__ = [
    "REDACTED",
    "decode_end",
    "decode_projection",
    "encode_end",
    "encode_projection",
    "project",
    "projection_of",
    "redacted_arguments",
]

T = TypeVar("T", bound=KubeObject)

REDACTED: Final = "[redacted]"

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_KEY_ARGUMENT: Final = re.compile(r"(.*?ssh-private-key)(.*)", re.DOTALL | re.IGNORECASE)
_KEY_MATERIAL: Final = "PRIVATE KEY-----"


def project(kind: Kind[T], raw_json: bytes | msgspec.Raw) -> T:
    """The projection of an object as the API server sent it."""
    return projection_of(decode_object(kind, raw_json))


def projection_of(item: T) -> T:
    """The projection of a decoded object. Projecting a projection changes nothing."""
    metadata = _without_noise(item.metadata)
    item = _without_keys(item)
    return item if metadata is item.metadata else replace(item, metadata=metadata)


def encode_projection(projection: KubeObject) -> bytes:
    """Deterministic msgpack. What was not projected is projected first, so no secret slips by."""
    try:
        return _ENCODER.encode(projection_of(projection))
    except (RecursionError, OverflowError) as fault:
        what = f"a {type(projection).__name__} that can travel"
        deep = isinstance(fault, RecursionError)
        why = "it is nested too deeply" if deep else "an integer has more than 64 bits"
        raise ObjectUnreadable(what, why) from fault


def decode_projection(kind: Kind[T], packed: bytes | msgspec.Raw) -> T:
    try:
        return _decoder(kind.type).decode(packed)
    except UNREADABLE as fault:
        raise ObjectUnreadable(f"the projection of a {kind.kind}", str(fault)) from fault


class _End(msgspec.Struct):
    """What is told of a pod that is gone: its spec is what everybody knew."""

    metadata: ObjectMeta
    status: PodStatus


def encode_end(projection: KubeObject) -> bytes:
    """What the end of an object adds to what is known of it; nil but for pods."""
    if not isinstance(projection, Pod):
        return _ENCODER.encode(None)
    pod = projection_of(projection)
    return _ENCODER.encode(_End(pod.metadata, pod.status))


def decode_end(kind: Kind[T], known: T, packed: bytes | msgspec.Raw) -> T:
    """How an object was last, from what was known of it and what its end adds."""
    if not isinstance(known, Pod):
        return known
    end = decode_projection(kind, packed)
    if not isinstance(end, Pod) or not end.metadata.name:
        return known
    return replace(known, metadata=end.metadata, status=end.status)


@cache
def _decoder(type_: type[T]) -> msgspec.msgpack.Decoder[T]:
    return msgspec.msgpack.Decoder(type_)


def _without_noise(metadata: ObjectMeta) -> ObjectMeta:
    if LAST_APPLIED_CONFIGURATION in metadata.annotations:
        annotations = {
            key: value
            for key, value in metadata.annotations.items()
            if key != LAST_APPLIED_CONFIGURATION
        }
        return replace(metadata, resource_version="", annotations=annotations)
    return replace(metadata, resource_version="") if metadata.resource_version else metadata


def _without_keys(item: T) -> T:
    """Jobs, and all that jobs are made from and lead to."""
    match item:
        case Pod():
            return _projected_pod(item)
        case Job() | JobTemplate():
            return replace(item, spec=_redacted_spec(item.spec))
        case CronJob():
            template = item.spec.job_template
            template = replace(template, spec=_redacted_spec(template.spec))
            return replace(item, spec=replace(item.spec, job_template=template))
        case JobFlow():
            flows = tuple(_redacted_flow(flow) for flow in item.spec.flows)
            return replace(item, spec=replace(item.spec, flows=flows))
        case _:
            return item


def _projected_pod(pod: Pod) -> Pod:
    spec = pod.spec
    own = spec.hostname or spec.subdomain or not all(map(_is_claim, spec.volumes))
    if not own and not _runs_something((*spec.containers, *spec.init_containers)):
        return pod
    return replace(
        pod,
        spec=replace(
            spec,
            containers=_without_commands(spec.containers),
            init_containers=_without_commands(spec.init_containers),
            volumes=tuple(filter(_is_claim, spec.volumes)),
            hostname="",
            subdomain="",
        ),
    )


def _is_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def _redacted_spec(spec: JobSpec) -> JobSpec:
    return replace(spec, plugins=_redacted(spec.plugins)) if spec.plugins else spec


def _redacted_flow(flow: Flow) -> Flow:
    """What a patch says of plugins is not checked by anybody: only lists of text are shown."""
    spec = flow.patch.job_spec if flow.patch is not None else None
    if spec is None or "plugins" not in spec:
        return flow
    try:
        plugins = _redacted(msgspec.convert(spec["plugins"], dict[str, tuple[str, ...]]))
    except msgspec.ValidationError:
        plugins = REDACTED
    return replace(flow, patch=FlowPatch(job_spec={**spec, "plugins": plugins}))


def _runs_something(containers: tuple[Container, ...]) -> bool:
    return any(
        one.command or one.args or one.env or one.volume_mounts or one.working_dir
        for one in containers
    )


def _without_commands(containers: tuple[Container, ...]) -> tuple[Container, ...]:
    return tuple(
        Container(
            name=one.name,
            image=one.image,
            ports=one.ports,
            resources=one.resources,
            restart_policy=one.restart_policy,
        )
        for one in containers
    )


def _redacted(plugins: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(redacted_arguments(arguments)) for name, arguments in plugins.items()}


def redacted_arguments(arguments: tuple[str, ...]) -> list[str]:
    """Looks at every plugin's arguments, and at forms that Go would not take for the flag.

    A key may stand at the wrong plugin, or behind a misspelt flag, and still be a key.
    """
    shown: list[str] = []
    value_follows = False
    for argument in arguments:
        flag = _KEY_ARGUMENT.fullmatch(argument)
        if flag is not None:
            shown.append(f"{flag[1]}={REDACTED}" if flag[2] else argument)
        elif value_follows or _KEY_MATERIAL in argument:
            shown.append(REDACTED)
        else:
            shown.append(argument)
        value_follows = flag is not None and not flag[2]
    return shown
