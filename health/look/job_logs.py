"""What PyTorch's watchdog of NCCL writes into the log of a job.

The watchdog of each rank says which collective it waits in, and what it last enqueued and completed in that group.
Somebody is behind where others wait in a number that it never enqueued, where it waits in one that the others have
completed, or where it alone of the whole job says nothing.  Groups are known by name; numbers of different groups, and
of attempts of a job that was started again, are never compared.  What a rank says of its own timeout is no evidence
against it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from health.collectives.diagnosis import Certainty
from health.look.evidence import Clue, Line, NextStep, Seen, TextFile, TextForm, Whereabouts, where
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

    def add(self, other: Standing) -> None:
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


JOB_LOGS = (
    TextForm(
        "pytorch-watchdog",
        r"Watchdog caught coll|last enqueued (?:NCCL )?work|\[PG [^\]]*Rank \d+\]|ProcessGroupNCCL"
        r"|monitoredBarrier|didn't join|never joined any",
        read_watchdog,
        judge_watchdog,
    ),
)
