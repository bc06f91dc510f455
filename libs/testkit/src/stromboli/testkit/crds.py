"""Our CRDs on a test's API server: created, and waited for until they can be used.

A kube-apiserver that calls itself ready may still answer 429 for custom kinds, after their
creation and after each of its own restarts, because their storage is built on first use.
Clients in production come again; a test should not have to.
"""

from pathlib import Path
from typing import Final

import yaml

from stromboli.kube import KubeClient, Resource
from stromboli.kube.errors import NotFound, TooManyRequests
from stromboli.testkit.manifests import Manifest, decoded
from stromboli.testkit.waiting import eventually

__all__ = ["CRD", "CRD_FOLDER", "install_crds", "until_custom_kinds_are_usable"]

CRD: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)

CRD_FOLDER: Final = Path(__file__).parents[5] / "deploy" / "crds"
"""The generated manifests; the testkit is always installed from the working copy."""

_DEADLINE_S: Final = 20.0


async def install_crds(kube: KubeClient, folder: Path = CRD_FOLDER) -> None:
    """Create every CRD of the folder; return when all of them can be used."""
    for manifest in _manifests(folder):
        await kube.create(CRD, None, manifest, field_manager="testkit")
    await until_custom_kinds_are_usable(kube)


async def until_custom_kinds_are_usable(kube: KubeClient) -> None:
    """Wait until every version of every CRD on the server is listed, served and watched."""
    crds = [decoded(item) async for page in kube.list_pages(CRD) for item in page.items]
    for crd in crds:
        for resource in _served_by(crd):

            async def is_usable(resource: Resource = resource) -> bool:
                try:
                    async with kube.watch(resource, resource_version="0", timeout_s=1):
                        return await kube.serves(resource)
                except (NotFound, TooManyRequests):
                    return False

            await eventually(
                is_usable,
                deadline_s=_DEADLINE_S,
                describe=f"{resource.plural}.{resource.group}/{resource.version} to be usable",
            )


def _served_by(crd: Manifest) -> list[Resource]:
    spec = crd["spec"]
    return [
        Resource(
            spec["group"],
            version["name"],
            spec["names"]["plural"],
            namespaced=spec["scope"] == "Namespaced",
        )
        for version in spec["versions"]
        if version["served"]
    ]


def _manifests(folder: Path) -> list[Manifest]:
    found = [
        manifest
        for file in sorted(folder.glob("*.yaml"))
        for manifest in yaml.safe_load_all(file.read_text())
        if manifest and manifest.get("kind") == "CustomResourceDefinition"
    ]
    if not found:
        raise FileNotFoundError(f"there are no CRDs in {folder}")
    return found
