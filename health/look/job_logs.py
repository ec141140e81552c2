"""What stands in a job's log: PyTorch's watchdog, NCCL (NCCL_DEBUG, and what ncclras prints), straggler detectors of
frameworks, and launchers, which say how processes ended.

The watchdog of each rank says which collective it waits in, and what it last enqueued and completed in that group.
Somebody is behind where others wait in a number that it never enqueued, where it waits in one that the others have
completed, or where it alone of the whole job says nothing.  Groups are known by name; numbers of different groups, and
of attempts of a job that was started again, are never compared.  What a rank says of its own timeout is no evidence
against it.

Of two ends of a connection that fails neither is at fault by that; the end that all failing connections of several
partners share is.  A peer that closed connections and reports none itself went away first.  Of communicators, who has
launched less than others is behind, and who has launched more is not; ranks that do not answer come before both.

A detector's slowest rank is one in every report, as some rank has to be: it is named where it is the same in most of
them, and slower than the next by more than ranks differ.  A process that was aborted or told to end is a victim.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Self

from health.collectives.diagnosis import Certainty
from health.look.evidence import (
    Clue,
    Line,
    NextStep,
    NodeAddress,
    Note,
    Seat,
    Seen,
    TextFile,
    TextForm,
    Whereabouts,
    clue_by,
    line_rules,
    same_node,
    where,
)
from health.look.node_reports import BROKEN_GPU
from topology.node_names import fold_hostlist

GLOBAL = re.compile(r"\[rank(\d+)\]:")
_GROUP = r"\[PG (?:ID \d+ PG GUID )?(?P<group>[^\s()\]]*) ?(?:\((?P<name>[^)]*)\))? ?Rank (?P<of_group>\d+)\]"
_WHO = re.compile(_GROUP)
_RANK = re.compile(r"\[Rank (\d+)\]")
_WORK = re.compile(r"Work\w*\(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+), NumelOut=(\d+))?[,)]")
_STATUS = re.compile(
    r"(?:at (?:NCCL )?work(?: sequence id)?: (?P<at>-?\d+).*?)?"
    r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+),.*? last completed (?:NCCL )?work: (?P<completed>-?\d+)",
    re.IGNORECASE,
)
_STUCK = re.compile(r"got stuck|Heartbeat monitor timed out")  # What is said of a watchdog that does not speak itself
_ABSENT = re.compile(
    r"Ranks? (?P<barrier>\d+(?:, ?\d+)*) failed to pass monitoredBarrier"
    r"|Rank 0 successfully reached monitoredBarrier, but .* from rank (?P<lost>\d+)"
    r"|\[(?P<desync>\d+(?:, ?\d+)*)\] (?:finished collective #\d+, but didn't join|never joined any)"
)
"""What PyTorch itself says of ranks that did not come: TORCH_NCCL_DESYNC_DEBUG, and barriers of gloo."""
SAME_SIZE = {"ALLREDUCE", "ALLREDUCE_COALESCED", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"}
"""Collectives in which all ranks give the same size."""
SENDS = {"SEND", "RECV", "COALESCED"}
WORLD = {"0", "default_pg", "default", "WORLD", "world"}  # Names of the group of all ranks
FEWEST_VOICES = 3  # Ranks that must speak before the silence of another says anything
MOST_ABSENT = 4  # Ranks that one line names and that are suspected for it
MOST_SILENT = 8  # One of so many may be silent and be suspected for it
BUFFERED = 8  # Collectives, NCCL_STEPS of small ones, that a rank can be ahead of one that it needs


class Voice(NamedTuple):
    """The watchdog of a rank says something, if not where it stands: lines around it may be lost."""

    rank: int


@dataclass(slots=True)
class Standing:
    """What the watchdog of a rank says of it in a group."""

    group: str  # empty = its lines do not name it
    rank: int  # of the job, where it is known, else in its group
    in_group: int
    is_global: bool  # whether the rank is known to be that of the job
    at: int | None = None  # the collective that it waits in
    enqueued: int | None = None
    completed: int | None = None
    op: str = ""
    size: str = ""
    timeouts: int = 0
    lines: list[Line] = field(default_factory=list)

    @property
    def reached(self) -> int | None:
        """The last collective that it is known to have called."""
        return self.enqueued if self.enqueued is not None else self.at

    @property
    def waits(self) -> bool:
        """Whether it has called what is not completed."""
        return self.at is not None or self.enqueued != self.completed

    def add(self, other: Self) -> None:
        """Take in another line of the rank: what came first is what it hung in."""
        if self.at is None or other.at is None or self.at == other.at:
            for name in ("at", "enqueued", "completed"):
                if getattr(self, name) is None:
                    setattr(self, name, getattr(other, name))
            self.op, self.size = self.op or other.op, self.size or other.size
        self.is_global |= other.is_global
        self.timeouts += other.timeouts
        self.lines += other.lines


def read_watchdog(text: TextFile) -> Iterator[object]:
    """Yield what the watchdog of each rank says, a line each; a timeout's line of old versions names no group."""
    for line in text.lines:
        spoken = GLOBAL.search(line.text)
        if spoken:
            yield Seen(int(spoken[1]))
        if absent := _ABSENT.search(line.text):
            ranks = [int(number) for number in re.findall(r"\d+", absent[absent.lastgroup or 0])]
            sure: Certainty = "likely" if len(ranks) == 1 else "possible"
            for number in ranks if len(ranks) <= MOST_ABSENT else ():
                yield Clue("not-launched", sure, "did not come, says PyTorch", *where(line), rank=number)
        who, rank = _WHO.search(line.text), _RANK.search(line.text)
        work, status = _WORK.search(line.text), _STATUS.search(line.text)
        if not (who or rank) or not (work or status):
            if who is not None and spoken and not _STUCK.search(line.text):
                yield Voice(int(spoken[1]))
            continue
        group = ""
        if who is not None and {who["group"], who["name"]} & WORLD:
            group = "default_pg"
        elif "PG GUID" in line.text and who is not None:
            # a number alone counts the groups of its own process: of another rank it may be another group, and names
            # such as that of all tensor-parallel groups are shared
            group = " ".join(dict.fromkeys(filter(None, (who["group"], who["name"]))))
        in_group = int(who["of_group"] if who is not None else rank[1])  # type: ignore[index]
        own = in_group if spoken is None else int(spoken[1])
        standing = Standing(group, own, in_group, is_global=spoken is not None or group == "default_pg")
        if work:
            standing.at, standing.op = int(work[1]), work[2]
            standing.size = f"{work[3]} -> {work[4]}" if work[3] else ""
            standing.timeouts = int("terminated" not in line.text and "what()" not in line.text)
        if status:
            standing.at = int(status["at"]) if status["at"] else standing.at
            standing.enqueued, standing.completed = int(status["enqueued"]), int(status["completed"])
        standing.lines.append(line)
        yield standing


