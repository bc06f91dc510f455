"""A core neither forgets what it asked for, nor decides on a view older than its own writes."""

import pytest

from stromboli.contracts.epochs import NO_EPOCH
from stromboli.contracts.intents import DeleteObject, Envelope, Verb
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    FenceAnswered,
    GangBound,
    PodBound,
    Reason,
    Refused,
)
from stromboli.contracts.outstanding import Outstanding

JOB = "vcjob/ns/mpi"

Known = dict[str, tuple[str, str]]


def intent(id_: str = "i1", *, key: str = JOB, not_after: float = 100.0) -> Envelope:
    return DeleteObject(
        id=id_,
        key=key,
        service="controllers",
        not_after=not_after,
        kind="pod",
        namespace="ns",
        name="mpi-0",
        uid="u1",
    )


def applied(
    id_: str = "i1",
    *,
    verb: Verb = Verb.CREATE,
    kind: str = "pod",
    name: str = "mpi-0",
    uid: str = "u1",
    version: str = "10",
) -> Applied:
    return Applied(
        intent_id=id_,
        service="controllers",
        verb=verb,
        kind=kind,
        key=JOB,
        namespace="ns",
        name=name,
        uid=uid,
        resource_version=version,
    )


def refused(id_: str = "i1") -> Refused:
    return Refused(
        intent_id=id_,
        service="controllers",
        verb=Verb.CREATE,
        kind="pod",
        key=JOB,
        reason=Reason.STALE,
        message="",
    )


def gang_bound(*bound: bool) -> GangBound:
    pods = tuple(
        PodBound(name=f"p{n}", uid=f"u{n}", node="n", bound=b) for n, b in enumerate(bound)
    )
    return GangBound(
        intent_id="i1",
        service="scheduler",
        verb=Verb.BIND,
        kind="pod",
        key=JOB,
        namespace="ns",
        name="pg",
        attempt="1",
        part=0,
        parts=1,
        pods=pods,
    )


def fence_answered() -> FenceAnswered:
    return FenceAnswered(
        intent_id="i1",
        service="scheduler",
        verb=Verb.FENCE,
        kind="-",
        key=JOB,
        partition=0,
        epoch=NO_EPOCH,
        incarnation="log",
        state_sequence=1,
    )


def may_decide(book: Outstanding, known: Known, *, now: float = 0.0, key: str = JOB) -> bool:
    return book.may_decide(key, lambda kind, ns, name: known.get(name), now=now)


def after(*outcomes: AnyOutcome, watched: frozenset[str] | None = None) -> Outstanding:
    book = Outstanding(watched=watched)
    for outcome in outcomes:
        book.ask(intent(outcome.intent_id))
        book.answered(outcome, now=0.0)
    return book


# What was asked.


def test_an_intent_stays_in_the_book_until_its_outcome():
    book = Outstanding()
    asked = intent()
    book.ask(asked)

    assert book.is_asked("i1")
    assert book.has_open(JOB)
    assert len(book) == 1
    assert book.answered(applied(), now=0.0) is asked
    assert not book.is_asked("i1")
    assert not book.has_open(JOB)
    assert len(book) == 0


def test_an_outcome_that_nobody_waits_for_is_ignored():
    book = Outstanding()
    book.ask(intent("other"))

    assert book.answered(refused("i1"), now=0.0) is None
    assert book.attempt(JOB) == 1
    assert may_decide(book, {})


def test_a_second_outcome_of_the_same_intent_counts_for_nothing():
    book = after(refused())

    assert book.answered(refused(), now=0.0) is None
    assert book.attempt(JOB) == 2


def test_asking_twice_with_one_id_is_asking_once():
    book = Outstanding()
    book.ask(intent())
    book.ask(intent())

    assert len(book) == 1


def test_an_intent_without_an_answer_is_overdue_after_its_deadline_and_some_grace():
    book = Outstanding(grace_s=2.0)
    late, patient = intent("late", not_after=100.0), intent("patient", not_after=200.0)
    book.ask(late)
    book.ask(patient)

    assert book.overdue(102.0) == []
    assert book.overdue(102.1) == [late]
    assert book.overdue(102.1) == []
    assert book.is_asked("patient")


