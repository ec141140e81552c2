"""InfiniBand fabrics as ``ibnetdiscover`` and ``ibdiagnet`` (``ibdiagnet2.net_dump``) find them.

Both list switches, as do net files of ibsim, and below each what its ports lead to: a switch, or an adapter, whose
description is the name of the machine and that of the adapter (``gpu-07 mlx5_3``, as rdma-ndd writes it), or the former
alone. Adapters with another description (aggregation nodes, cards that were not named) are left out and counted.
Source: the manual page ibnetdiscover(8); docs.nvidia.com, ibdiagnet.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ground.errors import InvalidTopology, some
from ground.files import Source
from ground.formats import FileFormat, text_of
from topology.readers.fabric import Fabric, read_fabric
from topology.readers.reading import Reading, TopologyReader

# of ibnetdiscover: Switch 65 "S-2c5e" # "MF0;leaf-1:MQM9701/U1" enhanced; and ports, [1] "H-e09d"[1](e0) # "n1 mlx5_0"
# a net file of ibsim has any names in place of "S-2c5e", and no comments: [1] "node1"[1]
_SWITCH = re.compile(r'Switch\s+\d+\s+"(?:S-)?(?P<guid>[^"]+)"(?:[^#]*#\s*"(?P<name>[^"]*)")?')
_PORT = re.compile(
    r'\[\d+\](?:\[[^\]]*\])?\s+"(?:(?P<kind>[SHR])-)?(?P<guid>[^"]+)"\s*\[(?P<port>\d+)\](?:[^#]*#\s*"(?P<name>[^"]*)")?'
)
_ADAPTER = re.compile(r'(?:Ca|Hca|Rt)\s+\d+\s+"')
# of net_dump: "MF0;leaf-1:MQM8700/U1", Mellanox, 0x1070fd03001adeb4, LID 24328; and ports, fields between colons
_DUMP_SWITCH = re.compile(r'\s*"(?P<name>[^"]*)"\s*,[^,]*,\s*0x(?P<guid>[0-9a-fA-F]+)\s*,\s*LID\s')
_DUMP_PORT = re.compile(r'.*\s:\s*0x(?P<guid>[0-9a-fA-F]+)\s*:\s*(?P<port>[^:\s]*)\s*:[^:]*:\s*"(?P<name>[^"]*)"\s*$')
_MACHINE = re.compile(r"(?P<machine>[^\s;]+)(?: +(?P<card>[^\s;]+))?")
_LONGEST = 4_096  # characters of a line of either program; names have at most 64
_CHASSIS = re.compile(r"[^;]*;(?P<name>[^:]+):[^/]*(?P<place>/.*)?")


@dataclass(frozen=True, slots=True)
class _Port:
    """A port of a switch, and what it leads to."""

    line: int
    switch: str
    is_switch: bool | None  # None = not said
    guid: str
    port: str  # of what it leads to
    description: str


class InfiniBand(TopologyReader):
    """Reader of InfiniBand fabrics."""

    format = FileFormat(
        "infiniband",
        source="InfiniBand: what ibnetdiscover prints, `ibdiagnet2.net_dump`, or a net file of ibsim",
        export="`ibnetdiscover`, or `ibdiagnet`",
        read="switches, links, machines by the descriptions of their adapters; rails",
        left_out="adapters without the name of a machine; speeds and states of links",
        marks=("switch", "lid"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether a switch or an adapter is described as in one of the two."""
        marks = (_SWITCH, _DUMP_SWITCH, _ADAPTER)
        return float(any(mark.match(line) for line in text_of(head).splitlines() for mark in marks))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read switches and what they lead to."""
        names: dict[str, str] = {}
        ports = list(_ports(source, names))
        if not names:
            fix = "run ibnetdiscover on a machine of the fabric"
            raise InvalidTopology("no switch is described", where=source.name, fix=fix)
        # leaf-1 for MF0;leaf-1:MQM9701/U1; with its place in the chassis, or its GUID, where two would be called alike
        matches = {switch: _CHASSIS.fullmatch(name) for switch, name in names.items()}
        short = {switch: match["name"].strip() if match else names[switch].strip() for switch, match in matches.items()}
        chassis = {switch: match["place"] or "" if match else "" for switch, match in matches.items()}
        for longer in (chassis, {switch: f" {switch}" for switch in names}):
            counts = Counter(short.values())
            short = {switch: name + longer[switch] if counts[name] > 1 else name for switch, name in short.items()}
        fabric = Fabric(short)
        adapters: list[_Port] = []
        for port in ports:
            if port.is_switch or (port.is_switch is None and port.guid in names):
                fabric.link(port.switch, port.guid)
            else:
                adapters.append(port)
        lines, notes = _add_machines(fabric, adapters)
        if not lines:
            none = f"none of {len(adapters)} adapters has the name of a machine of its own"
            fix = "let adapters be named, NAME mlx5_0, by rdma-ndd, or give ibnetdiscover a --node-name-map"
            raise InvalidTopology(none, where=source.name, fix=fix)
        return read_fabric(fabric, where=lambda node: source.at(lines.get(node)), notes=notes)


def _add_machines(fabric: Fabric, adapters: Sequence[_Port]) -> tuple[dict[str, int], list[str]]:
    """Add machines to a fabric; return the line of each, and what was left out."""
    lines: dict[str, int] = {}
    nameless: list[str] = []
    guids: dict[tuple[str, str], str] = {}  # of a port of an adapter of a machine
    shared: set[str] = set()
    for port in adapters:
        match = _MACHINE.fullmatch(port.description.strip())
        if match is None:
            nameless.append(port.description)
            continue
        machine = match["machine"]
        # where the card is not said all cards of a machine are called alike
        if match["card"] and guids.setdefault((port.description, port.port), port.guid) != port.guid:
            shared.add(machine)
        lines.setdefault(machine, port.line)
        fabric.leaves[machine].add(port.switch)
    for machine in shared:
        del fabric.leaves[machine], lines[machine]
    notes = []
    if nameless:
        kinds = some(sorted(set(nameless)), most=3)
        notes.append(f"adapters without the name of a machine, left out: {len(nameless):,} of descriptions {kinds}")
    if shared:
        notes.append(f"names that several machines have, left out: {some(sorted(shared))}")
    return lines, notes


def _ports(source: Source, names: dict[str, str]) -> Iterator[_Port]:
    """Yield the ports of all switches, and fill in their names (id -> description)."""
    switch = ""
    for number, line in enumerate(source.text.splitlines(), 1):
        if len(line) > _LONGEST:
            continue
        if match := _SWITCH.match(line) or _DUMP_SWITCH.match(line):
            switch = _id(match["guid"])
            names[switch] = match["name"] or match["guid"]
        elif _ADAPTER.match(line):
            switch = ""  # an adapter or a router, whose ports the switches have as well
        elif switch and (match := _PORT.match(line)):
            kind, name = match["kind"], match["name"]
            if kind != "R":
                is_switch, called = (None, name or match["guid"]) if kind is None else (kind == "S", name or "")
                yield _Port(number, switch, is_switch, _id(match["guid"]), match["port"], called)
        elif switch and (match := _DUMP_PORT.match(line)):
            yield _Port(number, switch, None, _id(match["guid"]), match["port"], match["name"])


def _id(guid: str) -> str:
    """Return a GUID as both tools may write it: without zeros before it."""
    return guid.lower().lstrip("0") or "0"
