"""Slurm's ``topology.conf``: lines of ``SwitchName=`` (topology/tree) or ``BlockName=`` (topology/block).

Source: the manual page topology.conf(5).  Keys are case-insensitive, ``#`` begins a comment, a backslash at the end
continues a line.

``scontrol show topology`` prints nearly the same, and any user may call it.  There a switch has its ``Level``, and the
``Nodes`` of one that has ``Switches`` are all nodes below it; a block has its ``BlockIndex`` and ``BlockSize``, and of
an ``AggregatedBlock`` only the size is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain

from topology.cluster import MAX_NODES
from topology.errors import InvalidInput, InvalidTopology, did_you_mean
from topology.file_format import FileFormat
from topology.files import Source
from topology.readers.slurm.switches import (
    WITHOUT_LEVELS,
    Switch,
    block_cluster,
    empty_notes,
    expand_switch,
    read_switches,
)
from topology.readers.types import Reading

KEYS = {
    "SwitchName": ("Switches", "Nodes", "LinkSpeed", "Level"),
    "BlockName": ("Nodes", "BlockIndex", "BlockSize"),
    "BlockSizes": (),
    "AggregatedBlock": ("Nodes", "BlockIndex", "BlockSize"),
}
"""First key of a line, and those that may follow."""

_SPELLING = {name.lower(): name for name in chain(KEYS, *KEYS.values())}
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*("[^"]*"|[^\s"]+)(?=\s|$)')
_MARK = re.compile(
    r"^[ \t]*(?:SwitchName|BlockName|BlockSizes|AggregatedBlock|RingName|TorusName)[ \t]*=",
    re.IGNORECASE | re.MULTILINE,
)


class SlurmConf:
    """Reader of ``topology.conf``."""

    format = FileFormat(
        "slurm-conf",
        source="Slurm's `topology.conf`, or what scontrol shows: lines of `SwitchName=` or `BlockName=`",
        export="`scontrol show topology`",
        read="trees, forests and blocks of switches, nodes by hostlist",
        left_out="LinkSpeed, rings; the states and GPUs of nodes, which --busy reads",
        marks=("name=", "nodes="),
    )
    chooses_levels = False

    def recognises(self, head: str) -> bool:
        """Return whether a line begins with one of the names of the format."""
        return bool(_MARK.search(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the lines."""
        switches: list[Switch] = []
        blocks: list[Switch] = []
        sizes: tuple[int, ...] = ()
        shown_sizes: set[int] = set()
        sizes_place = source.name
        limit = MAX_NODES
        for place, pairs in _lines(source):
            if "BlockSizes" in pairs:
                sizes, sizes_place = _sizes(pairs, "BlockSizes", place), place
                continue
            if "BlockSize" in pairs:
                shown_sizes.update(_sizes(pairs, "BlockSize", place))
            if "AggregatedBlock" in pairs:
                continue
            children, nodes = pairs.get("Switches"), pairs.get("Nodes")
            if children and "Level" in pairs:  # scontrol gives such a switch all nodes below it
                nodes = None
            name = pairs.get("SwitchName", pairs.get("BlockName", ""))
            found = expand_switch(name, children, nodes, place=place, limit=limit)
            limit -= len(found.nodes)
            (switches if "SwitchName" in pairs else blocks).append(found)
        if switches and blocks:
            both = "the file has switches and blocks"
            fix = "describe a tree or blocks, not both; of several topologies give one: scontrol show topology NAME"
            raise InvalidTopology(both, where=blocks[0].place, fix=fix)
        if blocks:
            cluster = block_cluster(blocks, sizes or sorted(shown_sizes), place=sizes_place)
            return Reading(cluster, empty_notes(blocks, "blocks"))
        if not switches:
            nothing = "the file describes no switch and no block"
            raise InvalidTopology(nothing, where=source.name, fix="add lines such as SwitchName=s1 ...")
        return read_switches(switches)


def _lines(source: Source) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the pairs of each line that says something."""
    held, start = "", 0
    for number, raw in enumerate(source.text.split("\n"), 1):
        line = raw.split("#", 1)[0].rstrip()
        start = start if held else number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        text, held = held + line, ""
        if text.strip():
            place = source.at(start)
            yield place, _pairs(text, place)
    if held.strip():
        unfinished = "the last line is not finished"
        raise InvalidInput(unfinished, where=source.at(start), fix="remove the backslash at its end")


def _pairs(text: str, place: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    at, end = 0, len(text.rstrip())
    while at < end:
        pair = _PAIR.match(text, at)
        if pair is None:
            unread = f"cannot read {text[at:].strip()[:60]!r}"
            raise InvalidInput(unread, where=place, fix="write pairs such as SwitchName=s1 Nodes=n[1-8]")
        key = _SPELLING.get(pair[1].lower(), pair[1])
        if fault := _key_fault(key, pair[1], pairs):
            raise InvalidInput(fault[0], where=place, fix=fault[1])
        pairs[key] = pair[2].strip('"')
        at = pair.end()
    return pairs


def _key_fault(key: str, spelled: str, before: dict[str, str]) -> tuple[str, str] | None:
    """Return what is wrong with a key of a line, and what to do about it."""
    if key.lower() in ("ringname", "torusname"):
        return f"a {key[:-4].lower()} has no levels", WITHOUT_LEVELS
    if key in before:
        return f"{spelled} stands twice in the line", "keep one of the two"
    known = KEYS[next(iter(before))] if before else tuple(KEYS)
    if key not in known:
        names = known or ["nothing more"]
        allowed = f"{'may follow' if before else 'a line begins with'}: {', '.join(names)}"
        return f"unknown key {spelled[:60]!r}", f"{did_you_mean(spelled, names)}{allowed}"
    return None


def _sizes(pairs: dict[str, str], key: str, place: str) -> tuple[int, ...]:
    parts = pairs[key].split(",")
    if not all(re.fullmatch(r"[1-9][0-9]{0,8}", part) for part in parts):
        raise InvalidInput(f"{key} is {pairs[key][:60]!r}", where=place, fix="write whole numbers such as 30,120")
    return tuple(int(part) for part in parts)
