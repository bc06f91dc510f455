"""Call the API server until it answers, the intent expires, or the answer is final.

What is worth another try is decided by the kind of failure (`KubeError.retryable`): a server
that is away, overloaded, or protecting a disruption budget. Everything else is an answer.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stromboli.contracts.outcomes import Reason
from stromboli.gateway.deadlines import Permit
from stromboli.gateway.refusals import Refusal, Unclear
from stromboli.kube.backoff import Backoff
from stromboli.kube.errors import (
    ApiError,
    BadRequest,
    BodyRefused,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
)
from stromboli.kube.last_look import last_look
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter

log = get_logger(__name__)

T = TypeVar("T")

_retries = counter("stromboli.intents.retried", "API calls tried again", labels=["error"])

_CALL_S = 10.0
_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 2.0
_WORDS = 1000
"""Characters of an answer that are passed on: those of a whole gang travel in one message."""

REASONS: dict[type[ApiError], Reason] = {
    NotFound: Reason.NOT_FOUND,
    Forbidden: Reason.FORBIDDEN,
    Invalid: Reason.INVALID,
    BadRequest: Reason.INVALID,
    BodyRefused: Reason.INVALID,
}
"""What an answer of the API server means to the sender; anything else is a STALE decision."""


class Expired(Exception):
    """The intent's life ran out before the API server gave a final answer."""

    def __init__(self, last: KubeError | None, *, maybe_applied: bool) -> None:
        detail = "there was no time for a try" if last is None else f"the last answer was: {last}"
        super().__init__(f"not applied in time: {detail}")
        self.maybe_applied = maybe_applied
        """Whether it may have been done nevertheless, or may still be."""


def verdict_of(error: KubeError) -> Refusal | Unclear:
    """The API server's no, unless an earlier try may have been executed all the same."""
    return Unclear(str(error)[:_WORDS]) if error.maybe_applied else refusal_of(error)


def refusal_of(error: KubeError) -> Refusal:
    """The API server's no, in the contract's words."""
    words = str(error)[:_WORDS]
    for error_type, reason in REASONS.items():
        if isinstance(error, error_type):
            return Refusal(reason, words)
    return Refusal(Reason.STALE, words)


async def until_final(
    call: Callable[[float], Awaitable[T]], permit: Permit, rng: random.Random
) -> T:
    """Call with a time limit until it succeeds; raises what is final, or Expired.

    Either says in `maybe_applied` whether this or an earlier try may have its effect yet.
    """
    backoff = Backoff(first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S, rng=rng)
    last: KubeError | None = None
    maybe_applied = permit.may_have_begun
    while not permit.expired:
        permit.check_leading()
        try:
            # Asked again when the call leaves: a leader that was frozen meanwhile is none.
            with last_look(permit.check_leading):
                return await call(max(0.1, min(_CALL_S, permit.remaining_s)))
        except KubeError as error:
            maybe_applied = error.maybe_applied = maybe_applied or error.maybe_applied
            if not error.retryable:
                raise
            last = error
            _retries.add(1, error=type(error).__name__)
            asked_s = error.retry_after_s if isinstance(error, TooManyRequests) else None
            pause_s = backoff.next_delay_s(at_least_s=asked_s)
            log.debug("intent.retrying", problem=str(error), pause_s=round(pause_s, 3))
            await asyncio.sleep(max(0.0, min(pause_s, permit.remaining_s)))
    raise Expired(last, maybe_applied=maybe_applied)
