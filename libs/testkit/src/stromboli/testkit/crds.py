"""Our CRDs on a test's API server: created, and waited for until the server serves them."""

from pathlib import Path
from typing import Final

import yaml

from stromboli.kube import KubeClient, Resource
from stromboli.kube.paths import resource_path
from stromboli.testkit.waiting import eventually

__all__ = ["CRD", "CRD_FOLDER", "install_crds"]

CRD: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)

CRD_FOLDER: Final = Path(__file__).parents[5] / "deploy" / "crds"
"""The generated manifests; the testkit is always installed from the working copy."""


async def install_crds(kube: KubeClient, folder: Path = CRD_FOLDER) -> None:
    """Create every CRD of the folder; return when each version of each is served."""
    manifests = [
        manifest
        for file in sorted(folder.glob("*.yaml"))
        for manifest in yaml.safe_load_all(file.read_text())
        if manifest and manifest.get("kind") == "CustomResourceDefinition"
    ]
    if not manifests:
        raise FileNotFoundError(f"there are no CRDs in {folder}")
    for manifest in manifests:
        await kube.create(CRD, None, manifest, field_manager="testkit")
    for manifest in manifests:
        spec = manifest["spec"]
        for version in spec["versions"]:
            served = Resource(
                spec["group"],
                version["name"],
                spec["names"]["plural"],
                namespaced=spec["scope"] == "Namespaced",
            )

            async def is_served(served: Resource = served) -> bool:
                # Discovery may be ahead of the handlers: a list is what clients do first.
                if not await kube.serves(served):
                    return False
                answer = await kube.transport.exchange("GET", resource_path(served))
                return answer.code == 200

            await eventually(is_served, deadline_s=20, describe=f"{served.plural} to be served")
