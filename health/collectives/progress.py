"""Our JSON lines of three-counter progress (after Mycroft, arXiv 2509.03018), as they are read.

One object a line, ``type`` says of what sort: ``format``, ``rank``, ``group``, ``state``, ``done``.  Their fields stand
in collectives.md of the docs.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat, Marked
from ground.rows import BadRow
from health.collectives import recording
from health.collectives.diagnosis import Diagnosis, diagnose
from health.collectives.json_fields import BadRowOfRank, Row, TaintedRanks, integer, listed, moment, text
from health.collectives.trigger_settings import TriggerSettings

Made = TypeVar("Made", recording.StateRow, recording.CompletionRow)

NAME = "arnold-progress"
VERSION = 1

COUNTERS = ("total", "GPU_ready", "RDMA_transmitted", "RDMA_done")
"""Names of a flow's counters, in the order of :class:`~health.collectives.recording.StateRow`."""


class Progress(Marked):
    """Reads our progress lines."""

    format = FileFormat(
        "progress",
        source="Arnold's three-counter progress lines, JSON: collectives.md of the docs",
        export="a tracer of your own writes them",
        read="all of it: ranks and hosts, groups, state and done lines",
        left_out="",
        marks=('"type"', '"comm"', NAME),
    )
    mark = re.compile(rf'\A\s*+(?=.*"{NAME}"|(?=.*"type").*"comm")')  # in the first line

    def read(self, sources: Sequence[Source], *, settings: TriggerSettings, lenient: bool) -> Diagnosis:
        """Watch the recording."""
        return diagnose(read_progress(sources, lenient=lenient), settings)


def read_progress(sources: Sequence[Source], *, lenient: bool = False) -> recording.CollectiveRecording:
    """Return the recording that files of progress lines are together; raise InvalidInput where there is none."""
    bad_rows, reader = TaintedRanks(lenient=lenient), _Reader()
    rows = recording.read_timed(sources, bad_rows, lambda: reader.take, lambda: list(reader.member_of))
    if not rows:
        problem = "holds no progress: not one state or done line that can be used"
        raise InvalidInput(problem, where=sources[0].name, fix="record at least one window of the job, 10 s")
    return recording.CollectiveRecording(
        members=tuple(recording.Member(f"rank {rank}", rank, reader.hosts[i]) for rank, i in reader.member_of.items()),
        groups=tuple(group for _, group in reader.groups.values()),
        ops=tuple(reader.ops),
        completions=recording.Completions.of(row for row in rows if isinstance(row, recording.CompletionRow)),
        states=recording.States.of(row for row in rows if isinstance(row, recording.StateRow)),
        notes=bad_rows.counted(),
        tainted=reader.tainted(bad_rows),
    )


