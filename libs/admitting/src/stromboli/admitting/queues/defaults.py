"""What a queue is given where its author said nothing."""

from typing import Final

from stromboli.admitting.patching import Patch
from stromboli.admitting.rules import Default, default
from stromboli.api.scheduling import Queue
from stromboli.api.wellknown import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE

__all__ = ["DEFAULTS"]


@default(
    "queue-hierarchy",
    about="`volcano.sh/hierarchy` and its weights start at the root: `root/` and `1/` are put "
    "in front where they are missing",
)
def hierarchy(queue: Queue, patch: Patch) -> None:
    annotations = queue.metadata.annotations
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if path and weights and not _starts_at_root(path):
        patch.set("metadata", "annotations", HIERARCHY, value=f"{ROOT_QUEUE}/{path}")
        patch.set("metadata", "annotations", HIERARCHY_WEIGHTS, value=f"1/{weights}")


@default("queue-reclaimable", about="`spec.reclaimable` is true")
def reclaimable(queue: Queue, patch: Patch) -> None:
    if queue.spec.reclaimable is None:
        patch.set("spec", "reclaimable", value=True)


@default("queue-weight", about="`spec.weight` is 1")
def weight(queue: Queue, patch: Patch) -> None:
    if not queue.spec.weight:
        patch.set("spec", "weight", value=1)


DEFAULTS: Final[tuple[Default[Queue], ...]] = (hierarchy, reclaimable, weight)


def _starts_at_root(path: str) -> bool:
    return path == ROOT_QUEUE or path.startswith(f"{ROOT_QUEUE}/")
