"""Request bodies in YAML, read as the JSON they stand for.

Timestamps stay text and keys become text, as in kube's translation. Anchors and aliases are
refused: a few hundred bytes of them can stand for gigabytes.
"""

from typing import Any

import yaml

from stromboli.api.yaml_as_json import AsJson
from stromboli.sandbox import statuses

__all__ = ["document_in"]


class _JsonLoader(AsJson, yaml.SafeLoader):
    """Without aliases."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


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
