"""Kinds of objects and where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Document = dict[str, Any]  # An object to be written, as it stands in JSON


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object; the group of core kinds is empty, the plural is the name in paths: ``pods``."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    def __str__(self) -> str:
        return "/".join(part for part in (self.group, self.version, self.plural) if part)

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of the collection (of one namespace or of all), of an object or of a part of it."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)

    def named(self, name: str, namespace: str = "") -> str:
        """Return an object as people write it: ``Pod train/worker-0``."""
        return f"{self.kind} {namespace}/{name}" if namespace else f"{self.kind} {name}"


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
