"""Flags in files and stores: read, laid over a cluster, and how many of them one run may write.

A flag store is an SQLite file of events that say what was found, decided and when.  Each event carries what one source
holds against one node from then on, its *steps*; so the events up to some time tell what held then, without the rules
by which it was decided (:mod:`health.flags`, which also writes the store).

A flag file is YAML or JSON, a list of flags (or an object with the key ``flags``, as ``arnold stragglers --json``
prints it) with the fields of :class:`~topology.flags.NodeFlag`; of a faulty node the slowdown may be left out, and the
node may be a hostlist of nodes that are flagged alike, in another spelling than the cluster's
(:mod:`topology.node_names`).  A store, recognised by its first bytes, stands for the flags that it holds now.

No run takes more than a share of the nodes out by flags, unless a person says so (:class:`Breaker`): evidence that
accuses a quarter of a cluster or half of a rack is seldom evidence against its nodes, but a program that died
everywhere, a switch, a wrong file.
"""

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

from ground.documents import Document, load_document
from ground.errors import InvalidInput, InvalidTopology, did_you_mean, some
from ground.files import STDIN, Source, read_source
from ground.groups import grouped
from ground.records import JsonRecord, checked, json_data, read_json
from topology.cluster import Cluster
from topology.flags import FAULTY, LAST, FlagEvent, NodeFlag, begins_later, merge_by_node, worst_of_each
from topology.node_names import NodeNames, expand_hostlist

APPLICATION = 0x41464C47  # PRAGMA application_id of a store: the letters AFLG
VERSION = 2  # PRAGMA user_version, and of the JSON lines that are exported; 1 were stores of JSON lines
PATIENCE_SECONDS = 10.0
"""How long a writer waits for another: a batch takes milliseconds, so one that holds the lock longer is stuck."""

SQLITE = b"SQLite format 3\0"  # First bytes of an SQLite file
_LINES = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"arnold"\s*:\s*"flag-store"')


_FROM_COPY = "restore the store from a copy; it is written by `arnold flags` alone"


class FlagLog:
    """A flag store that is open for reading: a connection to a database with ``events``, in a transaction."""

    def __init__(self, name: str, connection: sqlite3.Connection) -> None:
        self.name = name
        self._connection = connection

    @property
    def opened(self) -> FlagEvent:
        """The first event."""
        return next(self.events("number = 1"))

    @property
    def forgotten(self) -> datetime | None:
        """The time before which history is not whole any more; ``None`` = all of it is there."""
        return self.opened.forgotten

    def events(self, where: str = "1", *values: object) -> Iterator[FlagEvent]:
        """Yield events in order; ``where`` is a condition in SQL, and an order if not that of the numbers."""
        order = "" if "ORDER BY" in where else " ORDER BY number"
        for (text,) in self._connection.execute(f"SELECT json FROM events WHERE {where}{order}", values):
            try:
                yield read_json(FlagEvent, json.loads(text))
            except ValueError as error:
                unread = f"an event cannot be read: {str(error)[:200]}"
                raise InvalidInput(unread, where=self.name, fix=_FROM_COPY) from error

    def latest(self, at: datetime = LAST, where: str = "1", *values: object) -> Iterator[FlagEvent]:
        """Yield the last event of each node and source up to an instant (timezone-aware), if an SQL condition holds."""
        last = "SELECT max(number) FROM events WHERE node != '' AND time <= ? GROUP BY node, source"
        yield from self.events(f"number IN ({last}) AND {where} ORDER BY node, source", time_text(at), *values)

    def standing(self, at: datetime) -> list[NodeFlag]:
        """Return what each source holds against each node at an instant (timezone-aware), by node and source."""
        flags = (flag for event in self.latest(at) for flag in event.flags)
        return worst_of_each(flag for flag in flags if flag.active(at))

    def holding(self, at: datetime) -> list[NodeFlag]:
        """Return the flags of an instant, one a node, merged over the sources."""
        return merge_by_node(self.standing(at))

    def over_time(self) -> Iterator[NodeFlag]:
        """Yield all that was ever held, by node and source: flags with the times from which and until which they held.

        Those that are active at an instant are what :meth:`standing` returns of it, and slower flags of the source.
        """
        ordered = self.events("node != '' ORDER BY node, source, number")
        for event, following in pairwise(chain(ordered, [None])):
            assert event is not None
            same = following is not None and (following.node, following.source) == (event.node, event.source)
            last = following.time if following is not None and same else LAST
            for step in event.steps:
                since, until = max(event.time, step.flag.since or event.time), min(last, step.until)
                if since < until:
                    yield replace(step.flag, since=since, until=until)

    def held_since(self, at: datetime) -> Mapping[str, datetime]:
        """Return of each node that is flagged at an instant (timezone-aware) since when something has always been."""
        since: dict[str, datetime] = {}
        for node, spans in groupby(self.over_time(), key=lambda flag: flag.node):
            for span in sorted(spans, key=lambda flag: flag.since or LAST, reverse=True):
                if span.active(at) or (span.until is not None and node in since and span.until >= since[node]):
                    since[node] = min(since.get(node, LAST), span.since or LAST)
        return since

    def nodes(self) -> set[str]:
        """Return the names of all nodes that an event is about."""
        return {node for (node,) in self._connection.execute("SELECT DISTINCT node FROM events WHERE node != ''")}

    def slowdowns(self) -> Mapping[str, set[float]]:
        """Return every slowdown that was ever held against each node, by one source and by all together."""
        rows = self._connection.execute(
            "SELECT DISTINCT node, json_extract(step.value, '$.flag.slowdown')"
            " FROM events, json_each(events.json, '$.steps') AS step"
        )
        held: dict[str, set[float]] = {}
        for node, slowdown in rows:  # also those that were lifted in the instant they came, and held for no time
            held.setdefault(node, set()).add(FAULTY if slowdown is None else slowdown)
        for node, spans in groupby(self.over_time(), key=lambda flag: flag.node):
            ahead, active = sorted(spans, key=lambda flag: flag.since or LAST, reverse=True), list[NodeFlag]()
            for at in sorted({end for flag in ahead for end in (flag.since, flag.until) if end is not None}):
                while ahead and ahead[-1].active(at):
                    active.append(ahead.pop())
                active = [flag for flag in active if flag.active(at)]
                held[node] |= {flag.slowdown for flag in merge_by_node(worst_of_each(active))}
        return held

    def lines(self) -> Iterator[str]:
        """Yield the store as JSON lines, without their ends; the first says what it is."""
        for number, event in enumerate(self.events()):
            head = {"arnold": "flag-store", "version": VERSION} if number == 0 else {}
            yield json.dumps(head | event_data(event), separators=(",", ":"))


