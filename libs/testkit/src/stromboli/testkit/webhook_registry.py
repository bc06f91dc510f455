"""Webhook configurations of one test, and small changes that make an API server ask."""

from contextlib import AsyncExitStack
from typing import Any

from stromboli.api.kinds import CONFIG_MAP
from stromboli.kube import KubeClient, PatchType
from stromboli.testkit.manifests import Manifest, decoded
from stromboli.testkit.webhook_server import (
    MUTATING,
    VALIDATING,
    WebhookServer,
    json_patch,
    registered,
    webhook,
)

__all__ = ["ME", "Registry", "relabel", "rule", "setting"]

ME = "contract"
"""The field manager of the contract tests."""


def rule(resources: str, *operations: str, group: str = "", version: str = "v1") -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations) or ["*"],
        "resources": [resources],
    }


def setting(key: str, value: str) -> Manifest:
    """The answer that sets a key of a config map."""
    return json_patch({"op": "add", "path": f"/data/{key}", "value": value})


class Registry:
    """Configurations of one test."""

    def __init__(
        self, stack: AsyncExitStack, kube: KubeClient, hook: WebhookServer, namespace: str
    ) -> None:
        self._stack = stack
        self._kube = kube
        self._hook = hook
        self._namespace = namespace

    def entry(self, path: str, rules: list[Manifest], **fields: Any) -> Manifest:
        return webhook(self._hook, path, namespace=self._namespace, rules=rules, **fields)

    async def mutating(self, *entries: Manifest, name: str = "") -> None:
        await self._stack.enter_async_context(
            registered(self._kube, self._hook, self._namespace, MUTATING, *entries, name=name)
        )

    async def validating(self, *entries: Manifest) -> None:
        await self._stack.enter_async_context(
            registered(self._kube, self._hook, self._namespace, VALIDATING, *entries)
        )


async def relabel(kube: KubeClient, namespace: str, name: str, **data: str) -> Manifest:
    written = await kube.patch(
        CONFIG_MAP,
        namespace,
        name,
        {"data": data},
        patch_type=PatchType.MERGE,
        field_manager=ME,
    )
    return decoded(written.raw)
