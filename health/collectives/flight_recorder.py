"""The Flight Recorder dumps of a job's ranks, one file for each, as one snapshot of the job.

A dump is a moment.  That a collective stands still, and was not merely under way then, is known where the recorder
retired it without completion: it has timed out.  That holds where the recorder saw events of the device.

Of a backend of which it saw none (``FlightRecorderHook`` over one that tells no completion, work on the CPU) it says
``scheduled`` and ``retired`` of operations that are long over.  Of these the ranks are compared by how far each has
come.  Whether the last operation is over cannot be told, nor whether a rank that is behind will come, so nothing is
certain.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from ground.errors import InvalidInput
from ground.files import Source
from ground.quantities import plural
from health.collectives.agreement import Differing, differing
from health.collectives.flight_recorder_dump import Dump, Entry, GroupKey, Pair, read_dump
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Mismatch, Snapshot, Stall

Entries = dict[int, list[Entry]]  # Rank -> what it enqueued in one group
DEFAULT = "default_pg"  # What PyTorch calls the group of all ranks
# Name of a dump that begins with its host: container-node02_5, node02_rank_5.json
_OF_HOST = re.compile(r"([A-Za-z][A-Za-z0-9.-]*)_(?:rank[_-]?)?\d+(?:\.json)?$")


def read_flight_recorder(sources: Sequence[Source], *, lenient: bool = False) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot that the dumps of a job's ranks make, and notes.

    :param lenient: leave out dumps that cannot be used, and say which; of their ranks nothing is known then.
    :raises InvalidInput: a dump cannot be used (leniently: none can), two are of one rank, two disagree on a group.
    """
    dumps: dict[int, Dump] = {}
    place: dict[int, str] = {}
    told: dict[tuple[str, int], tuple[GroupKey, str]] = {}  # name and member of a group -> the group, and its file
    refused: list[InvalidInput] = []
    for source in sources:
        try:
            dump = read_dump(source)
        except InvalidInput as error:
            if not lenient:
                raise
            refused.append(error)
            continue
        if dump.rank in dumps:
            wrong = f"is the second dump of rank {dump.rank}: the first is {place[dump.rank]}"
            raise InvalidInput(wrong, where=source.name, fix="give one dump of each rank, of one moment")
        for key in dump.groups:
            for rank in key.ranks if key.name else ():
                other, by = told.setdefault((key.name, rank), (key, source.name))
                if other != key:
                    wrong = f"the group {key.name!r:.60} has other ranks than in {by}"
                    raise InvalidInput(wrong, where=source.name, fix="give the dumps of one job only")
        dumps[dump.rank], place[dump.rank] = dump, source.name
    if not dumps:
        raise refused[0]
    named = _hosts_in_names(place) if all(dump.host is None for dump in dumps.values()) else {}
    dumps = {rank: replace(dump, host=named.get(rank, dump.host)) for rank, dump in dumps.items()}
    snapshot, notes = _Job(dumps).snapshot()
    if named:
        notes.append(
            f"the hosts are those that the names of the files begin with: {', '.join(sorted({*named.values()})[:3])}"
        )
    return snapshot, (*(f"left out {error.where}: {error.message}" for error in refused), *notes)


def _hosts_in_names(place: Mapping[int, str]) -> dict[int, str]:
    """Return rank -> host, where the names of all files begin with one and not all with the same; empty = they do not.

    What all files begin with is what somebody calls dumps.
    """
    names = {rank: _OF_HOST.fullmatch(PurePath(name).name) for rank, name in place.items()}
    hosts = {rank: found[1] for rank, found in names.items() if found is not None}
    return hosts if len(hosts) == len(place) and len({*hosts.values()}) > 1 else {}


class _Stuck(NamedTuple):
    """The first operation of a group that is not over."""

    seq: int
    standing: set[int]  # ranks that are in it


