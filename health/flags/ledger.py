"""The state of a flag store in memory: every track, moved by lines and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from health.flags.rules import Rules
from health.flags.tracks import Track, ended, found
from topology.errors import InvalidInput
from topology.flag_log import VERSION, FlagLog, Line
from topology.flag_rows import Finding
from topology.flags import NodeFlag, severity

LAST_YEAR = 9900
"""Of records: ends that lie later must still be dates."""

SKEW = timedelta(minutes=5)
"""Clocks of detectors and of the machine of the store may differ by this much."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of a batch of findings.

    :param lines: what was written, in order.
    :param known: findings that had been taken in before.
    :param over: findings that ended before now, left out.
    :param early: findings that begin later than now, left out.
    """

    lines: tuple[Line, ...]
    known: int = 0
    over: int = 0
    early: int = 0

    def __add__(self, other: Recorded) -> Recorded:
        """What came of two batches."""
        return Recorded(
            self.lines + other.lines, self.known + other.known, self.over + other.over, self.early + other.early
        )


class Ledger:
    """All that a store knows.  Whoever calls a method that returns lines writes them to the file."""

    def __init__(self, log: FlagLog | None = None) -> None:
        self.rules = Rules()
        self.time: datetime | None = None
        self._tracks: dict[tuple[str, str], Track] = {}
        self._lines: list[Line] = []
        self._known: set[tuple[object, ...]] = set()
        for line in () if log is None else log.lines:
            self._take(line)

    @property
    def log(self) -> FlagLog:
        """The lines so far."""
        return FlagLog(tuple(self._lines))

    @property
    def tracks(self) -> dict[tuple[str, str], Track]:
        """What is known of each node by each source."""
        return dict(self._tracks)

    def open(self, now: datetime) -> list[Line]:
        """Begin a new store."""
        return self._write([Line(arnold="flag-store", version=VERSION, time=now, event="opened")])

    def govern(self, rules: Rules, now: datetime) -> list[Line]:
        """Decide by other rules from now on; flags that stand keep their ends.

        :raises InvalidInput: ``now`` lies before the last line.
        """
        if rules == self.rules:
            return []
        return self._write([*self.settle(now), Line(time=self._clock(now), event="rules", rules=rules.plain())])

    def record(self, findings: Iterable[NodeFlag], *, now: datetime, stamp: str = "") -> Recorded:
        """Take findings in, as one batch in which the order does not matter.

        Of several findings of one source about one node the worst counts.

        :param now: timezone-aware, when they were found.
        :param stamp: tells this version of a file from another; the same findings with the same stamp are known.
            Without one they are known when they are repeated with the same time.
        :raises InvalidInput: ``now`` lies before the last line by more than clocks differ.
        """
        now = self._clock(now)
        lines, known, over, early = self.settle(now), 0, 0, 0
        batch: dict[tuple[str, str], list[NodeFlag]] = {}
        for flag in findings:
            if flag.until is not None and flag.until <= now:
                over += 1
            elif flag.since is not None and flag.since > now + SKEW:
                early += 1
            else:
                batch.setdefault((flag.node, flag.source), []).append(flag)
        for key, flags in sorted(batch.items()):
            flag = _worst(flags, now)
            if _identity(key, flag, stamp or now.isoformat()) in self._known:
                known += len(flags)
                continue
            line = found(self._tracks.get(key, Track()), flag, now, self.rules.of(flag.source), stamp=stamp)
            if line is not None:
                lines += self._write([line])
        return Recorded((*lines, *self.settle(now)), known, over, early)

    def settle(self, now: datetime) -> list[Line]:
        """Write down what has ended by now, in order of time."""
        over = [line for (node, source), track in self._tracks.items() for line in ended(node, source, track, now)]
        return self._write(sorted(over, key=lambda line: (line.time, line.node, line.source)))

    def lift(self, nodes: Sequence[str], *, now: datetime, because: str, by: str) -> list[Line]:
        """End all flags of nodes at once, by somebody's word.

        :raises InvalidInput: ``now`` lies before the last line by more than clocks differ.
        """
        now = self._clock(now)
        lines = self.settle(now)
        for node, source in sorted(self._tracks):
            track = self._tracks[node, source]
            if node in nodes and (track.steps or track.noted):
                lines += self._write(
                    [Line(time=now, event="cleared", node=node, source=source, because=because, by=by)]
                )
        return lines

    def _clock(self, now: datetime) -> datetime:
        """Now, or the time of the last line where clocks differ a little."""
        if now.year > LAST_YEAR:
            raise InvalidInput(f"{now.isoformat()} is too late", where="--at", fix="check the clock of this machine")
        if self.time is None or self.time <= now:
            return now
        if self.time - now > SKEW:
            raise InvalidInput(
                f"the store has been written to at {self.time.isoformat()}, which is after {now.isoformat()}",
                where="--at",
                fix="record findings in order of time; check the clock of this machine",
            )
        return self.time

    def _write(self, lines: list[Line]) -> list[Line]:
        for line in lines:
            self._take(line)
        return lines

    def _take(self, line: Line) -> None:
        self._lines.append(line)
        self.time = line.time
        if line.rules is not None:
            self.rules = Rules.from_plain(line.rules)
        if not line.node:
            return
        self._tracks[line.track] = self._tracks.get(line.track, Track()).after(line)
        if line.event in ("raised", "renewed"):
            self._known.add(_identity(line.track, line.steps[-1], line.stamp or line.time.isoformat()))
        elif line.finding is not None:
            self._known.add(_identity(line.track, line.finding, line.stamp or line.time.isoformat()))


def _worst(flags: Sequence[NodeFlag], now: datetime) -> NodeFlag:
    """The worst of one source's findings about a node, with the evidence of them all."""
    worst, *others = sorted(set(flags), key=severity, reverse=True)
    evidence = "; ".join(dict.fromkeys(flag.evidence for flag in (worst, *others) if flag.evidence))
    since = worst.since if worst.since is None else min(worst.since, now)
    return replace(worst, evidence=evidence, since=since)


def _identity(track: tuple[str, str], flag: NodeFlag | Finding, stamp: str) -> tuple[object, ...]:
    """By which a finding is known again."""
    return *track, stamp, flag.kind, flag.slowdown if flag.kind != "faulty" else None, flag.score, flag.evidence
