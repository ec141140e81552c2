"""NVIDIA NetQ, JSON: the topology graph of a fabric, or the compute nodes of its NVLink domains.

The graph has ``nodes`` in tiers (machines are unclassified, tier -1) and ``links`` whose id joins those of two nodes,
``node12-*-node9``.  Compute nodes (NetQ's NVLink management, ``nmx/v1/compute-nodes``) have the UUID of their domain
and the list of their GPUs.  Source: docs.nvidia.com, NetQ API; github.com/NVIDIA/topograph, docs/providers/netq.md.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, Field

from ground.documents import Document, load_document
from ground.errors import InvalidTopology
from ground.files import Source
from ground.formats import FileFormat, Marked
from topology.readers.fabric import Fabric, read_fabric
from topology.readers.reading import PlacedNode, Reading, TopologyReader, place_nodes

_GRAPH = re.compile(r'\A\s*+\[?+\s*+\{(?s:.*)"(?:compounded_nodes|compounded_links)"\s*:')
_COMPUTE = re.compile(r'\A\s*+\[\s*+\{(?s:.*)"DomainUUID"\s*:')
_MACHINE = -1  # Tier of a machine
_BETWEEN = "-*-"  # What stands between the ids of two nodes in that of a link


class _Device(BaseModel):
    id: str
    name: str
    tier: int


class _Tier(BaseModel):
    compounded_nodes: list[_Device] = []


class _Link(BaseModel):
    id: str


class _Graph(BaseModel):
    nodes: list[_Tier]
    links: list[_Link]


class _ComputeNode(BaseModel):
    name: str = Field(alias="Name")
    domain: str = Field(alias="DomainUUID", default="")
    gpus: list[str] = Field(alias="GpuIDList", default=[])


class NetQ(Marked, TopologyReader):
    """Reader of NetQ's answers."""

    format = FileFormat(
        "netq",
        source="NVIDIA NetQ: topology graph, or compute nodes of NVLink domains, JSON",
        export="the answers of `topologygraph/fetch-topology` and `nmx/v1/compute-nodes` of its API",
        read="switches, links and machines; or NVLink domains and GPUs",
        left_out="interfaces, states of links, health",
        marks=("compounded_nodes", "links", "tier"),
    )
    mark = re.compile(f"{_GRAPH.pattern}|{_COMPUTE.pattern}")

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the answer."""
        document = load_document(source)
        if _COMPUTE.match(source.text[:65_536]) and not _GRAPH.match(source.text[:65_536]):
            listed = document.parse(list[_ComputeNode])
            nodes = [PlacedNode(node.name, (node.domain,), len(node.gpus) or None) for node in listed]
            return place_nodes(["nvlink-domain"], nodes, where=document.where)
        return _read_graph(document)


def _read_graph(document: Document) -> Reading:
    graphs = [document.parse(_Graph)] if isinstance(document.data, dict) else document.parse(list[_Graph])
    switches, machines = dict[str, str](), dict[str, str]()
    for graph in graphs:
        for device in (device for tier in graph.nodes for device in tier.compounded_nodes):
            if device.tier == _MACHINE:
                machines[device.id] = device.name
            else:
                switches[device.id] = device.name
    fabric = Fabric(switches)
    strange = 0
    for link in (link for graph in graphs for link in graph.links):
        ends = link.id.split(_BETWEEN)
        of_switches = [end for end in ends if end in switches]
        if len(ends) != 2 or not all(end in machines or end in switches for end in ends):
            strange += 1
        elif len(of_switches) == 2:
            fabric.link(*of_switches)
        elif of_switches:
            (machine,) = (machines[end] for end in ends if end in machines)
            fabric.leaves[machine].add(of_switches[0])
    if not fabric.leaves:
        none = "no machine is linked to a switch"
        raise InvalidTopology(none, where=document.where(), fix="ask with the nesting depth that shows machines")
    notes = [f"links to what is not among the nodes, left out: {strange}"] if strange else []
    if alone := len(set(machines.values()) - set(fabric.leaves)):
        notes.append(f"machines without a link to a switch, left out: {alone}")
    return read_fabric(fabric, where=lambda _: document.source.name, notes=notes)
