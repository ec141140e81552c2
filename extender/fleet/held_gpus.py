"""GPUs that pods hold, by pod and by node; and what each namespace has in use or is promised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from types import MappingProxyType


class HeldGpus:
    """Kept up to date pod by pod; :meth:`count` adds up a node anew for the namespaces that have some of it."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, int]] = {}
        self._owner: dict[str, str] = {}
        self._nodes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counted: dict[str, Mapping[str, int]] = {}
        self._namespaces = Counter[str]()
        self.pods: Mapping[str, tuple[str, int]] = MappingProxyType(self._pods)
        """Node and GPUs, at least one, of each pod that holds some, by its UID."""

    def put(self, uid: str, namespace: str, node: str, gpus: int) -> None:
        """Take in a pod that is not known, with at least one GPU."""
        self._pods[uid], self._owner[uid] = (node, gpus), namespace
        self._nodes[node][namespace] += gpus

    def drop(self, uid: str) -> str | None:
        """Drop a pod; return its node, ``None`` = it held nothing."""
        if (old := self._pods.pop(uid, None)) is None:
            return None
        (node, gpus), namespace = old, self._owner.pop(uid)
        held = self._nodes[node]
        held[namespace] -= gpus
        if not held[namespace]:
            del held[namespace]
        if not held:
            del self._nodes[node]
        return node

    def on(self, node: str) -> int:
        """Return GPUs of a node that pods hold."""
        return self._nodes[node].total() if node in self._nodes else 0

    def count(self, node: str, *, size: int, shares: int = 1, promised: str | None) -> None:
        """Count a node for its namespaces: what pods hold, and all of it if it is promised.

        :param size: GPUs that it has; 0 = it is gone.
        :param shares: how many of what pods hold are one GPU.
        :param promised: namespace of the gang that it is promised to.
        """
        self._namespaces.subtract(self._counted.pop(node, {}))
        now = {namespace: -(-held // shares) for namespace, held in self._nodes.get(node, {}).items()}
        if promised is not None:
            now[promised] = max(size, now.get(promised, 0))
        if now:
            self._counted[node] = now
            self._namespaces.update(now)

    def of(self, namespace: str) -> int:
        """Return GPUs that a namespace has in use or is promised, by the nodes as they were counted last."""
        return self._namespaces[namespace]
