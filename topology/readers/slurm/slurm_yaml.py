"""Slurm's ``topology.yaml``, topology.yaml(5), 25.05 and later: one topology or several, each a tree, blocks, or flat.

Of several that of the job's partition counts, where that is known; else the first with ``cluster_default: true``, if
it is a tree or blocks, else the first that is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from topology.cluster import MAX_NODES
from topology.errors import InvalidTopology
from topology.file_format import FileFormat
from topology.files import Source
from topology.parsing.documents import Document, load_document
from topology.readers.slurm.switches import (
    WITHOUT_LEVELS,
    Switch,
    block_cluster,
    empty_notes,
    expand_switch,
    read_switches,
)
from topology.readers.types import Reading

_MARK = re.compile(r"^(?:[ \t]*-[ \t]+)?[\"']?(?:topology|cluster_default)[\"']?[ \t]*:", re.MULTILINE)
_FLOW_MARK = re.compile(r"\s*+\[\s*+\{\s*+[\"']?(?:topology|cluster_default)[\"']?\s*:")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Switch(_Strict):
    switch: str
    children: str | None = None
    nodes: str | None = None


class _Tree(_Strict):
    switches: list[_Switch]


class _Block(_Strict):
    block: str
    nodes: str | None = None


class _Blocks(_Strict):
    block_sizes: list[Annotated[int, Field(ge=1, le=10**9)]] = []
    blocks: list[_Block]


class _Topology(_Strict):
    topology: str
    cluster_default: bool = False
    tree: _Tree | None = None
    block: _Blocks | None = None
    flat: bool | dict[str, Any] = False
    ring: Any = None
    torus3d: Any = None

    def kinds(self) -> list[str]:
        """Return the kinds of topology that the text says it is; Slurm takes exactly one."""
        return [kind for kind in ("tree", "block", "flat", "ring", "torus3d") if getattr(self, kind)]


@dataclass(frozen=True, slots=True)
class SlurmYaml:
    """Reader of ``topology.yaml``."""

    topology: str = ""  # the one to read of several; empty = the default

    format: ClassVar = FileFormat(
        "slurm-yaml",
        source="Slurm's `topology.yaml`, a list of `- topology: NAME` with tree or block",
        export="the file beside `slurm.conf`",
        read="the default of its topologies: a tree, a forest or blocks",
        left_out="its other topologies, rings and tori; the states and GPUs of nodes, which --busy reads",
        marks=("topology:", "switches:"),
    )
    chooses_levels: ClassVar = False

    def choosing(self, topology: str) -> SlurmYaml:
        """Return a reader that reads the topology of that name."""
        return SlurmYaml(topology)

    def recognises(self, head: str) -> bool:
        """Return whether a key ``topology`` stands at the beginning of a line or list entry."""
        return bool(_MARK.search(head) or _FLOW_MARK.match(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the topology that is the default."""
        document = load_document(source, syntax="yaml")
        alone = isinstance(document.data, dict)
        topologies = [document.parse(_Topology)] if alone else document.parse(list[_Topology])
        paths: list[tuple[int, ...]] = [() if alone else (i,) for i in range(len(topologies))]
        if not topologies:
            raise InvalidTopology("the list of topologies is empty", where=source.name, fix="describe one")
        for path, topology in zip(paths, topologies, strict=True):
            _check_kind(document, topology, path)
        defaults = [i for i, topology in enumerate(topologies) if topology.cluster_default]
        layered = [i for i, topology in enumerate(topologies) if topology.tree or topology.block]
        default = (defaults or layered or [0])[0]
        if self.topology:
            named = [i for i, topology in enumerate(topologies) if topology.topology == self.topology]
            if not named:
                none = f"there is no topology {self.topology!r}, which the partition has"
                known = ", ".join(topology.topology for topology in topologies)
                fix = f"describe it, or choose another --partition; topologies: {known}"
                raise InvalidTopology(none, where=source.name, fix=fix)
            default, layered = named[0], named
        number = default if default in layered else (layered or [default])[0]
        chosen, here = topologies[number], paths[number]
        besides = "" if number == default else f"; the default, {topologies[default].topology!r}, has no levels"
        several = f"of {len(topologies)} topologies, {chosen.topology!r} was read{besides}"
        notes = () if len(topologies) == 1 else (several,)
        if chosen.tree is not None:
            lines = [(switch.switch, switch.children, switch.nodes) for switch in chosen.tree.switches]
            reading = read_switches(_switches(document, lines, here, ("tree", "switches")))
            return replace(reading, notes=(*notes, *reading.notes))
        if chosen.block is not None:
            lines = [(block.block, None, block.nodes) for block in chosen.block.blocks]
            blocks = _switches(document, lines, here, ("block", "blocks"))
            sizes, place = chosen.block.block_sizes, document.where(*here, "block", "block_sizes")
            return Reading(block_cluster(blocks, sizes, place=place), (*notes, *empty_notes(blocks, "blocks")))
        kind, fix = "".join(chosen.kinds()) or "of no kind", WITHOUT_LEVELS
        flat = f"topology {chosen.topology!r} is {kind}, neither a tree nor blocks"
        raise InvalidTopology(flat, where=document.where(*here), fix=fix)


def _check_kind(document: Document, topology: _Topology, path: tuple[int, ...]) -> None:
    if len(kinds := topology.kinds()) > 1:
        both, where = f"{topology.topology!r} is {' and '.join(kinds)} at once", document.where(*path, kinds[1])
        fix = "make it one of them; a second one is an entry of its own"
        raise InvalidTopology(f"topology {both}", where=where, fix=fix)


def _switches(
    document: Document,
    lines: Sequence[tuple[str, str | None, str | None]],
    here: tuple[int, ...],
    keys: tuple[str, str],
) -> list[Switch]:
    """Return the switches under two keys of a topology, from names and hostlists of what hangs on each."""
    if not lines:
        place = document.where(*here, keys[0])
        raise InvalidTopology("the topology has no switches", where=place, fix="describe at least one")
    switches: list[Switch] = []
    limit = MAX_NODES
    for i, line in enumerate(lines):
        switches.append(expand_switch(*line, place=document.where(*here, *keys, i), limit=limit))
        limit -= len(switches[-1].nodes)
    return switches
