"""The weights of namespaces, under a queue policy by which namespaces share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from extender.objects import NamespaceObject
from ground.errors import InvalidInput


class NamespaceWeights:
    """Namespaces as last seen; none where the policy does not ask for weights.

    :param changed: called when a namespace has another weight than before.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._namespaces: dict[str, NamespaceObject] = {}
        self._weights: dict[str, float] = {}

    def put(self, namespace: NamespaceObject) -> None:
        """Take up a namespace; a weight that cannot be read counts as 1."""
        name, weight = namespace.metadata.name, 1.0
        with suppress(InvalidInput):
            weight = namespace.weight
        self._namespaces[name] = namespace
        self._set(name, weight)

    def drop(self, name: str) -> None:
        """Forget a namespace."""
        self._namespaces.pop(name, None)
        self._set(name, 1.0)

    def of(self, name: str) -> float:
        """Return the weight of a namespace; 1 of one that is not known."""
        return self._weights.get(name, 1.0)

    @property
    def unreadable(self) -> Iterator[tuple[NamespaceObject, InvalidInput]]:
        """The namespaces whose annotation is no weight, and why, in at most some hundred bytes."""
        for namespace in self._namespaces.values():
            try:
                namespace.weight  # noqa: B018
            except InvalidInput as error:
                yield namespace, error

    def _set(self, name: str, weight: float) -> None:
        before = self._weights.pop(name, 1.0)
        if weight != 1.0:
            self._weights[name] = weight
        if weight != before:
            self._changed()
