"""`vcctl job`: run, list, view, delete, suspend, resume.

Each command asks the API server and returns what is to be printed. Suspending and resuming
are requests to the controllers, left as a Command beside the job: nothing waits for them.
"""

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from stromboli.api.batch import Action, Job
from stromboli.api.bus import Command
from stromboli.api.kinds import COMMAND, EVENT, VC_JOB, VC_POD_GROUP, controller_reference
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import PodGroup
from stromboli.api.wire import decode_object, encode_object
from stromboli.kube import KubeClient
from stromboli.kube.errors import Forbidden
from stromboli.vcctl.errors import BadArguments
from stromboli.vcctl.job_view import job_view
from stromboli.vcctl.listing import all_of
from stromboli.vcctl.manifests import job_from_file, job_from_flags
from stromboli.vcctl.printing import job_table

__all__ = ["DEFAULT_NAMESPACE", "delete", "list_all", "resume", "run", "suspend", "view"]

DEFAULT_NAMESPACE: Final = "default"
_MANAGER: Final = "vcctl"


async def run(kube: KubeClient, options: Namespace) -> str:
    """Submit a job; with a file, only the namespace is taken from the flags."""
    if not options.name and not options.filename:
        raise BadArguments("job name cannot be left blank")
    if options.filename:
        manifest = job_from_file(Path(options.filename))
        namespace = options.namespace or manifest["metadata"].get("namespace")
    else:
        manifest = job_from_flags(
            options.name,
            image=options.image,
            replicas=options.replicas,
            min_available=options.min,
            requests=options.requests,
            limits=options.limits,
            scheduler=options.scheduler,
        )
        namespace = options.namespace
    made = await kube.create(
        VC_JOB, str(namespace or DEFAULT_NAMESPACE), manifest, field_manager=_MANAGER
    )
    return f"run job {made.name} successfully"


async def list_all(kube: KubeClient, options: Namespace) -> str:
    """Every job of the namespace, or of all, that the filters let through."""
    namespace = None if options.all_namespaces else options.namespace or DEFAULT_NAMESPACE
    jobs = [
        job
        for job in await all_of(kube, VC_JOB, namespace=namespace)
        if (not options.queue or job.spec.queue == options.queue)
        and (not options.scheduler or job.spec.scheduler_name == options.scheduler)
        and options.selector in job.metadata.name
    ]
    return job_table(jobs, with_namespace=options.all_namespaces)


async def view(kube: KubeClient, options: Namespace) -> str:
    """Everything about one job, and what has been said about it."""
    if not options.name:
        raise BadArguments(
            "job name (specified by --name or -N) is mandatory to view a particular job"
        )
    namespace = options.namespace or DEFAULT_NAMESPACE
    job = await _job(kube, namespace, options.name)
    events = [
        event
        for event in await all_of(kube, EVENT, namespace=namespace)
        # An event is named after its object: `<job>.<moment>`.
        if event.metadata.name.startswith(f"{options.name}.")
    ]
    pod_group = await _pod_group(kube, job)
    return job_view(job, events, datetime.now(UTC), pod_group=pod_group)


async def delete(kube: KubeClient, options: Namespace) -> str:
    if not options.name:
        raise BadArguments("job name is mandatory to delete a particular job")
    await kube.delete(VC_JOB, options.namespace or DEFAULT_NAMESPACE, options.name)
    return f"delete job {options.name} successfully"


async def suspend(kube: KubeClient, options: Namespace) -> str:
    if not options.name:
        raise BadArguments("job name is mandatory to suspend a particular job")
    return await _command(kube, options, Action.ABORT_JOB)


async def resume(kube: KubeClient, options: Namespace) -> str:
    if not options.name:
        raise BadArguments("job name is mandatory to resume a particular job")
    return await _command(kube, options, Action.RESUME_JOB)


async def _job(kube: KubeClient, namespace: str, name: str) -> Job:
    return decode_object(VC_JOB, await kube.get(VC_JOB, namespace, name))


async def _pod_group(kube: KubeClient, job: Job) -> PodGroup | None:
    """The job's; None if there is none yet, or if it is not for this user to see."""
    name = f"{job.metadata.name}-{job.metadata.uid}"
    try:
        found = await kube.get_or_none(VC_POD_GROUP, job.metadata.namespace, name)
    except Forbidden:
        return None
    return None if found is None else decode_object(VC_POD_GROUP, found)


async def _command(kube: KubeClient, options: Namespace, action: Action) -> str:
    """Order it; like Volcano, say nothing when the order was accepted."""
    namespace = options.namespace or DEFAULT_NAMESPACE
    target = controller_reference(await _job(kube, namespace, options.name))
    order = Command(
        metadata=ObjectMeta(
            generate_name=f"{options.name}-{action.lower()}-",
            namespace=namespace,
            owner_references=(target,),
        ),
        action=action,
        target=target,
    )
    await kube.create(COMMAND, namespace, encode_object(order), field_manager=_MANAGER)
    return ""
