"""Ask a web server what it thinks: Volcano's extender, with Volcano's messages.

Every point that has a verb is asked for; one without a verb has no opinion. Nodes are asked about
last, only those that passed everything else, several at a time, and once per class of pods and
cycle; what was answered holds until the cycle ends. When there is no usable answer, an extender
that is `ignorable` has no opinion, and one that is not says no. Since nothing tells when an
extender changes its mind, jobs that it refused are looked at again after a few seconds.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import numpy as np

from stromboli.scheduling import extender_wire as wire
from stromboli.scheduling.errors import BadValue, Unconnected
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.moments import duration_s
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import (
    Claim,
    Enqueueable,
    Enqueued,
    JobReady,
    LastFilter,
    Overused,
    PlacementListener,
    Preemptable,
    Preference,
    Reclaimable,
    Refusal,
    Verdict,
    Vote,
)
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey, Task, TaskClass
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.remote import NoAnswer, Question, Remote
from stromboli.scheduling.resources import BoolPerNode, FloatPerNode

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "extender"

_AGAIN_S: Final = 5.0
_SHORTEST_BUDGET_S: Final = 5.0
_TIMEOUTS_PER_CYCLE: Final = 5
_ENCODER: Final = msgspec.json.Encoder()

A = TypeVar("A")


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    url: str = msgspec.field(default="", name="extender.urlPrefix")
    timeout: str = msgspec.field(default="1s", name="extender.httpTimeout")
    ignorable: bool = msgspec.field(default=False, name="extender.ignorable")
    managed: list[str] = msgspec.field(default_factory=list[str], name="extender.managedResources")
    """Only pods that ask for one of these are asked about; without any, all are."""
    opened: str = msgspec.field(default="", name="extender.onSessionOpenVerb")
    closed: str = msgspec.field(default="", name="extender.onSessionCloseVerb")
    predicate: str = msgspec.field(default="", name="extender.predicateVerb")
    prioritize: str = msgspec.field(default="", name="extender.prioritizeVerb")
    preemptable: str = msgspec.field(default="", name="extender.preemptableVerb")
    reclaimable: str = msgspec.field(default="", name="extender.reclaimableVerb")
    overused: str = msgspec.field(default="", name="extender.queueOverusedVerb")
    enqueueable: str = msgspec.field(default="", name="extender.jobEnqueueableVerb")
    enqueued: str = msgspec.field(default="", name="extender.jobEnqueuedVerb")
    ready: str = msgspec.field(default="", name="extender.jobReadyVerb")
    allocate: str = msgspec.field(default="", name="extender.allocateFuncVerb")
    deallocate: str = msgspec.field(default="", name="extender.deallocateFuncVerb")


class Extender:
    """Has the opinions of somebody else."""

    name = NAME

    def __init__(self, args: Args, timeout_s: float) -> None:
        self._args = args
        self._timeout_s = timeout_s
        self._managed = frozenset(args.managed)
        self._remote: Remote | None = None
        self._session: Session | None = None
        self._silent = False
        """Whether it did not even hear that the cycle began, and is left out of it."""
        self._answers: dict[Hashable, Any] = {}
        self.problem = ""
        """Why there was no answer last; empty when there was one."""

    @property
    def lacks(self) -> frozenset[type]:
        """Every point that has no verb."""
        args = self._args
        verbs = {
            LastFilter: args.predicate,
            Preference: args.prioritize,
            Preemptable: args.preemptable,
            Reclaimable: args.reclaimable,
            Overused: args.overused,
            Enqueueable: args.enqueueable,
            Enqueued: args.enqueued,
            JobReady: args.ready,
            PlacementListener: args.allocate or args.deallocate,
        }
        return frozenset(point for point, verb in verbs.items() if not verb)

    def connect(self, remote: Remote | None) -> None:
        if remote is None:
            raise Unconnected(NAME)
        self._remote = remote

    # Cycles.

    def opened(self, session: "Session") -> None:
        self._session, self._silent = session, False
        self._answers = {}
        if self._remote is not None:
            budget_s = max(_SHORTEST_BUDGET_S, _TIMEOUTS_PER_CYCLE * self._timeout_s)
            self._remote.begin(budget_s)
        if self._args.opened:
            told = self._told(self._args.opened, _snapshot(session))
            self._silent = not told and not self._args.ignorable

    def closed(self, session: "Session") -> None:
        if self._args.closed:
            self._told(self._args.closed, {})

    # Nodes.

    def last_verdict(
        self, contender: Contender, kind: TaskClass, nodes: NodeTable, left: BoolPerNode
    ) -> Verdict | None:
        """What the extender says of the nodes that passed everything else."""
        task = self._example(contender, kind)
        if task is None or not self._is_asked(self._args.predicate, kind):
            return None
        known: dict[int, str] = self._answers.setdefault(("predicate", kind), {})
        slots = [slot for slot in np.flatnonzero(left).tolist() if slot not in known]
        pod = wire.task_info(task)
        bodies = [{"task": pod, "node": wire.node_info(nodes, slot)} for slot in slots]
        answers = self._ask_all(self._args.predicate, bodies, wire.Predicated)
        for slot, answer in zip(slots, answers, strict=True):
            if answer is not None:
                known[slot] = answer.against
            else:
                known[slot] = "" if self._args.ignorable else self.problem
        against = {slot: why for slot, why in known.items() if why and left[slot]}
        passes = np.ones(len(nodes), dtype=np.bool_)
        passes[list(against)] = False
        if against:
            self._look_again(contender.key)
        said = ", ".join(sorted(set(against.values()))[:3])
        return Verdict(f"node(s) were refused by the extender: {said}", passes)

    def preferences(
        self, kind: TaskClass, nodes: NodeTable, feasible: BoolPerNode
    ) -> FloatPerNode | None:
        task = self._example(None, kind)
        if task is None or not self._is_asked(self._args.prioritize, kind) or not feasible.any():
            return None
        slots = np.flatnonzero(feasible).tolist()
        answer = self._cached(
            ("prioritize", kind, feasible.tobytes()),
            lambda: self._ask(
                self._args.prioritize,
                {
                    "task": wire.task_info(task),
                    "nodes": [wire.node_info(nodes, slot) for slot in slots],
                },
                wire.Prioritized,
            ),
        )
        if answer is None or answer.problem or answer.scores is None:
            return None
        scores = answer.scores
        return np.array([_score(scores.get(node.name)) for node in nodes.facts])

    def _example(self, contender: Contender | None, kind: TaskClass) -> Task | None:
        """A pod of the class: the wire knows pods, not classes."""
        if contender is not None:
            for task in (*contender.waiting, *contender.best_effort):
                if task.kind is kind:
                    self._answers["example", kind] = task
                    return task
        return self._answers.get(("example", kind)) or self._any(kind)

    def _any(self, kind: TaskClass) -> Task | None:
        contenders = self._session.contenders.values() if self._session is not None else ()
        return next(
            (
                task
                for contender in contenders
                for task in (*contender.waiting, *contender.best_effort)
                if task.kind is kind
            ),
            None,
        )

    # Victims.

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        return self._victims(self._args.preemptable, claim, candidates)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task] | None:
        return self._victims(self._args.reclaimable, claim, candidates)

    def _victims(
        self, verb: str, claim: Claim, candidates: Sequence[Task]
    ) -> Sequence[Task] | None:
        if not self._is_asked(verb, claim.task.kind):
            return None
        uids = tuple(task.uid for task in candidates)
        answer = self._cached(
            (verb, claim.task.uid, uids),
            lambda: self._ask(
                verb,
                {
                    "evictor": wire.task_info(claim.task),
                    "evictees": [wire.task_info(task) for task in candidates],
                },
                wire.Victims,
            ),
        )
        if answer is None:
            return None if self._args.ignorable else []
        if not answer.status:
            return None
        named = {victim.uid for victim in answer.victims or ()}
        return [task for task in candidates if task.uid in named]

    # Queues and jobs.

    def overused(self, queue: QueueInfo) -> bool:
        if not self._args.overused or self._silent or self._session is None:
            return False
        answer = self._cached(
            ("overused", queue.name, len(self._session.trial.touched)),
            lambda: self._ask(
                self._args.overused, {"queue": wire.queue_info(queue)}, wire.Overused
            ),
        )
        return not self._args.ignorable if answer is None else answer.overused

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        if not self._args.enqueueable or self._silent:
            return Vote.ABSTAIN
        answer = self._ask(self._args.enqueueable, _job(contender), wire.Decided)
        if answer is None:
            if self._args.ignorable:
                return Vote.PERMIT
            self._look_again(contender.key)
            return Refusal("NotEnoughResources", f"the extender did not answer: {self.problem}")
        if answer.status < 0:
            self._look_again(contender.key)
            return Refusal("NotEnoughResources", "the extender does not admit it")
        return Vote.PERMIT if answer.status else Vote.ABSTAIN

    def enqueued(self, contender: Contender) -> None:
        if self._args.enqueued and not self._silent:
            self._told(self._args.enqueued, _job(contender))

    def job_ready(self, contender: Contender) -> bool:
        if not self._args.ready or self._silent:
            return True
        placed = tuple(sorted(contender.placed.items()))
        answer = self._cached(
            ("ready", contender.key, placed),
            lambda: self._ask(self._args.ready, _job(contender), wire.Ready),
        )
        is_ready = self._args.ignorable if answer is None else answer.status
        if not is_ready:
            self._look_again(contender.key)
        return is_ready

    # What the cycle does.

    def placed(self, placement: "Placement") -> None:
        self._moved(self._args.allocate, placement)

    def withdrawn(self, placement: "Placement") -> None:
        self._moved(self._args.deallocate, placement)

    def evicted(self, eviction: "Eviction") -> None:
        self._went(self._args.deallocate, eviction)

    def restored(self, eviction: "Eviction") -> None:
        self._went(self._args.allocate, eviction)

    def _moved(self, verb: str, placement: "Placement") -> None:
        session = self._session
        if session is None or not self._is_asked(verb, placement.kind):
            return
        facts = session.nodes.facts
        bodies = [
            {"task": wire.task_info(task, facts[slot].name)}
            for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True)
        ]
        self._ask_all(verb, bodies, None)

    def _went(self, verb: str, eviction: "Eviction") -> None:
        if self._is_asked(verb, eviction.task.kind):
            self._told(verb, {"task": wire.task_info(eviction.task)})

    # Asking.

    def _is_asked(self, verb: str, kind: TaskClass) -> bool:
        if not verb or self._silent:
            return False
        return not self._managed or any(name in self._managed for name, _ in kind.request)

    def _look_again(self, job: JobKey) -> None:
        if self._session is not None:
            self._session.look_again(job, self._session.now + _AGAIN_S)

    def _cached(self, key: Hashable, ask: Callable[[], A]) -> A:
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]

    def _told(self, verb: str, body: Any) -> bool:
        """Whether it was heard; what is said in return does not matter."""
        return self._ask_all(verb, [body], None)[0] is not None

    def _ask(self, verb: str, body: Any, answers: type[A]) -> A | None:
        return self._ask_all(verb, [body], answers)[0]

    def _ask_all(
        self, verb: str, bodies: Sequence[Any], answers: type[A] | None
    ) -> list[A | Any | None]:
        """None stands for no usable answer."""
        if self._remote is None or not bodies:
            return [None] * len(bodies)
        url = f"{self._args.url.rstrip('/')}/{verb.lstrip('/')}"
        questions = [Question(url, _ENCODER.encode(body)) for body in bodies]
        heard = self._remote.ask(questions, each_s=self._timeout_s)
        return [self._read(one, answers) for one in heard]

    def _read(self, heard: bytes | NoAnswer, answers: type[A] | None) -> A | Any | None:
        if isinstance(heard, NoAnswer):
            self.problem = heard.problem
            return None
        if answers is None:
            return heard
        try:
            answer = msgspec.json.decode(heard, type=answers)
        except (msgspec.DecodeError, RecursionError) as fault:
            self.problem = f"the answer can't be read: {fault}"
            return None
        self.problem = ""
        return answer


def _job(contender: Contender) -> dict[str, Any]:
    return {"job": wire.job_info(contender.job, contender.queue)}


def _score(given: float | None) -> float:
    return given if given is not None and np.isfinite(given) else 0.0


def _snapshot(session: "Session") -> dict[str, Any]:
    nodes = session.nodes
    return {
        "Jobs": {
            "/".join(key): wire.job_info(job, session.queue_of(job))
            for key, job in session.jobs.items()
            if job.pod_group is not None
        },
        "Nodes": {node.name: wire.node_info(nodes, slot) for slot, node in enumerate(nodes.facts)},
        "Queues": {name: wire.queue_info(queue) for name, queue in session.queues.items()},
        "NamespaceInfo": {},
        "RevocableNodes": {},
        "NodeList": nodes.names,
    }


def build(arguments: Mapping[str, Any]) -> Extender:
    args = read_arguments(NAME, Args, arguments)
    timeout_s = duration_s(args.timeout)
    if timeout_s is None or timeout_s <= 0:
        raise BadValue("extender.httpTimeout", args.timeout, "a duration such as 100ms or 1s")
    is_asked = any(name.endswith("Verb") for name in arguments)
    if (args.url or is_asked) and not args.url.startswith(("http://", "https://")):
        raise BadValue("extender.urlPrefix", args.url, "an address such as http://127.0.0.1:8080")
    return Extender(args, timeout_s)
