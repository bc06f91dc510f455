"""What must hold after every fault: nothing lost, nothing done twice, nothing out of order.

A fault test breaks something and then asks these questions; the view's equality with the API
server is `comparison`'s part.
"""

from collections.abc import Iterable, Sequence

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import AnyOutcome
from stromboli.contracts.streams import INTENT
from stromboli.testkit.bus_contents import dead_letters, stored_outcomes
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.waiting import eventually

__all__ = ["answered_in_order", "answers_of", "no_dead_letters", "until_all_ended"]


async def until_all_ended(peer: BusPeer, deadline_s: float = 20.0) -> None:
    """Return when no intent is on the bus any more: each was answered and acknowledged."""

    async def none_left() -> bool:
        info = await peer.jetstream.stream_info(INTENT.name)
        return info.state.messages == 0

    await eventually(
        none_left, deadline_s=deadline_s, interval_s=0.05, describe="all intents to end"
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
    """Like `answers_of`, for the intents of one job: answered in the order of asking."""
    answers = await answers_of(peer, intents)

    assert [outcome.intent_id for outcome in answers] == [intent.id for intent in intents]
    return answers


async def no_dead_letters(peer: BusPeer) -> None:
    letters = await dead_letters(peer)

    assert not letters, f"put aside: {[(letter.arrived_on, letter.reason) for letter in letters]}"
