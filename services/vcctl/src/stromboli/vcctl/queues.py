"""`vcctl queue list`: the queues, and how many PodGroups of each are in which phase."""

from argparse import Namespace

from stromboli.api.kinds import QUEUE, VC_POD_GROUP
from stromboli.kube import KubeClient
from stromboli.vcctl.listing import all_of
from stromboli.vcctl.printing import queue_table

__all__ = ["list_all"]


async def list_all(kube: KubeClient, _options: Namespace) -> str:
    return queue_table(await all_of(kube, QUEUE), await all_of(kube, VC_POD_GROUP))
