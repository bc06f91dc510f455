"""Who may submit to a queue.

A queue names them in its annotations, as lists with commas; one that names nobody is open to
all. Somebody named in any of the lists may submit. Objects that our own services create on
behalf of others are not asked twice: the Job or Pod they stand for was reviewed when its
author created it. The exception are jobs of a JobFlow, whose author only named templates: for
them the namespace alone counts.
"""

from dataclasses import dataclass
from typing import Final

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.jobs.cases import JobCase
from stromboli.admitting.questions import UserInfo
from stromboli.admitting.rules import OURS, Faults, rule
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import Queue

__all__ = [
    "SUBMIT_GROUPS",
    "SUBMIT_NAMESPACES",
    "SUBMIT_SERVICE_ACCOUNTS",
    "SUBMIT_USERS",
    "Guests",
    "guests_of",
    "malformed_entries",
    "may_submit",
    "may_submit_job",
]

SUBMIT_USERS: Final = "stromboli.sh/submit-users"
SUBMIT_GROUPS: Final = "stromboli.sh/submit-groups"
SUBMIT_SERVICE_ACCOUNTS: Final = "stromboli.sh/submit-service-accounts"
SUBMIT_NAMESPACES: Final = "stromboli.sh/submit-namespaces"

NOT_A_GUEST: Final = (
    "user `%s` may not submit from namespace `%s` to queue `%s`, which names who may; "
    "its owner can add you to one of its annotations stromboli.sh/submit-users, "
    "-groups, -service-accounts or -namespaces"
)
FORBIDDEN: Final = 403

_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Guests:
    """Those whom a queue names."""

    users: frozenset[str]
    groups: frozenset[str]
    service_accounts: frozenset[str]
    namespaces: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.users or self.groups or self.service_accounts or self.namespaces)

    def include(self, user: UserInfo) -> bool:
        """Whether this user is named, by name, by group or as a service account."""
        if user.username in self.users or not self.groups.isdisjoint(user.groups):
            return True
        if not user.username.startswith(_SERVICE_ACCOUNT):
            return False
        account = user.username[len(_SERVICE_ACCOUNT) :]
        namespace = account.partition(":")[0]
        return account in self.service_accounts or f"{namespace}:*" in self.service_accounts


def guests_of(queue: Queue) -> Guests:
    annotations = queue.metadata.annotations
    return Guests(
        users=_listed(annotations.get(SUBMIT_USERS, "")),
        groups=_listed(annotations.get(SUBMIT_GROUPS, "")),
        service_accounts=_listed(annotations.get(SUBMIT_SERVICE_ACCOUNTS, "")),
        namespaces=_listed(annotations.get(SUBMIT_NAMESPACES, "")),
    )


def may_submit(
    queue: Queue, user: UserInfo, *, namespace: str, made_as: ObjectMeta, conf: AdmissionConf
) -> bool:
    """Whether `user` may bring an object with this metadata into the queue."""
    guests = guests_of(queue)
    if not guests or namespace in guests.namespaces:
        return True
    if user.username in conf.trusted_users:
        return all(owner.kind != "JobFlow" for owner in made_as.owner_references)
    return guests.include(user)


@rule(
    "job-queue-access",
    says=NOT_A_GUEST,
    about="whoever submits is named by the queue, if the queue names anybody",
    origin=OURS,
    needs_cluster=True,
    code=FORBIDDEN,
)
def may_submit_job(case: JobCase) -> Faults:
    queue = case.surroundings.queue(case.queue)
    if queue is not None and not may_submit(
        queue,
        case.user,
        namespace=case.namespace,
        made_as=case.job.metadata,
        conf=case.conf,
    ):
        yield case.user.username, case.namespace, case.queue


def malformed_entries(queue: Queue) -> list[str]:
    """Service accounts that are not written `namespace:name`: they would match nobody."""
    return sorted(
        entry
        for entry in guests_of(queue).service_accounts
        if entry.count(":") != 1 or entry.startswith(":") or entry.endswith(":")
    )


def _listed(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, text.split(",")))) if text else frozenset()
