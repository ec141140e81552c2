"""The ``graph`` JSON of NVIDIA Topograph: instances, each with the switches above it.

``{"instances": [{"id": "i1", "network_layers": ["leaf", "spine"], "labels": {...}}]}``, layers from close to broad.
The levels are called ``tier-2``, ``tier-1``, ``tier-0``, 0 the closest, as in Topograph's node labels.  A list that is
shorter than the others hangs on a broader switch.  Accelerator domains (NVLink) become the closest levels.

Source: github.com/NVIDIA/topograph, docs/engines/graph.md, v0.5 (``attributes.nvlink``) to v1.1 (``labels``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel

from topology.build import build_cluster, qualified
from topology.cluster import DEFAULT_GPUS, MAX_LEVELS, Node
from topology.documents import load_document
from topology.errors import InvalidTopology
from topology.file_format import FileFormat
from topology.files import Source
from topology.readers.types import Reading

ACCELERATORS = ("accelerator", "accelerator-sub-domain")
_LABELS = ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain")
_MARK = re.compile(r"[\s{]*[\"']?instances[\"']?\s*:")


class _Instance(BaseModel):
    id: str
    network_layers: list[str] | None = None
    labels: dict[str, str] | None = None
    attributes: dict[str, Any] | None = None

    def layers(self) -> list[str]:
        return [layer for layer in self.network_layers or [] if layer]

    def path(self, depth: int) -> tuple[str, ...]:
        layers = self.layers()
        accelerators = [(self.labels or {}).get(label, "") for label in _LABELS]
        nvlink = (self.attributes or {}).get("nvlink")
        if not accelerators[0] and isinstance(nvlink, str):
            accelerators[0] = nvlink
        return (*layers[::-1], *([""] * (depth - len(layers))), *accelerators)


class _Graph(BaseModel):
    instances: list[_Instance]


class Topograph:
    """Reader of Topograph's graph."""

    format = FileFormat(
        "topograph",
        source='NVIDIA Topograph, graph JSON: {"instances": [...]}',
        export="the answer of Topograph's engine graph",
        read="network layers, accelerator domains",
        left_out="other labels and attributes",
        marks=('"instances"', '"network_layers"'),
    )
    chooses_levels = False

    def recognises(self, head: str) -> bool:
        """Return whether the first key is ``instances``."""
        return bool(_MARK.match(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the instances."""
        document = load_document(source)
        instances = document.parse(_Graph).instances
        if not instances:
            raise InvalidTopology("there are no instances", where=source.name, fix="list at least one")
        depth = max(len(instance.layers()) for instance in instances)
        if depth > MAX_LEVELS:
            deep = f"an instance has {depth} network layers"
            raise InvalidTopology(deep, where=source.name, fix=f"describe at most {MAX_LEVELS}")
        names = [*(f"tier-{depth - 1 - i}" for i in range(depth)), *ACCELERATORS]
        paths, repeated = qualified([instance.path(depth) for instance in instances])
        kept = [i for i in range(len(names)) if i < depth or any(path[i] for path in paths)]
        named = zip(instances, paths, strict=True)
        rows = [Node(one.id, tuple(path[i] for i in kept), DEFAULT_GPUS, DEFAULT_GPUS) for one, path in named]
        notes = tuple(
            f"names of {names[i]} below several broader domains, each place a domain of its own: {repeated[i]}"
            for i in kept
            if repeated[i]
        )
        cluster = build_cluster([names[i] for i in kept], rows, where=partial(document.where, "instances"))
        return Reading(cluster.replace(gpus_assumed=True), notes)
