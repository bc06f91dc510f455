"""Request bodies in YAML, read as the JSON they stand for.

Timestamps stay text and keys become text, as in kube's translation. Anchors and aliases are
refused: a few hundred bytes of them can stand for gigabytes.
"""

from collections.abc import Hashable
from typing import Any

import yaml

from stromboli.sandbox import statuses

__all__ = ["document_in"]


class _JsonLoader(yaml.SafeLoader):
    """YAML without aliases and without its own idea of dates."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)

    def construct_mapping(
        self,
        node: Any,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's own signature
    ) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        return {_key_text(key): value for key, value in mapping.items()}


_JsonLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _key_text(key: Hashable) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def document_in(body: bytes) -> Any:
    """The one document of a YAML body."""
    loader: Any = None
    try:
        loader = _JsonLoader(body)
        return loader.get_single_data()
    except (yaml.YAMLError, ValueError) as error:
        told = str(error).partition("\n")[0]
        raise statuses.bad_request(f"error converting YAML to JSON: {told}") from error
    finally:
        if loader is not None:
            loader.dispose()