def event_data(event: FlagEvent) -> dict[str, Any]:
    """Return an event as it is stored: without what is empty."""
    return dict(json_data(FlagEvent, event, without_defaults=True))


def time_text(time: datetime) -> str:
    """Return a time as the store compares it: in UTC, to the microsecond, the earlier the less."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def is_store(path: str | Path) -> bool:
    """Return whether a file is an SQLite database by its first bytes; what cannot be read is none."""
    return _first_bytes(path).startswith(SQLITE)


def refuse_lines(name: str, data: bytes) -> None:
    """Refuse a flag store of JSON lines by an error."""
    if _LINES.match(data):
        lines = "holds the events of a flag store as JSON lines: an export, or a store of an earlier version"
        fix = f"arnold flags import --from flag-store {name} --store NEW, and use NEW"
        raise InvalidInput(lines, where=name, fix=fix)


def check_store(path: str | Path) -> None:
    """Refuse a file that no store can be in, before SQLite touches it; one that is empty or missing may become one."""
    data = _first_bytes(path)
    refuse_lines(str(path), data)
    if data and not data.startswith(SQLITE):
        raise _no_store(path)


@contextmanager
def open_log(path: str | Path) -> Iterator[FlagLog]:
    """Open a store for reading; all that is read until it is closed is of one moment, and no writer waits for it."""
    if not exists(path):
        raise InvalidInput("there is no such file", where=str(path), fix="check the path")
    check_store(path)
    with sqlite_errors(path, "read"), closing(_reader(path)) as connection:
        connection.execute("BEGIN")
        if not has_events(connection, path):
            raise _no_store(path)
        yield FlagLog(str(path), connection)


def has_events(connection: sqlite3.Connection, path: str | Path) -> bool:
    """Return whether a database is a store; ``False`` = it is empty; refuse another program's or a later version's."""
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not tables and not application:
        return False
    if application != APPLICATION:
        raise _no_store(path)
    if version > VERSION:
        later = f"this is version {version} of the format, and {VERSION} is known"
        raise InvalidInput(later, where=str(path), fix="use the version of Arnold that wrote it, or a later one")
    return True


@contextmanager
def sqlite_errors(path: str | Path, doing: Literal["read", "written"]) -> Iterator[None]:
    """Turn errors of SQLite into :class:`InvalidInput` that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        reason, fix = str(error), "choose a file in a folder that exists and may be written to"
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:  # the primary code, without its detail
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                reason = f"another process has been writing to it for {PATIENCE_SECONDS:g} s"
                fix = "wait for it, or end it if it hangs"
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                fix = "make room on the disk; `arnold flags compact` forgets old history and keeps the flags"
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
                fix = _FROM_COPY
        raise InvalidInput(f"cannot be {doing}: {reason}", where=str(path), fix=fix) from error


