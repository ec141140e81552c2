"""What NCCL says as text: the lines of its log (NCCL_DEBUG), and what ncclras prints.

Of two ends of a connection that fails neither is at fault by that; the end that all failing connections of several
partners share is.  A peer that closed connections and reports none itself went away first.  Who has launched less than
others is behind, and who has launched more is not; ranks that do not answer come before both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from health.look.evidence import (
    Clue,
    Line,
    NextStep,
    NodeAddress,
    Note,
    Seat,
    TextFile,
    TextForm,
    Whereabouts,
    clue_by,
    line_rules,
    same_node,
    where,
)
from health.look.node_reports import BROKEN_GPU

_LINE = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]*):\d+:\d+ \[(?P<device>\d+)\](?: [\w./-]+:\d+)? NCCL (?P<level>\w+) (?P<words>.*)"
)
_SEAT = re.compile(
    r"\brank (\d+) n[rR]anks (\d+) cudaDev (\d+)(?: nvmlDev (\d+))?(?: busId ([0-9a-fA-F]+))?",
)
_ADDRESS = re.compile(r"(?:\bUsing|OOB) [^<]*?[\w.-]+:(\d+\.\d+\.\d+\.\d+)<\d+>")
_PATH = re.compile(
    # status of a work request: retries exceeded, of the transport (12) or of a receiver that is not ready (13)
    r"Got completion from peer (?P<path>\S+?)<\d+> with (?:error|status)[ =](?:12|13)\b"
    r"|(?:[Rr]emote peer|[Rr]ecv from|[Ss]end to|[Cc]onnect(?:ing|ion)? (?:to|from)) (?P<closed>\S+?)<\d+>"
)
_PORT = "port err|port down|link down|catastrophic|device fatal"
_WARNINGS = line_rules(rf"""
    gpu-error likely: CUDA says {{words}}
        Cuda failure (?:\d+ )?'(?P<words>[^']*{BROKEN_GPU}[^']*)'
    network-port likely: {{port}}: {{words}}
        NET/IB ?: ?(?P<port>\S+) (?:Got )?(?:non-fatal )?async (?:\w+ )*event ?: ?(?P<words>.*(?:{_PORT}).*)
""")
_NETWORK = re.compile(r"Using network (\S+)|Assigned NET plugin (\S+) to comm")
FEWEST_OTHERS = 2  # Nodes that must see the same of one before it is named


class FailedPath(NamedTuple):
    """A node could not reach another, or was left by it."""

    kind: str  # "path": retries exceeded; "closed": the connection was closed or refused
    node: str
    peer: str
    line: Line


class NetworkInUse(NamedTuple):
    """What a node talks to others over."""

    node: str
    name: str
    line: Line


def read_nccl_log(text: TextFile) -> Iterator[object]:
    """Yield where ranks run, and what warnings say of devices and connections."""
    for line in text.lines:
        if (match := _LINE.search(line.text)) is None:
            continue
        node, words = match["host"], match["words"]
        if seat := _SEAT.search(words):
            pci = None if seat[5] is None else pci_of_bus(int(seat[5], 16))
            yield Seat(int(seat[1]), int(seat[2]), node, int(seat[4] or seat[3]), pci)
        if address := _ADDRESS.search(words):
            yield NodeAddress(address[1], node)
        if network := _NETWORK.search(words):
            yield NetworkInUse(node, network[1] or network[2], line)
        if match["level"] == "WARN":
            if clue := clue_by(_WARNINGS, line, node=node, gpu=int(match["device"])):
                yield replace(clue, gpu=None) if clue.kind == "network-port" else clue
            elif path := _PATH.search(words):
                yield FailedPath(str(path.lastgroup), node, path[path.lastindex or 0], line)


def pci_of_bus(number: int) -> str:
    """Return the PCI address that NCCL prints as one hexadecimal number: 9b000 is 0000:9b:00."""
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}"


def judge_nccl_log(facts: Sequence[object], known: Whereabouts) -> Iterator[object]:
    """Yield the node that all failing paths share, the one that left first, and the one that lacks the fast network."""
    paths = [
        fact._replace(node=known.called(fact.node), peer=known.called(fact.peer))
        for fact in facts
        if isinstance(fact, FailedPath)
    ]
    for kind, what in (("path", "network-path"), ("closed", "unreachable")):
        failing = [path for path in paths if path.kind == kind and not same_node(path.node, path.peer)]
        others: dict[str, set[str]] = defaultdict(set)
        for path in failing:
            others[path.peer].add(path.node)
            if kind == "path":
                others[path.node].add(path.peer)
        speak = {path.node for path in failing}
        shared = [
            node
            for node, of_node in others.items()
            if len(of_node) >= FEWEST_OTHERS
            and (all(node in path[1:3] for path in failing) if kind == "path" else node not in speak)
        ]
        if len(shared) == 1:
            node = shared[0]
            seen = [path for path in failing if node in path[1:3]]
            what_of_it = "fail to reach it, and no others fail" if kind == "path" else "lost it, and it lost nobody"
            says = f"{len(others[node])} nodes {what_of_it}"
            for file in dict.fromkeys(path.line.file for path in seen):
                yield Clue(what, "likely", says, *where(*(path.line for path in seen if path.line.file == file)), node)
        elif failing:
            ends = sorted({end for path in failing for end in path[1:3]})
            yield NextStep(
                f"test the paths between {' and '.join(ends[:4])}: arnold health pairs plan --suspects {','.join(ends)}"
            )
    networks = [fact for fact in facts if isinstance(fact, NetworkInUse)]
    slow = {fact.node: fact for fact in networks if fact.name == "Socket"}
    fast = {fact.node for fact in networks if fact.name != "Socket"} - slow.keys()
    if slow and len(fast) >= FEWEST_OTHERS and len(slow) * 4 <= len(fast) + len(slow):
        for node, fact in slow.items():
            says = f"NCCL uses sockets there, and another network on {len(fast)} nodes"
            yield Clue("network-fallback", "likely", says, *where(fact.line), node)


_HEADING = re.compile(r"^#(\d+)-\d+ \(\w+\) (\w+)|^([A-Z]{4,})$")
_COUNT = re.compile(r"(\d+) ranks? ha(?:s|ve) launched up to operation (\d+)")
_RANK = re.compile(r"Rank (?P<rank>\d+) -- GPU (?P<gpu>\d+) managed by process \d+ on node (?P<node>\S+)")
_PROCESS = re.compile(r"Process \d+ on node (?P<node>\S+) managing GPUs? (?P<gpu>\d+)")
_SILENT = re.compile(r"Missing communicator data|considered dead|unreachable|not respond|unresponsive", re.IGNORECASE)
_JOB = re.compile(r"^\s*(?:\d+\s+){4}(\d+)\s*$")
_GROUP = re.compile(r"^\s*(\d+)\s+\d+\s+\d+(?:-\d+)?\s+\d+(?:-\d+)?\s+(\d+)\s+\d+\s+[A-Z]")
MOST_BEHIND = 4  # Ranks of one look that are named as behind: where more are, the job may well be under way


def read_ras_text(text: TextFile) -> Iterator[object]:
    """Yield clues against processes that do not answer, else against the few ranks that have launched less."""
    job, sizes = 0, dict[str, int]()
    group, silent, launched = "", False, None
    tallies: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    listed: list[tuple[str, int, Clue]] = []
    gone = False
    for line in text.lines:
        rank, process = _RANK.search(line.text), _PROCESS.search(line.text)
        if match := _HEADING.search(line.text):
            group, silent, launched = match[1] or "", (match[2] or match[3]) == "DEAD", None
        elif match := _JOB.match(line.text):
            job = job or int(match[1])
        elif match := _GROUP.match(line.text):
            sizes[match[1]] = int(match[2])
        elif of := rank or process:
            of_job = int(of["rank"]) if rank and sizes.get(group) == job else None
            gpu, node = int(of["gpu"]), of["node"]
            if silent:
                yield Clue("unreachable", "likely", "does not answer NCCL's RAS", *where(line), node, of_job, gpu)
                gone = True
            elif rank and launched is not None:
                clue = Clue("not-launched", "possible", "", *where(line), node, of_job, gpu)
                listed.append((group, launched, clue))
        elif match := _COUNT.search(line.text):
            silent, launched = False, int(match[2])
            tallies[group][launched] += int(match[1])
        elif line.text.strip():
            silent, launched = (silent and not line.text.startswith("#")) or _SILENT.search(line.text) is not None, None
    behind, ahead = [], 0
    for group, reached, clue in listed:
        counts = tallies[group]
        most = max(counts, key=counts.__getitem__)
        if counts[most] * 2 > sum(counts.values()) and reached < most:
            says = f"has launched {reached:,} operations of communicator {group}, and {counts[most]} ranks {most:,}"
            behind.append(replace(clue, says=says))
        ahead += reached > most
    if not gone and len(behind) <= MOST_BEHIND:
        yield from behind
    elif behind:
        why = "they may wait for those that do not answer" if gone else "too many to blame one"
        yield Note(f"{len(behind)} ranks have launched less than most: {why}")
    if ahead:
        yield Note(f"{ahead} ranks have launched more than most: they are ahead, and not to blame")
        yield NextStep("run ncclras -v twice, 10 s apart: who is behind in both has stopped")


NCCL_TEXT = (
    TextForm("nccl-log", r":\d+:\d+ \[-?\d+\].* NCCL (?:WARN|INFO|ERROR) ", read_nccl_log, judge_nccl_log),
    TextForm(
        "ncclras",
        r"NCCL version [\d.]+ compiled with CUDA[^\0]*?(?:Job summary|Communicators\.\.\.)",
        read_ras_text,
        document=True,
    ),
)
