"""Layers of images that nodes keep: so many GB on each, and what was used longest ago goes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from topology.cluster import BoolArray, FloatArray


class NodeCaches:
    """What each node has at the moment.

    :param size: GB of each node.
    """

    def __init__(self, nodes: int, size: float) -> None:
        self._size = size
        self._kept: list[dict[str, float]] = [{} for _ in range(nodes)]  # GB by layer, that of the last use last
        self._on: dict[str, BoolArray] = {}  # the same by layer

    def missing(self, layers: Mapping[str, float]) -> FloatArray:
        """Return shape [nodes]: GB of some layers that each node does not have."""
        found = np.full(len(self._kept), sum(layers.values()))
        for layer, size in layers.items():
            if layer in self._on:
                found[self._on[layer]] -= size
        # what is left of a sum of which all parts were taken away
        found[found < 1e-9] = 0.0
        return found

    def use(self, nodes: Iterable[int], layers: Mapping[str, float]) -> None:
        """Put layers on some nodes; where that is too much, those go that were used longest ago."""
        for layer in layers:
            self._on.setdefault(layer, np.zeros(len(self._kept), dtype=np.bool_))
        for node in nodes:
            kept = self._kept[node]
            for layer, size in layers.items():
                kept.pop(layer, None)
                kept[layer] = size
                self._on[layer][node] = True
            while kept and sum(kept.values()) > self._size:
                oldest = next(iter(kept))
                del kept[oldest]
                self._on[oldest][node] = False

    def state(self) -> Any:
        """Return the layers of each node in the order of their last use."""
        return [[[*one] for one in kept.items()] for kept in self._kept]

    def restore(self, state: Any) -> None:
        """Go on with these."""
        self._kept, self._on = [{} for _ in state], {}
        whole, self._size = self._size, np.inf
        for node, kept in enumerate(state):
            self.use([node], dict(kept))
        self._size = whole
