"""A flag store that is open for writing: findings come in, events are written, flags begin and end.

Deciding and remembering are apart: of one node and source a :class:`Track` holds what is known, :func:`found` and
:func:`ended` look at it and make the next event of the store, :meth:`Track.after` takes an event and nothing else.
What is remembered is therefore what is in the store.  Of one source the latest finding counts: upwards at once,
downwards only when nothing worse was found for a while.  What it held before stays as a *step* until then, so that a
slowdown that is measured as 1.5, 1.2, 1.5, ... is 1.5.

On disk a store is SQLite in WAL mode: one writer, all of a change or nothing of it, readers that never wait.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Self

from ground.errors import InvalidInput
from ground.quantities import duration, utc_minute
from ground.records import AwareTime, JsonRecord, json_data
from health.flags.rules import MOST_FINDINGS, Rule, Rules, rules_of
from topology import flag_sources
from topology.flags import FAULTY, HEALTHY, LAST, PROBATION, WARNING, EventName, FlagEvent, HeldFlag, NodeFlag, severity


@dataclass(frozen=True, slots=True)
class Track:
    """What is known of a node by a source."""

    steps: tuple[HeldFlag, ...] = ()  # what the source holds against it; the slower come first and end first
    noted: tuple[datetime, ...] = ()  # times of findings that did not suffice
    relapses: int = 0
    ended: datetime | None = None  # when its last flag ended; None = never, or a flag holds

    def after(self, event: FlagEvent) -> Self:
        """Return what is known after an event."""
        if begins_anew(event):
            over = event.time if event.event in ("cleared", "expired") else None
            return type(self)(event.steps, (), event.relapses, over)
        if event.finding is not None and event.finding.slowdown > HEALTHY:
            return replace(self, noted=(*self.noted[-MOST_FINDINGS:], event.time))
        return replace(self, noted=())


def begins_anew(event: FlagEvent) -> bool:
    """Return whether a track after this event does not depend on what was before it."""
    return bool(event.steps) or event.event != "noted"


def track_of(log: flag_sources.FlagLog, node: str, source: str, at: datetime = LAST) -> Track:
    """Return what a store knows of a node by a source at an instant, timezone-aware."""
    recent: list[FlagEvent] = []
    newest_first = "node = ? AND source = ? AND time <= ? ORDER BY time DESC, number DESC"
    for event in log.events(newest_first, node, source, flag_sources.time_text(at)):
        recent.append(event)
        if begins_anew(event):
            break
    track = Track()
    for event in reversed(recent):
        track = track.after(event)
    return track


def found(track: Track, flag: NodeFlag, now: datetime, rule: Rule, *, stamp: str = "") -> FlagEvent | None:
    """Return the event that a finding makes of a track from which all that has ended is out; ``None`` = nothing new."""
    if flag.slowdown == HEALTHY:
        steps = _cut(track.steps, now, rule.all_clear_after(track.relapses))
        if steps == track.steps and not track.noted:
            return None
        ends = f"; the flag ends {utc_minute(steps[-1].until)}" if steps else ""
        because = f"healthy, says its source{ends}"
        return _event(
            flag, now, "noted", steps=steps, finding=flag, stamp=stamp, because=because, relapses=track.relapses
        )
    recent = [time for time in track.noted if now - time <= rule.within]
    enough = flag.slowdown == FAULTY or (rule.score is not None and flag.score is not None and flag.score >= rule.score)
    if not track.steps and not enough and len(recent) + 1 < rule.raise_after:
        because = f"{len(recent) + 1} of {rule.raise_after} findings within {duration(rule.within.total_seconds())}"
        return _event(flag, now, "noted", finding=flag, stamp=stamp, because=because)
    relapses = (
        track.relapses
        if track.steps
        else (track.relapses + 1 if track.ended is not None and now - track.ended <= rule.memory else 0)
    )
    worse = [old for old in track.steps if old.flag.slowdown > flag.slowdown]
    # that a node with a broken device is only slow today is no repair
    broken = [old for old in worse if old.flag.needs_repair]
    cut = _cut([old for old in worse if old not in broken], now, rule.all_clear_after(relapses))
    steps = (*broken, *(old for old in cut if old.until > now), *_steps(flag, now, rule, relapses))
    name: EventName = "raised"
    if not track.steps:
        because = f"finding {len(recent) + 1} in a row" if recent else "found"
        because += f"; relapse {relapses}, so its quiet time is longer" if relapses else ""
    elif flag.slowdown > (before := track.steps[0].flag.slowdown):
        because = f"worse than {before:.4g}"
    else:
        name, because = "renewed", "found again"
    return _event(flag, now, name, steps=steps, stamp=stamp, because=because, relapses=relapses)


def refuted(event: FlagEvent, now: datetime, because: str) -> FlagEvent:
    """Return the event by which what a source holds against a node ends, as other evidence refutes it."""
    cleared = FlagEvent(time=now, event="cleared", node=event.node, source=event.source)
    return replace(cleared, because=because, relapses=event.relapses)


def ended(node: str, source: str, track: Track, now: datetime) -> Iterator[FlagEvent]:
    """Yield what has ended by now, each with the time at which it did, in order."""
    steps = track.steps
    while steps and steps[0].until <= now:
        over, steps = steps[0], steps[1:]
        name: EventName = "lowered" if steps else "expired" if over.stated else "cleared"
        because = (
            "its source said that it holds until now" if over.stated else f"not found since {utc_minute(over.seen)}"
        )
        yield FlagEvent(
            time=over.until, event=name, node=node, source=source, steps=steps, because=because, relapses=track.relapses
        )


HALVES = 6  # After these a finding is as likely as one in 64: less changes no placement


def _steps(flag: NodeFlag, now: datetime, rule: Rule, relapses: int) -> Iterator[HeldFlag]:
    """Yield a finding with its end: as its source says, and not before the quiet time is over; without one where a
    device is broken, as an avoided node shows no symptoms and no device mends by waiting.  Where the source does not
    say how long it holds it is half as likely after each half-life, at most :data:`HALVES` times.
    """
    if flag.needs_repair:
        yield HeldFlag(replace(flag, until=None), seen=now)
        return
    end = min(LAST, now + rule.quiet_after(relapses))
    stated = flag.until is not None and flag.until > end
    end = min(LAST, flag.until) if flag.until is not None and stated else end
    half, halves = rule.half_life_of(flag), 0
    while not stated and halves < HALVES and half * (halves + 1) < end - now:
        yield HeldFlag(_likely(flag, halves, until=now + half * (halves + 1)), seen=now)
        halves += 1
    yield HeldFlag(_likely(flag, halves, until=end), seen=now, stated=stated)


def _likely(flag: NodeFlag, halves: int, *, until: datetime) -> NodeFlag:
    probability = flag.probability if halves == 0 else flag.belief[0] / 2**halves
    return replace(flag, until=until, probability=probability)


def _cut(steps: Sequence[HeldFlag], now: datetime, quiet: timedelta) -> tuple[HeldFlag, ...]:
    """Return what is left of steps of which their source now says less: a while since it last said so."""
    left: list[HeldFlag] = []
    for step in steps:
        end = max(now, step.seen + quiet)
        cut = step if step.until <= end else HeldFlag(replace(step.flag, until=end), seen=step.seen)
        if not left or cut.until > left[-1].until:  # the step before is as slow, and holds as long
            left.append(cut)
    return tuple(left)


def _event(flag: NodeFlag, now: datetime, name: EventName, **fields: Any) -> FlagEvent:
    return FlagEvent(time=now, event=name, node=flag.node, source=flag.source, **fields)


LAST_YEAR = 9900  # Of records: ends that lie later must still be dates
SKEW = timedelta(minutes=5)  # Clocks of detectors and of the machine of the store may differ by this much
SCHEMA = (
    f"PRAGMA application_id = {flag_sources.APPLICATION}",
    f"PRAGMA user_version = {flag_sources.VERSION}",
    # `until`: end of the first step, NULL without steps; `finding`: digest by which a finding is known again
    """CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        time TEXT NOT NULL,
        event TEXT NOT NULL,
        node TEXT NOT NULL,
        source TEXT NOT NULL,
        until TEXT,
        finding BLOB,
        json TEXT NOT NULL
    )""",
    "CREATE INDEX of_node ON events (node, source, time)",
    "CREATE INDEX of_rules ON events (number) WHERE event = 'rules'",
    "CREATE INDEX of_finding ON events (finding) WHERE finding IS NOT NULL",
)
"""A new store.  ``json`` is the whole event; the other columns repeat what is looked up."""


_FORGOTTEN = f"""
    SELECT number FROM events JOIN (
        SELECT node, source, max(number) AS held FROM events
        WHERE time < :before AND until IS NOT NULL GROUP BY node, source
    ) USING (node, source) WHERE number < held AND node != ''
    UNION
    SELECT number FROM (
        SELECT number, row_number() OVER (PARTITION BY node, source ORDER BY number DESC) AS rank FROM events
        WHERE time < :before AND event = 'noted' AND until IS NULL
    ) WHERE rank > {MOST_FINDINGS + 1}
    UNION
    SELECT number FROM events WHERE event = 'rules' AND number < (
        SELECT max(number) FROM events WHERE event = 'rules' AND time < :before
    )