class _Reader:
    """Takes rows in the order of the files.

    :ivar member_of: rank -> number of the member.
    :ivar groups: name -> number of the group, and the group.
    """

    def __init__(self) -> None:
        self.member_of: dict[int, int] = {}
        self.hosts: list[str | None] = []
        self.groups: dict[str, tuple[int, recording.RankGroup]] = {}
        self.ops: dict[str, int] = {}
        self._members_of: list[frozenset[int]] = []
        self._last: dict[tuple[int, int, int, int, int, int], recording.StateRow] = {}
        self._completed: set[tuple[int, int, int]] = set()

    def take(self, row: Row) -> recording.StateRow | recording.CompletionRow | None:
        """Return the row of a state or a completion; remember the others."""
        match row.get("type"):
            case "state":
                return self._of_rank(row, self._state)
            case "done":
                return self._of_rank(row, self._done)
            case "rank":
                rank, host = integer(row, "rank"), row.get("host") or None
                if host is not None and not isinstance(host, str):
                    raise BadRowOfRank("'host' is not a text", rank)
                number = self.member_of.setdefault(rank, len(self.hosts))
                if number == len(self.hosts):
                    self.hosts.append(host)
                elif self.hosts[number] != host:
                    raise BadRowOfRank(
                        f"rank {rank} is on {host!r:.60} here and on {self.hosts[number]!r:.60} above", rank
                    )
            case "group":
                name, kind = text(row, "comm"), row.get("kind", "")
                if not isinstance(kind, str):
                    raise BadRow("'kind' is not a text")
                members = tuple(self._known(rank) for rank in listed(row, "ranks"))
                if len(set(members)) < len(members) or not members:
                    raise BadRow("'ranks' names no rank, or one twice")
                group = recording.RankGroup(name, kind, members)
                if self.groups.setdefault(name, (len(self.groups), group))[1] != group:
                    raise BadRow(f"the communicator {name!r:.60} has other members or another kind above")
                if len(self._members_of) < len(self.groups):
                    self._members_of.append(frozenset(members))
            case "format":
                given, version = row.get("name"), row.get("version")
                if (given, version) != (NAME, VERSION):
                    raise BadRow(f"the format is {given!r:.40} version {version!r:.20}, not {NAME} version {VERSION}")
            case other:
                raise BadRow(f"'type' is {other!r:.40}, not one of format, rank, group, state, done")
        return None

    def tainted(self, bad_rows: TaintedRanks) -> frozenset[int]:
        """Return members with dropped rows, and those that share a group with one: they may have waited for it."""
        if bad_rows.all_tainted or not bad_rows.tainted <= self.member_of.keys():
            return frozenset(range(len(self.hosts)))
        direct = {self.member_of[rank] for rank in bad_rows.tainted}
        return frozenset(direct).union(*(members for members in self._members_of if members & direct))

    def _of_rank(self, row: Row, make: Callable[[Row, int, int], Made]) -> Made:
        """Return what is made of a row that a rank wrote, of its group and member."""
        rank = integer(row, "rank")
        try:
            name, member = text(row, "comm"), self._known(rank)
            if name not in self.groups:
                raise BadRow(f"there is no group line for the communicator {name!r:.60} above")
            group = self.groups[name][0]
            if member not in self._members_of[group]:
                raise BadRow(f"the rank is not a member of the communicator {name!r:.60}")
            return make(row, group, member)
        except BadRow as bad:
            raise BadRowOfRank(bad.reason, rank) from None

    def _state(self, row: Row, group: int, member: int) -> recording.StateRow:
        peer = self._known(integer(row, "peer"))
        if peer not in self._members_of[group] or peer == member:
            raise BadRow("'peer' is not another rank of the communicator")
        way = row.get("way", "ring")
        if way not in recording.WAYS:
            raise BadRow(f"'way' is {way!r:.40}, not one of {', '.join(recording.WAYS)}")
        time, seq, op, channel = moment(row, "time"), integer(row, "seq"), self._op(row), integer(row, "channel")
        if channel >= 2**31:
            raise BadRow(f"'channel' is {channel}, too large")
        counters = [integer(row, name) for name in COUNTERS]
        state = recording.StateRow(time, group, member, seq, op, channel, peer, recording.WAYS.index(way), *counters)
        if not state.done <= state.transmitted <= state.ready <= state.total:
            raise BadRow("the counters contradict: RDMA_done <= RDMA_transmitted <= GPU_ready <= total does not hold")
        key = (state.group, state.member, state.seq, state.channel, state.peer, state.way)
        last = self._last.get(key)
        if last is not None and last.time <= state.time:
            if (state.ready, state.transmitted, state.done) < (last.ready, last.transmitted, last.done):
                raise BadRow("the counters of a flow run backwards")
            if state.op != last.op or state.total != last.total:
                raise BadRow("a collective changes its 'op' or 'total' while it runs")
        self._last[key] = state
        return state

    def _done(self, row: Row, group: int, member: int) -> recording.CompletionRow:
        end, seq = moment(row, "time"), integer(row, "seq")
        start = moment(row, "start") if row.get("start") is not None else math.nan
        if start > end:
            raise BadRow("the duration is negative: 'start' lies after 'time'")
        if end - start > recording.LONGEST_PAUSE:
            raise BadRow("'start' lies more than a day before 'time'")
        if (group, member, seq) in self._completed:
            raise BadRow("the same rank completes the same collective twice")
        made = recording.CompletionRow(end, start, group, member, seq, self._op(row), integer(row, "bytes"))
        self._completed.add((group, member, seq))
        return made

    def _known(self, rank: object) -> int:
        if type(rank) is not int or rank not in self.member_of:
            raise BadRow(f"there is no rank line for rank {rank!r:.40} above")
        return self.member_of[rank]

    def _op(self, row: Row) -> int:
        return self.ops.setdefault(text(row, "op"), len(self.ops))
