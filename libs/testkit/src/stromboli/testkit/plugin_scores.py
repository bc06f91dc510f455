"""What one plugin says each node of a small cluster is worth for a pod, in numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stromboli.api.core import Pod
from stromboli.api.meta import KubeObject
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.loads import NO_LOADS, Loads, NodeLoad
from stromboli.scheduling.plugins.registry import build_all
from stromboli.scheduling.pods import JobKey, Task, read_task
from stromboli.scheduling.session import Session
from stromboli.testkit.simulation import Simulation

__all__ = ["contender_of", "scores", "scoring_session"]


def scoring_session(
    plugin: str,
    *objects: KubeObject,
    arguments: Mapping[str, Any] | None = None,
    loads: Mapping[str, NodeLoad] | None = None,
) -> Session:
    """A cycle over these objects that has begun, with this plugin alone.

    `loads` were measured on the nodes at this very moment.
    """
    simulation = Simulation(SchedulerCore(SchedulingConf(tiers=((PluginConf("gang"),),))))
    for item in objects:
        simulation.put(item)
    simulation.run()
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    cluster = core.cluster
    return Session(
        now=simulation.now,
        nodes=cluster.nodes,
        panel=build_all(((PluginConf(plugin, dict(arguments or {})),),)),
        queues=cluster.queues,
        jobs=cluster.jobs,
        contenders={},
        make_contender=lambda job: contender_of(job.key),
        queue_of=cluster.queue_name,
        tenants=cluster.tenants,
        objects=cluster.objects,
        neighbourhood=cluster.neighbourhood,
        domains=cluster.domains,
        hyper_nodes=cluster.hyper_nodes,
        look_again=lambda _job, _at: None,
        loads=Loads(simulation.now, loads) if loads is not None else NO_LOADS,
    )


def scores(session: Session, pod: Pod) -> dict[str, float]:
    """By node; with what those who stand there change about it."""
    task = read_task(pod, frozenset({pod.spec.scheduler_name}))
    outlook = session.choosing.outlook(contender_of(task.job), task.kind)
    total = outlook.first + _company(session, task)
    return dict(zip(session.nodes.names, total.round(6).tolist(), strict=True))


def _company(session: Session, task: Task) -> Any:
    everywhere = np.ones(len(session.nodes), dtype=np.bool_)
    total = np.zeros(len(session.nodes))
    for plugin in session.panel.company_scores:
        part = plugin.sociability(task, session.choosing.neighbours, everywhere)
        if part is not None:
            total = total + part
    return total


def contender_of(key: JobKey) -> Contender:
    """A job that nobody looks at."""
    return Contender(job=Job(key), queue="default", phase="Inqueue", waiting=[], best_effort=[])
