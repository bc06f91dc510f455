"""Evict pods that a plugin wants gone for their own sake, such as those on a node too busy."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.decisions import Action, Claimed, Decisions
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskStatus
from stromboli.scheduling.session import Session

__all__ = ["build"]

NAME: Final = "shuffle"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


def build(arguments: Mapping[str, Any]) -> Action:
    read_arguments(NAME, Args, arguments)
    return run


def run(session: Session, decisions: Decisions) -> None:
    if not session.panel.names_victims:
        return
    running = [task for job in session.jobs.values() for task in _running(session, job)]
    victims = session.panel.victims(running) if running else []
    if not victims:
        return
    session.expect_releases()
    mark = session.trial.checkpoint()
    for task in victims:
        if session.panel.may_go(task):
            session.evict(task, claimant=None, action=NAME)
    decisions.claims.append(Claimed(None, session.trial.commit(mark).evictions, []))


def _running(session: Session, job: Job) -> list[Task]:
    if job.pod_group is None or not job.count(TaskStatus.RUNNING):
        return []
    evicted = session.trial.evicted
    return [
        task
        for task in job.in_status(TaskStatus.RUNNING)
        if task.uid not in evicted and task.node in session.nodes
    ]
