"""How votes add up, tier by tier."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.panel import Panel, Seat
from stromboli.scheduling.plugins.api import Claim, Refusal, Vote
from stromboli.scheduling.pods import Task, TaskClass, TaskStatus


def task(name: str) -> Task:
    return Task(
        namespace="test",
        name=name,
        uid=name,
        group="g",
        role="",
        kind=TaskClass(request=(("pods", 1),)),
        status=TaskStatus.RUNNING,
        node="n",
        priority=0,
        created="",
        bound_at="",
        gated=False,
    )


A, B, C = task("a"), task("b"), task("c")
CONTENDER = Contender(
    job=Job(("test", "g")), queue="q", phase="Inqueue", waiting=[], best_effort=[]
)
CLAIM = Claim(CONTENDER, (task("claimant"),))


@dataclass
class Names:
    """Gives up these, or abstains."""

    answer: Sequence[Task] | None
    name: str = "names"

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        return self.answer


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([[[A, B], [B, C]]], [B]),
        ([[[A, B], None]], [A, B]),
        ([[None], [[C]]], [C]),
        # An empty answer leaves the tier, and the next one decides.
        ([[[A, B], []], [[C]]], [C]),
        # So does an empty intersection: the third plugin does not begin the list anew.
        ([[[A], [B], [C]]], []),
        ([[[A], [B], [C]], [[A, C]]], [A, C]),
        # The first tier with victims decides, whatever later ones think.
        ([[[A]], [[]]], [A]),
        ([[]], []),
        # The order is that of the candidates.
        ([[[C, A]]], [A, C]),
    ],
)
def test_victims_are_those_whom_one_tier_agrees_on(
    tiers: list[list[list[Task] | None]], expected: list[Task]
):
    panel = Panel([[Seat(Names(answer)) for answer in tier] for tier in tiers])

    assert panel.preemptable(CLAIM, [A, B, C]) == expected


@dataclass
class Keeps(Names):
    """Protects all others, in whatever tier somebody else gives them up."""

    protects = True


@dataclass
class LooksAtVictims(Names):
    """Says nothing about who comes."""

    judges_victims = True


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([[Keeps([])], [Names([A])]], []),
        ([[Names([A, B])], [Keeps([B, C])]], [B]),
        # Where it leaves nobody to one tier, it may leave somebody to the next.
        ([[Names([A])], [Keeps([B]), Names([B])]], [B]),
        ([[Keeps(None)], [Names([A])]], [A]),
    ],
)
def test_whom_a_plugin_protects_no_tier_gives_up(tiers: list[list[Names]], expected: list[Task]):
    panel = Panel([[Seat(plugin) for plugin in tier] for tier in tiers])

    assert panel.preemptable(CLAIM, [A, B, C]) == expected


def test_a_plugin_whose_vote_is_off_protects_nobody():
    keeps = Seat(Keeps([]), frozenset({"enablePreemptable"}))

    assert Panel([[keeps], [Seat(Names([A]))]]).preemptable(CLAIM, [A]) == [A]


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([[LooksAtVictims([A])]], []),
        ([[LooksAtVictims([A]), Names(None)]], []),
        ([[LooksAtVictims([A, B]), Names([B, C])]], [B]),
        # The next tier may have a reason.
        ([[LooksAtVictims([A])], [Names([C])]], [C]),
        # Who protects from another tier has compared them too.
        ([[LooksAtVictims([A, B])], [Keeps([B])]], [B]),
    ],
)
def test_nobody_goes_whom_nobody_has_compared_with_the_claimant(
    tiers: list[list[Names]], expected: list[Task]
):
    panel = Panel([[Seat(plugin) for plugin in tier] for tier in tiers])

    assert panel.preemptable(CLAIM, [A, B, C]) == expected


@dataclass
class Votes:
    vote: Vote | Refusal
    name: str = "votes"

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        return self.vote

    def job_pipelined(self, contender: Contender) -> Vote:
        return self.vote if isinstance(self.vote, Vote) else Vote.REJECT


YES, NO, DUNNO = Vote.PERMIT, Vote.REJECT, Vote.ABSTAIN


@pytest.mark.parametrize(
    ("tiers", "permitted"),
    [
        ([], True),
        ([[DUNNO], [DUNNO]], True),
        ([[YES, NO]], False),
        ([[YES], [NO]], True),
        ([[DUNNO], [NO]], False),
        ([[DUNNO, YES], [NO]], True),
    ],
)
def test_permission_is_given_by_the_first_tier_with_an_opinion(
    tiers: list[list[Vote]], permitted: bool
):
    panel = Panel([[Seat(Votes(vote)) for vote in tier] for tier in tiers])

    assert (panel.enqueue_refusal(CONTENDER) is None) is permitted
    assert panel.may_wait(CONTENDER) is permitted


def test_a_refusal_is_passed_on_with_its_words():
    refusal = Refusal("NotEnoughResources", "no")

    assert Panel([[Seat(Votes(refusal))]]).enqueue_refusal(CONTENDER) is refusal


@dataclass
class Starving:
    answer: bool
    name: str = "starving"

    def job_starving(self, contender: Contender) -> bool:
        return self.answer


@pytest.mark.parametrize(
    ("tiers", "starves"),
    [([], False), ([[True, False]], False), ([[True], [False]], True), ([[True, True]], True)],
)
def test_a_job_starves_if_the_first_tier_with_an_opinion_says_so(
    tiers: list[list[bool]], starves: bool
):
    panel = Panel([[Seat(Starving(answer)) for answer in tier] for tier in tiers])

    assert panel.is_starving(CONTENDER) is starves


def test_a_flag_silences_a_plugin():
    panel = Panel([[Seat(Names([A]), frozenset({"enablePreemptable"}))]])

    assert panel.preemptable(CLAIM, [A]) == []
