"""The JobFlow and JobTemplate controllers: facts gathered for `stromboli.lifecycle.flows`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.api.core import Pod
from stromboli.api.flow import JobFlow, JobTemplate
from stromboli.api.owners import is_controlled_by
from stromboli.contracts.partitions import job_key
from stromboli.contracts.stimuli import ProbeAnswered
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.controllers.plain import Plain
from stromboli.lifecycle.controllers.protocol import NOTHING_MORE, Case, Verdict
from stromboli.lifecycle.flow_probes import Answer
from stromboli.lifecycle.flows import FlowSituation, decide_flow
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.phases import FINISHED
from stromboli.lifecycle.world import Change, World

__all__ = ["JobFlowController", "JobTemplateController"]

_FLOW: Final = kinds.JOB_FLOW.token
_TEMPLATE: Final = kinds.JOB_TEMPLATE.token
_JOB: Final = kinds.VC_JOB.token
_POD: Final = kinds.POD.token
_ANSWERS_KEPT_S: Final = 60.0


class JobFlowController(Plain):
    name = "jobflow-controller"
    decides = _FLOW
    reads = (_FLOW, _TEMPLATE, _JOB, _POD)

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, Answer]] = {}
        """Key → the probe's id → what was heard, or that it was asked."""
        self._ended: dict[str, dict[str, Job]] = {}
        """Key → name → a job that ended and is gone, perhaps before its flow could note that."""

    def touched_by(self, change: Change, world: World) -> Iterator[str]:
        """A flow waits for its templates to exist."""
        ended = change.ended.object if change.ended is not None else None
        if isinstance(ended, Job) and ended.status.state.phase in FINISHED:
            for key in change.keys:
                if key.startswith(f"{_FLOW}/"):
                    self._ended.setdefault(key, {})[ended.metadata.name] = ended
        if change.kind != _TEMPLATE or change.after is None:
            return
        namespace, template = change.place
        for place, entry in world.all(_FLOW).items():
            flow: JobFlow = entry.object
            if place[0] == namespace and any(step.name == template for step in flow.spec.flows):
                yield job_key(_FLOW, *place)

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        entry = case.entry
        if entry is None:
            return NOTHING_MORE

        def template(name: str) -> JobTemplate | None:
            found = world.find(_TEMPLATE, case.namespace, name)
            return None if found is None else found.object

        def pods_of(job: Job) -> Sequence[Pod]:
            key = job_key(_JOB, job.metadata.namespace, job.metadata.name)
            pods = (pod.object for pod in world.belongings(key, _POD))
            return [pod for pod in pods if is_controlled_by(pod.metadata, job)]

        flow: JobFlow = entry.object
        jobs = {
            job.object.metadata.name: job.object
            for job in world.belongings(case.key, _JOB)
            if is_controlled_by(job.object.metadata, flow)
        }
        situation = FlowSituation(
            key=case.key,
            flow=flow,
            jobs=jobs,
            ended=self._gone(case.key, flow, jobs),
            template=template,
            pods_of=pods_of,
            answers=self._answers.get(case.key, {}),
            trouble=case.trouble,
            now=case.now,
        )
        decision = decide_flow(situation, asker)
        for question in decision.questions:
            self._note(case.key, question.id, Answer(None, case.now))
        return Verdict(probes=decision.questions, look_again_at=decision.look_again_at)

    def _gone(self, key: str, flow: JobFlow, jobs: Mapping[str, Job]) -> Mapping[str, Job]:
        """Told once: the decision that hears of it writes into the status what it means."""
        return {
            name: job
            for name, job in self._ended.pop(key, {}).items()
            if name not in jobs and is_controlled_by(job.metadata, flow)
        }

    def was_probed(self, answer: ProbeAnswered, *, now: float) -> None:
        self._note(answer.key, answer.probe_id, Answer(answer.succeeded, now))

    def _note(self, key: str, probe_id: str, answer: Answer) -> None:
        answers = self._answers.setdefault(key, {})
        for old in [one for one, said in answers.items() if said.at + _ANSWERS_KEPT_S < answer.at]:
            del answers[old]
        answers[probe_id] = answer

    def forget(self, key: str) -> None:
        self._answers.pop(key, None)
        self._ended.pop(key, None)


class JobTemplateController(Plain):
    """Writes down which jobs were made from a template."""

    name = "jobtemplate-controller"
    decides = _TEMPLATE
    reads = (_TEMPLATE, _JOB)

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        entry = case.entry
        if entry is None or entry.object.metadata.deletion_timestamp is not None:
            return NOTHING_MORE
        template: JobTemplate = entry.object
        names = tuple(job.object.metadata.name for job in world.belongings(case.key, _JOB))
        wanted = msgspec.structs.replace(template.status, job_depends_on_list=names)
        patch = merge_patch(msgspec.to_builtins(template.status), msgspec.to_builtins(wanted))
        if patch:
            asker.patch(
                _TEMPLATE,
                case.namespace,
                case.name,
                uid=entry.uid,
                body={"status": patch},
                subresource="status",
            )
        return NOTHING_MORE
