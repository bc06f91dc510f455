"""Ask for what a job lacks: what its plugins need, its claims, its PodGroup, its pods.

Everything has a fixed name and is asked for only if it is not known to be there, so that
asking again after a crash does no harm. Pods come last, in portions, and not before the queue
has let the gang in.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.batch import Job, TaskSpec
from stromboli.api.errors import ApiError
from stromboli.api.kinds import controller_reference
from stromboli.api.scheduling import PodGroup
from stromboli.api.wellknown import JOB_FORWARDING
from stromboli.contracts.intents import Verb
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.assurance import asked_now
from stromboli.lifecycle.claims import CLAIM, claim_names, made_claims
from stromboli.lifecycle.errors import PluginFailed
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.plugins import NeededObject, NeededSecret, plugins_of
from stromboli.lifecycle.podgroups import FOLLOWS_JOB, admits_pods, build_pod_group, less_by
from stromboli.lifecycle.pods import build_pod, is_forwarded
from stromboli.lifecycle.records import Place, Records
from stromboli.lifecycle.remembering import cleared_away
from stromboli.lifecycle.situations import Situation
from stromboli.lifecycle.sorting import missing_pods
from stromboli.lifecycle.troubles import Trouble, in_the_way, no_place, refused

__all__ = ["PODS_AT_ONCE", "equip"]

PODS_AT_ONCE: Final = 250
"""Creations per decision; the rest follows when these are there."""

_JOB: Final = kinds.VC_JOB.token
_GROUP: Final = kinds.VC_POD_GROUP.token
_POD: Final = kinds.POD.token

_json: Final = msgspec.json.Encoder(order="deterministic")


def equip(
    situation: Situation, asker: Asker, records: Records, *, pods_too: bool, is_assured: bool
) -> tuple[Trouble, Records]:
    """Ask for what the job lacks; returns what is in the way of that, if anything.

    Unless `is_assured`, what the plugins need is asked for although it should be there.
    """
    try:
        obstacle = in_the_way(situation)
        if obstacle:
            return obstacle, records
        _forward(situation, asker)
        lacking, records = _make_claims(situation, asker, records)
        records = _make_for_plugins(situation, asker, records, is_assured=is_assured)
        _make_pod_group(situation, asker, records)
        if lacking:
            return lacking, records
        if pods_too and _has_claims(situation) and _may_have_pods(situation, records):
            _make_pods(situation, records, asker)
    except ApiError as fault:
        # A template that nobody can read: admission refuses it, but may have been away.
        return Trouble(reason="InvalidTemplate", message=str(fault)), records
    except PluginFailed as fault:
        return Trouble(reason="PluginError", message=str(fault)), records
    return no_place(situation) or refused(situation), records


def _forward(situation: Situation, asker: Asker) -> None:
    job = situation.job
    if situation.queue_forwards and not is_forwarded(job):
        metadata = job.metadata
        asker.patch(
            _JOB,
            metadata.namespace,
            metadata.name,
            uid=metadata.uid,
            body={"metadata": {"annotations": {JOB_FORWARDING: "true"}}},
        )


def _make_claims(situation: Situation, asker: Asker, records: Records) -> tuple[Trouble, Records]:
    job = situation.job
    trouble = Trouble()
    made = made_claims(job)
    for name, manifest in made.items():
        if _has_claim(situation, name):
            continue
        if name in situation.taken_claims:
            message = f"pvc {name} {situation.taken_claims[name]}, the job gets its own after that"
            trouble = trouble or Trouble(reason="PVCError", message=message)
        elif name in records.claims:
            # Not made again while the job runs: whoever deleted it has deleted the data, too.
            message = f"pvc {name} of the job was deleted; RestartJob starts with a new one"
            trouble = trouble or Trouble(reason="PVCError", message=message)
        else:
            asker.create(CLAIM, manifest, owner_uid=job.metadata.uid)
    missing = {name for name in made if not _has_claim(situation, name)}
    return trouble, replace(records, claims=records.claims | (claim_names(job) - missing))


def _has_claim(situation: Situation, name: str) -> bool:
    return name in (situation.claims or ()) or bool(situation.made.get((CLAIM, name)))


def _has_claims(situation: Situation) -> bool:
    """Not before they are there: a pod would mount what an earlier job has left behind."""
    if situation.claims is None:
        return True
    return all(_has_claim(situation, name) for name in made_claims(situation.job))


def _make_for_plugins(
    situation: Situation, asker: Asker, records: Records, *, is_assured: bool
) -> Records:
    """Ask for the objects that are not there yet; note the plugins that have all of theirs."""
    job = situation.job
    needs_any = False
    complete: set[str] = set()
    made, content = dict(records.made), dict(records.content)
    for plugin in plugins_of(job):
        lacking = False
        for need in plugin.needs(job):
            needs_any = True
            place = (need.kind, need.name)
            is_noted = plugin.name in records.plugins and place in made
            # Not the record alone, which may be of one that is gone: asking again does no harm.
            if (is_noted or situation.made.get(place)) and not _is_refused(situation, place):
                if not is_assured:
                    _ask_for(job, need, asker)
                _follow(job, need, made, content, asker)
            else:
                lacking = True
                made.pop(place, None)
                content.pop(place, None)
                _ask_for(job, need, asker)
        if not lacking:
            complete.add(plugin.name)
    equipped = records.equipped if is_assured else asked_now(situation)
    return replace(
        records,
        plugins=frozenset(complete),
        made=made,
        content=content,
        equipped=equipped if needs_any else "",
    )


def _is_refused(situation: Situation, place: Place) -> bool:
    """Could it not be made or brought up to date? Then it may be gone, and is asked for again."""
    refusal = situation.refusal
    return (
        refusal is not None
        and refusal.verb in (Verb.CREATE, Verb.GENERATE, Verb.PATCH)
        and (refusal.kind, refusal.name) == place
    )


def _follow(
    job: Job,
    need: NeededObject | NeededSecret,
    made: Mapping[Place, str],
    content: dict[Place, str],
    asker: Asker,
) -> None:
    """Bring what changes with the job up to date, and note what it holds."""
    if not (isinstance(need, NeededObject) and need.follows_job):
        return
    place = (need.kind, need.name)
    digest = blake2b(_json.encode(need.body), digest_size=8).hexdigest()
    if place in content and content[place] != digest and made.get(place):
        asker.patch(need.kind, job.metadata.namespace, need.name, uid=made[place], body=need.body)
    content[place] = digest


def _ask_for(job: Job, need: NeededObject | NeededSecret, asker: Asker) -> None:
    metadata = job.metadata
    if isinstance(need, NeededSecret):
        asker.generate_secret(
            metadata.namespace,
            need.name,
            recipe=need.recipe,
            parameters=need.parameters,
            owner=(_JOB, metadata.name, metadata.uid),
        )
        return
    kind = kinds.by_token(need.kind)
    manifest: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": need.name,
            "namespace": metadata.namespace,
            "ownerReferences": [msgspec.to_builtins(controller_reference(job))],
        },
        **need.body,
    }
    asker.create(need.kind, manifest, owner_uid=metadata.uid)


def _make_pod_group(situation: Situation, asker: Asker, records: Records) -> None:
    job = situation.job
    # A gang waits for no pod that has ended and was cleared away: there will be none.
    cleared = cleared_away(situation.members, records)
    wanted = build_pod_group(less_by(job, cleared), situation.priority_of)
    found = situation.group
    if found is None and situation.shut:
        return  # it would be refused: the job waits for the queue to open
    if found is None:
        asker.create(_GROUP, compact_manifest(wanted), owner_uid=job.metadata.uid)
    elif found.uid != records.ended_group:
        patch = merge_patch(_followed(found.object), _followed(wanted))
        if patch:
            asker.patch(
                _GROUP,
                job.metadata.namespace,
                wanted.metadata.name,
                uid=found.uid,
                body={"spec": patch},
            )


def _followed(group: PodGroup) -> dict[str, Any]:
    spec: dict[str, Any] = msgspec.to_builtins(group.spec)
    return {field: spec[field] for field in FOLLOWS_JOB if field in spec}


def _may_have_pods(situation: Situation, records: Records) -> bool:
    group = situation.group
    if group is None or group.uid == records.ended_group:
        return False
    return admits_pods(group.object) and records.plugins >= situation.job.spec.plugins.keys()


def _make_pods(situation: Situation, records: Records, asker: Asker) -> None:
    job = situation.job
    plugins = plugins_of(job)
    missing = missing_pods(job, situation.members, records)
    refusal = situation.refusal
    if refusal is not None and (refusal.verb, refusal.kind) == (Verb.CREATE, _POD):
        # One of each task is enough to find out whether it is still refused.
        missing = _first_of_each(missing)
    for task, index in islice(missing, PODS_AT_ONCE):
        asker.create(_POD, build_pod(job, task, index, plugins=plugins), owner_uid=job.metadata.uid)


def _first_of_each(missing: Iterator[tuple[TaskSpec, int]]) -> Iterator[tuple[TaskSpec, int]]:
    tried: set[str] = set()
    for task, index in missing:
        if task.name not in tried:
            tried.add(task.name)
            yield task, index