def _reader(path: str | Path) -> sqlite3.Connection:
    """Connect to a store that is there.

    A reader of a database in WAL mode leaves two files beside it unless it may also write, and another user's could
    keep the writer out.  So a store that may not be written to, and that no writer has open, is read as a file that
    does not change.
    """
    file = Path(path).absolute()
    free = os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)
    mode = "rw" if free or exists(f"{file}-wal") else "ro&immutable=1"
    return sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True, timeout=PATIENCE_SECONDS, isolation_level=None)


def _first_bytes(path: str | Path) -> bytes:
    try:
        if str(path) == STDIN or not Path(path).is_file():  # a pipe can be read once only
            return b""
        with Path(path).open("rb") as file:
            return file.read(100)
    except (OSError, ValueError):
        return b""


def exists(path: str | Path) -> bool:
    """Return whether there is such a file; a name that no file can have is none."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for such a name


def _no_store(path: str | Path) -> InvalidInput:
    return InvalidInput(
        "is no flag store", where=str(path), fix="give a file that `arnold flags record` or `import` made"
    )


class FlagFile(JsonRecord):
    """A document with flags in it; what else it says is not read."""

    __pydantic_config__: ClassVar = JsonRecord.__pydantic_config__ | {"extra": "ignore"}

    flags: tuple[NodeFlag, ...]
    """Flags, as ``--flags`` of ``arnold place`` reads them."""


def with_flags(cluster: Cluster, path: str | Path | Source, *, now: datetime) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with the flags of a flag file or a flag store that hold now, and notes about the others; raise
    InvalidTopology where it has no node that a flag file names.
    """
    if not isinstance(path, Source) and is_store(path):
        flags, notes = _of_nodes(read_flags(path, now=now), cluster.index_of, path)
        return cluster.with_flags(merge_by_node(flags)), notes
    source = path if isinstance(path, Source) else read_source(path)
    begun = len(cluster.upcoming)
    cluster, expired = with_flag_file(cluster, source, now=now)
    sentences = [f"flags of {source.name} not active any more, left out: {expired}"] if expired else []
    if upcoming := cluster.upcoming[begun:]:
        sentences.append(begins_later(f"flags of {source.name}", upcoming))
    return cluster, tuple(sentences)


def flags_as_text(path: str | Path, *, now: datetime) -> Source:
    """Return a flag file as it stands, or what a flag store holds at an instant (timezone-aware) as one."""
    if not is_store(path):
        return read_source(path)
    held = merge_by_node(read_flags(path, now=now))
    return Source(str(path), json.dumps(json_data(FlagFile, FlagFile(tuple(held))), indent=1), numbered=False)


def with_flag_file(cluster: Cluster, source: Source, *, now: datetime) -> tuple[Cluster, int]:
    """Return the cluster with the flags of a file that are active now or begin later, and how many are over."""
    flags = _flags_of(source, cluster.index_of)
    active = [flag for flag in flags if flag.active(now)]
    later = [flag for flag in flags if flag.since is not None and flag.since > now]
    laid = cluster.with_flags(merge_by_node(active)).replace(upcoming=(*cluster.upcoming, *later))
    return laid, len(flags) - len(active) - len(later)


def flags_over_time(path: str | Path, nodes: Collection[str]) -> tuple[list[NodeFlag], tuple[str, ...]]:
    """Return all flags of a flag file, or all that a flag store ever held, with their times, and notes; raise
    InvalidTopology where a flag file names none of the nodes.
    """
    if not is_store(path):
        return _flags_of(read_source(path), nodes), ()
    with open_log(path) as log:
        return _of_nodes(log.over_time(), nodes, path)


def _of_nodes(
    flags: Iterable[NodeFlag], nodes: Collection[str], path: str | Path
) -> tuple[list[NodeFlag], tuple[str, ...]]:
    """Return the flags of some nodes: a store outlives nodes, and a note names those that are none."""
    names = NodeNames(nodes)
    every = [replace(flag, node=names.any(flag.node)) for flag in flags]
    strangers = list(dict.fromkeys(flag.node for flag in every if flag.node not in nodes))
    words = f"flagged in {path} and no nodes of the cluster, left out: {some(strangers)}"
    return [flag for flag in every if flag.node in nodes], (words,) if strangers else ()


def _flags_of(source: Source, nodes: Collection[str]) -> list[NodeFlag]:
    """Return the flags of a file, all of some nodes."""
    document, flags = _flags(source)
    names = NodeNames(nodes)
    of_nodes: list[NodeFlag] = []
    for i, listed in enumerate(flags):
        for flag in [listed] if listed.node in nodes else _each(listed, document, i):
            own = names.find(flag.node, where=_where(document, i, "node"))
            if own is None:
                fix = f"{did_you_mean(flag.node, list(nodes))}use names of the cluster file"
                where = _where(document, i, "node")
                raise InvalidTopology(f"the cluster has no node {flag.node[:80]!r}", where=where, fix=fix)
            of_nodes.append(replace(flag, node=own))
    return of_nodes


