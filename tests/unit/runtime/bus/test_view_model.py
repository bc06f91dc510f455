"""A view against a model of everything that can happen between it and the cluster.

The model is a cluster, a gateway that writes facts to a log (the last message per subject,
tombstones that expire, sync markers), and a reader that delivers what the log still holds. The
log is lost and made anew, loses its end, holds rubbish; the reader breaks, repeats itself, stays
away for a day. Whatever happens, the view must not invent an end, and must not miss one.
"""

from typing import NamedTuple

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stromboli.contracts import codec
from stromboli.contracts.facts import (
    OBJECTS,
    TOMBSTONE_LIFE_S,
    Fact,
    KindSynced,
    ObjectGone,
    ObjectSeen,
)
from stromboli.runtime.bus.reader import LogMessage, LogPosition
from stromboli.runtime.bus.view import Delta, Entry, Key, View

NAMESPACES = {"pod": "ns", "node": ""}
KINDS = st.sampled_from(["pod", "node"])
NAMES = st.sampled_from(["a", "b", "c.d"])
FEW = st.integers(0, 4)
RUBBISH = st.sampled_from(["undecodable", "unknown tag", "bad projection", "of another kind"])

Place = tuple[str, Key]


def packed(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


def read_value(_: str, projection: msgspec.Raw) -> int:
    return msgspec.msgpack.decode(projection, type=int)


def subject_of(place: Place) -> str:
    kind, (namespace, name) = place
    return OBJECTS.fill({"kind": kind, "namespace": namespace, "name": name})


def place_of(fact: ObjectSeen | ObjectGone) -> Place:
    return fact.kind, (fact.namespace, fact.name)


def marker_subject(kind: str) -> str:
    return f"vc.state.sync.-.{kind}"


class Living(NamedTuple):
    """An object in the model's cluster."""

    uid: str
    resource_version: str
    value: int


class Happened(NamedTuple):
    """A change of an object, by its version; without a uid it is its end."""

    version: int
    uid: str


class Stored(NamedTuple):
    """The last message of one subject; `fact` is None when nobody can read it."""

    sequence: int
    payload: bytes
    fact: Fact | None
    written_at: float


class ModelLog:
    """STATE: one message per subject."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.last_sequence = 0
        self.messages: dict[str, Stored] = {}
        self.history: list[tuple[str, Stored]] = []

    def append(self, subject: str, payload: bytes, fact: Fact | None, now: float) -> None:
        self.last_sequence += 1
        self.messages[subject] = Stored(self.last_sequence, payload, fact, now)
        self.history.append((subject, self.messages[subject]))

    def after(self, cursor: int) -> list[tuple[str, Stored]]:
        newer = [(s, m) for s, m in self.messages.items() if m.sequence > cursor]
        return sorted(newer, key=lambda item: item[1].sequence)

    def at(self, place: Place) -> Stored | None:
        return self.messages.get(subject_of(place))

    def has_marker(self, kind: str) -> bool:
        stored = self.messages.get(marker_subject(kind))
        fact = None if stored is None else stored.fact
        return isinstance(fact, KindSynced) and fact.incarnation == self.incarnation

    def forget_tombstones(self, now: float) -> None:
        for subject, stored in tuple(self.messages.items()):
            expired = now - stored.written_at >= TOMBSTONE_LIFE_S
            if isinstance(stored.fact, ObjectGone) and expired:
                del self.messages[subject]

    def lose_the_end(self, count: int) -> None:
        """The log is as it was `count` messages ago."""
        self.last_sequence = max(0, self.last_sequence - count)
        self.history = [one for one in self.history if one[1].sequence <= self.last_sequence]
        self.messages = dict(self.history)

    def lose_what_was_overwritten(self) -> None:
        """Of what the lost messages had replaced, nothing came back."""
        subjects = [subject for subject, _ in self.history]
        self.messages = {s: m for s, m in self.messages.items() if subjects.count(s) == 1}


class ViewMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.cluster: dict[Place, Living] = {}
        self.versions = 0
        self.happened: dict[Place, list[Happened]] = {}
        self.damaged = dict.fromkeys(NAMESPACES, False)
        """Whether a position may stand on a log that has lost what it speaks of."""
        self.logs = 1
        self.log = ModelLog("log-1")
        # The reader: whether it is attached, how far it is, since when it may have missed things.
        self.attached = False
        self.cursor = 0
        self.current_at = 0.0
        self.known_to_reach = 0
        self.told_caught_up = False
        self.delivered: list[LogMessage] = []
        # What the view has told us.
        self.applying: Fact | None = None
        self.shadow: dict[Place, Entry[int]] = {}
        self.synced_kinds: set[str] = set()
        self.markers_read: set[str] = set()
        self.view = View(NAMESPACES, read_value, self)

    # The view's observer.

    def changed(self, delta: Delta[int]) -> None:
        place = (delta.kind, (delta.namespace, delta.name))
        assert self.shadow.get(place) is delta.old, "the delta starts from what was told before"
        if delta.new is None:
            assert delta.old is not None
            assert delta.ended is not None
            assert delta.ended.uid == delta.old.uid
            self._is_a_real_end(place, delta.old)
            del self.shadow[place]
        else:
            assert delta.ended is None
            assert delta.old is None or delta.old.uid == delta.new.uid
            self.shadow[place] = delta.new

    def _is_a_real_end(self, place: Place, old: Entry[int]) -> None:
        said = self.applying
        if isinstance(said, ObjectSeen | ObjectGone) and place_of(said) == place:
            assert isinstance(said, ObjectGone) or said.uid != old.uid
            return
        # A sweep: only a complete log may say by silence that an object is gone.
        stored = self.log.at(place)
        assert self.view.incarnation == self.log.incarnation
        assert self.log.has_marker(place[0]), "nothing ends before the marker of this log"
        assert stored is None, "what stands on the log is not swept"

    def synced(self, kind: str) -> None:
        assert kind not in self.synced_kinds
        self.synced_kinds.add(kind)

    def unreadable(self, message: LogMessage, reason: str) -> None:
        assert reason

    # The cluster and its gateway.

    def _next_version(self) -> str:
        self.versions += 1
        return str(self.versions)

    @rule(kind=KINDS, name=NAMES, value=FEW, how=st.sampled_from(["write", "delete", "replace"]))
    def the_cluster_changes(self, kind: str, name: str, value: int, how: str) -> None:
        place = (kind, (NAMESPACES[kind], name))
        old = self.cluster.get(place)
        version = self._next_version()
        uid = ""
        if how == "delete":
            self.cluster.pop(place, None)
        else:
            uid = old.uid if old is not None and how == "write" else f"uid-{version}"
            self.cluster[place] = Living(uid, version, value)
        self.happened.setdefault(place, []).append(Happened(int(version), uid))

    def _differences(self, kind: str) -> list[list[ObjectSeen | ObjectGone]]:
        places = {place for place in self.cluster if place[0] == kind}
        places |= {
            (kind, (NAMESPACES[kind], name))
            for name in ("a", "b", "c.d")
            if self.log.at((kind, (NAMESPACES[kind], name))) is not None
        }
        facts = [self._difference(place) for place in sorted(places)]
        return [of_one for of_one in facts if of_one]

    def _difference(self, place: Place) -> list[ObjectSeen | ObjectGone]:
        living, stored = self.cluster.get(place), self.log.at(place)
        fact = None if stored is None else stored.fact
        unreadable = stored is not None and fact is None
        known = fact if isinstance(fact, ObjectSeen) else None
        ends: list[ObjectSeen | ObjectGone] = []
        if unreadable and living is None:
            ends = [self._gone(place, "", "0")]
        elif known is not None and (living is None or living.uid != known.uid):
            ends = [self._gone(place, known.uid, known.resource_version)]
        if living is None:
            return ends
        if known is not None and known.resource_version == living.resource_version:
            return ends
        kind, (namespace, name) = place
        seen = ObjectSeen(
            kind=kind,
            namespace=namespace,
            name=name,
            uid=living.uid,
            resource_version=living.resource_version,
            projection=packed(living.value),
        )
        return [*ends, seen]

    def _gone(self, place: Place, uid: str, version: str) -> ObjectGone:
        # The last projection of a tombstone is a courtesy; {} is what is left when it is lost.
        projection = packed({}) if self.versions % 2 else packed(7)
        kind, (namespace, name) = place
        return ObjectGone(
            kind=kind,
            namespace=namespace,
            name=name,
            uid=uid,
            resource_version=version,
            projection=projection,
        )

    def _append(self, fact: Fact) -> None:
        self.log.append(fact.subject(), codec.encode(fact), fact, self.now)

    def _publish(self, kind: str, count: int) -> None:
        for facts in self._differences(kind)[:count]:
            for fact in facts:
                self._append(fact)

    @rule(kind=KINDS, count=st.integers(1, 4))
    def the_gateway_publishes_some(self, kind: str, count: int) -> None:
        self._publish(kind, count)

    @rule(kind=KINDS)
    def the_gateway_completes_a_list(self, kind: str) -> None:
        self._publish(kind, 100)
        self._mark(kind, self.log.incarnation)
        self.damaged[kind] = False

    def _mark(self, kind: str, incarnation: str) -> None:
        count = sum(place[0] == kind for place in self.cluster)
        position = str(self.versions)
        self._append(
            KindSynced(kind=kind, incarnation=incarnation, resource_version=position, count=count)
        )

    @rule(kind=KINDS)
    def a_marker_of_another_log_arrives(self, kind: str) -> None:
        self._mark(kind, "log-0")

    @rule(kind=KINDS, name=NAMES, what=RUBBISH)
    def rubbish_is_written_over_a_fact(self, kind: str, name: str, what: str) -> None:
        subject = subject_of((kind, (NAMESPACES[kind], name)))
        content = {"kind": kind, "namespace": NAMESPACES[kind], "name": name}
        if what == "undecodable":
            payload = b"\xc1rubbish"
        elif what == "unknown tag":
            payload = msgspec.msgpack.encode({"type": "object.seen.v9", **content})
        elif what == "bad projection":
            payload = codec.encode(
                ObjectSeen(**content, uid="u", resource_version="1", projection=packed("text"))
            )
        else:
            subject = f"vc.state.other.-.{kind}"
            payload = b""
        self.log.append(subject, payload, None, self.now)

    @rule(kind=KINDS)
    def rubbish_is_written_over_a_marker(self, kind: str) -> None:
        self.log.append(marker_subject(kind), b"\xc1", None, self.now)

    # The reader, and what happens to it.

    def _position(self) -> LogPosition:
        away_s = self.now - self.current_at
        return LogPosition(self.log.incarnation, self.log.last_sequence, away_s)

    def _attach(self) -> None:
        start = self.view.attach(self._position())
        self.known_to_reach = self.log.last_sequence
        assert 1 <= start <= self.log.last_sequence + 1
        self.synced_kinds -= set(self.view.unsynced)
        if start == 1:
            self.markers_read.clear()
        self.attached = True
        self.told_caught_up = False
        self.cursor = start - 1
        self.delivered.clear()
        if not self.log.after(self.cursor):
            self._catch_up()

    def _catch_up(self) -> None:
        self.current_at = self.now
        if not self.told_caught_up:
            self.told_caught_up = True
            self.view.caught_up()

    def _deliver_one(self) -> bool:
        waiting = self.log.after(self.cursor)
        if not waiting:
            return False
        subject, stored = waiting[0]
        message = LogMessage(
            subject, stored.sequence, stored.payload, {}, len(waiting) - 1, stored.written_at
        )
        self.cursor = stored.sequence
        self.known_to_reach = max(self.known_to_reach, stored.sequence)
        self._apply(message, stored.fact)
        if message.pending == 0:
            self._catch_up()
        return True

    def _apply(self, message: LogMessage, fact: Fact | None) -> None:
        if isinstance(fact, KindSynced) and fact.incarnation == self.view.incarnation:
            self.markers_read.add(fact.kind)
        self.applying = fact
        self.delivered.append(message)
        self.view.apply(message)
        self.applying = None

    @precondition(lambda self: self.attached)
    @rule(count=st.sampled_from([1, 2, 5, 100]))
    def messages_are_delivered(self, count: int) -> None:
        for _ in range(count):
            if not self._deliver_one():
                return

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def a_message_is_delivered_again(self, data: st.DataObject) -> None:
        before = dict(self.shadow)

        self.view.apply(data.draw(st.sampled_from(self.delivered)))

        assert self.shadow == before

    @rule(count=FEW)
    def the_reader_is_reset(self, count: int) -> None:
        self._attach()
        for _ in range(count):
            self._deliver_one()

    @precondition(lambda self: self.attached)
    @rule()
    def the_reader_is_cut_off(self) -> None:
        self.attached = False

    @rule(hours=st.sampled_from([1, 11, 13, 25]))
    def time_passes(self, hours: int) -> None:
        while self.attached and self._deliver_one():
            pass
        self.now += hours * 3600
        if self.attached:
            self.current_at = self.now
        self.log.forget_tombstones(self.now)

    def _lose_the_log(self, kind: str, count: int) -> None:
        self.logs += 1
        self.log = ModelLog(f"log-{self.logs}")
        self.damaged = dict.fromkeys(NAMESPACES, False)
        self.delivered.clear()
        self._publish(kind, count)

    @rule(kind=KINDS, count=FEW)
    def the_log_is_lost_and_made_anew(self, kind: str, count: int) -> None:
        self._lose_the_log(kind, count)
        self.attached = False

    @rule(kind=KINDS, count=FEW, complete=st.booleans())
    def the_log_is_made_anew_while_the_reader_attaches(
        self, kind: str, count: int, complete: bool
    ) -> None:
        """The reader has looked at the old log, and its consumer reads the new one."""
        self._attach()
        self._lose_the_log(kind, count)
        if complete:
            self._publish(kind, 100)
            self._mark(kind, self.log.incarnation)
        while self._deliver_one():
            pass
        self.attached = False

    @rule(count=st.integers(1, 8), worse=st.booleans())
    def the_log_loses_its_end(self, count: int, worse: bool) -> None:
        if self.log.last_sequence - count >= self.known_to_reach:
            return  # nobody who reads the log could notice
        self.log.lose_the_end(count)
        if worse:
            self.log.lose_what_was_overwritten()
            self.damaged = dict.fromkeys(NAMESPACES, True)
        self.delivered.clear()
        self._attach()

    # What must hold at any time.

    @invariant()
    def the_deltas_add_up_to_the_view(self) -> None:
        objects = {
            (kind, key): entry
            for kind in self.view.kinds
            for key, entry in self.view.objects(kind).items()
        }
        assert objects == self.shadow

    @invariant()
    def a_kind_is_synced_by_a_marker_of_the_log_that_was_read(self) -> None:
        synced = set(self.view.kinds) - set(self.view.unsynced)
        assert synced == self.synced_kinds
        assert synced <= self.markers_read

    @invariant()
    def a_synced_view_at_the_end_of_the_log_equals_the_log(self) -> None:
        if not self.attached or self.log.after(self.cursor):
            return
        assert self.view.incarnation == self.log.incarnation
        for kind in self.view.kinds:
            if self.log.has_marker(kind):
                assert kind not in self.view.unsynced
            if kind not in self.view.unsynced:
                self._equals_the_log(kind)

    @invariant()
    def a_position_covers_everything_that_happened_up_to_it(self) -> None:
        for place, changes in self.happened.items():
            kind, key = place
            stored = self.log.at(place)
            unreadable = stored is not None and stored.fact is None
            if kind in self.view.unsynced or self.damaged[kind] or unreadable:
                continue
            covered = [c for c in changes if c.version <= self.view.position(kind)]
            entry = self.view.objects(kind).get(key)
            if not covered:
                continue
            if entry is None:
                later = [c for c in changes if c.version >= covered[-1].version]
                assert any(not change.uid for change in later), "it was not there yet"
            else:
                known = int(entry.resource_version)
                assert known >= covered[-1].version + (not covered[-1].uid)

    def _equals_the_log(self, kind: str) -> None:
        known = dict(self.view.objects(kind))
        for name in ("a", "b", "c.d"):
            key = (NAMESPACES[kind], name)
            stored = self.log.at((kind, key))
            if stored is not None and stored.fact is None:
                continue  # unreadable: what was known of it, if anything, stands
            entry = known.pop(key, None)
            if stored is None or isinstance(stored.fact, ObjectGone):
                assert entry is None
            else:
                assert isinstance(stored.fact, ObjectSeen)
                assert entry is not None
                assert entry.uid == stored.fact.uid
                assert entry.resource_version == stored.fact.resource_version
                assert entry.sequence == stored.sequence
                assert entry.object == read_value(kind, stored.fact.projection)

    def teardown(self) -> None:
        """Once all faults are over, the view is the cluster."""
        for kind in NAMESPACES:
            self.the_gateway_completes_a_list(kind)
        self._attach()
        while self._deliver_one():
            pass

        assert self.view.unsynced == ()
        found = {
            place: Living(entry.uid, entry.resource_version, entry.object)
            for place, entry in self.shadow.items()
        }
        assert found == self.cluster


ViewMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_the_view_equals_the_log_through_any_faults = ViewMachine.TestCase