def judge_watchdog(facts: Sequence[object], case: Whereabouts) -> Iterator[object]:
    """Yield clues against ranks that are behind, in each group by itself; else what to collect."""
    said = [fact for fact in facts if isinstance(fact, Standing)]
    voices = {fact.rank for fact in facts if isinstance(fact, Voice)}
    # sends are counted by pairs of ranks: their numbers differ in a job that is well
    sends = {(one.rank, one.at) for one in said if one.op in SENDS}
    said = [one for one in said if one.op not in SENDS and (one.rank, one.at) not in sends]
    # a line without a group is of the group in which the same rank waits in the same number, or of all ranks where
    # another rank waits there in the same call
    named = {(one.rank, one.at): one.group for one in said if one.group and one.at is not None}
    calls = {(one.rank, one.at): (one.op, one.size) for one in said if one.op}
    of_all = {(at, *calls[rank, at]) for (rank, at), group in named.items() if group in WORLD and (rank, at) in calls}
    of_group: dict[str, list[Standing]] = defaultdict(list)
    for one in said:
        group = one.group or named.get((one.rank, -1 if one.at is None else one.at), "")
        if not group and (one.at, one.op, one.size) in of_all:
            group = "default_pg"
        of_group[group].append(one)
    groups = {
        (group, attempt): ranks
        for group, standings in of_group.items()
        for attempt, ranks in enumerate(_attempts(group, standings))
    }
    found = {
        key: list(_behind(key[0], list(ranks.values()), case, voices=None if (key[0], 1) in groups else voices))
        for key, ranks in groups.items()
    }
    # who waits in another group, or for what is sent, is a victim, but where it is behind in all that it waits in
    blamed = {(key, clue.rank) for key, clues in found.items() for clue in clues}
    of_sends = {rank for rank, _ in sends}
    for key, clues in found.items():
        for clue in clues:
            waits = [
                other
                for other, ranks in groups.items()
                if other[0] != key[0] and clue.rank in ranks and ranks[clue.rank].waits
            ]
            if clue.rank not in of_sends and all((other, clue.rank) in blamed for other in waits):
                yield clue
    for key, ranks in groups.items():
        if not found[key]:
            yield NextStep(_silence(key[0], list(ranks.values()), case))


