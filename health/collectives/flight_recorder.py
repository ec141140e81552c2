"""The Flight Recorder dumps of a job's ranks, one file for each, as one snapshot of the job.

A dump is a moment.  That a collective stands still, and was not merely under way then, is known where the recorder
retired it without completion: it has timed out.  That holds where the recorder saw events of the device.

Of a backend of which it saw none (``FlightRecorderHook``, gloo, work on the CPU) it says ``scheduled`` and ``retired``
of operations that are long over.  Of these the ranks are compared by how far each has come.  Whether the last operation
is over cannot be told, nor whether a rank that is behind will come, so nothing is certain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from health.collectives.flight_recorder_dump import Dump, Entry, Pair, read_dump
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Mismatch, Snapshot, Stall
from topology.errors import InvalidInput
from topology.files import Source
from topology.quantities import plural

Entries = dict[int, list[Entry]]  # Rank -> what it enqueued in one group


def read_flight_recorder(sources: Sequence[Source], *, lenient: bool = False) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot that the dumps of a job's ranks make, and notes.

    :param lenient: leave out dumps that cannot be used, and say which; of their ranks nothing is known then.
    :raises InvalidInput: a dump cannot be used (leniently: none can), two are of one rank, two disagree on a group.
    """
    dumps: dict[int, Dump] = {}
    place: dict[int, str] = {}
    first_with: dict[str, tuple[int, tuple[int, ...]]] = {}  # group -> the first rank that has it, and its ranks there
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
        for name, (_, ranks) in dump.groups.items():
            other, known = first_with.setdefault(name, (dump.rank, ranks))
            if known != ranks:
                wrong = f"the group {name!r:.60} has other ranks than in {place[other]}"
                raise InvalidInput(wrong, where=source.name, fix="give the dumps of one job only")
        dumps[dump.rank], place[dump.rank] = dump, source.name
    if not dumps:
        raise refused[0]
    snapshot, notes = _Job(dumps).snapshot()
    return snapshot, (*(f"left out {error.where}: {error.message}" for error in refused), *notes)