class _Job:
    """The dumps of a job, by rank."""

    def __init__(self, dumps: Mapping[int, Dump]) -> None:
        self._dumps = dumps
        self._notes: list[str] = []
        self._groups = self._known_groups()
        self._index = {
            rank: i for i, rank in enumerate(sorted({*dumps, *(r for key in self._groups for r in key.ranks)}))
        }
        self._untimed: set[str] = set()
        self._overwritten = 0
        self._stalls: list[Stall] = []
        self._mismatches: list[Mismatch] = []
        self._timed_out = False

    def snapshot(self) -> tuple[Snapshot, list[str]]:
        """Return the job at the moment of the dumps, and what limits it."""
        members = tuple(Member(f"rank {r}", r, self._dumps[r].host if r in self._dumps else None) for r in self._index)
        groups: list[RankGroup] = []
        for number, (key, title) in enumerate(self._groups.items()):
            groups.append(RankGroup(title, "", tuple(self._index[rank] for rank in key.ranks)))
            self._look_at_group(number, title, key)
        pairs: dict[Pair, Entries] = defaultdict(dict)
        for rank, dump in self._dumps.items():
            for pair, mine in dump.transfers.items():
                pairs[pair][rank] = mine
        for (key, source, target), entries in sorted(pairs.items()):
            stall = self._of_pair(len(groups), (key, source, target), entries)
            if stall is not None:
                name = f"{key.name} {source}->{target}"
                groups.append(RankGroup(name, "pp", (self._index[source], self._index[target])))
                self._stalls.append(stall)
        unseen = frozenset(i for rank, i in self._index.items() if rank not in self._dumps)
        notes = [*self._notes, *self._limits(len(unseen))]
        if len(self._stalls) > len(self._mismatches) and not self._timed_out:
            notes.append("no operation has timed out: the dumps may show a healthy job at work")
        stalls, mismatches = tuple(self._stalls), tuple(self._mismatches)
        return Snapshot(members, tuple(groups), stalls, mismatches, settled=self._timed_out, unseen=unseen), notes

    def _known_groups(self) -> dict[GroupKey, str]:
        """Return groups and their titles.

        Where the recorder does not name a group, as that of gloo does not, the ranks that used it are its members; of
        the default group all ranks are.
        """
        told = {key: desc for dump in self._dumps.values() for key, desc in dump.groups.items()}
        ranks = {*self._dumps, *(rank for key in told for rank in key.ranks)}
        groups: dict[GroupKey, str] = {}
        for key, desc in told.items():
            if not key.name:
                continue
            title = f"{key.name} {desc}".strip() if desc != "undefined" else key.name
            known = key if key.ranks else self._named(key, ranks if desc == DEFAULT else None)
            if key.ranks and sum(other.name == key.name for other in told) > 1:
                title += f" of rank {key.ranks[0]}"
            groups[known] = title
        return groups

    def _named(self, key: GroupKey, ranks: set[int] | None) -> GroupKey:
        """Return a group with these ranks, or those that used it, where the recorder does not say; file it so."""
        users = [dump for dump in self._dumps.values() if key in dump.collectives]
        named = GroupKey(key.name, tuple(sorted(ranks or {dump.rank for dump in users})))
        for dump in users:
            dump.collectives[named] = dump.collectives.pop(key)
        if ranks is None:
            self._notes.append(
                f"which ranks are in the group {key.name!r:.60} is not recorded: those that used it are taken"
            )
        return named

    def _limits(self, unseen: int) -> Iterator[str]:
        """Yield what could not be told, and what was left out."""
        if unseen:
            yield f"there is no dump of {unseen} of {len(self._index)} ranks: what they did is unknown"
        if not any(dump.collectives or dump.transfers or dump.unnamed for dump in self._dumps.values()):
            yield "nothing is recorded in any dump: TORCH_FR_BUFFER_SIZE=2000 turns the recorder on"
        if self._untimed:
            names = ", ".join(sorted(backend or "without a name" for backend in self._untimed))
            yield (
                f"the recorder saw no device events (backend {names}): it does not know what is over, so ranks are "
                "compared by the last operation that each has come to"
            )
        unnamed = sum((dump.unnamed for dump in self._dumps.values()), Counter[str]())
        if unnamed:
            kinds = [f"{op:.40} {count:,}" for op, count in unnamed.most_common(3)]
            kinds += [f"{len(unnamed) - 3} more kinds"] if len(unnamed) > 3 else []
            yield f"left out {plural(unnamed.total(), 'transfer')} that do not name both ranks: {', '.join(kinds)}"
        if self._overwritten:
            yield (
                f"{plural(self._overwritten, 'comparison')} of ranks left out: older entries have been overwritten; a "
                "larger TORCH_FR_BUFFER_SIZE keeps more"
            )

    def _look_at_group(self, number: int, title: str, key: GroupKey) -> None:
        """Note the first collective of a group that a rank enqueued and that is not over, or that ranks differ in."""
        entries: Entries = {r: self._dumps[r].collectives.get(key, []) for r in key.ranks if r in self._dumps}
        gone = [rank for rank, mine in entries.items() if not mine and self._dumps[rank].lost]
        for rank in gone:
            del entries[rank]
        if not any(entries.values()):
            return
        self._overwritten += len(gone)
        if any(self._dumps[rank].one_series for rank in entries):
            if any(self._dumps[rank].lost for rank in entries):
                self._overwritten += len(entries) - 1
                return
            entries = {rank: [e._replace(seq=i) for i, e in enumerate(mine)] for rank, mine in entries.items()}
        stuck = self._stuck(entries)
        for odd in differing(entries):
            if stuck is not None and odd.seq > stuck.seq:
                break
            went_on = ", and it is over" if odd.over else ""
            self._notes.append(f"in {title}, number {odd.seq}: {_calls(odd)}{went_on}")
            if not odd.over:
                at = {rank for rank, mine in entries.items() if any(e.seq == odd.seq and not e.seen for e in mine)}
                self._stall(number, entries, _Stuck(odd.seq, at), odd)
                return
        if stuck is not None:
            self._stall(number, entries, stuck, None)

    def _stuck(self, entries: Entries) -> _Stuck | None:
        """Return the first that is not over, by the ranks that saw operations end; else by how far each has come."""
        open_ = [(entry, rank) for rank, mine in entries.items() if self._sees(rank, mine) for entry in _open(mine)]
        if open_:
            seq = min(entry.seq for entry, _ in open_)
            self._timed_out |= any(entry.retired for entry, _ in open_)
            return _Stuck(seq, {rank for entry, rank in open_ if entry.seq == seq})
        blind = [entry for rank, mine in entries.items() if not self._sees(rank, mine) for entry in mine]
        if not blind:
            return None
        self._untimed |= {entry.backend for entry in blind if not entry.completed}
        reached = {rank: mine[-1].seq if mine else -1 for rank, mine in entries.items()}
        low = min(reached.values())
        later = [entry for mine in entries.values() for entry in mine if entry.seq > low]
        if not later or any(entry.seen for entry in later):
            return None
        return _Stuck(min(entry.seq for entry in later), {rank for rank, last in reached.items() if last > low})

    def _sees(self, rank: int, mine: Sequence[Entry]) -> bool:
        """Return whether the recorder of a rank saw operations of a group begin or end."""
        return any(entry.backend in self._dumps[rank].timed for entry in mine)

    def _stall(self, number: int, entries: Entries, stuck: _Stuck, odd: Differing | None) -> None:
        """Note a collective that stands still, and the ranks that launched something else under its number."""
        at = [entry for mine in entries.values() for entry in mine if entry.seq == stuck.seq]
        op = at[0].op if odd is None else odd.op
        if odd is not None:
            others = tuple((self._index[rank], what) for rank, what in odd.others.items())
            self._mismatches.append(Mismatch(number, odd.seq, op, others, odd.kind))
        absent = frozenset(self._index[r] for r, mine in entries.items() if not mine or mine[-1].seq < stuck.seq)
        members = frozenset(self._index[rank] for rank in stuck.standing)
        self._stalls.append(Stall(number, stuck.seq, op, members, absent, min(entry.since for entry in at)))

    def _of_pair(self, number: int, pair: Pair, entries: Entries) -> Stall | None:
        """Return a transfer between two ranks that has not ended."""
        _, source, target = pair
        known = [rank for rank in (source, target) if rank in self._dumps]
        if any(self._sees(rank, mine) for rank, mine in entries.items()):
            open_ = {
                rank: left[0] for rank, mine in entries.items() if self._sees(rank, mine) and (left := _open(mine))
            }
            self._timed_out |= any(entry.retired for entry in open_.values())
        else:
            self._untimed |= {entry.backend for mine in entries.values() for entry in mine if not entry.completed}
            open_ = self._ahead(known, entries)
        if not open_:
            return None
        first = next(iter(open_.values()))
        standing = frozenset(self._index[rank] for rank in open_)
        absent = frozenset(self._index[rank] for rank in known) - standing
        return Stall(number, first.seq, first.op, standing, absent, first.since)

    def _ahead(self, known: Sequence[int], entries: Entries) -> dict[int, Entry]:
        """Return the rank of a pair that has enqueued more transfers, and the first that the other lacks."""
        if len(known) < 2:
            return {}
        if any(self._dumps[rank].lost for rank in known):
            self._overwritten += 1
            return {}
        few, many = sorted(known, key=lambda rank: len(entries.get(rank, [])))
        done = len(entries.get(few, []))
        return {many: entries[many][done]} if len(entries[many]) > done else {}


def _open(mine: Sequence[Entry]) -> Sequence[Entry]:
    """Return what a rank has not completed; operations of a group or pair end in the order in which they began."""
    return mine[max((i for i, entry in enumerate(mine, 1) if entry.completed), default=0) :]


def _calls(odd: Differing) -> str:
    """Return which rank called what."""
    of: dict[str, list[int]] = defaultdict(list)
    for rank, what in odd.others.items():
        of[what].append(rank)
    told = [f"{_ranks(ranks)} called {what}" for what, ranks in list(of.items())[:3]]
    return ", ".join(told) + ("" if odd.common in of else f", most {odd.common}")


def _ranks(ranks: Sequence[int]) -> str:
    few = ", ".join(map(str, ranks[:5])) + (", ..." if len(ranks) > 5 else "")
    return f"rank {few}" if len(ranks) == 1 else f"ranks {few}"
