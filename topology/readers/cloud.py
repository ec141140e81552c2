"""What clouds say of where machines are: AWS and Google Compute Engine.

The answer to ``aws ec2 describe-instance-topology`` has instances, each with the network nodes above it.
``NetworkNodes`` go from broad to close; an UltraServer, which shares NVLink, is told by its capacity block.  Machines
have as many GPUs as their type, where it is known here.  Source: docs.aws.amazon.com, EC2, InstanceTopology and
"accelerated computing instances".

``gcloud compute instances list --format=json``, or the API: ``resourceStatus.physicalHostTopology`` has the cluster,
block, subblock and host of a machine; before it there was ``physicalHost``, ``block/subblock/host`` in one text.
Source: cloud.google.com/compute/docs/reference/rest/v1/instances.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel, to_pascal

from ground.documents import load_document
from ground.errors import InvalidTopology, some
from ground.files import Source
from ground.formats import FileFormat, Marked
from topology.build import Partition
from topology.kubernetes.objects import COMPUTE_ENGINE
from topology.readers.reading import PlacedNode, Reading, TopologyReader, place_nodes

ACCELERATORS: dict[str, tuple[int, str]] = {
    "p3dn.24xlarge": (8, "V100"),
    "p4d.24xlarge": (8, "A100"),
    "p4de.24xlarge": (8, "A100-80GB"),
    "p5.4xlarge": (1, "H100"),
    "p5.48xlarge": (8, "H100"),
    "p5e.48xlarge": (8, "H200"),
    "p5en.48xlarge": (8, "H200"),
    "p6-b200.48xlarge": (8, "B200"),
    "p6-b300.48xlarge": (8, "B300"),
    "p6e-gb200.36xlarge": (4, "GB200"),
    "trn1.2xlarge": (1, "Trainium"),
    "trn1.32xlarge": (16, "Trainium"),
    "trn1n.32xlarge": (16, "Trainium"),
    "trn2.48xlarge": (16, "Trainium2"),
    "trn2u.48xlarge": (16, "Trainium2"),
}
"""Accelerators of an instance of each type that AWS tells the topology of: how many, and which."""


class _InstanceTopology(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal)

    instance_id: str
    instance_type: str = ""
    network_nodes: list[str] | None = None  # None or empty: its type has no topology, or it does not run
    capacity_block_id: str | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal)

    instances: list[_InstanceTopology]
    next_token: str | None = None


class AwsTopology(Marked, TopologyReader):
    """Reader of what AWS says of the topology of instances."""

    format = FileFormat(
        "aws",
        source="AWS EC2 instance topology, JSON or YAML",
        export="`aws ec2 describe-instance-topology`",
        read="network nodes, UltraServers (capacity blocks), GPUs and their type by the type of instance",
        left_out="zones, placement groups",
        marks=("instances", "networknodes", "instanceid"),
    )
    mark = re.compile(r"""(?s)\A(?=.*\bInstanceId["']?\s*:)(?=.*\bNetworkNodes["']?\s*:)""")

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the instances."""
        document = load_document(source, several=True)
        # answers, and lists of instances alone: documents, or what yaml-stream lists
        page_places: list[tuple[int, ...]] = []
        for number, part in enumerate(document.data):
            if isinstance(part, list) and any(isinstance(entry, dict) and "Instances" in entry for entry in part):
                page_places += [(number, i) for i in range(len(part))]
            elif part is not None:
                page_places.append((number,))
        instances: list[_InstanceTopology] = []
        places: list[tuple[str | int, ...]] = []
        pages: list[_Answer] = []
        for here in page_places:
            page = document.part(*here)
            alone = isinstance(page.data, list)
            if alone:
                pages.append(_Answer.model_construct(instances=page.parse(list[_InstanceTopology])))
            else:
                pages.append(page.parse(_Answer))
            listed = pages[-1].instances
            instances += listed
            places += [(*here, row) if alone else (*here, "Instances", row) for row in range(len(listed))]
        depth = max((len(instance.network_nodes or ()) for instance in instances), default=0)
        nodes = []
        for instance in instances:
            gpus, gpu_type = ACCELERATORS.get(instance.instance_type, (None, ""))
            above = instance.network_nodes or []
            nodes.append(PlacedNode(instance.instance_id, (*above, *[""] * (depth - len(above))), gpus, gpu_type))
        names = [f"network-node-layer-{i + 1}" for i in range(depth)]
        # an UltraServer, or a reservation of any machines
        capacity_blocks = [instance.capacity_block_id or "" for instance in instances]
        blocks = Partition("capacity-block", capacity_blocks, whole=True)
        notes = []
        if all(page.next_token for page in pages):
            notes.append("the answer is a page of several (NextToken): instances of the others are missing")
        if lost := [instance.instance_id for instance in instances if not instance.network_nodes]:
            notes.append(
                f"instances without network nodes (not running, or of a type without a topology): {some(lost)}"
            )
        types = dict.fromkeys(instance.instance_type for instance in instances)
        if strange := [name or "not said" for name in types if name not in ACCELERATORS]:
            notes.append(f"types of instance whose GPUs are not known: {some(strange)}")
        return place_nodes(names, nodes, where=lambda row: document.where(*places[row]), others=[blocks], notes=notes)


LEVELS = ("cluster", "block", "subblock", "host")
_GPUS_OF_TYPE = re.compile(r"-(?:high|mega|ultra|edge|max)gpu-(\d+)g")  # of a type of machine: a3-megagpu-8g


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _HostTopology(_Camel):
    cluster: str = ""
    block: str = ""
    subblock: str = ""
    host: str = ""


class _Accelerator(_Camel):
    accelerator_count: int = 0
    accelerator_type: str = ""


class _Machine(_Camel):
    name: str
    machine_type: str = ""
    guest_accelerators: list[_Accelerator] = []
    host: str = Field("", validation_alias=AliasPath("resourceStatus", "physicalHost"))
    topology: _HostTopology | None = Field(None, validation_alias=AliasPath("resourceStatus", "physicalHostTopology"))

    def path(self) -> tuple[str, ...]:
        """Return its cluster, block, subblock and host."""
        if (topology := self.topology) is not None:
            return topology.cluster, topology.block, topology.subblock, topology.host
        parts = [part for part in self.host.split("/") if part][-len(LEVELS) :]
        return (*[""] * (len(LEVELS) - len(parts)), *parts)

    def placed(self) -> PlacedNode:
        """Return it as a node."""
        accelerators = self.guest_accelerators
        gpus: int | None = sum(accelerator.accelerator_count for accelerator in accelerators)
        types = sorted({accelerator.accelerator_type.rsplit("/", 1)[-1] for accelerator in accelerators})
        if not gpus:
            match = _GPUS_OF_TYPE.search(self.machine_type)
            gpus = int(match[1]) if match else None
        return PlacedNode(self.name, self.path(), gpus, "+".join(types))


class GcpTopology(Marked, TopologyReader):
    """Reader of machines of Compute Engine."""

    format = FileFormat(
        "gcp",
        source="Google Compute Engine instances with their physical hosts, JSON or YAML",
        export="`gcloud compute instances list --format=json`",
        read="cluster, block, subblock and host, GPUs and their type",
        left_out="machines without a physical host",
        marks=("name", "resourcestatus", "physicalhost"),
    )
    mark = COMPUTE_ENGINE

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the machines; raise an error where none has a physical host."""
        document = load_document(source, several=True)
        machines = [(place, document.part(*place).parse(_Machine)) for place in _machines(document.data)]
        placed = [(place, machine) for place, machine in machines if any(machine.path())]
        if not placed:
            none = f"none of the {len(machines)} machines has a physical host"
            fix = "list machines that run on hosts with a topology: A3, A4 and later, or a compact placement policy"
            if not machines:
                fix = "give what `gcloud compute instances list --format=json` prints"
            raise InvalidTopology(none, where=source.name, fix=fix)
        lost = [machine.name for _, machine in machines if not any(machine.path())]
        notes = [f"machines without a physical host, left out: {some(lost)}"] if lost else []
        nodes = [machine.placed() for _, machine in placed]
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