def _attempts(group: str, said: list[Standing]) -> list[dict[int, Standing]]:
    """Return what each rank says in a group, apart for each attempt of the job that the logs hold: a launcher starts it
    again, and numbers that no buffer lies between are of other attempts.
    """
    starts = list[int]()
    for last, number in pairwise([-BUFFERED - 2, *sorted({one.at for one in said if one.at is not None})]):
        starts += [number] if number - last > BUFFERED else []
    attempts: list[dict[int, Standing]] = [{} for _ in starts or (0,)]
    for one in said:
        number = one.at if one.at is not None else (one.reached or 0) + BUFFERED
        ranks = attempts[max(bisect_right(starts, number) - 1, 0)]
        ranks.setdefault(one.rank, Standing(group, one.rank, one.in_group, is_global=one.is_global)).add(one)
    return [ranks for ranks in attempts if ranks]


def _behind(group: str, ranks: list[Standing], case: Whereabouts, *, voices: set[int] | None) -> Iterator[Clue]:
    """Yield clues of one group in one attempt.

    :param voices: ranks that speak, whatever of: one that does not say where it stands has lost lines, and others may
        have lost all; ``None`` = there are other attempts, and a rank may be silent in one of them.
    """
    at = Counter(one.at for one in ranks if one.at is not None)
    # without a name it is one group only where ranks in it are those of the job, and no rank speaks for two processes
    if not at or (not group and any(one.rank != one.in_group or one.timeouts > 1 for one in ranks)):
        return
    number = max(at, key=lambda number: (at[number], number))
    place = f"collective {number:,}" + (f" of {group}" if group else "")
    unsure: Certainty = "likely" if group else "possible"

    def clue(kind: str, culprit: Standing, says: str, sure: Certainty) -> Clue:
        is_global = culprit.is_global or not group
        says = says if is_global else f"rank {culprit.rank} of {group}: {says}"
        return Clue(kind, sure, says, *where(*culprit.lines), rank=culprit.rank if is_global else None)

    waiting = [one for one in ranks if one.at == number]
    # a rank waits in its first collective that is not over: who waits in a later one has completed those before
    passed = [one for one in ranks if one.at is not None and one.at < number]
    late = [
        one
        for one in ranks
        if one not in passed and one.reached is not None and number - BUFFERED <= one.reached < number
    ]
    # two ranks of old versions, which name no group, may well be of two
    few = len(passed) + len(late) if group else max(len(passed) + len(late), FEWEST_VOICES)
    if (passed or late) and len(waiting) >= few:
        sure = unsure if len(passed) + len(late) == 1 else "possible"
        for one in passed:
            says = f"waits in {one.at:,}, which the {len(waiting)} that wait in {place} have completed"
            yield clue("gpu-not-ready", one, says, sure)
        for one in late:
            says = f"last called {one.reached:,}, while {len(waiting)} others wait in {place}"
            yield clue("not-launched", one, says, sure)
        return
    for kind, of in (("op", "program-other-operation"), ("size", "program-other-size")):
        calls = Counter(str(getattr(one, kind)) for one in waiting if getattr(one, kind))
        if len(calls) == 2 and (kind == "op" or waiting[0].op in SAME_SIZE):
            (usual, most), (odd, few_of) = calls.most_common()
            if most > 2 * few_of and most >= 2:
                for one in waiting:
                    if getattr(one, kind) == odd:
                        says = f"called {one.op} of {one.size or 'unknown size'} as {place}, and {most} others {usual}"
                        yield clue(of, one, says, "possible")
                return
    known = set(range(case.ranks)) if case.ranks is not None else case.seen
    silent = known - {one.rank for one in ranks}
    all_wait = len(waiting) >= FEWEST_VOICES and len(waiting) == len(known) - len(silent)
    quiet = voices is not None and not silent & voices
    if group == "default_pg" and quiet and all_wait and _is_one(silent, known, case):
        for rank in sorted(silent):
            says = f"says nothing, while all {len(waiting)} other ranks wait in {place}"
            alone = len(silent) == 1 and rank in case.seen and case.ranks is not None
            yield Clue("silent", "likely" if alone else "possible", says, *where(waiting[0].lines[0]), rank=rank)