class _Job:
    """The dumps of a job, by rank."""

    def __init__(self, dumps: Mapping[int, Dump]) -> None:
        self._dumps = dumps
        self._groups = {name: group for dump in dumps.values() for name, group in dump.groups.items()}
        self._notes: list[str] = []
        self._guess_groups()
        ranks = sorted(set(dumps) | {rank for _, members in self._groups.values() for rank in members})
        self._index = {rank: i for i, rank in enumerate(ranks)}
        self._timed = {backend for dump in dumps.values() for backend in dump.timed}
        self._untimed: set[str] = set()
        self._overwritten = 0
        self._stalls: list[Stall] = []
        self._mismatches: list[Mismatch] = []
        self._timed_out = False

    def snapshot(self) -> tuple[Snapshot, list[str]]:
        """Return the job at the moment of the dumps, and what limits it."""
        members = tuple(Member(f"rank {r}", r, self._dumps[r].host if r in self._dumps else None) for r in self._index)
        groups: list[RankGroup] = []
        for number, (name, (desc, ranks)) in enumerate(self._groups.items()):
            title = f"{name} {desc}".strip() if desc != "undefined" else name
            groups.append(RankGroup(title, "", tuple(self._index[rank] for rank in ranks)))
            self._look_at_group(number, name, ranks)
        pairs: dict[Pair, Entries] = defaultdict(dict)
        for rank, dump in self._dumps.items():
            for pair, mine in dump.transfers.items():
                pairs[pair][rank] = mine
        for (name, source, target), entries in sorted(pairs.items()):
            stall = self._of_pair(len(groups), (name, source, target), entries)
            if stall is not None:
                groups.append(RankGroup(f"{name} {source}->{target}", "pp", (self._index[source], self._index[target])))
                self._stalls.append(stall)
        unseen = frozenset(i for rank, i in self._index.items() if rank not in self._dumps)
        notes = [*self._notes, *self._limits(len(unseen))]
        if self._stalls and not self._timed_out:
            notes.append("no operation has timed out: the dumps may show a healthy job at work")
        stalls, mismatches = tuple(self._stalls), tuple(self._mismatches)
        return Snapshot(members, tuple(groups), stalls, mismatches, settled=self._timed_out, unseen=unseen), notes

    def _guess_groups(self) -> None:
        """Where the recorder names no groups, as that of gloo does, the ranks that used one are its members."""
        nameless = [dump for dump in self._dumps.values() if not dump.groups]
        for name in sorted({name for dump in nameless for name in dump.collectives} - set(self._groups)):
            self._groups[name] = ("", tuple(sorted(dump.rank for dump in nameless if name in dump.collectives)))
            self._notes.append(f"who is in the group {name!r:.60} is not recorded: taken are the ranks that used it")

    def _limits(self, unseen: int) -> Iterator[str]:
        """Yield what could not be told, and what was left out."""
        if unseen:
            yield f"there is no dump of {unseen} of {len(self._index)} ranks: what they did is unknown"
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

    def _look_at_group(self, number: int, name: str, ranks: Sequence[int]) -> None:
        """Note the first collective of a group that a rank enqueued and that is not over."""
        entries: Entries = {rank: self._dumps[rank].collectives.get(name, []) for rank in ranks if rank in self._dumps}
        gone = [rank for rank, mine in entries.items() if not mine and self._dumps[rank].lost]
        for rank in gone:
            del entries[rank]
        backends = {entry.backend for mine in entries.values() for entry in mine}
        if not backends:
            return
        self._overwritten += len(gone)
        if any(self._dumps[rank].one_series for rank in entries):
            if any(self._dumps[rank].lost for rank in entries):
                self._overwritten += len(entries) - 1
                return
            entries = {rank: [e._replace(seq=i) for i, e in enumerate(mine)] for rank, mine in entries.items()}
        if backends & self._timed:
            open_ = [(entry, rank) for rank, mine in entries.items() for entry in self._open(rank, name, mine)]
            if open_:
                seq = min(entry.seq for entry, _ in open_)
                self._timed_out |= any(entry.retired for entry, _ in open_)
                self._stall(number, entries, seq, {rank for entry, rank in open_ if entry.seq == seq})
        else:
            self._untimed |= backends
            self._compare_distances(number, entries)

    def _open(self, rank: int, name: str, mine: Sequence[Entry]) -> list[Entry]:
        """Return what a rank has not completed; operations of a group end in the order in which they were enqueued."""
        if self._dumps[rank].finished(name):
            return []
        last = max((entry.seq for entry in mine if entry.completed), default=-1)
        return [entry for entry in mine if entry.seq > last]

    def _compare_distances(self, number: int, entries: Entries) -> None:
        """Note the first one that not all have come to; where all have come equally far, what each stands in."""
        reached = {rank: mine[-1].seq if mine else -1 for rank, mine in entries.items()}
        low = min(reached.values())
        later = [entry.seq for mine in entries.values() for entry in mine if entry.seq > low]
        if len({entry.op for mine in entries.values() for entry in mine if entry.seq == low}) > 1:
            self._stall(number, entries, low, {rank for rank, last in reached.items() if last == low})
        elif later:
            self._stall(number, entries, min(later), {rank for rank, last in reached.items() if last > low})

    def _stall(self, number: int, entries: Entries, seq: int, standing: set[int]) -> None:
        """Note a collective that stands still, and the ranks that launched another operation under its number."""
        at = {rank: entry for rank, mine in entries.items() for entry in mine if entry.seq == seq}
        absent = frozenset(self._index[rank] for rank, mine in entries.items() if not mine or mine[-1].seq < seq)
        ops = Counter(entry.op for entry in at.values())
        op = max(sorted(ops), key=lambda name: ops[name])
        others = tuple((self._index[rank], entry.op) for rank, entry in sorted(at.items()) if entry.op != op)
        if others:
            self._mismatches.append(Mismatch(number, seq, op, others))
        since = min(entry.since for entry in at.values())
        members = frozenset(self._index[rank] for rank in standing)
        self._stalls.append(Stall(number, seq, op, members, absent, since))

    def _of_pair(self, number: int, pair: Pair, entries: Entries) -> Stall | None:
        """Return a transfer between two ranks that has not ended."""
        name, source, target = pair
        backends = {entry.backend for mine in entries.values() for entry in mine}
        known = [rank for rank in (source, target) if rank in self._dumps]
        if backends & self._timed:
            left = {rank: self._open_transfers(rank, name, mine) for rank, mine in entries.items()}
            open_ = {rank: transfers[0] for rank, transfers in left.items() if transfers}
            self._timed_out |= any(entry.retired for entry in open_.values())
        else:
            self._untimed |= backends
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

    def _open_transfers(self, rank: int, name: str, mine: Sequence[Entry]) -> Sequence[Entry]:
        """Return the transfers of a pair after the last that a rank has completed."""
        if self._dumps[rank].finished(name):
            return ()
        return mine[max((i for i, entry in enumerate(mine, 1) if entry.completed), default=0) :]
