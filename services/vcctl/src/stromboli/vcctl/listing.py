"""Every object of a kind, decoded, however many pages that takes."""

from typing import TypeVar

from stromboli.api.kinds import Kind
from stromboli.api.meta import KubeObject
from stromboli.api.wire import decode_object
from stromboli.kube import KubeClient

__all__ = ["all_of"]

T = TypeVar("T", bound=KubeObject)


async def all_of(
    kube: KubeClient,
    kind: Kind[T],
    *,
    namespace: str | None = None,
) -> list[T]:
    """In the server's order, which is by namespace and name; None means all namespaces."""
    return [
        decode_object(kind, raw)
        async for page in kube.list_pages(kind, namespace=namespace)
        for raw in page.items
    ]
