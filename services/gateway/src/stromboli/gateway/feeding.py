"""Follow one kind in Kubernetes and keep STATE equal to it, as long as we lead.

list + watch → projection → difference → STATE. Each event, and each complete list, moves the
kind's position when everything that came of it stands there.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec

from stromboli.api.errors import ApiError
from stromboli.api.kinds import Kind
from stromboli.api.meta import KubeObject
from stromboli.api.projections import encode_end, encode_projection, project
from stromboli.contracts.errors import BadSubject
from stromboli.contracts.facts import OBJECTS
from stromboli.contracts.streams import STATE
from stromboli.gateway.difference import Difference, Observed
from stromboli.gateway.placing import Places
from stromboli.gateway.positions import Positions, Ticket
from stromboli.gateway.published import Key, Published
from stromboli.gateway.writing import FactWriter
from stromboli.kube.client import KubeClient
from stromboli.kube.errors import Forbidden, KubeError, NotFound
from stromboli.kube.reflector import (
    Bookmark,
    Change,
    Changed,
    Interrupted,
    ListAbandoned,
    ListDone,
    ListPage,
    ListStarted,
    Reflector,
)
from stromboli.kube.wire import EventType, WatchEvent, read_meta
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.crashpoints import declare, reach
from stromboli.runtime.logs import get_logger

log = get_logger(__name__)

DISPENSABLE = frozenset(
    {"vccronjob", "jobflow", "jobtemplate", "hypernode", "storageclass", "csinode", "configmap"}
)
"""Kinds whose CRDs, or whose API group, a cluster may not have, or that we may not read."""

PAGE = declare("gateway.list.page", "a page of a list was handed to the writer")
LISTED = declare("gateway.list.done", "the list is complete, the kind's position is not told")


class KindFeed:
    """One kind's way from the API server to STATE."""

    def __init__(
        self,
        kind: Kind[Any],
        reflector: Reflector,
        *,
        kube: KubeClient,
        published: Published,
        writer: FactWriter,
        positions: Positions,
        places: Places,
        jetstream: JetStream,
        office: DeadLetterOffice,
        restored: Callable[[int], None],
    ) -> None:
        """`restored` is told the version of a list that is older than what was known before."""
        self.kind = kind
        self.reflector = reflector
        self._kube = kube
        self._published = published
        self._writer = writer
        self._places = places
        self._jetstream = jetstream
        self._office = office
        self._positions = positions
        self._restored = restored
        resume_from = int(reflector.health.resource_version or 0)
        known = published.position(kind.token) if resume_from else None
        self._track = positions.follow(kind.token, known)
        self._difference = Difference(kind.token, published)
        self._list: Ticket | None = None
        """Of the list that is under way."""
        self._place_keys: set[Key] = set()
        self._version = resume_from
        """How far list and watch have come."""
        self.interrupted = ""
        """Why the API server does not answer, while it does not."""

    async def run(self) -> None:
        if await self._is_ahead_of_the_server():
            self.reflector.request_relist()
        async with aclosing(self.reflector.changes()) as changes:
            async for change in changes:
                await self._take(change)

    async def _is_ahead_of_the_server(self) -> bool:
        """A server that was restored from a backup says nothing to who watches from later.

        And what stands on STATE beyond it would hide whatever gets that name next.
        """
        resume_from = self.reflector.health.resource_version
        if not resume_from:
            return False
        known = max(int(resume_from), self._published.newest_version(self.kind.token))
        try:
            async with aclosing(self._kube.list_pages(self.kind, limit=1)) as pages:
                async for page in pages:
                    return int(page.resource_version) < known
        except KubeError as problem:
            log.debug("feed.unchecked", kind=self.kind.token, problem=str(problem))
        return False

    async def _take(self, change: Change) -> None:
        match change:
            case ListStarted(reason):
                log.info("list.started", kind=self.kind.token, reason=str(reason))
                await self._drop_what_state_lost()
                self._difference.list_started()
                self._list = self._track.begin_list()
                self._place_keys = set()
            case ListPage(items):
                self.interrupted = ""
                for raw in items:
                    await self._seen(raw, self._list, cause=f"list/{self.kind.token}")
                reach(PAGE)
            case ListDone(resource_version, count):
                await self._list_done(resource_version, count)
            case ListAbandoned(error):
                await self._list_abandoned(error)
            case Changed(event):
                self.interrupted = ""
                await self._changed(event)
            case Bookmark(resource_version):
                self.interrupted = ""
                if int(resource_version) >= self._version:
                    self._version = int(resource_version)
                    self._track.event(self._version).done()
            case Interrupted(error, retry_in_s):
                self.interrupted = str(error)
                log.warning(
                    "watch.interrupted",
                    kind=self.kind.token,
                    problem=str(error),
                    retry_in_s=round(retry_in_s, 3),
                )

    async def _changed(self, event: WatchEvent) -> None:
        version = event.resource_version
        if int(version) <= self._version:
            # A watch goes forward: this is what was, from a server that lags behind.
            log.warning("watch.old_event", kind=self.kind.token, name=event.name, version=version)
            return
        self._version = int(version)
        ticket = self._track.event(self._version)
        if event.type is EventType.DELETED:
            await self._gone(event.object, version, ticket)
        else:
            cause = f"watch/{self.kind.token}/{version}"
            await self._seen(event.object, ticket, cause=cause)
        ticket.done()

    def _subject(self, key: Key) -> str:
        return OBJECTS.fill({"kind": self.kind.token, "namespace": key[0], "name": key[1]})

    async def _observe(
        self, raw: msgspec.Raw, encode: Callable[[KubeObject], bytes] = encode_projection
    ) -> Observed | None:
        """Project an object; what can't be read or named is put aside, and the rest goes on."""
        meta = read_meta(raw)
        try:
            self._subject((meta.namespace, meta.name))
            projection = encode(project(self.kind, raw))
        except (ApiError, BadSubject) as problem:
            identity = f"vc.state.{self.kind.token}.{meta.namespace or '-'}.{meta.name}"
            letter = Unreadable(
                STATE.name, meta.uid, identity, int(meta.resource_version), bytes(raw)
            )
            await self._office.put_aside(letter, f"an object that can't be read: {problem}")
            self._difference.exists((meta.namespace, meta.name))
            return None
        return Observed(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            projection=projection,
        )

    async def _seen(self, raw: msgspec.Raw, ticket: Ticket | None, *, cause: str) -> None:
        observed = await self._observe(raw)
        if observed is None:
            return
        if self._list is not None:
            self._place_keys.add(observed.key)
        seen = self._published.seen_version(self.kind.token, observed.key)
        if self._list is not None or int(observed.resource_version) >= seen:
            self._places.seen(self.kind.token, observed.key, raw)
        self._published.saw(
            self.kind.token,
            observed.key,
            uid=observed.uid,
            resource_version=observed.resource_version,
        )
        for fact in self._difference.seen(observed, cause):
            await self._writer.write(fact, ticket)

    async def _gone(self, raw: msgspec.Raw, resource_version: str, ticket: Ticket) -> None:
        observed = await self._observe(raw, encode_end)
        if observed is None:
            return
        self._places.gone(self.kind.token, observed.key)
        cause = f"watch/{self.kind.token}/{resource_version}"
        for fact in self._difference.gone(observed, cause):
            await self._writer.write(fact, ticket)

    async def _list_done(self, resource_version: str, count: int) -> None:
        reach(LISTED)
        version = int(resource_version)
        if version < self._version:
            log.warning("list.went_back", kind=self.kind.token, version=resource_version)
            self._restored(version)
        self._version = version
        ticket, self._list = self._list or self._track.begin_list(), None
        cause = f"list/{self.kind.token}/{resource_version}"
        for fact in self._difference.corrections(resource_version, cause):
            await self._writer.write(fact, ticket)
        if self._difference.has_doubts:
            log.info("list.contested", kind=self.kind.token, version=resource_version)
            self.reflector.request_relist()
        self._places.keep_only(self.kind.token, self._place_keys)
        self._track.end_list(ticket, version, count)
        log.info("kind.listed", kind=self.kind.token, count=count, version=resource_version)

    async def _list_abandoned(self, error: KubeError) -> None:
        log.warning("list.abandoned", kind=self.kind.token, problem=str(error))
        self._difference.list_abandoned()
        if self._list is not None:
            ticket, self._list = self._list, None
            ticket.done()
        if isinstance(error, NotFound) and error.is_unknown_kind:
            self._is_not_served("install its CRD or enable its API to use it")
        elif isinstance(error, Forbidden):
            self._is_not_served("give the gateway the right to list and watch it")

    def _is_not_served(self, advice: str) -> None:
        """A cluster may do without some kinds: then there are none of them, and that is known.

        Not if there were any before: a server that starts has its custom kinds only after a while.
        """
        token = self.kind.token
        is_known = self._published.position(token) is not None
        if token not in DISPENSABLE or is_known or self._published.standings(token):
            return
        self._positions.is_not_served(token)
        log.warning("kind.not_served", kind=token, advice=advice)

    async def _drop_what_state_lost(self) -> None:
        """A list is a comparison with STATE as it is, not as we remember it."""
        # Only what was remembered before the look can be missing: the rest may be newer.
        token = self.kind.token
        remembered = self._published.standings(token)
        while True:
            try:
                subjects = await self._jetstream.subjects(STATE.name, f"vc.state.{token}.*.*")
                break
            except BusError as problem:
                log.debug("list.waiting", kind=self.kind.token, problem=str(problem))
                await asyncio.sleep(0.2)
        for key, standing in remembered.items():
            subject = self._subject(key)
            is_same = self._published.standing(token, key) is standing
            if subject not in subjects and is_same and not self._published.is_in_flight(subject):
                if not standing.gone:  # a tombstone that is missing has only lived its time
                    log.warning("fact.lost", subject=subject)
                self._published.lost_object(token, key)
