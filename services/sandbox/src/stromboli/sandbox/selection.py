"""Which objects a list, watch or collective delete is about: namespace, labels and fields.

Parsed once per request against the resource's selectable fields, then asked per object; a
selection that takes everything of its namespace says so, because most do.
"""

from collections.abc import Mapping

from stromboli.api.errors import SelectorError
from stromboli.api.selector_text import (
    FieldRequirement,
    LabelQuery,
    parse_field_selector,
    parse_label_selector,
)
from stromboli.sandbox import statuses
from stromboli.sandbox.changes import Stored
from stromboli.sandbox.resources import Resource

__all__ = ["Selection", "selection_of"]


class Selection:
    __slots__ = ("_fields", "_labels", "_name", "_names_not", "namespace", "selects_all")

    def __init__(
        self,
        namespace: str,
        *,
        labels: LabelQuery | None = None,
        name: str = "",
        names_not: frozenset[str] = frozenset(),
        fields: tuple[tuple[int, str, bool], ...] = (),
    ) -> None:
        self.namespace = namespace
        """All namespaces if empty."""
        self._labels = labels
        self._name = name
        self._names_not = names_not
        self._fields = fields
        self.selects_all = labels is None and not name and not names_not and not fields
        """Nothing but the namespace limits it."""

    @property
    def single_name(self) -> str:
        """The one name it asks for, if there is one: no need to look at the others."""
        return self._name

    def matches(self, stored: Stored) -> bool:
        if self.namespace and stored.namespace != self.namespace:
            return False
        return self.selects_all or self._chosen(stored)

    def _chosen(self, stored: Stored) -> bool:
        if self._name and stored.name != self._name:
            return False
        if stored.name in self._names_not:
            return False
        for index, value, negated in self._fields:
            if (stored.fields[index] == value) is negated:
                return False
        labels: Mapping[str, str] = stored.labels
        return self._labels is None or self._labels.matches(labels)


def selection_of(
    resource: Resource, namespace: str, *, labels: str = "", fields: str = "", name: str = ""
) -> Selection:
    """Read both selectors; what cannot be read or is not selectable is a 400."""
    try:
        label_query = parse_label_selector(labels) if labels else None
    except SelectorError as error:
        raise statuses.bad_request(f"unable to parse requirement: {error}") from error
    terms: list[tuple[int, str, bool]] = []
    names_not: set[str] = set()
    for term in _field_terms(fields):
        if term.path == "metadata.name" and term.negated:
            names_not.add(term.value)
        elif term.path == "metadata.name":
            if name and name != term.value:
                return _nothing()
            name = term.value
        elif term.path == "metadata.namespace" and resource.namespaced:
            if term.negated or (namespace and namespace != term.value):
                return _nothing()
            namespace = term.value
        elif term.path in resource.fields:
            terms.append((resource.fields.index(term.path), term.value, term.negated))
        else:
            raise statuses.bad_request(f"field label not supported: {term.path}")
    return Selection(
        namespace,
        labels=label_query,
        name=name,
        names_not=frozenset(names_not),
        fields=tuple(terms),
    )


def _field_terms(text: str) -> tuple[FieldRequirement, ...]:
    if not text:
        return ()
    try:
        return parse_field_selector(text).requirements
    except SelectorError as error:
        raise statuses.bad_request(f"invalid selector: '{text}'; {error}") from error


def _nothing() -> Selection:
    """No namespace has this name, so nothing is in it."""
    return Selection("\0")
