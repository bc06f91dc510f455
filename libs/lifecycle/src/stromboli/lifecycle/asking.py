"""Turns a decision about one root owner into intents with ids.

An id hashes what is wanted and which decision wanted it: the owner's uid and
resourceVersion, the turn of the core, and the number of the decision about this key. So no
later decision is taken for a repetition of an earlier one by the bus, which drops those, and
publishing the same intent again is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stromboli.api import kinds
from stromboli.contracts.intents import (
    AnyIntent,
    CreateObject,
    DeleteObject,
    GenerateSecret,
    PatchObject,
    Verb,
    intent_id,
)
from stromboli.contracts.permissions import CONTROLLERS

__all__ = ["Asker", "Basis"]

_JSON: Final = msgspec.json.Encoder(order="deterministic")


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision rests on."""

    uid: str = ""
    resource_version: str = ""
    turn: str = ""
    decision: int = 0
    attempt: int = 1


@dataclass(slots=True)
class Asker:
    """Collects the intents of one decision, in the order they are to be carried out."""

    key: str
    basis: Basis
    intents: list[AnyIntent] = field(default_factory=list[AnyIntent])

    def create(self, kind: str, manifest: Mapping[str, Any], *, owner_uid: str = "") -> None:
        body = _JSON.encode(manifest)
        namespace, name = _place(manifest)
        self.intents.append(
            CreateObject(
                **self._common(Verb.CREATE, kind, namespace, name, body),
                kind=kind,
                namespace=namespace,
                name=name,
                owner_uid=owner_uid,
                manifest=body,
            )
        )

    def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        *,
        uid: str,
        body: Mapping[str, Any],
        subresource: str = "",
    ) -> None:
        patch = _JSON.encode(body)
        self.intents.append(
            PatchObject(
                **self._common(Verb.PATCH, kind, namespace, name, patch, subresource),
                kind=kind,
                namespace=namespace,
                name=name,
                uid=uid,
                subresource=subresource,
                patch=patch,
            )
        )

    def delete(
        self, kind: str, namespace: str, name: str, *, uid: str, propagation: str = "Background"
    ) -> None:
        self.intents.append(
            DeleteObject(
                **self._common(Verb.DELETE, kind, namespace, name, uid.encode()),
                kind=kind,
                namespace=namespace,
                name=name,
                uid=uid,
                propagation=propagation,
            )
        )

    def generate_secret(
        self,
        namespace: str,
        name: str,
        *,
        recipe: str,
        parameters: dict[str, str],
        owner: tuple[str, str, str],
    ) -> None:
        """`owner` is its kind's token, its name and its uid."""
        owner_kind, owner_name, owner_uid = owner
        self.intents.append(
            GenerateSecret(
                **self._common(
                    Verb.GENERATE, kinds.SECRET.token, namespace, name, _JSON.encode(parameters)
                ),
                namespace=namespace,
                name=name,
                recipe=recipe,
                parameters=parameters,
                owner_kind=owner_kind,
                owner_name=owner_name,
                owner_uid=owner_uid,
            )
        )

    def _common(
        self, verb: Verb, kind: str, namespace: str, name: str, body: bytes, *more: str
    ) -> dict[str, Any]:
        basis = self.basis
        return {
            "id": intent_id(
                *(CONTROLLERS, verb, kind, namespace, name, body, *more),
                *(basis.uid, basis.resource_version),
                *(basis.turn, basis.decision, basis.attempt),
            ),
            "key": self.key,
            # The shell fills in who asks, and for which epoch.
            "service": CONTROLLERS,
        }


def _place(manifest: Mapping[str, Any]) -> tuple[str, str]:
    metadata: Mapping[str, Any] = manifest["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])
