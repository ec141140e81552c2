"""What Google Compute Engine says of virtual machines: ``gcloud compute instances list --format=json``, or its API.

``resourceStatus.physicalHostTopology`` has the cluster, block, subblock and host of a machine; before it there was
``physicalHost``, ``block/subblock/host`` in one text.
Source: cloud.google.com/compute/docs/reference/rest/v1/instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from topology.errors import InvalidTopology, some
from topology.file_format import FileFormat
from topology.files import Source
from topology.kubernetes.kubernetes_objects import COMPUTE_ENGINE
from topology.parsing.documents import load_document
from topology.readers.placed_nodes import PlacedNode, place_nodes
from topology.readers.types import Reading

LEVELS = ("cluster", "block", "subblock", "host")
_GPUS_OF_TYPE = re.compile(r"-(?:high|mega|ultra|edge|max)gpu-(\d+)g")  # of a type of machine: a3-megagpu-8g


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _HostTopology(_Camel):
    cluster: str = ""
    block: str = ""
    subblock: str = ""
    host: str = ""


class _Status(_Camel):
    physical_host: str = ""
    physical_host_topology: _HostTopology | None = None


class _Accelerator(_Camel):
    accelerator_count: int = 0
    accelerator_type: str = ""


class _Machine(_Camel):
    name: str
    machine_type: str = ""
    guest_accelerators: list[_Accelerator] = []
    resource_status: _Status = _Status()

    def path(self) -> tuple[str, ...]:
        """Return its cluster, block, subblock and host."""
        said = self.resource_status.physical_host_topology
        if said is not None:
            return said.cluster, said.block, said.subblock, said.host
        parts = [part for part in self.resource_status.physical_host.split("/") if part][-len(LEVELS) :]
        return (*[""] * (len(LEVELS) - len(parts)), *parts)

    def placed(self) -> PlacedNode:
        """Return it as a node."""
        gpus: int | None = sum(one.accelerator_count for one in self.guest_accelerators)
        types = sorted({one.accelerator_type.rsplit("/", 1)[-1] for one in self.guest_accelerators})
        if not gpus:
            match = _GPUS_OF_TYPE.search(self.machine_type)
            gpus = int(match[1]) if match else None
        return PlacedNode(self.name, self.path(), gpus, "+".join(types))


class GcpTopology:
    """Reader of machines of Compute Engine."""

    format = FileFormat(
        "gcp",
        source="Google Compute Engine instances with their physical hosts, JSON or YAML",
        export="`gcloud compute instances list --format=json`",
        read="cluster, block, subblock and host, GPUs and their type",
        left_out="machines without a physical host",
        marks=("name", "resourcestatus", "physicalhost"),
    )
    chooses_levels = False

    def recognises(self, head: str) -> bool:
        """Return whether machines have a physical host."""
        return bool(COMPUTE_ENGINE.search(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the machines; raise an error where none has a physical host."""
        document = load_document(source, several=True)
        machines = [(place, document.part(*place).parse(_Machine)) for place in _machines(document.data)]
        placed = [(place, one) for place, one in machines if any(one.path())]
        if not placed:
            none = f"none of the {len(machines)} machines has a physical host"
            fix = "list machines that run on hosts with a topology: A3, A4 and later, or a compact placement policy"
            if not machines:
                fix = "give what `gcloud compute instances list --format=json` prints"
            raise InvalidTopology(none, where=source.name, fix=fix)
        lost = [one.name for one in (one for _, one in machines) if not any(one.path())]
        notes = [f"machines without a physical host, left out: {some(lost)}"] if lost else []
        nodes = [one.placed() for _, one in placed]
        return place_nodes(LEVELS, nodes, where=lambda row: document.where(*placed[row][0]), notes=notes)


def _machines(documents: Sequence[Any]) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of machines: in lists, in answers of the API, and in documents of one each."""
    for number, part in enumerate(documents):
        answers = isinstance(part, dict) and "items" in part
        here: tuple[str | int, ...] = (number, "items") if answers else (number,)
        listed = part["items"] if answers else part
        if isinstance(listed, dict) and "name" not in listed:  # zones, each with its instances
            for zone, of_zone in listed.items():
                inside = of_zone.get("instances") if isinstance(of_zone, dict) else None
                for i in range(len(inside) if isinstance(inside, list) else 0):
                    yield (*here, zone, "instances", i)
        elif isinstance(listed, list):
            for i in range(len(listed)):
                yield (*here, i)
        elif listed is not None:
            yield here