def _is_one(silent: set[int], known: set[int], case: Whereabouts) -> bool:
    """Return whether ranks that are silent can be silent by one cause: one rank, or all of one node.

    Of others lines are lost, as where a log is cut off.
    """
    if len(silent) > max(1, len(known) // MOST_SILENT):
        return False
    nodes = {seat.node for rank in silent if (seat := case.seats.get(rank))}
    return len(silent) == 1 or (
        len(nodes) == 1 and silent == {k for k, seat in case.seats.items() if seat.node in nodes}
    )


def _silence(group: str, ranks: list[Standing], case: Whereabouts) -> str:
    """Return who should be looked at where the watchdog's lines convict nobody."""
    speak = {one.rank for one in ranks}
    rest = (set(range(case.ranks)) if case.ranks is not None else case.seen) - speak
    ops = Counter(f" ({one.op} {one.at:,})" for one in ranks if one.op and one.at is not None)
    what = (f"in {group}" if group else "in a group without a name") + next((op for op, _ in ops.most_common(1)), "")
    others = _ranks(rest) if rest and group in ("", "default_pg") else "those that say nothing"
    return (
        f"{_ranks(speak)} waited {what}, which blames none of them: get the logs of {others}, and the Flight "
        "Recorder's dumps of all ranks (TORCH_FR_BUFFER_SIZE=20000, TORCH_NCCL_DUMP_ON_TIMEOUT=1)"
    )


def _ranks(ranks: set[int]) -> str:
    return fold_hostlist(f"rank{rank}" for rank in sorted(ranks)) if len(ranks) < 2_000 else f"{len(ranks):,} ranks"


_LINE = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]*):\d+:\d+ \[(?P<device>\d+)\](?: [\w./-]+:\d+)? NCCL (?P<level>\w+) (?P<words>.*)"
)
_SEAT = re.compile(r"\brank (\d+) n[rR]anks (\d+) cudaDev (\d+)(?: nvmlDev (\d+))?(?: busId ([0-9a-fA-F]+))?")
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
            # as one hexadecimal number: 9b000 is 0000:9b:00
            bus = None if seat[5] is None else int(seat[5], 16)
            pci = None if bus is None else f"{bus >> 20:04x}:{bus >> 12 & 0xFF:02x}:{bus >> 4 & 0xFF:02x}"
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
_RAS_RANK = re.compile(r"Rank (?P<rank>\d+) -- GPU (?P<gpu>\d+) managed by process \d+ on node (?P<node>\S+)")
_PROCESS = re.compile(r"Process \d+ on node (?P<node>\S+) managing GPUs? (?P<gpu>\d+)")
_SILENT = re.compile(r"Missing communicator data|considered dead|unreachable|not respond|unresponsive", re.IGNORECASE)
_JOB = re.compile(r"^\s*(?:\d+\s+){4}(\d+)\s*$")
_RAS_GROUP = re.compile(r"^\s*(\d+)\s+\d+\s+\d+(?:-\d+)?\s+\d+(?:-\d+)?\s+(\d+)\s+\d+\s+[A-Z]")
MOST_BEHIND = 4  # Ranks of one look that are named as behind: where more are, the job may well be under way


def read_ras_text(text: TextFile) -> Iterator[object]:
    """Yield clues against processes that do not answer, else against the few ranks that have launched less."""
    job, sizes = 0, dict[str, int]()
    group, silent, launched = "", False, None
    tallies: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    listed: list[tuple[str, int, Clue]] = []
    gone = False
    for line in text.lines:
        rank, process = _RAS_RANK.search(line.text), _PROCESS.search(line.text)
        if match := _HEADING.search(line.text):
            group, silent, launched = match[1] or "", (match[2] or match[3]) == "DEAD", None
        elif match := _JOB.match(line.text):
            job = job or int(match[1])
        elif match := _RAS_GROUP.match(line.text):
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


