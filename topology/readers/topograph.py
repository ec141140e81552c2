"""The ``graph`` JSON of NVIDIA Topograph: instances, each with the switches above it.

``{"instances": [{"id": "i1", "network_layers": ["leaf", "spine"], "labels": {...}}]}``, layers from close to broad.
The levels are called ``tier-2``, ``tier-1``, ``tier-0``, 0 the closest, as in Topograph's node labels.  A list that is
shorter than the others hangs on a broader switch.  Accelerator domains (NVLink) are levels where they nest: below the
switches they lie below, above those that are parts of them; where they cut across switches, a second hierarchy.

Source: github.com/NVIDIA/topograph, docs/engines/graph.md, v0.5 (``attributes.nvlink``) to v1.1 (``labels``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel

from topology.file_format import FileFormat
from topology.files import Source
from topology.nesting import Partition, named_apart
from topology.parsing.documents import load_document
from topology.readers.placed_nodes import PlacedNode, place_nodes
from topology.readers.types import Reading

ACCELERATORS = ("accelerator", "accelerator-sub-domain")
ACCELERATOR_LABELS = ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain")
_MARK = re.compile(r"[\s{]*[\"']?instances[\"']?\s*:")


class TopographInstance(BaseModel):
    """An instance of Topograph's graph, and what its provider says of it."""

    id: str
    network_layers: list[str] | None = None  # from close to broad
    labels: dict[str, str] | None = None
    attributes: dict[str, Any] | None = None

    @property
    def layers(self) -> list[str]:
        """The switches above it that have a name, from close to broad."""
        return [layer for layer in self.network_layers or [] if layer]

    @property
    def accelerators(self) -> tuple[str, str]:
        """Its NVLink domain and the part of it that it is in; empty = none."""
        domain, part = ((self.labels or {}).get(label, "") for label in ACCELERATOR_LABELS)
        nvlink = (self.attributes or {}).get("nvlink")
        return domain or (nvlink if isinstance(nvlink, str) else ""), part


def place_instances(instances: Sequence[TopographInstance], *, where: Callable[[int], str]) -> Reading:
    """Return the cluster of instances, its levels called as Topograph calls them."""
    depth = max((len(instance.layers) for instance in instances), default=0)
    nodes = [PlacedNode(one.id, (*one.layers[::-1], *[""] * (depth - len(one.layers)))) for one in instances]
    columns = list(zip(*(one.accelerators for one in instances), strict=True)) or [(), ()]
    # the name of a part need not tell it from those of other domains
    domains, _ = named_apart([Partition(*named, whole=True) for named in zip(ACCELERATORS, columns, strict=True)])
    return place_nodes([f"tier-{depth - 1 - i}" for i in range(depth)], nodes, where=where, others=domains)


class _Graph(BaseModel):
    instances: list[TopographInstance]


class Topograph:
    """Reader of Topograph's graph."""

    format = FileFormat(
        "topograph",
        source='NVIDIA Topograph, graph JSON: `{"instances": [...]}`',
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
        return place_instances(instances, where=partial(document.where, "instances"))
