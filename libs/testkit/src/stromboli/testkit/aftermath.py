"""What must hold after every fault: nothing lost, nothing done twice, nothing out of order.

A fault test breaks something and then asks these questions; the view's equality with the API
server is `comparison`'s part.
"""

from collections.abc import Iterable, Sequence

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import AnyOutcome
from stromboli.contracts.streams import INTENT
from stromboli.runtime.bus.runs import run_of
from stromboli.testkit.bus_contents import dead_letters, stored_outcomes
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.waiting import eventually

__all__ = ["answered_in_order", "answers_of", "no_dead_letters", "until_all_ended"]


async def until_all_ended(peer: BusPeer, deadline_s: float = 20.0) -> None:
    """Return when no intent is on the bus any more: each was answered and acknowledged."""
    left = 0

    async def none_left() -> bool:
        nonlocal left
        left = (await peer.jetstream.stream_info(INTENT.name)).state.messages
        return left == 0

    await eventually(
        none_left,
        deadline_s=deadline_s,
        interval_s=0.05,
        describe=lambda: f"all intents to end, {left} are left",
    )


async def answers_of(peer: BusPeer, intents: Iterable[AnyIntent]) -> list[AnyOutcome]:
    """The outcomes of these intents in the order in which they were stored.

    Fails unless each intent has exactly one. Asked when no intent is left on the bus, so that
    none can be answered a second time afterwards.
    """
    await until_all_ended(peer)
    wanted = [intent.id for intent in intents]
    answers = [o for o in await stored_outcomes(peer) if o.intent_id in set(wanted)]
    answered = [outcome.intent_id for outcome in answers]
    unanswered = [id_ for id_ in wanted if id_ not in answered]
    repeated = [o for o in answers if answered.count(o.intent_id) > 1]

    assert not unanswered, f"{len(unanswered)} intents ended without an outcome"
    assert not repeated, f"intents were answered more than once: {repeated}"
    return answers


async def answered_in_order(peer: BusPeer, intents: Sequence[AnyIntent]) -> list[AnyOutcome]:
    """Like `answers_of`, for the intents of one job: answered in the order of asking.

    The members of a run (creations in a row, say) may be answered in any order among
    themselves. The answers are returned in the order of asking.
    """
    answers = {outcome.intent_id: outcome for outcome in await answers_of(peer, intents)}
    answered = list(answers)
    for same_run in _runs(intents):
        asked = {intent.id for intent in same_run}
        first, answered = answered[: len(asked)], answered[len(asked) :]
        assert set(first) == asked, f"{first} were answered before {asked}"
    return [answers[intent.id] for intent in intents]


def _runs(intents: Sequence[AnyIntent]) -> list[list[AnyIntent]]:
    runs: list[list[AnyIntent]] = []
    for intent in intents:
        run = run_of(intent)
        others = [run_of(other) for other in runs[-1]] if runs else [None]
        if run is not None and all(o and o.sort == run.sort and o != run for o in others):
            runs[-1].append(intent)
        else:
            runs.append([intent])
    return runs


async def no_dead_letters(peer: BusPeer) -> None:
    letters = await dead_letters(peer)

    assert not letters, f"put aside: {[(letter.arrived_on, letter.reason) for letter in letters]}"