_ETPT = re.compile(r"MnEtpt/Rnk: ([\d.]+)(?:TF)?/(\d+)\s*\|\s*MxEtpt/Rnk: ([\d.]+)(?:TF)?/(\d+)")
_BOTTOM = re.compile(r"Bottom \d+ Ranks with lowest\s+Etpt\(TF\):\s*(.*)")
_VALUE = re.compile(r"([\d.]+)(?:TF)?/(\d+)")
FEWEST_REPORTS = 3  # Reports in which the same rank must be the slowest
MOSTLY = 0.75  # Share of the reports
SLOW, VERY_SLOW = 1.1, 1.25  # Factors to the fastest (or the usual) from which a rank is possibly, or likely, slow
GAP = 1.06  # Factor to the next slowest: less, and a stage or all of a kind is slow, and no rank


class ThroughputReport(NamedTuple):
    """The ranks with the least throughput in an interval, and the greatest of any, as Megatron-LM estimates them."""

    lowest: tuple[tuple[float, int], ...]  # throughput and rank, the least first
    most: float | None  # None = not said in this line
    line: Line


def read_megatron_stragglers(text: TextFile) -> Iterator[object]:
    """Yield the extremes of each interval."""
    for line in text.lines:
        if match := _ETPT.search(line.text):
            yield ThroughputReport(((float(match[1]), int(match[2])),), float(match[3]), line)
        elif match := _BOTTOM.search(line.text):
            lowest = sorted((float(value), int(rank)) for value, rank in _VALUE.findall(match[1]))
            yield ThroughputReport(tuple(lowest), None, line)


def judge_megatron_stragglers(facts: Sequence[object], _: Whereabouts) -> Iterator[object]:
    """Yield the rank that has the least throughput again and again, by more than ranks differ."""
    reports = [fact for fact in facts if isinstance(fact, ThroughputReport) and fact.lowest and fact.lowest[0][0] > 0]
    slowest = [
        (rank, report.most / least, report.line) for report in reports if report.most for (least, rank) in report.lowest
    ]
    if 0 < len(slowest) < FEWEST_REPORTS:
        what = f"{FEWEST_REPORTS} or more reports of --log-straggler"
        yield NextStep(f"{what}: one interval's slowest rank is no straggler")
    if len(slowest) < FEWEST_REPORTS:
        return
    rank, times = Counter(rank for rank, _, _ in slowest).most_common(1)[0]
    own = [(factor, line) for of, factor, line in slowest if of == rank]
    factor = median(factor for factor, _ in own)
    two = [report.lowest[:2] for report in reports if len(report.lowest) > 1]
    gaps = [second / least for (least, of), (second, _) in two if of == rank]
    if times >= MOSTLY * len(slowest) and factor >= SLOW and (not gaps or median(gaps) >= GAP):
        says = f"has the least throughput in {times} of {len(slowest)} reports, the fastest {factor:.2f} times as much"
        sure: Certainty = "likely" if factor >= VERY_SLOW else "possible"
        yield Clue("slow", sure, says, *where(*(line for _, line in own)), rank=rank, factor=factor)


_SECTION = re.compile(r"^(?:\[\w+\]:)?\s+(\w[\w ./-]*):\s*$")
_RANK_TIME = re.compile(r"\bRank (\d+): ([\d.]+) ?ms")
_WARNED = re.compile(r"STRAGGLER DETECTION WARNING: (Some \w+[^.]*)\. Affected[^:]*: ?(.*)")
_AFFECTED = re.compile(r"rank=(\d+)(?:, ?node='?([\w.-]+)'?)?")
_OF_RANKS = re.compile(r"performing \d+/(\d+) ranks")
_SCORE = re.compile(r"Rank=(\d+) Node=(\S+) Score=([\d.]+)")
_SAID = re.compile(
    r"[Ss]tragglers? (?:detected|ranks?)[^:\d]*: *\[?(\d+(?:, *\d+)*)\]?\s*$|Detected stragglers?: *\[?(\d+(?:, *\d+)*)"
)
LOW_SCORE = 0.75  # Of NVRx, 1 = as fast as the fastest: its own default is 0.7
LOWER = 0.1  # By so much a score must be below the next


