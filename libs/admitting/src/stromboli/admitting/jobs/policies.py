"""Life-cycle policies: each says what to wait for and what to do then, and no two the same.

The first fault of a list ends the look at it, as in Volcano; its wording is that of Go's
multierror.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stromboli.admitting.rules import Cel, Faults, Rule, rule
from stromboli.api.batch import Action, JobEvent, LifecyclePolicy

__all__ = ["ACTIONS", "EVENTS", "POLICY_RULES", "PolicyCase", "policy_faults"]

EVENTS: Final = (
    JobEvent.ANY,
    JobEvent.POD_FAILED,
    JobEvent.POD_EVICTED,
    JobEvent.POD_PENDING,
    JobEvent.UNKNOWN,
    JobEvent.TASK_COMPLETED,
    JobEvent.TASK_FAILED,
    JobEvent.JOB_UPDATED,
)
ACTIONS: Final = (
    Action.ABORT_JOB,
    Action.RESTART_JOB,
    Action.RESTART_TASK,
    Action.RESTART_POD,
    Action.RESTART_PARTITION,
    Action.TERMINATE_JOB,
    Action.COMPLETE_JOB,
    Action.RESUME_JOB,
)
_KNOWN_EVENTS: Final = frozenset(map(str, EVENTS))
_KNOWN_ACTIONS: Final = frozenset(map(str, ACTIONS))
_CHOICES: Final = (
    f" valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"
)

_OF_ALL_LISTS: Final = (
    "(has(object.spec.policies) ? object.spec.policies : [])"
    ".all(p, {own}) && "
    "(has(object.spec.tasks) ? object.spec.tasks : [])"
    ".all(t, (has(t.policies) ? t.policies : []).all(p, {own}))"
)


def _each_policy(own: str, message: str) -> Cel:
    return Cel(_OF_ALL_LISTS.format(own=own), message)


_HAS_EVENT: Final = '((has(p.event) && p.event != "") || (has(p.events) && size(p.events) > 0))'


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One policy, and what those before it in the list have used."""

    policy: LifecyclePolicy
    path: str
    events: tuple[str, ...]
    earlier_events: set[str] = field(default_factory=set[str])
    earlier_codes: set[int] = field(default_factory=set[int])


@rule(
    "policy-event-and-exit-code",
    says="must not specify event and exitCode simultaneously",
    about="a policy waits for events or for an exit code, not for both",
    cel=_each_policy(
        f"!({_HAS_EVENT} && has(p.exitCode))",
        "must not specify event and exitCode simultaneously",
    ),
)
def event_and_exit_code(case: PolicyCase) -> Faults:
    if case.events and case.policy.exit_code is not None:
        yield ()


@rule(
    "policy-without-trigger",
    says="either event and exitCode should be specified",
    about="a policy waits for something",
    cel=_each_policy(
        f"{_HAS_EVENT} || has(p.exitCode)", "either event and exitCode should be specified"
    ),
)
def without_trigger(case: PolicyCase) -> Faults:
    if not case.events and case.policy.exit_code is None:
        yield ()


@rule(
    "policy-event-known",
    says='%s: Invalid value: "%s": invalid policy event',
    about=f"events are {', '.join(f'`{event}`' for event in EVENTS)}",
    cel=_each_policy(
        f'(!has(p.event) || p.event == "" || p.event in {list(map(str, EVENTS))}) && '
        f"(!has(p.events) || p.events.all(e, e in {list(map(str, EVENTS))}))",
        "invalid policy event",
    ),
)
def event_known(case: PolicyCase) -> Faults:
    for event in case.events:
        if event not in _KNOWN_EVENTS:
            yield case.path, event
            return


