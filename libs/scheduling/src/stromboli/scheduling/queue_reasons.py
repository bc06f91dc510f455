"""Say why a queue refuses a job: which queue, short of what, and who has it.

Volcano's words come first, because people search for them; the sentence after them is for those
who want to know what to do about it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal
from stromboli.scheduling.pods import JobKey, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.reasons import Unblock
from stromboli.scheduling.resources import PODS, Amounts, added, readable

__all__ = [
    "MISCONFIGURED",
    "QUEUE_LIMIT",
    "QUOTA_WAIT",
    "Holders",
    "beyond_limit",
    "beyond_share",
    "guaranteed_to",
    "job_name",
    "kept_for_others",
    "largest",
    "misplaced_queue",
    "needed",
    "worth_waiting_for",
]

Holders: TypeAlias = Callable[[str], Sequence[tuple[str, int]]]
"""Who holds most of a resource, and how much; asked only when there is something to say."""

NOT_ENOUGH: Final = "NotEnoughResources"
EXCEEDS_MAX: Final = "ExceedsMax"
QUEUE_LIMIT: Final = "QueueLimit"
QUOTA_WAIT: Final = "QuotaWait"
MISCONFIGURED: Final = "Misconfigured"

_TOP: Final = 3


def needed(contender: Contender, kind: TaskClass) -> tuple[Amounts, Amounts]:
    """What the gang must have to start, and the part of it that has no place on trial yet.

    For a gang that runs already, both are one more pod of this class.
    """
    if not contender.deficit:
        return kind.request, kind.request
    already = sum(contender.placed.values()) + sum(contender.pipelined.values())
    gang = [*contender.waiting, *contender.at_gate][: already + contender.deficit]
    missing = added(task.kind.request for task in gang[already:])
    return added(task.kind.request for task in gang), missing or kind.request


def worth_waiting_for(contender: Contender, need: Amounts) -> Amounts:
    """The need, if nothing less could help the job: its pods are alike, or it needs them all."""
    waiting = [*contender.waiting, *contender.at_gate]
    alike = all(task.kind is waiting[0].kind for task in waiting)
    return need if alike or contender.job.min_member >= len(contender.job.tasks) else ()


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
    kept: Holders,
) -> Refusal:
    """The limit of `queue`, which is the job's own queue `of` or one above it, is reached.

    `kept` are the queues whose guarantees make it as small as it is.
    """
    whose = f"queue {queue!r}" if queue == of else f"queue {queue!r}, above its queue {of!r},"
    most = {name: limit.get(name, 0) for name, _ in short_by}
    sentence = f"{whose} may use at most {_amounts(tuple(most.items()))}"
    guaranteed: dict[str, list[str]] = {}
    for name, _ in short_by:
        for who, units in kept(name):
            guaranteed.setdefault(who, []).append(readable(((name, units),)))
    if guaranteed:
        whom = ", ".join(f"{who} ({', '.join(much)})" for who, much in guaranteed.items())
        sentence += f", because of guarantees to {whom}"
    sentence += "; the job needs "
    beyond = tuple((name, units) for name, units in need if units > most.get(name, units))
    if beyond:
        sentence += f"{_amounts(beyond)}, which is more than that, whoever else uses it"
        return Refusal(
            NOT_ENOUGH,
            _insufficient(short_by),
            short_by,
            EXCEEDS_MAX,
            sentence,
            unblock=Unblock.LIMIT,
        )
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
        f"queue {queue!r} deserves {_amounts(part)} of the cluster now; the job needs "
        f"{_rest(need, short_by, holders)}"
    )
    return Refusal(NOT_ENOUGH, _insufficient(short_by), short_by, QUOTA_WAIT, sentence)


def kept_for_others(need: Amounts, short_by: Amounts, keepers: Sequence[str]) -> Refusal:
    """These queues are sure of what is left of the cluster."""
    shown = ", ".join(map(repr, keepers[:_TOP])) + (", …" if len(keepers) > _TOP else "")
    whose = f"queue {shown}" if len(keepers) == 1 else f"queues {shown}"
    sentence = (
        f"what is left of the cluster is guaranteed to {whose}; the job needs "
        f"{_rest(need, short_by, lambda _: ())}"
    )
    return Refusal(NOT_ENOUGH, _insufficient(short_by), short_by, QUEUE_LIMIT, sentence)


def guaranteed_to(
    queues: Mapping[str, QueueInfo],
    lineage: Iterable[str],
    rivals: Iterable[str],
    resource: str,
    limit: int,
) -> list[tuple[str, int]]:
    """Whose guarantees leave a queue less than its capability, or that of one above it, says.

    `lineage` is the queue and those above it; `rivals` are all whose guarantees count.
    """
    said = (dict(queues[name].capability) for name in lineage if name in queues)
    most = next((one[resource] for one in said if resource in one), None)
    if most is not None and most <= limit:
        return []
    others = ((f"queue {name}", dict(queues[name].guarantee)) for name in rivals)
    return largest(others, resource)


def misplaced_queue(problem: str, unblock: Unblock = Unblock.QUEUE_MENDED) -> Refusal:
    return Refusal(NOT_ENOUGH, problem, (), MISCONFIGURED, problem, unblock=unblock)


def _insufficient(short_by: Amounts) -> str:
    lacking = ", ".join(f"insufficient {name}" for name, _ in short_by)
    return f"queue resource quota insufficient: {lacking}"


def _rest(need: Amounts, short_by: Amounts, holders: Holders) -> str:
    names = {name for name, _ in short_by}
    wanted = tuple(pair for pair in need if pair[0] in names and pair[0] != PODS)
    said = f"{_amounts(wanted)}, short by {_amounts(short_by)}"
    resource = short_by[0][0] if short_by else ""
    held = [(who, readable(((resource, units),))) for who, units in holders(resource)]
    if held:
        said += f"; most of it is held by {', '.join(f'{who} ({much})' for who, much in held)}"
    return said


def largest(
    holders: Iterable[tuple[str, Mapping[str, int]]], resource: str
) -> list[tuple[str, int]]:
    """The few that hold most, the largest first."""
    held = [(who, units) for who, sums in holders if (units := sums.get(resource, 0)) > 0]
    held.sort(key=lambda one: (-one[1], one[0]))
    return held[:_TOP]


def _amounts(amounts: Amounts) -> str:
    return readable(amounts) or "nothing"