def read_straggler_reports(text: TextFile) -> Iterator[object]:
    """Yield clues by the warnings, scores and sections of a detector like NVRx."""
    sections: dict[str, dict[int, list[tuple[float, Line]]]] = defaultdict(lambda: defaultdict(list))
    scores: dict[int, tuple[float, str, Line]] = {}
    section, quiet, ranks_of_job = "", False, 0
    for line in text.lines:
        quiet |= "No stragglers detected" in line.text
        if warned := _WARNED.search(line.text):
            plain = ((rank, "") for rank in re.findall(r"(?<![\w.-])\d+(?![\w.])", warned[2]))
            affected = _AFFECTED.findall(warned[2]) or [*plain]
            sure: Certainty = "likely" if len(affected) <= 2 and "section" not in warned[1] else "possible"
            for rank, node in affected if len(affected) <= 4 else ():
                says = f"the job's detector warns: {warned[1]}"
                yield Clue("slow", sure, says, *where(line), node or None, int(rank))
        elif match := _OF_RANKS.search(line.text):
            ranks_of_job = int(match[1])
        elif match := _SCORE.search(line.text):
            if ranks_of_job:
                yield Seat(int(match[1]), ranks_of_job, match[2], None, None)
            score = float(match[3]), match[2], line
            scores[int(match[1])] = min(score, scores.get(int(match[1]), score), key=lambda score: score[0])
        elif match := _SAID.search(line.text):
            for rank in re.findall(r"\d+", match[1] or match[2]):
                yield Clue("slow", "likely", "the job's detector calls it a straggler", *where(line), rank=int(rank))
        elif match := _RANK_TIME.search(line.text):
            sections[section][int(match[1])].append((float(match[2]), line))
        elif match := _SECTION.match(line.text):
            section = match[1]
    lowest = sorted((score, rank, node, line) for rank, (score, node, line) in scores.items())
    if len(lowest) > 1 and lowest[0][0] < LOW_SCORE and lowest[1][0] - lowest[0][0] >= LOWER:
        score_of, rank_of, node_of, line = lowest[0]
        says = f"the detector's score is {score_of}, the next {lowest[1][0]}"
        yield Clue("slow", "likely", says, *where(line), node_of, rank_of, factor=1 / max(score_of, 0.01))
    for section, ranks in sections.items():
        if quiet or len(ranks) < 4:
            continue
        usual = {rank: median(time for time, _ in times) for rank, times in ranks.items()}
        (slowest, of), (second, _) = sorted(((time, rank) for rank, time in usual.items()), reverse=True)[:2]
        factor = slowest / max(median(usual.values()), 1e-9)
        if factor >= VERY_SLOW and slowest >= SLOW * second:
            says = f"takes {slowest:g} ms for {section}, and the next {second:g} ms"
            yield Clue("slow", "possible", says, *where(*(line for _, line in ranks[of])), rank=of, factor=factor)


_FIELD = re.compile(r"(?:^|[\s>:])(time|host|rank|exitcode) {2,}: (\S+)")
_ERROR = r"\[rank(?P<rank>\d+)\]:(?:\[[^\]]*\])?\s*(?P<error>(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)): "
_RAISED = re.compile(_ERROR + "(?P<words>.*)")
_OF_OTHERS = re.compile(
    r"Dist\w+Error|NCCL|nccl|[Gg]loo|[Cc]onnection|[Tt]imed? ?out|peer|Broken pipe|SIGTERM|Interrupt|ChildFailed"
    r"|TCPStore|barrier|EOFError|Signal"
)
KILLED = r"(?P<signal>4|7|9|11)\b"  # Illegal instruction, bus error, killed, segmentation fault: no end by others
ENDINGS = line_rules(rf"""
    process-died likely: was ended by signal {{signal}}, the first that mpirun noticed
        process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S*[^\s.])\.? exited on signal {KILLED}
    node-failure certain: Slurm says that the node failed
        (?:Node failure on|launch (?:for \S+ )?failed on node) (?P<node>[\w.-]+)
    program-out-of-memory likely: task {{task}} ran out of the host's memory
        srun: error: (?P<node>[\w.-]+): task (?P<task>\d+): Out Of Memory
    gpu-error likely: {{words:.120}}
        {_ERROR}(?P<words>.*{BROKEN_GPU}.*)
""")
"""How a process or node ended, in a line of mpirun, Slurm or Python."""