def _each(flag: NodeFlag, document: Document, i: int) -> list[NodeFlag]:
    """Return a flag for each node of a hostlist such as ``n[01-04]``; any other name is that of one node.

    :raises InvalidInput: the hostlist is broken.
    """
    if "[" not in flag.node:
        return [flag]
    return [replace(flag, node=name) for name in expand_hostlist(flag.node, where=_where(document, i, "node"))]


def _where(document: Document, i: int, key: str) -> str:
    """Return the file and line of a key of the i-th flag."""
    return document.where("flags", i, key) if isinstance(document.data, dict) else document.where(i, key)


@checked
def read_flags(path: str | Path, *, now: datetime | None = None) -> list[NodeFlag]:
    """Read the flags of a file, of whichever nodes and whenever they hold; of a flag store what holds now, or at
    another time (timezone-aware).
    """
    if is_store(path):
        with open_log(path) as log:
            return log.standing(datetime.now(UTC) if now is None else now)
    document, flags = _flags(read_source(path))
    return [flag for i, listed in enumerate(flags) for flag in _each(listed, document, i)]


def _flags(source: Source) -> tuple[Document, list[NodeFlag]]:
    from topology.slurm_nodes import drain_reasons

    refuse_lines(source.name, source.text[:100].encode())
    document = drain_reasons(source) or load_document(source)
    if not isinstance(document.data, dict | list):
        fix = "write lines such as - {node: 'n[01-04]', slowdown: 1.3}; --busy keeps off the nodes of a plain list"
        raise InvalidInput("is no list of flags", where=document.where(), fix=fix)
    listed = isinstance(document.data, list)
    flags = document.parse(list[NodeFlag]) if listed else list(document.parse(FlagFile).flags)
    for i, flag in enumerate(flags):
        if flag.since is not None and flag.until is not None and flag.until <= flag.since:
            begin, end = (f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for time in (flag.since, flag.until))
            backwards = f"the flag of {flag.node[:80]} ends at {end}, not after it begins, at {begin}"
            raise InvalidInput(backwards, where=_where(document, i, "until"), fix="correct until, or since")
    return document, flags


CLUSTER_SHARE = 0.25  # Of the nodes of a cluster, or of a job where only its nodes are known
DOMAIN_SHARE = 0.5  # Of a minipod, a rack or whichever domain of a level
LEAST = 2  # Nodes that may always go, as two may fail by chance, however few there are
UNKNOWN = 4  # Nodes, where it is not known of how many


@dataclass(frozen=True, slots=True)
class Breaker:
    """What a run may take out of use: a share, and always two nodes."""

    nodes: int | None = None  # of the cluster or the job; None = not known
    cluster: Cluster | None = None  # where its domains are known, too

    def check(self, flags: Iterable[NodeFlag], *, before: Collection[str] = (), where: str) -> None:
        """Make sure that few enough nodes are out of use by flags.

        :param flags: that the run would write.
        :param before: nodes that were out before, which count; a run that adds none is never too much.
        :raises InvalidInput: it would take out too many.
        """
        names = NodeNames(() if self.cluster is None else self.cluster.index_of)
        faulty, standing = {names.any(flag.node) for flag in flags if flag.kind == "faulty"}, {*map(names.any, before)}
        if faulty <= standing:
            return
        out = faulty | standing
        if self.cluster is None:
            most = UNKNOWN if self.nodes is None else max(LEAST, int(CLUSTER_SHARE * self.nodes))
            if len(out) > most:
                raise _too_many(out, "an unknown number of" if self.nodes is None else f"{self.nodes}", where)
            return
        own = [node for node in sorted(out) if node in self.cluster.index_of]
        if len(own) > max(LEAST, int(CLUSTER_SHARE * len(self.cluster))):
            raise _too_many(own, str(len(self.cluster)), where)
        for level in self.cluster.levels:
            sizes = Counter(level.domain_of.tolist())
            lost = grouped((int(level.domain_of[self.cluster.index_of[node]]), node) for node in own)
            for domain, of_domain in lost.items():
                if len(of_domain) > max(LEAST, int(DOMAIN_SHARE * sizes[domain])) and not faulty.isdisjoint(of_domain):
                    raise _too_many(of_domain, f"{sizes[domain]} (of {level.name} {level.domains[domain]})", where)


def _too_many(out: Collection[str], of: str, where: str) -> InvalidInput:
    many = f"{len(out)} of {of} nodes would be out of use by flags: {some(sorted(out))}"
    fix = "look at the evidence, which so seldom is against the nodes; --yes takes them out all the same"
    return InvalidInput(many, where=where, fix=fix)