"""
"""Events before an instant that nothing later depends on: of each node and source those before the last with steps, and
findings that no rule can count any more; and rules that others have replaced."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of a batch of findings."""

    events: tuple[FlagEvent, ...] = ()
    known: int = 0  # findings that had been taken in before
    over: int = 0  # findings that ended before now, left out
    early: int = 0  # findings that begin later than now, left out

    def __add__(self, other: Self) -> Self:
        """Return what came of two batches."""
        return type(self)(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


class Ledger(flag_sources.FlagLog):
    """A store in a transaction for writing.  All that is known is asked of the database; nothing is kept in memory."""

    def __init__(self, connection: Connection, name: str = "store") -> None:
        super().__init__(name, connection)

    def create(self, now: datetime) -> None:
        """Begin a new store in an empty database."""
        for statement in SCHEMA:
            self._connection.execute(statement)
        self.write([FlagEvent(time=now, event="opened")])

    @property
    def time(self) -> datetime:
        """The time of the last event."""
        return next(self.events("1 ORDER BY number DESC LIMIT 1")).time

    def take_over(self, events: Sequence[FlagEvent]) -> Recorded:
        """Write all events of another store, the first ``opened``, into this one; raise an error if this is not new."""
        if any(self.events("number = 2")):
            problem = "has events already, and those of two stores cannot be put in one order"
            fix = "name a file that is not there yet, and record later findings in it"
            raise InvalidInput(problem, where=self.name, fix=fix)
        self._connection.execute("DELETE FROM events")
        return Recorded(tuple(self.write(events)))

    def govern(self, rules: Rules, now: datetime) -> list[FlagEvent]:
        """Decide by other rules from now on; flags that stand keep their ends."""
        if rules == rules_of(self):
            return []
        now = self._clock(now)
        return [*self.settle(now), *self.write([FlagEvent(time=now, event="rules", rules=json_data(Rules, rules))])]

    def record(self, findings: Iterable[NodeFlag], *, now: datetime, stamp: str = "") -> Recorded:
        """Take findings in, as one batch in any order: of several of one source about one node the worst counts.

        :param now: timezone-aware, when they were found; not before the last event by more than clocks differ.
        :param stamp: version of the file they are from; the same findings with the same stamp are known.  Without one
            they are known when they are repeated with the same time.
        """
        now = self._clock(now)
        events, rules, known, over, early = self.settle(now), rules_of(self), 0, 0, 0
        batch: dict[tuple[str, str], list[NodeFlag]] = {}
        for flag in findings:
            if flag.until is not None and flag.until <= now:
                over += 1
            elif flag.since is not None and flag.since > now + SKEW:
                early += 1
            else:
                batch.setdefault((flag.node, flag.source), []).append(flag)
        for flags in (batch[key] for key in sorted(batch)):
            # the worst of one source's findings about a node, with the evidence of them all
            worst, *others = sorted(set(flags), key=severity, reverse=True)
            evidence = "; ".join(dict.fromkeys(flag.evidence for flag in (worst, *others) if flag.evidence))
            since = worst.since if worst.since is None else min(worst.since, now)
            flag = replace(worst, evidence=evidence, since=since)
            mark, taken_in = _digest(flag, stamp or now.isoformat()), "SELECT 1 FROM events WHERE finding = ? LIMIT 1"
            if self._connection.execute(taken_in, (mark,)).fetchone() is not None:
                known += len(flags)
                continue
            events += self._taken_in(flag, now, rules.of(flag.source), stamp)
        for node in sorted({node for node, _ in batch}):
            events += self._agreed(node, now, rules)
        return Recorded((*events, *self.settle(now)), known, over, early)

    def _taken_in(self, flag: NodeFlag, now: datetime, rule: Rule, stamp: str) -> list[FlagEvent]:
        """Write what a finding makes of what is known of its node.

        Evidence about a process may be its program's.  The same rank on another node is: what holds against that one
        ends, and this one is not flagged.  Another rank on the same node is another job's, and points at the node.
        """
        if flag.rank is not None and flag.slowdown > HEALTHY:
            since = flag_sources.time_text(now - rule.memory)
            recent = self.events("source = ? AND time >= ? AND finding IS NOT NULL", flag.source, since)
            ranks = [(event.node, event.found.rank) for event in recent if event.found and event.found.rank is not None]
            elsewhere = [node for node, rank in ranks if rank == flag.rank and node != flag.node]
            if elsewhere:
                where = f"rank {flag.rank} did so on {elsewhere[-1]}, too: the program, not the node"
                noted = FlagEvent(time=now, event="noted", node=flag.node, source=flag.source, finding=flag)
                moved = f"rank {flag.rank} does so on {flag.node}, too: the program, not the node"
                cleared = [
                    refuted(event, now, moved)
                    for node in {*elsewhere}
                    for event in self.events("node = ? AND source = ? ORDER BY number DESC LIMIT 1", node, flag.source)
                    if event.steps and event.steps[0].flag.rank == flag.rank
                ]
                return self.write([*cleared, replace(noted, stamp=stamp, because=where)])
            if others := [rank for node, rank in ranks if rank != flag.rank and node == flag.node]:
                evidence = f"{flag.evidence}; and rank {others[-1]} of another job there"
                flag = replace(flag, kind="faulty", slowdown=FAULTY, evidence=evidence)
        event = found(track_of(self, flag.node, flag.source), flag, now, rule, stamp=stamp)
        return [] if event is None else self.write([event])

    def _agreed(self, node: str, now: datetime, rules: Rules) -> list[FlagEvent]:
        """Write that a node is faulty where evidence about a process of it meets a fault of the node itself."""
        of_sources = "number IN (SELECT max(number) FROM events WHERE node = ? GROUP BY source)"
        last = [event for event in self.events(of_sources, node) if event.steps]
        flags = [event.steps[0].flag for event in last]
        signals = [flag for flag in flags if flag.rank is None and flag.kind != "straggler" and flag.active(now)]
        written: list[FlagEvent] = []
        for flag in flags if signals else ():
            if flag.rank is not None and flag.kind != "faulty" and flag.active(now):
                agreed = f"{flag.evidence}; {signals[0].source or 'another source'} agrees"
                worse = replace(flag, kind="faulty", slowdown=FAULTY, evidence=agreed)
                event = found(track_of(self, node, flag.source), worse, now, rules.of(flag.source))
                written += self.write([event]) if event is not None else []
        return written

    def settle(self, now: datetime) -> list[FlagEvent]:
        """Write down what has ended by now, in order of time."""
        due = self.latest(LAST, "until <= ?", flag_sources.time_text(now))
        over = [end for event in due for end in ended(event.node, event.source, Track().after(event), now)]
        return self.write(sorted(over, key=lambda event: (event.time, event.node, event.source)))

    def lift(
        self, nodes: Sequence[str], *, now: datetime, because: str, by: str, after_test: bool = False
    ) -> list[FlagEvent]:
        """End all flags of nodes at once, by a person's word.

        :param after_test: they passed a test, and are on probation for the quiet time: at the price of a warning.
        """
        now = self._clock(now)
        events = self.settle(now)
        for last in [event for event in self.latest() if event.node in nodes]:
            track = track_of(self, last.node, last.source)
            if track.steps or track.noted:
                cleared = FlagEvent(time=now, event="cleared", node=last.node, source=last.source)
                events += self.write([replace(cleared, because=because, by=by, relapses=track.relapses)])
        if after_test:
            lifted = sorted({event.node for event in events if event.by})
            tested = NodeFlag("", "degraded", WARNING, source=PROBATION, since=now, evidence=f"after a test: {because}")
            events += self.record([replace(tested, node=node) for node in lifted], now=now).events
        return events

    def forget(self, before: datetime, *, because: str) -> int:
        """Forget history before an instant, so that a store does not grow for ever; return how many events are gone.

        Of each node and source the last event with steps stays and all that came after it, for that is what a
        :class:`~health.flags.flag_store.Track` depends on.  What goes is what most of a store is made of: findings that
        were found again later.  From that instant on the store answers and decides as it did.
        """
        forgotten = f"DELETE FROM events WHERE number IN ({_FORGOTTEN})"
        dropped = self._connection.execute(forgotten, {"before": flag_sources.time_text(before)}).rowcount
        if dropped:
            opened = self.opened
            since = before if opened.forgotten is None else max(opened.forgotten, before)
            text = _text(replace(opened, forgotten=since, because=because))
            self._connection.execute("UPDATE events SET json = ? WHERE number = 1", (text,))
        return dropped

    def write(self, events: Sequence[FlagEvent]) -> list[FlagEvent]:
        """Append events as they are."""
        rows = [
            (
                flag_sources.time_text(event.time),
                event.event,
                event.node,
                event.source,
                flag_sources.time_text(event.steps[0].until) if event.steps else None,
                None if event.found is None else _digest(event.found, event.stamp or event.time.isoformat()),
                _text(event),
            )
            for event in events
        ]
        columns = "time, event, node, source, until, finding, json"
        self._connection.executemany(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        return list(events)

    def _clock(self, now: datetime) -> datetime:
        """Return now, or the time of the last event where clocks differ a little."""
        if now.year > LAST_YEAR:
            raise InvalidInput(f"{now.isoformat()} is too late", where="--at", fix="check the clock of this machine")
        last = self.time
        if last - now > SKEW:
            problem = f"the store has been written to at {last.isoformat()}, which is after {now.isoformat()}"
            fix = "record findings in order of time; check the clock of this machine"
            raise InvalidInput(problem, where="--at", fix=fix)
        return max(last, now)


def _text(event: FlagEvent) -> str:
    return json.dumps(flag_sources.event_data(event), separators=(",", ":"))


def _digest(flag: NodeFlag, stamp: str) -> bytes:
    """Return what a finding is known again by; two of 16 bytes are never the same by chance."""
    words = (flag.node, flag.source, stamp, flag.kind, flag.slowdown, flag.score, flag.evidence)
    return blake2b(repr(words).encode(), digest_size=16).digest()


MAX_STORE_BYTES = 1024 * 1024 * 1024  # Largest store: some 2,000,000 events


class Compaction(JsonRecord):
    """What ``arnold flags compact`` did."""

    store: str
    """The file."""
    before: AwareTime
    """History before this may be forgotten."""
    kept: int
    """Events that are left."""
    dropped: int
    """Events that are gone; 0 = the file was left alone."""
    size_before: int
    """Bytes before."""
    size: int
    """Bytes now."""
    archive: str | None
    """Where the whole store as it was is; null = nowhere."""


@contextmanager
def open_ledger(path: str | Path, *, now: datetime, create: bool = True) -> Iterator[Ledger]:
    """Open a store for one change, written as a whole at the end, or not at all where an error is raised; ``now`` is
    when a new store begins.  Raise InvalidInput for no store, or one that cannot be written or another process holds.
    """
    with _connected(path, create=create) as connection, _transaction(connection):
        ledger = Ledger(connection, str(path))
        if not flag_sources.has_events(connection, path):
            ledger.create(now)
        yield ledger


def store_size(path: str | Path) -> int:
    """Return the bytes of a store, with what is not yet in its file itself."""
    return sum(file.stat().st_size for file in (Path(path), Path(f"{path}-wal")) if file.exists())


def compact_store(path: str | Path, before: datetime, *, archive: str | Path | None = None) -> Compaction:
    """Forget history before an instant (:meth:`~health.flags.flag_store.Ledger.forget`), and make the file smaller.

    :param archive: the whole store as it was is written here first; a file that must not be there yet.
    """
    with _connected(path, create=False) as connection:
        if not flag_sources.has_events(connection, path):
            raise InvalidInput("is empty", where=str(path), fix="there is nothing to forget")
        size = store_size(path)
        with _transaction(connection):
            kept_in = "" if archive is None else f"; {archive} has it"
            because = f"history before {before.isoformat()} is forgotten{kept_in}"
            dropped = Ledger(connection, str(path)).forget(before, because=because)
            if dropped and archive is not None:
                # Copy a store as it was before the change that is under way
                if os.path.lexists(archive):
                    problem = "is there already: nothing is written over"
                    raise InvalidInput(problem, where=str(archive), fix="give a name that is free")
                with (
                    flag_sources.sqlite_errors(archive, "written"),
                    closing(sqlite3.connect(path, isolation_level=None)) as original,
                ):
                    original.execute("VACUUM INTO ?", (str(archive),))
        if dropped:
            with suppress(sqlite3.OperationalError):  # without room for a second copy the file keeps its size
                connection.execute("VACUUM")
        kept = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    where = str(archive) if archive is not None and dropped else None
    return Compaction(str(path), before, kept, dropped, size, store_size(path), where)


@contextmanager
def _connected(path: str | Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """Connect to a store that may be written to."""
    flag_sources.check_store(path)
    if not create and not flag_sources.exists(path):
        raise InvalidInput("there is no such file", where=str(path), fix="check the path")
    if "\0" in str(path):  # SQLite would take what is before it for the name
        raise InvalidInput("cannot be written: embedded null byte", where=str(path), fix="choose another name")
    with flag_sources.sqlite_errors(path, "written"):
        uri = f"{Path(path).absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, timeout=flag_sources.PATIENCE_SECONDS, isolation_level=None)
        with closing(connection):
            page = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {MAX_STORE_BYTES // page}")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                with suppress(sqlite3.OperationalError):  # another process makes the same store: the next one sets it
                    connection.execute("PRAGMA journal_mode = WAL")
            yield connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the only place for a writer, and write all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
