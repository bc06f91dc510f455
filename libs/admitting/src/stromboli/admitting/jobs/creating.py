"""What a new job must fulfil.

Volcano looks at one task after the other and then at the job, and strings all complaints
together; so does this module, with the exception of the two after which nothing more is said.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from stromboli.admitting.access import may_submit_job
from stromboli.admitting.graphs import cycle_in, undefined_in
from stromboli.admitting.jobs.cases import JobCase, TaskCase
from stromboli.admitting.jobs.naming import HOST_NAME_RULE, SERVICE_NAME_RULE
from stromboli.admitting.jobs.policies import policy_faults
from stromboli.admitting.jobs.queueing import QUEUE_RULES
from stromboli.admitting.jobs.topology import PARTITION_RULES, job_tiers
from stromboli.admitting.jobs.volumes import VOLUME_RULES
from stromboli.admitting.names import in_brackets, qualified_name_faults
from stromboli.admitting.rules import (
    MAX_FAULTS,
    OURS,
    Cel,
    Fault,
    Faults,
    Rule,
    faults_of,
    rule,
)
from stromboli.admitting.templates.checking import cpu_is_whole, template_faults

__all__ = ["FIRST_RULES", "JOB_RULES", "TASK_RULES", "job_faults", "strung"]

_ENCODER: Final = msgspec.msgpack.Encoder()
_MOST_BYTES: Final = 900 * 1024
_MARKS: Final = (";", ".", ". ")
_TASKS: Final = "!has(object.spec.tasks) || object.spec.tasks"
_REPLICAS: Final = "(has(t.replicas) ? t.replicas : 0)"


@rule(
    "job-has-tasks",
    says="No task specified in job spec",
    about="a job has tasks",
    is_final=True,
    cel=Cel(
        "has(object.spec) && has(object.spec.tasks) && size(object.spec.tasks) > 0",
        "No task specified in job spec",
    ),
)
def has_tasks(case: JobCase) -> Faults:
    if not case.job.spec.tasks:
        yield ()


@rule(
    "job-size",
    says="job has %s bytes, expected at most %s; keep large data in ConfigMaps or volumes",
    about="larger jobs do not fit into one message between the services",
    origin=OURS,
    is_final=True,
)
def size(case: JobCase) -> Faults:
    found = len(_ENCODER.encode(case.job))
    if found > _MOST_BYTES:
        yield str(found), str(_MOST_BYTES)


@rule(
    "job-mpi-master",
    says="The specified mpi master task was not found",
    about="a job with the plugin mpi has the task that its argument `--master` names (`master`)",
    is_final=True,
)
def mpi_master(case: JobCase) -> Faults:
    arguments = case.job.spec.plugins.get("mpi")
    if arguments is not None:
        master = _flag(arguments, "master", default="master")
        if all(task.name != master for task in case.job.spec.tasks):
            yield ()


@rule(
    "task-min-available",
    says=" 'minAvailable' is greater than 'replicas' in task: %s, job: %s;",
    about="a task can't need more pods than it has",
    cel=Cel(
        f"{_TASKS}.all(t, !has(t.minAvailable) || t.minAvailable <= {_REPLICAS})",
        "'minAvailable' is greater than 'replicas' in a task",
    ),
)
def task_min_available(case: TaskCase) -> Faults:
    needed = case.task.min_available
    if needed is not None and needed > case.task.replicas:
        yield case.task.name, case.job.name


@rule(
    "task-name-twice",
    says=" duplicated task name %s;",
    about="tasks are told apart by name; the tasks after a duplicate are not looked at",
    is_final=True,
    cel=Cel(
        f"{_TASKS}.all(t, !has(t.name) || t.name == '' || object.spec.tasks.exists_one(o, "
        "has(o.name) && o.name == t.name))",
        "duplicated task name found",
    ),
)
def task_name_twice(case: TaskCase) -> Faults:
    if case.is_repeated:
        yield (case.task.name,)


@rule(
    "task-policies",
    says="%s",
    about="the policies of a task are in order (the rules named `policy-…`)",
)
def task_policies(case: TaskCase) -> Faults:
    fault = policy_faults(case.task.policies, "spec.tasks.policies")
    if fault is not None:
        yield (fault[1],)


@rule(
    "task-pod-name",
    says="create pod with name %s validate failed %s;",
    about="`<job>-<task>-<index>` is at most 63 characters of letters, digits, `-`, `_` and `.`",
)
def task_pod_name(case: TaskCase) -> Faults:
    pod = f"{case.job.name}-{case.task.name}-{case.index}"
    faults = qualified_name_faults(pod)
    if faults:
        yield pod, in_brackets(faults)


@rule(
    "task-template",
    says="spec.task[%d].%s",
    about="pods can be made of the template (the table of pod templates says what is looked at)",
)
def task_template(case: TaskCase) -> Faults:
    faults = template_faults(case.task.template)
    if faults:
        yield case.index, "".join(f"{fault}. " for fault in faults)


@rule(
    "task-topology-cpu",
    says="the cpu request isn't an integer in spec.task[%d] container[%d].",
    about="with a `topologyPolicy` other than `none`, containers ask for whole cpus",
)
def task_topology_cpu(case: TaskCase) -> Faults:
    if case.task.topology_policy in ("", "none"):
        return
    for number, is_whole in enumerate(cpu_is_whole(case.task.template)):
        if not is_whole:
            yield case.index, number
            return


@rule(
    "job-name",
    says="create job with name %s validate failed %s",
    about="the name of a job is at most 63 characters of letters, digits, `-`, `_` and `.`",
)
def job_name(case: JobCase) -> Faults:
    faults = qualified_name_faults(case.name)
    if faults:
        yield case.name, in_brackets(faults)


@rule(
    "job-min-available",
    says=" job 'minAvailable' should not be greater than total replicas in tasks;",
    about="a job can't need more pods than its tasks have",
    cel=Cel(
        "!has(object.spec.tasks) || !has(object.spec.minAvailable) || object.spec.minAvailable <= "
        f"object.spec.tasks.map(t, {_REPLICAS}).sum()",
        "job 'minAvailable' should not be greater than total replicas in tasks",
    ),
)
def job_min_available(case: JobCase) -> Faults:
    if case.job.spec.min_available > sum(task.replicas for task in case.job.spec.tasks):
        yield ()


@rule(
    "job-policies",
    says="%s",
    about="the policies of the job are in order (the rules named `policy-…`)",
)
def job_policies(case: JobCase) -> Faults:
    fault = policy_faults(case.job.spec.policies, "spec.policies")
    if fault is not None:
        yield (fault[1],)


@rule(
    "job-plugin-known",
    says=" unable to find job plugin: %s;",
    about="plugins are env, hcclrank, mpi, pytorch, ray, ssh, svc and tensorflow",
    cel=Cel(
        "!has(object.spec.plugins) || object.spec.plugins.all(name, name in "
        "['env', 'hcclrank', 'mpi', 'pytorch', 'ray', 'ssh', 'svc', 'tensorflow'])",
        "unable to find job plugin",
    ),
)
def plugin_known(case: JobCase) -> Faults:
    for name in sorted(case.job.spec.plugins.keys() - case.conf.job_plugins):
        yield (name,)


@rule(
    "job-task-order",
    says=" job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);",
    about="tasks do not wait for each other in circles, nor for tasks that do not exist",
)
def task_order(case: JobCase) -> Faults:
    tasks = case.job.spec.tasks
    if all(task.depends_on is None for task in tasks):
        return
    graph = {task.name: task.depends_on.name if task.depends_on else () for task in tasks}
    if undefined_in(graph) is not None or cycle_in(graph):
        yield ()


FIRST_RULES: Final[tuple[Rule[JobCase], ...]] = (has_tasks, size, mpi_master)
TASK_RULES: Final[tuple[Rule[TaskCase], ...]] = (
    task_min_available,
    task_name_twice,
    task_policies,
    task_pod_name,
    HOST_NAME_RULE,
    task_template,
    task_topology_cpu,
    *PARTITION_RULES,
)
JOB_RULES: Final[tuple[Rule[JobCase], ...]] = (
    job_name,
    SERVICE_NAME_RULE,
    job_tiers,
    job_min_available,
    job_policies,
    plugin_known,
    *VOLUME_RULES,
    *QUEUE_RULES,
    task_order,
    may_submit_job,
)


def job_faults(case: JobCase) -> tuple[list[Fault], bool]:
    """Everything that is wrong, and whether a rule could not be asked yet."""
    found, _ = faults_of(FIRST_RULES, case, case.surroundings)
    if found:
        return found, False
    seen: set[str] = set()
    for index, task in enumerate(case.job.spec.tasks):
        one = TaskCase(case, task, index, is_repeated=task.name in seen)
        of_task, _ = faults_of(TASK_RULES, one, case.surroundings)
        found += of_task
        if one.is_repeated or len(found) >= MAX_FAULTS:
            break
        seen.add(task.name)
    of_job, skipped = faults_of(JOB_RULES, case, case.surroundings)
    return found + of_job, skipped


def strung(faults: Sequence[Fault]) -> str:
    """All complaints in one message, each as it is; what ends without a mark gets one."""
    texts = [one.text for one in faults]
    marked = [text if text.endswith(_MARKS) else f"{text};" for text in texts[:-1]]
    return "".join([*marked, *texts[-1:]]).strip()


def _flag(arguments: tuple[str, ...], name: str, *, default: str) -> str:
    """The value of one flag, in the forms Go's flag package knows."""
    value = default
    for position, argument in enumerate(arguments):
        flag, has_value, given = argument.lstrip("-").partition("=")
        if flag == name and argument.startswith("-"):
            if has_value:
                value = given
            elif position + 1 < len(arguments):
                value = arguments[position + 1]
    return value