class Raised(NamedTuple):
    """An exception of a rank that is not about others."""

    rank: int
    error: str
    line: Line


def read_endings(text: TextFile) -> Iterator[object]:
    """Yield how processes ended, as torchrun, mpirun, Slurm and Python say it."""
    first: dict[str, tuple[str, Line]] | None = None  # what torchrun says of the failure that it observed first
    for line in text.lines:
        if spoken := GLOBAL.search(line.text):
            yield Seen(int(spoken[1]))
        if "Root Cause" in line.text:
            first = {}
        elif first is not None and (field := _FIELD.search(line.text)):
            first[field[1]] = field[2], line
            if field[1] == "exitcode":
                if first.get("rank", ("",))[0].isdecimal() and (killed := re.fullmatch("-" + KILLED, field[2])):
                    says = f"was ended by signal {killed['signal']}, the first failure that torchrun observed"
                    lines, node = (of for _, of in first.values()), first.get("host", (None,))[0]
                    yield Clue("process-died", "likely", says, *where(*lines), node, int(first["rank"][0]))
                first = None
        elif clue := clue_by(ENDINGS, line):
            yield clue
        elif (raised := _RAISED.search(line.text)) and not _OF_OTHERS.search(raised["error"] + raised["words"]):
            yield Raised(int(raised["rank"]), f"{raised['error']}: {raised['words'][:100]}", line)


def judge_endings(facts: Sequence[object], known: Whereabouts) -> Iterator[object]:
    """Yield ranks that raised an error of their own, where few did and others were there to see."""
    raised = {fact.rank: fact for fact in reversed([fact for fact in facts if isinstance(fact, Raised)])}
    others = known.seen - raised.keys()
    if raised and len(raised) * 2 <= len(others):
        for rank, fact in sorted(raised.items()):
            sure: Certainty = "likely" if len(raised) == 1 else "possible"
            yield Clue("program-exception", sure, fact.error, *where(fact.line), rank=rank)


JOB_LOGS = (
    TextForm(
        "pytorch-watchdog",
        r"Watchdog caught coll|last enqueued (?:NCCL )?work|\[PG [^\]]*Rank \d+\]|ProcessGroupNCCL"
        r"|monitoredBarrier|didn't join|never joined any",
        read_watchdog,
        judge_watchdog,
    ),
    TextForm("nccl-log", r":\d+:\d+ \[-?\d+\].* NCCL (?:WARN|INFO|ERROR) ", read_nccl_log, judge_nccl_log),
    TextForm(
        "ncclras",
        r"NCCL version [\d.]+ compiled with CUDA[^\0]*?(?:Job summary|Communicators\.\.\.)",
        read_ras_text,
        document=True,
    ),
    TextForm(
        "megatron-straggler",
        r"MnEtpt/Rnk|Ranks with lowest\s+Etpt",
        read_megatron_stragglers,
        judge_megatron_stragglers,
    ),
    TextForm(
        "straggler-report",
        r"[Ss]traggler|STRAGGLER|performing \d+/\d+ ranks|Rank=\d+ Node=\S+ Score="
        r"|\bRank \d+: [\d.]+ ?ms|^(?:\[\w+\]:)?\s\s+\w[\w ./-]*:$",
        read_straggler_reports,
        sign=r"Straggler Report|[Ss]tragglers? [Dd]etect|STRAGGLER DETECTION|Rank=\d+ Node=\S+ Score=",
    ),
    TextForm(
        "launcher-log",
        rf"Root Cause|{_FIELD.pattern}|mpirun noticed|srun: error"
        r"|\[rank\d+\]:.*(?:Error|Exception)\b",
        read_endings,
        judge_endings,
        sign=r"Root Cause|exitcode|mpirun noticed|srun: error|(?:Error|Exception)\b",
    ),
)