@rule(
    "policy-action-known",
    says='%s: Invalid value: "%s": invalid policy action',
    about=f"actions are {', '.join(f'`{action}`' for action in ACTIONS)}; not looked at in a "
    "policy for an exit code",
    cel=_each_policy(
        f"!{_HAS_EVENT} || (has(p.action) && p.action in {list(map(str, ACTIONS))})",
        "invalid policy action",
    ),
)
def action_known(case: PolicyCase) -> Faults:
    if case.events and case.policy.action not in _KNOWN_ACTIONS:
        yield case.path, case.policy.action


@rule(
    "policy-event-twice",
    says="duplicate event %s  across different policy",
    about="an event has one policy in a list",
)
def event_twice(case: PolicyCase) -> Faults:
    for event in case.events:
        if event in case.earlier_events:
            yield (event,)
            return


@rule(
    "policy-exit-code-zero",
    says="0 is not a valid error code",
    about="success is no error that a policy could wait for",
    cel=_each_policy("!has(p.exitCode) || p.exitCode != 0", "0 is not a valid error code"),
)
def exit_code_zero(case: PolicyCase) -> Faults:
    if case.policy.exit_code == 0:
        yield ()


@rule(
    "policy-exit-code-twice",
    says="duplicate exitCode %s",
    about="an exit code has one policy in a list",
)
def exit_code_twice(case: PolicyCase) -> Faults:
    if case.policy.exit_code in case.earlier_codes:
        yield (case.policy.exit_code,)


_ANY_ALONE: Final = (
    "!{list}.exists(p, (has(p.event) && p.event == '*') || "
    "(has(p.events) && '*' in p.events)) || size({list}) == 1"
)


@rule(
    "policy-any-alone",
    says="if there's * here, no other policy should be here",
    about="a policy for every event is the only one of its list",
    cel=Cel(
        f"(!has(object.spec.policies) || {_ANY_ALONE.format(list='object.spec.policies')}) && "
        "(!has(object.spec.tasks) || object.spec.tasks.all(t, !has(t.policies) || "
        f"{_ANY_ALONE.format(list='t.policies')}))",
        "if there's * here, no other policy should be here",
    ),
)
def any_alone(case: tuple[Sequence[LifecyclePolicy], set[str]]) -> Faults:
    policies, events = case
    if JobEvent.ANY in events and len(policies) > 1:
        yield ()


POLICY_RULES: Final[tuple[Rule[PolicyCase], ...]] = (
    event_and_exit_code,
    without_trigger,
    event_known,
    action_known,
    event_twice,
    exit_code_zero,
    exit_code_twice,
)


def policy_faults(policies: Sequence[LifecyclePolicy], path: str) -> tuple[str, str] | None:
    """The broken rule's name and the whole sentence; None when all is well."""
    if not policies:
        return None
    seen_events: set[str] = set()
    seen_codes: set[int] = set()
    found: list[tuple[str, str]] = []
    for policy in policies:
        first = _first_fault(policy, path, seen_events, seen_codes)
        if first is not None:
            found.append(first)
            break
        seen_events.update(events_of(policy))
        if policy.exit_code is not None:
            seen_codes.add(policy.exit_code)
    found.extend((any_alone.name, any_alone.says) for _ in any_alone.check((policies, seen_events)))
    return (found[0][0], _multierror([text for _, text in found]) + _CHOICES) if found else None


def events_of(policy: LifecyclePolicy) -> tuple[str, ...]:
    """Every event of a policy once, the single one first."""
    named = (policy.event, *policy.events) if policy.event else policy.events
    return tuple(dict.fromkeys(named))


def _first_fault(
    policy: LifecyclePolicy, path: str, events: set[str], codes: set[int]
) -> tuple[str, str] | None:
    case = PolicyCase(policy, path, events_of(policy), events, codes)
    for each in POLICY_RULES:
        for values in each.check(case):
            return each.name, each.says % values
    return None


def _multierror(texts: Sequence[str]) -> str:
    count = "1 error" if len(texts) == 1 else f"{len(texts)} errors"
    return f"{count} occurred:\n" + "".join(f"\t* {text}\n" for text in texts) + "\n"
