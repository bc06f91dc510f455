"""The scheduler's core: facts in, decisions out, when something happened that could matter.

Facts are only noted as they come; the core asks to be woken at once, and decides when it is, so
that facts that come together are decided on together. A cycle looks at the jobs that changed
and at those that something that happened could help; all others sleep. A safety pass looks at
every job, some in each cycle; it is told of those that could go on and that nothing else woke.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import cast

from stromboli.api.scheduling import PodGroupPhase
from stromboli.api.wellknown import SCHEDULER_NAME
from stromboli.contracts.records import REPAIRED
from stromboli.contracts.safety_walk import SafetyWalk
from stromboli.contracts.stimuli import (
    FactChanged,
    Instruction,
    OutcomeHeard,
    ProbeAnswered,
    Ready,
    SafetyPass,
    Stimulus,
    WakeAt,
    WokeUp,
)
from stromboli.scheduling.actions.making_room import hold_on
from stromboli.scheduling.actions.registry import action
from stromboli.scheduling.alike import Alike
from stromboli.scheduling.answers import Answers
from stromboli.scheduling.asking import Asking, told, told_evicted
from stromboli.scheduling.attention import Attention
from stromboli.scheduling.backoff import Backoff
from stromboli.scheduling.cluster import FOR_PLUGINS, Changes, Cluster
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.decisions import Claimed, Commit, Decisions, LetThrough
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.explain import Code, Explanation, Unblock, held, left_over
from stromboli.scheduling.halfbound import HalfBound
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.lines import Lines
from stromboli.scheduling.loads import Loads
from stromboli.scheduling.plugins.registry import build_all
from stromboli.scheduling.pods import JobKey, PodKey, Task, TaskStatus
from stromboli.scheduling.queue_gauges import Gauges, gauges_of
from stromboli.scheduling.queue_reasons import job_name
from stromboli.scheduling.remote import Remote
from stromboli.scheduling.reporting import Reporting
from stromboli.scheduling.reserve import Reserve
from stromboli.scheduling.session import Session
from stromboli.scheduling.sleeping import Wait
from stromboli.scheduling.status import phase_of, wants_more
from stromboli.scheduling.tally import (
    ACTION,
    CYCLE,
    OPENING,
    SCHEDULED,
    UNSCHEDULABLE,
    Tally,
)
from stromboli.scheduling.trial import Eviction

__all__ = ["KINDS", "SchedulerCore"]

KINDS = ("node", "pod", "vcpodgroup", "queue", "priorityclass", "hypernode", *FOR_PLUGINS)
"""What the core must be told about."""

_NAMED = 3
"""So many of those ahead of a job are named to it."""
_LOOK_AGAIN_S = 1.0
"""A gang that may yet become whole is not looked at again at once."""
_HALF_BOUND = "gang bound only in part"
_EVICTING = frozenset({"preempt", "reclaim", "gangpreempt", "gangreclaim"})


class SchedulerCore:
    """Decides which pod goes where. One per turn of leadership."""

    def __init__(self, conf: SchedulingConf | None = None, *, remote: Remote | None = None) -> None:
        """With `remote`, plugins may ask other servers, and `handle` may take its time."""
        self._conf = conf or SchedulingConf()
        self._remote = remote
        self.cluster = Cluster(self._conf)
        self._lines = Lines()
        self._configure()
        self.pipelined: dict[PodKey, str] = {}
        """Pods that wait for room to come free, and the node where."""
        self._asking = Asking()
        name = next(iter(self._conf.scheduler_names), SCHEDULER_NAME)
        self._reporting = Reporting(self.cluster, self._asking, name)
        self._attention = Attention(self.cluster)
        self.tally = Tally()
        """For figures; it notes nothing until it is given a stopwatch."""
        self._half_bound = HalfBound(self._conf.gang_bind_timeout_s)
        self._backoff = Backoff()
        self._answers = Answers(
            self.cluster, self._reporting, self._attention, self._backoff, self.tally
        )
        self._walk: SafetyWalk[JobKey] = SafetyWalk()
        self._ready = False
        self._alarm = math.inf

    @property
    def explanations(self) -> Mapping[JobKey, Explanation]:
        """Of every job that waits, the current reason."""
        return self._reporting.explanations

    def reasons(self) -> Mapping[JobKey, Explanation]:
        """The same, with what is not worth saying yet: every job that wants more has one."""
        return self._reporting.reasons()

    def ahead_of(self, key: JobKey) -> list[JobKey]:
        """Jobs of the same queue that wait too and have their turn first, in their order."""
        return list(self._lines.ahead_of(key, len(self.cluster.jobs))[1])

    def _line_up(
        self,
        awake: list[JobKey],
        contenders: Mapping[JobKey, Contender],
        explanations: Mapping[JobKey, Explanation],
    ) -> None:
        """Put those that wait for their turn in line, before anybody is told who is ahead."""
        for key in awake:
            contender, found = contenders.get(key), explanations.get(key)
            if contender is None or found is None or not found.waits_its_turn:
                self._lines.leave(key)
            else:
                preferences = [plugin.job_order(contender) for plugin in self._panel.job_order]
                turn = (*preferences, contender.job.created)
                self._lines.put(key, contender.queue, turn)

    def _with_those_first(self, key: JobKey, found: Explanation) -> Explanation:
        number, first = self._lines.ahead_of(key, _NAMED)
        if not number:
            return found
        return replace(found, ahead=tuple(map(job_name, first)), ahead_in_all=number)

    @property
    def asks_others(self) -> bool:
        """Whether a plugin asks other servers, so that a cycle may take long."""
        return bool(self._panel.connecting)

    @property
    def conf(self) -> SchedulingConf:
        return self._conf

    def reconfigure(self, conf: SchedulingConf) -> None:
        """Go on with other actions and plugins; raises BadConfiguration and changes nothing."""
        before, self._conf = self._conf, conf
        try:
            self._configure()
        except BadConfiguration:
            self._conf = before
            raise

    def _configure(self) -> None:
        actions = [
            action(name, self._conf.action_arguments.get(name, {})) for name in self._conf.actions
        ]
        panel = build_all(self._conf.tiers)
        for plugin in panel.connecting:
            plugin.connect(self._remote)
        self._panel = panel
        self._actions = actions
        self._alike = Alike(panel, self._conf.actions)
        self._lines.clear()
        self._evicts = bool(_EVICTING.intersection(self._conf.actions))
        # New plugins know nothing yet, and what they will say may be new to every job.
        self.cluster.look_at_everything()

    def measured(self, loads: Loads) -> None:
        """Somebody measured how busy the nodes are; it counts from the next cycle on."""
        self.cluster.loads = loads
        self.cluster.changes.nodes = True

    def gauges(self) -> Gauges:
        """What the plugins have to show, as the last cycle found it."""
        return gauges_of(seat.plugin for tier in self._panel.tiers for seat in tier)

    def handle_all(self, stimuli: Sequence[Stimulus], *, now: float) -> list[Instruction]:
        """As `handle` one after the other; facts that follow each other are taken in together."""
        if set(map(type, stimuli)) == {FactChanged}:  # as nearly always
            self.cluster.apply_all(cast("Sequence[FactChanged]", stimuli))
            return self._wake_if_needed(now)
        said: list[Instruction] = []
        for are_facts, part in groupby(stimuli, _is_fact):
            if are_facts:
                self.cluster.apply_all(cast("Iterator[FactChanged]", part))
                said += self._wake_if_needed(now)
            else:
                for stimulus in part:
                    said += self.handle(stimulus, now=now)
        return said

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]:
        said: list[Instruction] = []
        match stimulus:
            case FactChanged():
                self.cluster.apply(stimulus)
            case OutcomeHeard(outcome):
                said = self._answers.heard(outcome, now)
                said += self._wake_at(self._answers.next_look)
            case Ready(assumed):
                self._ready = True
                self._answers.take_over(assumed, now)
                return self._timed_cycle(now)
            case WokeUp():
                self._alarm = math.inf
                return self._timed_cycle(now) if self._ready else []
            case SafetyPass(within_s):
                if not self._ready:
                    return []
                self._walk.begin(self._by_turn(), now=now, within_s=within_s)
                return self._wake_at(now)
            case ProbeAnswered():
                pass  # a scheduler asks for none
        return said + self._wake_if_needed(now)

    def _wake_if_needed(self, now: float) -> list[Instruction]:
        return self._wake_at(now) if self._ready and self.cluster.changes else []

    def _wake_at(self, moment: float) -> list[Instruction]:
        if moment >= self._alarm:
            return []
        self._alarm = moment
        return [WakeAt(moment)]

    # One cycle.

    def _timed_cycle(self, now: float) -> list[Instruction]:
        with self.tally.span(CYCLE):
            return self._cycle(now)

    def _cycle(self, now: float) -> list[Instruction]:
        changes = self.cluster.take_changes()
        for key in changes.jobs:
            self._changed(key, now)
        awake = self._attention.awake(changes, now)
        awake = self._with_those_ahead(awake)
        decisions = Decisions()
        deferred: dict[JobKey, Explanation] = {}
        contenders = self._contenders(awake, decisions, deferred, now)
        with self.tally.span(OPENING):
            session = self._open(contenders, deferred, changes, now)
        late = self._attention.refused_before(changes, self._has_room)
        if late:
            late = [key for key in self._with_those_ahead(late) if key not in contenders]
            session.join(self._contenders(late, decisions, deferred, now))
            awake = sorted({*awake, *late})
        checked, only_checked = self._checked(awake, now)
        if checked:
            session.join(self._contenders(checked, decisions, deferred, now))
            awake = sorted({*awake, *checked})
        reserve = session.reserve = self._reserve(session, decisions, deferred)
        for name, act in zip(self._conf.actions, self._actions, strict=True):
            with self.tally.span(ACTION, name):
                act(session, decisions)
        hold_on(session, decisions)
        self.pipelined = session.pipelined()
        session.close()
        said: list[Instruction] = []
        for passing in decisions.let_through:
            said += self._open_gates(passing, now)
        said += self._bind(decisions.commits, now)
        for claim in decisions.claims:
            said += self._make_room(claim, now)
        awake = sorted({*awake, *reserve.joined})
        self._line_up(awake, session.contenders, decisions.explanations)
        for key in awake:
            if key in self.cluster.jobs:
                said += self._conclude(key, session, decisions, now)
        for crowd, last in reserve.last.items():
            self._attention.follow(crowd, last, now)
        said += self._answers.ask_again(now)
        said += self._repaired(only_checked, decisions, now)
        said += self._report_queues(session.dirty, now)
        said += self._reporting.set_aside(now)
        return said + self._wake_at(now if self.cluster.changes else self._next_look)

    def _reserve(
        self, session: Session, decisions: Decisions, deferred: dict[JobKey, Explanation]
    ) -> Reserve:
        """Those that are called; the first of each crowd joins the session."""

        def join(job: JobKey, *, late: bool) -> Contender | None:
            joining = self._contenders([job], decisions, deferred, session.now)
            session.join(joining)
            if late and job in self.explanations:
                # Its turn to be refused has passed, and its like was.
                before = replace(self.explanations[job], ahead=(), ahead_in_all=0)
                decisions.explanations.setdefault(job, before)
            return joining.get(job)

        reserve = Reserve(join, lambda contender: self._alike.like(session, contender))
        reserve.call(self._attention.called)
        return reserve

    def _has_room(self, wait: Wait) -> bool:
        queue = self.cluster.queues.get(wait.queue)
        return queue is None or self._panel.has_room(queue, wait.need, admitted=wait.admitted)

    @property
    def _next_look(self) -> float:
        return min(
            self._attention.next_look,
            self._reporting.queues.next_report,
            self._walk.next_step,
            self._answers.next_look,
        )

    # The safety pass.

    def _by_turn(self) -> list[JobKey]:
        """Every job, roughly as they would have their turn if all of them were awake."""
        jobs = self.cluster.jobs
        return sorted(jobs, key=lambda key: (-jobs[key].priority, jobs[key].created, key))

    def _checked(
        self, awake: Sequence[JobKey], now: float
    ) -> tuple[list[JobKey], frozenset[JobKey]]:
        """Jobs to which the safety pass has come, and those of them that only it has woken."""
        known = frozenset(awake)
        step = [key for key in self._walk.step(now) if key in self.cluster.jobs]
        step = [key for key in step if key not in known]
        # Whoever sleeps on while one that is like it is awake would have its turn without us.
        called = {key for key in step if self._attention.is_called(key)}
        self._attention.wake(step)
        checked = [key for key in self._with_those_ahead(step) if key not in known]
        return checked, frozenset(checked) - called

    def _repaired(
        self, woken: frozenset[JobKey], decisions: Decisions, now: float
    ) -> list[Instruction]:
        """Tell of jobs that could go on, and that nothing but the safety pass has woken.

        Another reason to wait is no repair: one that holds as well may have come before it.
        """
        if not woken:
            return []
        why = "only the safety pass found that it could go on"
        jobs = [self.cluster.jobs[key] for key in sorted(woken & decisions.served())]
        return [told(job, REPAIRED, why, now) for job in jobs]

    def _with_those_ahead(self, awake: list[JobKey]) -> list[JobKey]:
        """Where a queue is in strict order, nobody overtakes a job because that one sleeps."""
        cluster = self.cluster
        strict = {name for name, queue in cluster.queues.items() if queue.strict_order}
        if not strict:
            return awake
        strict &= {cluster.queue_name(cluster.jobs[key]) for key in awake if key in cluster.jobs}
        ahead = self._attention.wake_those(
            lambda key: key in cluster.jobs and cluster.queue_name(cluster.jobs[key]) in strict
        )
        return sorted({*awake, *ahead}) if ahead else awake

    def _open(
        self,
        contenders: dict[JobKey, Contender],
        deferred: dict[JobKey, Explanation],
        changes: Changes,
        now: float,
    ) -> Session:
        cluster = self.cluster
        return Session(
            now=now,
            nodes=cluster.nodes,
            panel=self._panel,
            queues=cluster.queues,
            jobs=cluster.jobs,
            contenders=contenders,
            make_contender=self._contender,
            queue_of=cluster.queue_name,
            tenants=cluster.tenants,
            objects=cluster.objects,
            neighbourhood=cluster.neighbourhood,
            domains=cluster.domains,
            claim_book=cluster.claim_book,
            hyper_nodes=cluster.hyper_nodes,
            loads=cluster.loads,
            look_again=self._attention.look_at,
            actions=self._conf.actions,
            dirty=cluster.take_dirty(),
            queues_changed=bool(changes.queues),
            nodes_changed=changes.nodes,
            nominated=cluster.nominated,
            leaving=cluster.ledger.leaving(),
            spared=self._answers.spared(now),
            first=set(self._half_bound.jobs),
            deferred=deferred,
            tally=self.tally,
        )

    def _changed(self, key: JobKey, now: float) -> None:
        job = self.cluster.jobs.get(key)
        if job is None or job.pod_group is None:
            self._reporting.forget(key)
            self._half_bound.forget(key)
            self._backoff.forget(key)
            self._attention.forget(key)
            self._lines.leave(key)
        if job is not None:
            self.cluster.note_want(job)
            if self._panel.holds_gangs:
                self._half_bound.note(job, now)
            else:
                self._half_bound.forget(key)

    def _contenders(
        self,
        awake: list[JobKey],
        decisions: Decisions,
        deferred: dict[JobKey, Explanation],
        now: float,
    ) -> dict[JobKey, Contender]:
        contenders: dict[JobKey, Contender] = {}
        for key in awake:
            job = self.cluster.jobs.get(key)
            if job is None or not job.is_wanted or _wants_nothing(job):
                continue
            barred = self._barred(job, now)
            if barred is not None and barred.code is Code.BACKOFF and job.is_half_bound:
                deferred[key] = barred
            elif barred is not None:
                decisions.explanations[key] = barred
                continue
            contenders[key] = self._contender(job)
        return contenders

    def _contender(self, job: Job) -> Contender:
        waiting = job.pending() if job.awaited else []
        self._panel.put_in_order(waiting)
        at_gate = job.at_gate()
        self._panel.put_in_order(at_gate)
        best_effort: list[Task] = []
        if any(kind.is_best_effort for kind in {task.kind for task in waiting}):
            best_effort = [task for task in waiting if task.kind.is_best_effort]
            waiting = [task for task in waiting if not task.kind.is_best_effort]
        return Contender(
            job=job,
            queue=self.cluster.queue_name(job),
            phase=phase_of(job, job.phase),
            waiting=waiting,
            best_effort=best_effort,
            at_gate=at_gate,
            kept=job.room_kept(),
        )

    def _barred(self, job: Job, now: float) -> Explanation | None:
        """Why the job can't take part at all."""
        if job.problem:
            return Explanation(Code.MISCONFIGURED, job.problem, Unblock.JOB)
        name = self.cluster.queue_name(job)
        queue = self.cluster.queues.get(name)
        if queue is None:
            sentence = f"its queue {name!r} does not exist"
            return Explanation(Code.MISCONFIGURED, sentence, Unblock.QUEUE)
        if queue.problem:
            return Explanation(Code.MISCONFIGURED, queue.problem, Unblock.QUEUE_MENDED)
        if not queue.is_open:
            sentence = f"its queue {name!r} is closed"
            return Explanation(Code.MISCONFIGURED, sentence, Unblock.QUEUE)
        if self._is_being_evicted(job):
            sentence = "only a part of it could be bound, that part is being evicted"
            return Explanation(Code.GANG_EVICTED, sentence, Unblock.JOB)
        until = self._backoff.until(job.key, now)
        if until is not None:
            self._attention.look_at(job.key, until)
            return Explanation(Code.BACKOFF, self._backoff.story(job.key), Unblock.TIME)
        return None

    def _is_being_evicted(self, job: Job) -> bool:
        ledger = self.cluster.ledger
        return job.is_half_bound and any(
            ledger.is_evicting(task.uid) for task in job.in_status(TaskStatus.RELEASING)
        )

    # Saying it.

    def _bind(self, commits: list[Commit], now: float) -> list[Instruction]:
        said: list[Instruction] = []
        all_bound = iter(self.cluster.promise([p for commit in commits for p in commit.placements]))
        for commit in commits:
            job = commit.contender.job
            bound = [task for _ in commit.placements for task in next(all_bound)]
            intents = self._asking.bind(job, bound, now)
            self.cluster.promised_by(intents, bound)
            self.cluster.note_want(job)
            self.tally.attempted(SCHEDULED)
            nodes = len({task.node for task in bound})
            why = f"{len(bound)} pods on {nodes} nodes"
            detail = (("pods", str(len(bound))), ("nodes", str(nodes)))
            said += intents
            said.append(told(job, "gang.placed", why, now, detail))
        return said

    def _open_gates(self, passing: LetThrough, now: float) -> list[Instruction]:
        job = passing.contender.job
        said: list[Instruction] = []
        for task in passing.tasks:
            intent = self._asking.open_gate(job, task, now)
            self.cluster.opens(task, intent.id)
            said.append(intent)
        why = f"queue {passing.contender.queue!r} has room for {len(said)} pods"
        return [*said, told(job, "gates.opened", why, now, (("pods", str(len(said))),))]

    def _make_room(self, claim: Claimed, now: float) -> list[Instruction]:
        """Ask the victims to go, and note where the pods wait that they go for."""
        said: list[Instruction] = []
        if claim.evictions:
            self.tally.evicted(claim.evictions[0].action, len(claim.evictions))
        for eviction in claim.evictions:
            said += self._evict(eviction, now)
            whom = "/".join(claim.contender.key) if claim.contender else "itself"
            job, task = eviction.contender.job, eviction.task
            said.append(told_evicted(job, task, now, action=eviction.action, whom=whom))
        facts = self.cluster.nodes.facts
        nominated = {
            task.uid: facts[slot].name
            for placement in claim.pipelined
            for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True)
        }
        self.cluster.nominated.update(nominated)
        if claim.contender is not None:
            said += self._reporting.pods.nominate(claim.contender.job, nominated, now)
        return said

    def _evict(self, eviction: Eviction, now: float) -> list[Instruction]:
        claimant = eviction.claimant.key if eviction.claimant else None
        job = eviction.contender.job
        return self._answers.tell_to_go(job, eviction.task, eviction.action, now, claimant=claimant)

    def _conclude(
        self, key: JobKey, session: Session, decisions: Decisions, now: float
    ) -> list[Instruction]:
        """Evictions, status and story of one job that was looked at."""
        job, contender = self.cluster.jobs[key], session.contenders.get(key)
        if not job.is_wanted:
            return []
        said = self._evict_half_bound(job, now)
        found = decisions.explanations.get(key)
        if found is not None:
            found = self._with_those_first(key, found)
        elif wants_more(job):
            found = self._left_over(job, contender)
        if contender is not None and contender.job.awaited:
            self.tally.attempted(UNSCHEDULABLE)
        holding = key in decisions.holding
        rank = None
        if contender is not None and found is not None:
            rank = self._alike.rank(session, contender)
        self._attention.rest(key, found, rank, holding=holding, evicts=self._evicts)
        phase = contender.phase if contender else phase_of(job, job.phase)
        reports = (
            self._reporting.job(job, phase, found, now),
            self._reporting.waiting_pods(
                job, decisions.tried.get(key, ()), self.pipelined if holding else {}, now
            ),
        )
        for report, look_again in reports:
            said += report
            if look_again is not None:
                self._attention.look_at(key, look_again)
        return said

    def _left_over(self, job: Job, contender: Contender | None) -> Explanation | None:
        """Why a job that no action spoke of is not complete, or does not grow."""
        if job.gated:
            return held(job)
        return None if contender is None else left_over(contender, self._conf.actions)

    def _report_queues(self, dirty: Sequence[JobKey], now: float) -> list[Instruction]:
        cluster, queues = self.cluster, self._reporting.queues
        for name, usage in cluster.queue_usage.items():
            queues.seen(name, usage)
        cluster.queue_usage.clear()
        for key in dict.fromkeys((*dirty, *cluster.dirty)):
            job = cluster.jobs.get(key)
            queues.note(key, cluster.queue_name(job) if job else "", job)
        return [*queues.report(cluster.queues, now)]

    def _evict_half_bound(self, job: Job, now: float) -> list[Instruction]:
        deadline = self._half_bound.deadline(job.key)
        if deadline is None:
            return []
        if now < deadline or self._answers.owes_answers(job):
            # Binds that are under way may still complete it.
            self._attention.look_at(job.key, max(deadline, now + _LOOK_AGAIN_S))
            return []
        why = (
            f"only a part of it could be bound within {self._half_bound.timeout_s:g} s, "
            f"{job.min_member} are needed"
        )
        said: list[Instruction] = []
        # Also pods that may be bound yet: one that is gone can't be.
        for task in job.in_status(TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.BINDING):
            if not self.cluster.ledger.is_evicting(task.uid):
                said += self._answers.tell_to_go(job, task, _HALF_BOUND, now)
        return [*said, told(job, "gang.evicted", why, now)] if said else []


def _wants_nothing(job: Job) -> bool:
    """Whether it has all that it asks for, so that a cycle has nothing to find out about it."""
    return (
        job.phase == PodGroupPhase.RUNNING
        and TaskStatus.PENDING not in job.by_status
        and job.grouping is None
        and not job.problem
        and not wants_more(job)
    )


def _is_fact(stimulus: Stimulus) -> bool:
    return isinstance(stimulus, FactChanged)
