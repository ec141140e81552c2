"""NVIDIA Topograph: the ``graph`` JSON of instances with the switches above them, and YAML models of a cluster.

``{"instances": [{"id": "i1", "network_layers": ["leaf", "spine"], "labels": {...}}]}``, layers from close to broad.
The levels are called ``tier-2``, ``tier-1``, ``tier-0``, 0 the closest, as in Topograph's node labels.  A list that is
shorter than the others hangs on a broader switch.  Accelerator domains (NVLink) are levels where they nest: below the
switches they lie below, above those that are parts of them; where they cut across switches, a second hierarchy.
Source: github.com/NVIDIA/topograph, docs/engines/graph.md, v0.5 (``attributes.nvlink``) to v1.1 (``labels``).

In a model ``switches`` is a mapping (v0.5 and later) or a list with names (before); ``blocks`` (``capacity_blocks``
before) have the nodes, the switch above them, or are named by it, and their NVLink domain.  Source:
github.com/NVIDIA/topograph, docs/modeling.md, tests/models.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel

from ground.documents import Document, load_document
from ground.errors import InvalidTopology
from ground.files import Source
from ground.formats import FileFormat, Marked
from topology.build import Partition, named_apart
from topology.cluster import MAX_NODES
from topology.node_names import expand_hostlist
from topology.readers.fabric import Hierarchy
from topology.readers.reading import PlacedNode, Reading, TopologyReader, place_nodes

ACCELERATORS = ("accelerator", "accelerator-sub-domain")
ACCELERATOR_LABELS = ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain")


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
    nodes = [
        PlacedNode(instance.id, (*instance.layers[::-1], *[""] * (depth - len(instance.layers))))
        for instance in instances
    ]
    columns = list(zip(*(instance.accelerators for instance in instances), strict=True)) or [(), ()]
    # the name of a part need not tell it from those of other domains
    domains, _ = named_apart([Partition(*named, whole=True) for named in zip(ACCELERATORS, columns, strict=True)])
    return place_nodes([f"tier-{depth - 1 - i}" for i in range(depth)], nodes, where=where, others=domains)


class _Graph(BaseModel):
    instances: list[TopographInstance]


class Topograph(Marked, TopologyReader):
    """Reader of Topograph's graph."""

    format = FileFormat(
        "topograph",
        source='NVIDIA Topograph, graph JSON: `{"instances": [...]}`',
        export="the answer of Topograph's engine graph",
        read="network layers, accelerator domains",
        left_out="other labels and attributes",
        marks=('"instances"', '"network_layers"'),
    )
    mark = re.compile(r"\A[\s{]*[\"']?instances[\"']?\s*:")

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the instances."""
        document = load_document(source)
        instances = document.parse(_Graph).instances
        return place_instances(instances, where=partial(document.where, "instances"))


_TEST = ("accelerator.topology.test/domain", "accelerator.topology.test/sub-domain")


class _Switch(BaseModel):
    name: str = ""
    annotations: dict[str, str] = {}
    switches: list[str] = []
    nodes: list[str] = []
    capacity_blocks: list[str] = []


class _Block(BaseModel):
    name: str = ""
    switch: str = ""
    nvlink: str = ""
    nodes: list[str] = []
    annotations: dict[str, str] = {}


class _Model(BaseModel):
    switches: dict[str, _Switch] | list[_Switch] = {}
    blocks: list[_Block] = []
    capacity_blocks: list[_Block] = []


class TopographModel(Marked, TopologyReader):
    """Reader of Topograph's models."""

    format = FileFormat(
        "topograph-model",
        source="models of NVIDIA Topograph, YAML with `switches:` and `blocks:`",
        export="`tests/models` of github.com/NVIDIA/topograph, or written by hand",
        read="switches, nodes, NVLink domains and sub-domains",
        left_out="labels and other annotations",
        marks=("switches:", "blocks:", "nodes:"),
    )
    mark = re.compile(r"^(?:blocks|capacity_blocks)[ \t]*:", re.MULTILINE)

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the model."""
        document = load_document(source, syntax="yaml")
        model = document.parse(_Model)
        switches = model.switches
        named = switches if isinstance(switches, dict) else {switch.name: switch for switch in switches}
        # the switches above each, from the broadest to itself; one below another may have no entry of its own
        below_each = {name: switch.switches for name, switch in named.items()}
        hierarchy = Hierarchy(below_each, lambda switch: document.where("switches", switch))
        for name, switch in named.items():
            for child in switch.switches:
                if (first := next(hierarchy.graph.predecessors(child))) != name:
                    two = f"switch {child!r} lies below two switches, {first!r} and {name!r}"
                    raise InvalidTopology(two, where=document.where("switches", name), fix="keep it below one of them")
        above_each = hierarchy.paths()
        of_block = {block: name for name, switch in named.items() for block in switch.capacity_blocks}
        below = ((name, _expand(switch.nodes, document, "switches")) for name, switch in named.items())
        on_switch = {node: name for name, nodes in below for node in nodes}
        instances: list[TopographInstance] = []
        places: list[tuple[str | int, ...]] = []
        key = "blocks" if model.blocks else "capacity_blocks"
        for number, block in enumerate(model.blocks or model.capacity_blocks):
            above = block.switch or of_block.get(block.name, "")
            if above and above not in above_each:
                unknown = f"switch {above!r} is not described"
                raise InvalidTopology(unknown, where=document.where(key, number, "switch"), fix="describe it")
            for node in _expand(block.nodes, document, key, number):
                chain = above_each.get(above or on_switch.get(node, ""), ())[::-1]
                annotations: dict[str, str] = {}
                for name in reversed(chain):
                    annotations |= named[name].annotations if name in named else {}
                annotations |= block.annotations
                nvlink = (block.nvlink or annotations.get(_TEST[0], ""), annotations.get(_TEST[1], ""))
                labels = dict(zip(ACCELERATOR_LABELS, nvlink, strict=True))
                instances.append(TopographInstance(id=node, network_layers=list(chain), labels=labels))
                places.append((key, number))
        if not instances:
            raise InvalidTopology("the model has no nodes", where=source.name, fix="list nodes in its blocks")
        return place_instances(instances, where=lambda row: document.where(*places[row]))


def _expand(texts: Sequence[str], document: Document, *place: str | int) -> list[str]:
    where = document.where(*place)
    return [name for text in texts for name in expand_hostlist(text, where=where, limit=MAX_NODES)]
