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

from topology.cluster import MAX_NODES
from topology.errors import InvalidInput, InvalidTopology, did_you_mean
from topology.files import Source
from topology.hostlist import expand_hostlist
from topology.readers.switches import Switch, block_cluster, tree_cluster, trunk_notes
from topology.readers.types import Reading

KEYS = {
    "switchname": ("switches", "nodes", "linkspeed", "level"),
    "blockname": ("nodes", "blockindex", "blocksize"),
    "blocksizes": (),
    "aggregatedblock": ("nodes", "blockindex", "blocksize"),
}
"""First key of a line, in lower case, and those that may follow."""

_SPELLING = {
    "switchname": "SwitchName",
    "switches": "Switches",
    "nodes": "Nodes",
    "linkspeed": "LinkSpeed",
    "level": "Level",
    "blockname": "BlockName",
    "blocksizes": "BlockSizes",
    "blockindex": "BlockIndex",
    "blocksize": "BlockSize",
    "aggregatedblock": "AggregatedBlock",
}
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*("[^"]*"|[^\s"]+)(?=\s|$)')
_MARK = re.compile(
    r"^[ \t]*(?:SwitchName|BlockName|BlockSizes|AggregatedBlock|RingName)[ \t]*=", re.IGNORECASE | re.MULTILINE
)


class SlurmConf:
    """Reader of ``topology.conf``."""

    name = "slurm-conf"
    summary = "Slurm topology.conf or scontrol show topology, lines of SwitchName= or BlockName="
    chooses_levels = False

    def recognises(self, head: str) -> bool:
        """Return whether a line begins with one of the names of the format."""
        return bool(_MARK.search(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the lines.

        :raises InvalidInput: a line that is not of the format, a broken hostlist.
        :raises InvalidTopology: not a tree.
        :raises TooLarge: more nodes than a cluster has.
        """
        switches: list[Switch] = []
        blocks: list[Switch] = []
        sizes: tuple[int, ...] = ()
        shown_sizes: set[int] = set()
        sizes_place = source.name
        budget = MAX_NODES
        for place, pairs in _lines(source):
            if "blocksizes" in pairs:
                sizes, sizes_place = _sizes(pairs, "blocksizes", place), place
                continue
            if "blocksize" in pairs:
                shown_sizes.update(_sizes(pairs, "blocksize", place))
            if "aggregatedblock" in pairs:
                continue
            children = _names(pairs.get("switches"), place, budget)
            nodes = () if children and "level" in pairs else _names(pairs.get("nodes"), place, budget)
            budget -= len(nodes)
            name = pairs.get("switchname", pairs.get("blockname", ""))
            (switches if "switchname" in pairs else blocks).append(Switch(name, children, nodes, place))
        if switches and blocks:
            raise InvalidTopology(
                "the file has switches and blocks", where=blocks[0].place, fix="describe a tree or blocks, not both"
            )
        if blocks:
            cluster = block_cluster(blocks, sizes or sorted(shown_sizes), place=sizes_place)
            return Reading(cluster)
        if not switches:
            raise InvalidTopology(
                "the file describes no switch and no block",
                where=source.name,
                fix="add lines such as SwitchName=s1 ...",
            )
        cluster = tree_cluster(switches)
        return Reading(cluster, trunk_notes(cluster))


def _lines(source: Source) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and pairs of each line that says something, keys in lower case."""
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
        raise InvalidInput(
            "the last line is not finished", where=source.at(start), fix="remove the backslash at its end"
        )


def _pairs(text: str, place: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    at, end = 0, len(text.rstrip())
    while at < end:
        pair = _PAIR.match(text, at)
        if pair is None:
            raise InvalidInput(
                f"cannot read {text[at:].strip()[:60]!r}",
                where=place,
                fix="write pairs such as SwitchName=s1 Nodes=n[1-8]",
            )
        key, value = pair[1].lower(), pair[2].strip('"')
        _check_key(key, pair[1], pairs, place)
        pairs[key] = value
        at = pair.end()
    return pairs


def _check_key(key: str, spelled: str, before: dict[str, str], place: str) -> None:
    if key == "ringname":
        raise InvalidInput("a ring has no levels", where=place, fix="describe the cluster as a tree or as blocks")
    known = KEYS[next(iter(before))] if before else tuple(KEYS)
    if key in before:
        raise InvalidInput(f"{spelled} stands twice in the line", where=place, fix="keep one of the two")
    if key not in known:
        spellings = [_SPELLING[name] for name in known] or ["nothing more"]
        raise InvalidInput(
            f"unknown key {spelled[:60]!r}",
            where=place,
            fix=f"{did_you_mean(spelled, spellings)}{'may follow' if before else 'a line begins with'}: "
            f"{', '.join(spellings)}",
        )


def _names(hostlist: str | None, place: str, budget: int) -> tuple[str, ...]:
    return () if hostlist is None else tuple(expand_hostlist(hostlist, where=place, limit=budget))


def _sizes(pairs: dict[str, str], key: str, place: str) -> tuple[int, ...]:
    parts = pairs[key].split(",")
    if not all(re.fullmatch(r"[1-9][0-9]{0,8}", part) for part in parts):
        raise InvalidInput(
            f"{_SPELLING[key]} is {pairs[key][:60]!r}", where=place, fix="write whole numbers such as 30,120"
        )
    return tuple(int(part) for part in parts)