def test_what_the_shell_reports_as_unanswered_is_crossed_off_once():
    book = Outstanding()
    book.ask(intent())

    assert book.unanswered(intent())
    assert not book.unanswered(intent())
    assert book.attempt(JOB) == 2


# Attempts.


@pytest.mark.parametrize(
    ("outcome", "attempt"),
    [
        (applied(), 1),
        (refused(), 2),
        (gang_bound(True, True), 1),
        (gang_bound(True, False), 2),
        (fence_answered(), 1),
    ],
    ids=["applied", "refused", "gang bound", "gang bound in part", "fence answered"],
)
def test_the_next_attempt_is_another_one_only_when_something_was_not_done(
    outcome: AnyOutcome, attempt: int
):
    assert after(outcome).attempt(JOB) == attempt


def test_an_overdue_intent_makes_the_next_one_another_attempt_of_its_key_only():
    book = Outstanding()
    book.ask(intent(not_after=0.0))
    book.overdue(50.0)

    assert book.attempt(JOB) == 2
    assert book.attempt("vcjob/ns/other") == 1


# Reading one's own writes.


def test_a_key_is_closed_until_the_view_shows_the_write():
    book = after(applied(version="10"))

    assert not may_decide(book, {})
    assert not may_decide(book, {"mpi-0": ("u1", "9")})
    assert may_decide(book, {"mpi-0": ("u1", "10")})
    assert may_decide(book, {}), "once seen, it is not asked for again"


def test_versions_are_compared_as_numbers():
    assert not may_decide(after(applied(version="10")), {"mpi-0": ("u1", "9")})
    assert may_decide(after(applied(version="9")), {"mpi-0": ("u1", "10")})


def test_a_view_that_still_shows_the_predecessor_of_what_we_created_is_too_old():
    book = after(applied(uid="u2", version="10"))

    assert not may_decide(book, {"mpi-0": ("u1", "5")})
    assert may_decide(book, {"mpi-0": ("u2", "10")})


def test_a_view_that_shows_a_successor_of_what_we_wrote_is_new_enough():
    assert may_decide(after(applied(uid="u1", version="10")), {"mpi-0": ("u2", "12")})


@pytest.mark.parametrize("verb", [Verb.DELETE, Verb.EVICT])
def test_after_a_deletion_the_key_is_closed_until_the_view_has_lost_the_object(verb: Verb):
    gone = applied(verb=verb, version="")

    assert not may_decide(after(gone), {"mpi-0": ("u1", "5")})
    assert may_decide(after(gone), {})
    assert may_decide(after(gone), {"mpi-0": ("u2", "7")})


def test_every_write_of_a_key_must_be_seen_and_other_keys_are_not_concerned():
    book = after(
        applied("i1", name="mpi-0", version="10"), applied("i2", name="mpi-1", version="11")
    )

    assert may_decide(book, {}, key="vcjob/ns/other")
    assert not may_decide(book, {"mpi-0": ("u1", "10")})
    assert may_decide(book, {"mpi-1": ("u1", "11")}), "the first was seen before"


def test_a_write_to_a_kind_that_the_view_does_not_have_closes_nothing():
    """ConfigMaps and Services are never facts: waiting for one would last to the limit."""
    watched = frozenset({"pod"})

    assert may_decide(after(applied(kind="configmap"), watched=watched), {})
    assert not may_decide(after(applied(kind="pod"), watched=watched), {})


def test_a_write_that_never_shows_keeps_the_key_closed_only_for_a_while():
    book = after(applied())

    assert not may_decide(book, {}, now=9.9)
    assert may_decide(book, {}, now=10.0)


def test_a_refusal_closes_nothing():
    assert may_decide(after(refused()), {})


def test_nothing_is_left_of_a_key_that_was_forgotten():
    book = after(refused("i1"), applied("i2"))
    book.ask(intent("i3"))
    book.ask(intent("i4", key="vcjob/ns/other"))
    book.forget_key(JOB)

    assert not book.is_asked("i3")
    assert book.is_asked("i4")
    assert book.attempt(JOB) == 1
    assert may_decide(book, {})
    assert book.answered(applied("i3"), now=0.0) is None
