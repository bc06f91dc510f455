"""bus.volcano.sh/v1alpha1: Command, a one-shot order to a Job or Queue.

It has neither spec nor status: it is carried out once and deleted.
"""

from stromboli.api.meta import KubeObject, OwnerReference

__all__ = ["Command"]


class Command(KubeObject):
    """Asks for an action on the target object, once."""

    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""
