"""Find the terms that pick a pod without asking each of them.

Most terms name a value of some label, and a pod has few labels: a term is kept under one value
that it asks for, and a pod is only shown to the terms under its own labels, and to those that
ask for no value at all.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from stromboli.api.selectors import Operator
from stromboli.scheduling.social import NamespaceLabels, Selector, Term

__all__ = ["TermIndex"]

K = TypeVar("K")
_Label: TypeAlias = tuple[str, str]


class TermIndex(Generic[K]):
    """Terms, each under a key of its own."""

    def __init__(self) -> None:
        self._by_label: dict[_Label, dict[K, Term]] = {}
        self._others: dict[K, Term] = {}

    def put(self, key: K, term: Term) -> None:
        labels = _asked_for(term.selector)
        if labels is None:
            self._others[key] = term
            return
        for label in labels:
            self._by_label.setdefault(label, {})[key] = term

    def drop(self, key: K, term: Term) -> None:
        labels = _asked_for(term.selector)
        if labels is None:
            self._others.pop(key, None)
            return
        for label in labels:
            under = self._by_label.get(label, {})
            under.pop(key, None)
            if not under:
                self._by_label.pop(label, None)

    def clear(self) -> None:
        self._by_label.clear()
        self._others.clear()

    def picking(
        self, namespace: str, labels: Mapping[str, str], namespaces: NamespaceLabels
    ) -> Iterator[K]:
        """The keys of the terms that pick a pod of this namespace with these labels."""
        if self._by_label:
            for label in labels.items():
                under = self._by_label.get(label)
                for key, term in under.items() if under is not None else ():
                    if term.matches(namespace, labels, namespaces):
                        yield key
        for key, term in self._others.items():
            if term.matches(namespace, labels, namespaces):
                yield key


def _asked_for(selector: Selector) -> tuple[_Label, ...] | None:
    """A pod that it picks has exactly one of these labels; None: it may have any."""
    if selector.nothing:
        return ()
    if selector.labels:
        return selector.labels[:1]
    for requirement in selector.requirements:
        if requirement.operator == Operator.IN:
            return tuple({(requirement.key, value): None for value in requirement.values})
    return None
