"""Our JSON lines of three-counter progress (after Mycroft, arXiv 2509.03018): read and written.

One object a line, ``type`` says of what sort; ``rank`` and ``group`` lines come before the lines that name them.

``format``
    the first line: ``name`` = ``arnold-progress``, ``version`` = 1
``rank``
    ``rank`` (global), ``host``
``group``
    ``comm`` (name of the communicator), ``kind`` (dp, tp, pp, ...; may be empty), ``ranks`` (global, in order)
``state``
    every 100 ms for each flow of a running collective: ``time`` (Unix seconds), ``rank``, ``comm``, ``seq`` (of the
    collective in its communicator), ``op``, ``channel``, ``peer`` (rank that the flow leads to), ``way`` (ring, up,
    down, p2p, receive; default ring), ``total``, ``GPU_ready``, ``RDMA_transmitted``, ``RDMA_done`` (chunks).  A rank
    that only receives writes ``receive`` lines: ``peer`` is the sender, all three counters what has arrived
``done``
    a rank has completed: ``time``, ``start`` (its launch; may be left out), ``rank``, ``comm``, ``seq``, ``op``,
    ``bytes``
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import compress

from health.collectives.clocks import LONGEST_PAUSE, Place, Written
from health.collectives.json_fields import BadRowOfRank, Row, TaintedRanks, integer, listed, moment, text
from health.collectives.recording import (
    WAYS,
    CollectiveRecording,
    CompletionRow,
    Member,
    RankGroup,
    StateRow,
    completions,
    states,
)
from topology.errors import InvalidInput
from topology.files import Source
from topology.tables.bad_rows import BadRow
from topology.tables.text_rows import json_objects

NAME = "arnold-progress"
VERSION = 1


def read_progress(sources: Sequence[Source], *, lenient: bool = False) -> CollectiveRecording:
    """Return the recording in files of progress lines; together they are one.

    :param lenient: drop rows that cannot be used, and say how many.
    :raises InvalidInput: a row cannot be used; another version of the format; nothing in the files.
    """
    rows, reader = TaintedRanks(lenient=lenient), _Reader()
    for i, source in enumerate(sources):
        for line, row in json_objects(source, rows):
            try:
                reader.take(row, Place(i, line))
            except BadRow as bad:
                rows.refuse(bad, source.at(line))
    reader.refuse_strays(rows, sources)
    return reader.recording(rows, sources[0].name)


def write_progress(recording: CollectiveRecording) -> Iterator[str]:
    """Yield the lines of a recording, without line ends."""
    ranks = [member.rank if member.rank is not None else i for i, member in enumerate(recording.members)]
    yield json.dumps({"type": "format", "name": NAME, "version": VERSION})
    for rank, member in zip(ranks, recording.members, strict=True):
        yield json.dumps({"type": "rank", "rank": rank, "host": member.host or ""})
    for group in recording.groups:
        members = [ranks[i] for i in group.members]
        yield json.dumps({"type": "group", "comm": group.name, "kind": group.kind, "ranks": members})
    names = [group.name for group in recording.groups]
    columns = recording.states
    for i in range(len(columns)):
        yield json.dumps(
            {
                "type": "state",
                "time": float(columns.time[i]),
                "rank": ranks[columns.member[i]],
                "comm": names[columns.group[i]],
                "seq": int(columns.seq[i]),
                "op": recording.ops[columns.op[i]],
                "channel": int(columns.channel[i]),
                "peer": ranks[columns.peer[i]],
                "way": WAYS[columns.way[i]],
                "total": int(columns.total[i]),
                "GPU_ready": int(columns.ready[i]),
                "RDMA_transmitted": int(columns.transmitted[i]),
                "RDMA_done": int(columns.done[i]),
            }
        )
    ends = recording.completions
    for i in range(len(ends)):
        start = {} if math.isnan(ends.start[i]) else {"start": float(ends.start[i])}
        yield json.dumps(
            {
                "type": "done",
                "time": float(ends.end[i]),
                **start,
                "rank": ranks[ends.member[i]],
                "comm": names[ends.group[i]],
                "seq": int(ends.seq[i]),
                "op": recording.ops[ends.op[i]],
                "bytes": int(ends.bytes[i]),
            }
        )


class _Reader:
    """Takes rows in the order of the files."""

    def __init__(self) -> None:
        self._member_of: dict[int, int] = {}
        self._hosts: list[str | None] = []
        self._groups: dict[str, tuple[int, RankGroup]] = {}
        self._members_of: list[frozenset[int]] = []
        self._ops: dict[str, int] = {}
        self._rows: list[StateRow | CompletionRow] = []
        self._written = Written()
        self._last: dict[tuple[int, int, int, int, int, int], StateRow] = {}
        self._completed: set[tuple[int, int, int]] = set()

    def take(self, row: Row, place: Place) -> None:
        match row.get("type"):
            case "state":
                self._state(row, place)
            case "done":
                self._done(row, place)
            case "rank":
                self._rank(row)
            case "group":
                self._group(row)
            case "format":
                _check_version(row)
            case other:
                raise BadRow(f"'type' is {other!r:.40}, not one of format, rank, group, state, done")

    def refuse_strays(self, rows: TaintedRanks, sources: Sequence[Source]) -> None:
        found = self._written.refuse_strays(rows, sources, list(self._member_of))
        self._rows = list(compress(self._rows, ~found))

    def recording(self, rows: TaintedRanks, name: str) -> CollectiveRecording:
        if not self._rows:
            raise InvalidInput(
                "holds no progress: not one state or done line that can be used",
                where=name,
                fix="record at least one window of the job, 10 s",
            )
        labels = {member: rank for rank, member in self._member_of.items()}
        members = tuple(Member(f"rank {labels[i]}", labels[i], host) for i, host in enumerate(self._hosts))
        return CollectiveRecording(
            members=members,
            groups=tuple(group for _, group in self._groups.values()),
            ops=tuple(self._ops),
            completions=completions(row for row in self._rows if isinstance(row, CompletionRow)),
            states=states(row for row in self._rows if isinstance(row, StateRow)),
            notes=rows.counted(),
            tainted=self._tainted(rows),
        )

    def _tainted(self, rows: TaintedRanks) -> frozenset[int]:
        """Return members of whom rows were dropped, and those who share a group with one: the rows may have said who
        waits.
        """
        if rows.all_tainted or not rows.tainted <= self._member_of.keys():
            return frozenset(range(len(self._hosts)))
        direct = {self._member_of[rank] for rank in rows.tainted}
        return frozenset(direct).union(*(members for members in self._members_of if members & direct))

    def _rank(self, row: Row) -> None:
        rank, host = integer(row, "rank"), row.get("host") or None
        if host is not None and not isinstance(host, str):
            raise BadRowOfRank("'host' is not a text", rank)
        known = self._member_of.get(rank)
        if known is None:
            self._member_of[rank] = len(self._hosts)
            self._hosts.append(host)
        elif self._hosts[known] != host:
            raise BadRowOfRank(f"rank {rank} is on {host!r:.60} here and on {self._hosts[known]!r:.60} above", rank)

    def _group(self, row: Row) -> None:
        name, kind = text(row, "comm"), row.get("kind", "")
        if not isinstance(kind, str):
            raise BadRow("'kind' is not a text")
        members = tuple(self._known(rank) for rank in listed(row, "ranks"))
        if len(set(members)) < len(members) or not members:
            raise BadRow("'ranks' names nobody, or a rank twice")
        group = RankGroup(name, kind, members)
        if self._groups.setdefault(name, (len(self._groups), group))[1] != group:
            raise BadRow(f"the communicator {name!r:.60} has other members or another kind above")
        if len(self._members_of) < len(self._groups):
            self._members_of.append(frozenset(members))

    def _state(self, row: Row, place: Place) -> None:
        rank = integer(row, "rank")
        try:
            group, member = self._place(row, rank)
            peer = self._known(integer(row, "peer"))
            if peer not in self._members_of[group] or peer == member:
                raise BadRow("'peer' is not another rank of the communicator")
            way = row.get("way", "ring")
            if way not in WAYS:
                raise BadRow(f"'way' is {way!r:.40}, not one of {', '.join(WAYS)}")
            state = StateRow(
                time=moment(row, "time"),
                group=group,
                member=member,
                seq=integer(row, "seq"),
                op=self._op(row),
                channel=_small(row, "channel"),
                peer=peer,
                way=WAYS.index(way),
                total=integer(row, "total"),
                ready=integer(row, "GPU_ready"),
                transmitted=integer(row, "RDMA_transmitted"),
                done=integer(row, "RDMA_done"),
            )
            if not state.done <= state.transmitted <= state.ready <= state.total:
                raise BadRow(
                    "the counters contradict: RDMA_done <= RDMA_transmitted <= GPU_ready <= total does not hold"
                )
            self._check_progress(state)
        except BadRow as bad:
            raise BadRowOfRank(bad.reason, rank) from None
        self._rows.append(state)
        self._written.add(state.time, state.member, place)

    def _done(self, row: Row, place: Place) -> None:
        rank = integer(row, "rank")
        try:
            group, member = self._place(row, rank)
            end, seq = moment(row, "time"), integer(row, "seq")
            start = moment(row, "start") if row.get("start") is not None else math.nan
            if start > end:
                raise BadRow("the duration is negative: 'start' lies after 'time'")
            if end - start > LONGEST_PAUSE:
                raise BadRow("'start' lies more than a day before 'time'")
            if (group, member, seq) in self._completed:
                raise BadRow("the same rank completes the same collective twice")
            completion = CompletionRow(end, start, group, member, seq, self._op(row), integer(row, "bytes"))
        except BadRow as bad:
            raise BadRowOfRank(bad.reason, rank) from None
        self._completed.add((group, member, seq))
        self._rows.append(completion)
        self._written.add(completion.end, completion.member, place)

    def _check_progress(self, state: StateRow) -> None:
        key = (state.group, state.member, state.seq, state.channel, state.peer, state.way)
        last = self._last.get(key)
        if last is not None and last.time <= state.time:
            if (state.ready, state.transmitted, state.done) < (last.ready, last.transmitted, last.done):
                raise BadRow("the counters of a flow run backwards")
            if state.op != last.op or state.total != last.total:
                raise BadRow("a collective changes its 'op' or 'total' while it runs")
        self._last[key] = state

    def _place(self, row: Row, rank: int) -> tuple[int, int]:
        name, member = text(row, "comm"), self._known(rank)
        if name not in self._groups:
            raise BadRow(f"there is no group line for the communicator {name!r:.60} above")
        group = self._groups[name][0]
        if member not in self._members_of[group]:
            raise BadRow(f"the rank is not a member of the communicator {name!r:.60}")
        return group, member

    def _known(self, rank: object) -> int:
        if type(rank) is not int or rank not in self._member_of:
            raise BadRow(f"there is no rank line for rank {rank!r:.40} above")
        return self._member_of[rank]

    def _op(self, row: Row) -> int:
        return self._ops.setdefault(text(row, "op"), len(self._ops))


def _check_version(row: Row) -> None:
    if (row.get("name"), row.get("version")) != (NAME, VERSION):
        raise BadRow(
            f"the format is {row.get('name')!r:.40} version {row.get('version')!r:.20}, not {NAME} version {VERSION}"
        )


def _small(row: Row, key: str) -> int:
    value = integer(row, key)
    if value >= 2**31:
        raise BadRow(f"{key!r} is {value}, too large")
    return value
