"""Bring the streams to what the contract says, or wait until somebody has.

The gateway creates and updates; it never deletes, because deleting STATE is losing what every
view has read. The other services wait until all streams are there.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from stromboli.contracts.streams import StreamSpec
from stromboli.runtime.bus.errors import BusError, JetStreamError, NotPermitted, StreamMismatch
from stromboli.runtime.bus.jetstream import NANOSECONDS, JetStream, StreamInfo
from stromboli.runtime.logs import get_logger

log = get_logger(__name__)

_FIXED = ("retention", "storage")
"""What JetStream can't change in a stream that exists."""

_NAME_IN_USE = 10058


def stream_config(spec: StreamSpec, *, replicas: int = 1) -> dict[str, Any]:
    """The contract's words in JetStream's; every value we care about is explicit."""
    config: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "subjects": list(spec.subjects),
        "retention": str(spec.retention),
        "storage": "file",
        "num_replicas": replicas,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": spec.max_msgs_per_subject or -1,
        "max_age": int(spec.max_age_s * NANOSECONDS),
        "max_bytes": spec.max_bytes or -1,
        "discard": "new" if spec.discard_new else "old",
        "duplicate_window": int(spec.duplicate_window_s * NANOSECONDS),
        # Any replica answers these, also one that is far behind.
        "allow_direct": False,
        "allow_msg_ttl": spec.message_ttl,
    }
    if spec.delete_marker_ttl_s:
        config["subject_delete_marker_ttl"] = int(spec.delete_marker_ttl_s * NANOSECONDS)
        # The server's markers are roll-ups of their subject.
        config["allow_rollup_hdrs"] = True
    return config


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """What of `wanted` the stream does not have; a default the server left out counts as so."""
    absent = {"allow_direct": False, "allow_msg_ttl": False, "max_age": 0}
    return {
        key: (found.get(key, absent.get(key)), value)
        for key, value in wanted.items()
        if found.get(key, absent.get(key)) != value
    }


async def reconcile(
    jetstream: JetStream, specs: Iterable[StreamSpec], *, replicas: int = 1
) -> dict[str, StreamInfo]:
    """Create what is missing, update what differs, refuse what can't be changed."""
    infos: dict[str, StreamInfo] = {}
    for spec in specs:
        infos[spec.name] = await _reconcile_one(jetstream, stream_config(spec, replicas=replicas))
    return infos


async def _reconcile_one(jetstream: JetStream, wanted: dict[str, Any]) -> StreamInfo:
    name = wanted["name"]
    try:
        info = await jetstream.stream_info(name)
    except JetStreamError as missing:
        if not missing.not_found:
            raise
        try:
            info = await jetstream.create_stream(wanted)
        except JetStreamError as raced:
            if raced.error_code != _NAME_IN_USE:
                raise
            info = await jetstream.stream_info(name)
        else:
            log.info("stream.created", stream=name)
            return info
    different = differences(info.config, wanted)
    if not different:
        return info
    fixed = {key: different[key] for key in _FIXED if key in different}
    if fixed:
        raise StreamMismatch(name, fixed)
    log.info("stream.updated", stream=name, changed=sorted(different))
    return await jetstream.update_stream({**info.config, **wanted})


async def wait_for(jetstream: JetStream, specs: Iterable[StreamSpec]) -> None:
    """Return when all streams exist; says now and then what it is waiting for.

    A stream that we may not even look at is an error: waiting would never end.
    """
    waiting = [spec.name for spec in specs]
    rounds = 0
    while waiting:
        missing: list[str] = []
        for name in waiting:
            try:
                await jetstream.stream_info(name)
            except NotPermitted:
                raise
            except BusError:
                missing.append(name)
        waiting = missing
        if waiting:
            if rounds % 20 == 0:
                log.info("streams.waiting", missing=waiting)
            rounds += 1
            await asyncio.sleep(0.25)
