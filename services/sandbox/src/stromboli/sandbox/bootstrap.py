"""What a new cluster starts with, and the definitions it is given on the way.

Runs at every start and only adds what is missing; definitions from files are brought up to date.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.documents import Document, decode, encode
from stromboli.sandbox.errors import ApiRefusal, ConfigError
from stromboli.sandbox.kinds.cluster import SYSTEM_NAMESPACES, SYSTEM_PRIORITIES
from stromboli.sandbox.kinds.definitions import DEFINITIONS_KEY
from stromboli.sandbox.kinds.pods import PRIORITY_CLASSES_KEY
from stromboli.sandbox.options import NO_PARAMS
from stromboli.sandbox.requests import ApiRequest, User
from stromboli.sandbox.store import Store
from stromboli.sandbox.writing import Writer

__all__ = ["Bootstrap", "definitions_in"]

_USER: Final = User("system:sandbox", "", ("system:masters",))
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


class Bootstrap:
    def __init__(self, store: Store, catalogue: Catalogue, writer: Writer) -> None:
        self._store = store
        self._catalogue = catalogue
        self._writer = writer

    async def furnish(self) -> None:
        """Namespaces and priority classes that every cluster has."""
        for name in SYSTEM_NAMESPACES:
            await self._ensure("namespaces", {"metadata": {"name": name}})
        for name, (value, description) in SYSTEM_PRIORITIES.items():
            document = {"metadata": {"name": name}, "value": value, "description": description}
            await self._ensure(PRIORITY_CLASSES_KEY, document)

    async def install(self, definitions: list[Document]) -> None:
        """Create or update CustomResourceDefinitions."""
        for definition in definitions:
            name = definition["metadata"]["name"]
            stored = self._store.get(DEFINITIONS_KEY, "", name)
            try:
                if stored is None:
                    request = self._request("create", DEFINITIONS_KEY, definition)
                    await self._writer.create(request)
                else:
                    current: Document = decode(stored.body)
                    meta = {**definition["metadata"]}
                    meta["resourceVersion"] = current["metadata"]["resourceVersion"]
                    updated = {**definition, "metadata": meta}
                    request = self._request("update", DEFINITIONS_KEY, updated, name)
                    await self._writer.update(request)
            except ApiRefusal as refusal:
                raise ConfigError("crds", f"{name}: {refusal.status['message']}") from refusal

    async def _ensure(self, key: str, document: Document) -> None:
        if self._store.get(key, "", document["metadata"]["name"]) is None:
            await self._writer.create(self._request("create", key, document))

    def _request(self, verb: str, key: str, document: Document, name: str = "") -> ApiRequest:
        served = self._catalogue.of_key(key)
        if served is None:
            raise ConfigError("crds", f"no resource {key!r} is served")
        return ApiRequest(
            verb, served, "", name, "", NO_PARAMS, encode(document), "application/json", _USER
        )


def definitions_in(directory: Path) -> list[Document]:
    """The CustomResourceDefinitions in a directory's files; other kinds in them are left alone."""
    found: list[Document] = []
    for path in sorted(directory.iterdir()):
        if path.suffix not in _SUFFIXES:
            continue
        try:
            documents: list[Any] = list(yaml.safe_load_all(path.read_text()))
        except yaml.YAMLError as error:
            raise ConfigError("crds", f"{path.name} is not YAML: {error}") from error
        for document in documents:
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                if not (document.get("metadata") or {}).get("name"):
                    raise ConfigError("crds", f"{path.name} holds a definition without a name")
                found.append(document)
    return found
