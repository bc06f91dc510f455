"""Say why a queue refuses a job: which queue, short of what, and who has it.

Volcano's words come first, because people search for them; the sentence after them is for those
who want to know what to do about it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from stromboli.scheduling.plugins.api import Refusal
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.resources import PODS, Amounts, readable

__all__ = [
    "MISCONFIGURED",
    "QUEUE_LIMIT",
    "QUOTA_WAIT",
    "Holders",
    "beyond_limit",
    "beyond_share",
    "misplaced_queue",
]

Holders: TypeAlias = Callable[[], Iterable[tuple[str, Mapping[str, int]]]]
"""Who holds how much; asked only when there is something to say."""

NOT_ENOUGH: Final = "NotEnoughResources"
EXCEEDS_MAX: Final = "ExceedsMax"
QUEUE_LIMIT: Final = "QueueLimit"
QUOTA_WAIT: Final = "QuotaWait"
MISCONFIGURED: Final = "Misconfigured"

_TOP: Final = 3


def job_name(key: JobKey) -> str:
    return f"{key[0]}/{key[1]}"


def beyond_limit(
    queue: str,
    *,
    of: str,
    need: Amounts,
    short_by: Amounts,
    limit: Mapping[str, int],
    holders: Holders,
) -> Refusal:
    """The limit of `queue`, which is the job's own queue `of` or one above it, is reached."""
    whose = f"queue {queue!r}" if queue == of else f"queue {queue!r}, above its queue {of!r},"
    most = {name: limit.get(name, 0) for name, _ in short_by}
    sentence = f"{whose} may use at most {_amounts(tuple(most.items()))}; "
    beyond = tuple((name, units) for name, units in need if units > most.get(name, units))
    if beyond:
        sentence += f"{_amounts(beyond)} is more than that, whoever else uses it"
        return Refusal(NOT_ENOUGH, _insufficient(short_by), short_by, EXCEEDS_MAX, sentence)
    sentence += _rest(need, short_by, holders)
    return Refusal(NOT_ENOUGH, _insufficient(short_by), short_by, QUEUE_LIMIT, sentence)


def beyond_share(
    queue: str,
    *,
    need: Amounts,
    short_by: Amounts,
    deserved: Mapping[str, int],
    holders: Holders,
) -> Refusal:
    """The queue has its share already, while others want theirs."""
    part = tuple((name, deserved.get(name, 0)) for name, _ in short_by)
    sentence = (
        f"queue {queue!r} deserves {_amounts(part)} of the cluster now; "
        f"{_rest(need, short_by, holders)}"
    )
    return Refusal(NOT_ENOUGH, _insufficient(short_by), short_by, QUOTA_WAIT, sentence)


def misplaced_queue(problem: str) -> Refusal:
    return Refusal(NOT_ENOUGH, problem, (), MISCONFIGURED, problem)


def _insufficient(short_by: Amounts) -> str:
    lacking = ", ".join(f"insufficient {name}" for name, _ in short_by)
    return f"queue resource quota insufficient: {lacking}"


def _rest(need: Amounts, short_by: Amounts, holders: Holders) -> str:
    names = {name for name, _ in short_by}
    wanted = tuple(pair for pair in need if pair[0] in names and pair[0] != PODS)
    said = f"{_amounts(wanted)} more is short by {_amounts(short_by)}"
    top = _largest(holders(), short_by[0][0]) if short_by else []
    if top:
        shown = ", ".join(f"{who} ({readable(((name, units),))})" for who, name, units in top)
        said += f"; most of it is held by {shown}"
    return said


def _largest(
    holders: Iterable[tuple[str, Mapping[str, int]]], resource: str
) -> list[tuple[str, str, int]]:
    held = [(who, resource, sums.get(resource, 0)) for who, sums in holders]
    held = [one for one in held if one[2] > 0]
    held.sort(key=lambda one: (-one[2], one[0]))
    return held[:_TOP]


def _amounts(amounts: Amounts) -> str:
    return readable(amounts) or "nothing"
