"""YAML read as the JSON it stands for, as Kubernetes does: dates stay text, keys become text."""

from collections.abc import Hashable
from typing import Any, ClassVar

import yaml

__all__ = ["AsJson"]


class AsJson:
    """Stands before a loader of PyYAML in the bases of another."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, Any]]]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(
        self,
        node: Any,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's own signature
    ) -> dict[Hashable, Any]:
        loader: Any = super()
        mapping: dict[Hashable, Any] = loader.construct_mapping(node, deep=deep)
        return {_key_text(key): value for key, value in mapping.items()}


def _key_text(key: Hashable) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
