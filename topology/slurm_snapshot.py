"""A Slurm as it stood at one instant, in files or asked live, and what of it one job could have.

Whether a node is free is no fact of the node: it depends on the partition that the job goes to, the features and the
reservation that it asks for, and how long it runs.  A :class:`SlurmSnapshot` holds what Slurm's own programs print, and
:meth:`SlurmSnapshot.standings` says for one :class:`SlurmRequest` what each node is to it:

1. The node is in the partition of the request, else in the default one, and has the features asked for.
2. Its state is idle.  ``IDLE+PLANNED`` is idle for a job that ends before the job that it is planned for starts.
3. No reservation of others holds it before the job ends; with ``--reservation`` it is one of that reservation's.

How long the job runs is its ``--time``, else the time that its partition gives by default, else for ever.  What the
records do not say is never taken as free: an option that needs a record which is not there is an error that names the
command that prints it.

Records come in files, each told by its content: nodes (:mod:`topology.slurm_nodes`), ``scontrol show partitions``,
``scontrol show reservations``, ``squeue --start`` and ``scontrol show config``, which says when all that was.  A live
Slurm is asked for them by :mod:`slurm.ask`.

Source: the manual pages sbatch(1), scontrol(1), squeue(1) and slurm.conf(5).
"""

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from math import inf
from typing import Literal, Self, TypeVar

from pydantic import BaseModel

from ground.documents import Document, load_document
from ground.errors import InvalidInput, UnknownName, did_you_mean, some
from ground.files import Source
from ground.groups import grouped
from ground.quantities import DAY, HOUR, MINUTE
from topology.cluster import NodeLimit
from topology.flags import NodeFlag
from topology.node_names import expand_hostlist
from topology.slurm_nodes import (
    SlurmNode,
    SlurmNumber,
    SlurmState,
    SlurmWords,
    Use,
    fields_of,
    nodes_of_json,
    planned_alone,
    record_of,
    records_of,
    said,
    slurm_nodes,
    slurm_time,
    use_of,
    without_reservation,
)

T = TypeVar("T")
Holder = TypeVar("Holder", "SlurmPartition", "SlurmReservation", "PlannedStart")
Unlisted = Literal["unusable", "free"]
UNLISTED = "not listed by Slurm"  # Why a node is kept out that a list with states does not have
ASK = {
    "nodes": "scontrol show nodes --all --oneliner",
    "partitions": "scontrol show partitions --all --oneliner",
    "reservations": "scontrol show reservations --oneliner",
    "planned starts": "squeue --all --start",
}
"""What a record is called, and the command that prints it."""


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition: nodes under one set of limits."""

    name: str
    nodes: frozenset[str] | None = None  # None = all
    complete: bool = True  # whether it has no others; records of nodes say it of the nodes that they list alone
    default: bool = False
    state: str = "UP"  # jobs start in one that is UP alone
    max_nodes: int | None = None  # None = as many as there are
    max_seconds: float = inf
    default_seconds: float | None = None  # time of a job that says none; None = max_seconds
    admits: tuple[tuple[str, str], ...] = ()  # who may use it, as in ("AllowAccounts", "a,b"), where not all may
    reserved_only: bool = False  # whether jobs need a reservation
    topology: str = ""  # name of its topology; empty = the default


@dataclass(frozen=True, slots=True)
class SlurmReservation:
    """Nodes held for some jobs from one instant to another (seconds since 1970)."""

    name: str
    nodes: frozenset[str]
    start: float
    end: float
    active: bool | None  # whether it had begun when this was recorded; None = not said
    admits: tuple[tuple[str, str], ...] = ()  # whose jobs may use it

    @property
    def why(self) -> str:
        """Why jobs of others may not have its nodes."""
        return f"reserved: {self.name}"

    def windows(self, *, own: bool) -> Iterator[NodeFlag]:
        """Yield when its nodes are kept out: from jobs of others while it lasts, from its ``own`` before and after."""
        start, end = (
            datetime.fromtimestamp(seconds, UTC) if abs(seconds) < inf else None for seconds in (self.start, self.end)
        )
        outside = [span for span in ((None, start), (end, None)) if any(span)]
        spans = outside if own else [(start, end)]
        why = f"outside of the reservation {self.name}" if own else self.why
        for name in sorted(self.nodes):
            for since, until in spans:
                yield NodeFlag(name, "faulty", source="slurm", since=since, until=until, evidence=why)


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """When a job that waits is expected to start (seconds since 1970)."""

    start: float
    partitions: tuple[str, ...]
    nodes: frozenset[str] | None  # None = not said


@dataclass(frozen=True, slots=True)
class SlurmRequest:
    """What a job asks of Slurm, each as ``sbatch`` takes it; empty = not said."""

    partition: str = ""
    constraint: str = ""
    reservation: str = ""
    time: str = ""
    expected: float | None = None  # seconds that the job is expected to run, which count where no time is said

    def first_option(self) -> str:
        """Return the first option that is given; empty = none is."""
        options = (field.name for field in fields(self) if field.name != "expected")
        return next((f"--{name}" for name in options if getattr(self, name)), "")

    def seconds(self) -> float | None:
        """Return the longest time that the job runs; ``None`` = not said; raise InvalidInput for what is no time."""
        if not self.time:
            return self.expected
        if (seconds := time_limit(self.time)) is None:
            fix = "write it as sbatch does: 90 (minutes), 90:00, 1:30:00, 1-12, 1-12:30, 1-12:30:00, UNLIMITED"
            raise InvalidInput(f"{self.time[:60]!r} is no time", where="--time", fix=fix)
        return seconds


NO_REQUEST = SlurmRequest()


def time_limit(text: str) -> float | None:
    """Return a time limit in seconds, whole minutes as Slurm rounds it up; infinite for 0; ``None`` = it is none.

    >>> time_limit("90"), time_limit("1:30"), time_limit("1:30:00"), time_limit("1-12"), time_limit("UNLIMITED")
    (5400.0, 120.0, 5400.0, 129600.0, inf)
    """
    if text.strip().lower() in ("infinite", "unlimited", "-1"):
        return inf
    seconds = slurm_seconds(text)
    return None if seconds is None else -(-seconds // MINUTE) * MINUTE or inf


def slurm_seconds(text: str) -> float | None:
    """Return how long something takes, as Slurm writes it: ``1-12:30:00``, ``90`` minutes; ``None`` = no such text."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text.strip())
    if match is None:
        return None
    days, *others = match.groups()
    numbers = [int(number) for number in others if number is not None]
    if days is None:  # minutes, minutes:seconds, hours:minutes:seconds
        units = {1: (MINUTE,), 2: (MINUTE, 1.0), 3: (HOUR, MINUTE, 1.0)}[len(numbers)]
    else:
        units = (HOUR, MINUTE, 1.0)
    return int(days or 0) * DAY + sum(unit * number for unit, number in zip(units, numbers, strict=False))


def in_words(seconds: float) -> str:
    """Return a time limit as Slurm prints it: ``1-12:00:00``."""
    if seconds == inf:
        return "UNLIMITED"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02}:{minute:02}:{second:02}"


def _instant(seconds: float) -> str:
    """Return an instant as Slurm prints it, in local time."""
    return datetime.fromtimestamp(seconds).isoformat(timespec="seconds")


_FEATURE = re.compile(r"[^\s&|,()\[\]*]+")


class Constraint:
    """Features that the nodes of a job must have, as ``sbatch --constraint`` takes them: ``a&b``, ``a|b``, ``a&(b|c)``.

    Slurm reads operators from left to right, without precedence; so ``a|b&c`` is refused without parentheses.  Counts
    (``a*4``) and brackets (``[a|b]``, all nodes of one feature) concern the set of nodes, and are refused, too.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.names = {*_FEATURE.findall(text)}
        if (odd := re.search(r"[\[\]*]", text)) is not None:
            what = "counts" if odd[0] == "*" else "brackets"
            raise self._invalid(
                f"{what} are of sets of nodes", "give the feature that all nodes of the job are to have"
            )
        self.holds(())

    def holds(self, features: Collection[str]) -> bool:
        """Return whether a node with these features fits."""
        worth = _FEATURE.sub(lambda feature: str(int(feature[0] in features)), self._text)
        worth = "".join(worth.split()).replace(",", "&")
        while "(" in worth or ")" in worth:
            # what stands in the innermost parentheses is worth a feature
            if (group := re.search(r"\(([^()]*)\)", worth)) is None:
                raise self._invalid("a parenthesis stands without the other", "write features such as a&(b|c)")
            worth = worth[: group.start()] + self._worth(group[1]) + worth[group.end() :]
        return self._worth(worth) == "1"

    def _worth(self, terms: str) -> str:
        """Return what terms without parentheses are worth, 1 or 0, as each of them is."""
        if "&" in terms and "|" in terms:
            raise self._invalid("& and | stand side by side", "say by parentheses which comes first: a&(b|c)")
        if not re.fullmatch(r"[01](?:[&|][01])*", terms):
            raise self._invalid("a feature or an operator is missing", "write features such as a&b or a|b")
        return str(int("1" in terms if "|" in terms else "0" not in terms))

    def _invalid(self, problem: str, fix: str) -> InvalidInput:
        return InvalidInput(f"{problem}: {self._text[:60]!r}", where="--constraint", fix=fix)


@dataclass(frozen=True, slots=True)
class Availability:
    """What the nodes of a cluster are to one job, and what a user should know of how that was decided."""

    uses: Mapping[str, Use]  # of the nodes that are listed
    kept_out: Mapping[str, str]  # nodes that the job may not have though nothing is wrong with them -> why
    reserved: tuple[NodeFlag, ...]  # windows in which nodes are kept out by reservations
    node_limit: NodeLimit | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlurmSnapshot:
    """What Slurm said of itself, in one text or in all that was read; ``None`` = of that it said nothing."""

    nodes: tuple[SlurmNode, ...] | None = None  # a node that is in several partitions may stand there several times
    partitions: tuple[SlurmPartition, ...] | None = None
    reservations: tuple[SlurmReservation, ...] | None = None
    planned: tuple[PlannedStart, ...] | None = None
    stated: float | None = None  # the instant, in seconds since 1970, where a record says it

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """Return all parts of one Slurm as one."""
        parts = [*parts]

        def of_all(rows: Iterable[tuple[T, ...] | None]) -> tuple[T, ...] | None:
            present = [part for part in rows if part is not None]
            return tuple(row for part in present for row in part) if present else None

        return cls(
            of_all(part.nodes for part in parts),
            of_all(part.partitions for part in parts),
            of_all(part.reservations for part in parts),
            of_all(part.planned for part in parts),
            max((part.stated for part in parts if part.stated is not None), default=None),
        )

    def renamed(self, name_of: Callable[[str], str]) -> Self:
        """Return it with other names of nodes: those of the cluster."""

        def named(rows: tuple[Holder, ...] | None) -> tuple[Holder, ...] | None:
            if rows is None:
                return None
            return tuple(
                row if row.nodes is None else replace(row, nodes=frozenset(map(name_of, row.nodes))) for row in rows
            )

        nodes = None
        if self.nodes is not None:  # 10,000 mostly have the names that they had
            nodes = tuple(
                node if (name := name_of(node.name)) == node.name else replace(node, name=name) for node in self.nodes
            )
        partitions, reservations, planned = named(self.partitions), named(self.reservations), named(self.planned)
        return type(self)(nodes, partitions, reservations, planned, self.stated)

    def known_partitions(self) -> dict[str, SlurmPartition]:
        """Return the partitions that are known, by name: those that nodes name have these, and no limits."""
        members: dict[str, set[str]] = {}
        defaults = set()
        for node in self.nodes or ():
            for name in node.partitions or ():
                members.setdefault(name, set()).add(node.name)
            defaults |= {node.default_partition}
        partitions = {
            name: SlurmPartition(name, frozenset(nodes), complete=False, default=name in defaults)
            for name, nodes in members.items()
        }
        for partition in self.partitions or ():
            nodes = partition.nodes if partition.complete else frozenset(members.get(partition.name, ()))
            partitions[partition.name] = replace(partition, nodes=nodes)
        return partitions

    def chosen_partition(self, request: SlurmRequest) -> tuple[SlurmPartition | None, tuple[str, ...]]:
        """Return the partition that a job goes to, ``None`` = which cannot be told, and notes.

        :raises InvalidInput: nothing says which nodes are in the one asked for, or several are asked for.
        :raises UnknownName: there is none of that name.
        """
        partitions, wanted = self.known_partitions(), request.partition
        if wanted and not partitions:
            raise _not_read("partitions", "--partition", f"nothing says which nodes are in the partition {wanted!r}")
        if "," in wanted:
            several, fix = "a job runs in one of several partitions", "give one, and ask again for each of the others"
            raise InvalidInput(f"{several}: {wanted!r}", where="--partition", fix=fix)
        if wanted and wanted not in partitions:
            fix = f"{did_you_mean(wanted, partitions)}partitions: {', '.join(partitions)}"
            raise UnknownName(f"there is no partition {wanted!r}", where="--partition", fix=fix)
        if wanted or not partitions:
            return partitions.get(wanted), ()
        silent = [node.name for node in self.nodes or () if node.partitions is None]
        if self.partitions is None and silent:
            note = f"of some nodes it is not said in which partition they are, so nodes of all count: {some(silent)}"
            return None, (f"{note}; --partition chooses one, with what `{ASK['partitions']}` prints",)
        defaults = [partition for partition in partitions.values() if partition.default]
        if not defaults and len(partitions) > 1:
            note = f"which of the partitions is the default is not said, so nodes of all count: {some([*partitions])}"
            return None, (f"{note}; --partition chooses one, or give what `{ASK['partitions']}` prints",)
        chosen = (defaults or [*partitions.values()])[0]
        others = [name for name in partitions if name != chosen.name]
        why = "the default" if defaults else "the only one"
        choice = f"; --partition chooses another: {', '.join(others)}" if others else ""
        return chosen, (f"partition {chosen.name}, {why}{choice}",)

    def availability(
        self, request: SlurmRequest, names: Sequence[str], *, now: datetime, unlisted: Unlisted | None
    ) -> Availability:
        """Return what the nodes of those names are to a job.

        :param now: timezone-aware; counts as the instant of the snapshot, unless that proves to be an older one.
        :param unlisted: what nodes are that no record has, where any states are read; ``None`` = unusable.
        :raises InvalidInput: the request is none, or asks for what no record says; UnknownName: for what is not there.
        """
        partition, notes = self.chosen_partition(request)
        seconds = request.seconds()
        if request.time and self.partitions is None and self.reservations is None and self.planned is None:
            unsaid = "nothing says when anything begins that the job has to end before"
            raise _not_read("reservations", "--time", unsaid)
        if seconds is None and partition is not None:
            seconds = partition.max_seconds if partition.default_seconds is None else partition.default_seconds
        seconds = inf if seconds is None else seconds
        held, reserved = self._reservations(request, seconds, now)
        wait = self._planned_of(seconds, now)
        rows = grouped((node.name, node) for node in self.nodes or ())
        constraint = Constraint(request.constraint) if request.constraint else None
        if constraint is not None:
            features = {feature for node in self.nodes or () for feature in node.features or ()}
            if all(node.features is None for node in self.nodes or ()):
                raise _not_read("nodes", "--constraint", "nothing says which features the nodes have")
            if unknown := sorted(constraint.names - features):
                fix = f"{did_you_mean(unknown[0], features)}features: {', '.join(sorted(features)) or 'none'}"
                raise UnknownName(f"no node has the feature {unknown[0]!r}", where="--constraint", fix=fix)

        @cache  # of 10,000 nodes most have one of a few states
        def use_in(state: tuple[str, ...], inside: bool) -> tuple[Use, bool]:
            words = without_reservation(state) if inside else state
            return use_of(words), planned_alone(words)

        uses: dict[str, Use] = {}
        kept_out: dict[str, str] = {}
        planned: dict[str, tuple[float | None, bool]] = {}
        for name in names:
            listed = rows.get(name, ())
            for node in listed:
                inside = name in held or (reserved is not None and name in reserved.nodes)
                use, is_planned = use_in(node.state, inside)
                if is_planned:
                    planned[name] = wait(name, node)
                    use = Use.FREE if planned[name][1] else Use.IN_USE
                uses[name] = max(use, uses.get(name, Use.FREE))
            features = {feature for node in listed for feature in node.features or ()}
            is_unlisted = not listed and self.nodes is not None
            outside = partition is not None and partition.nodes is not None and name not in partition.nodes
            if partition is not None and outside and (partition.complete or not is_unlisted):
                kept_out[name] = f"not in the partition {partition.name}"
            elif is_unlisted and unlisted != "free":
                kept_out[name] = UNLISTED
            elif partition is not None and partition.state != "UP":
                kept_out[name] = f"in the partition {partition.name}, which is {partition.state}"
            elif partition is not None and partition.reserved_only and reserved is None:
                kept_out[name] = f"in the partition {partition.name}, whose jobs need a --reservation"
            elif partition is not None and seconds > partition.max_seconds:
                most = f"MaxTime={in_words(partition.max_seconds)}"
                kept_out[name] = f"in the partition {partition.name}, whose jobs are shorter ({most})"
            elif constraint is not None and not constraint.holds(features):
                kept_out[name] = f"without the features {request.constraint}"
            elif reserved is not None and name not in reserved.nodes:
                kept_out[name] = f"not in the reservation {reserved.name}"
            elif name in held:
                kept_out[name] = held[name]
        limit = None
        if partition is not None and partition.max_nodes is not None:
            limit = NodeLimit(partition.max_nodes, f"MaxNodes of the partition {partition.name}")
        may_have = {name: start for name, start in planned.items() if name not in kept_out}
        notes = (*notes, *self._time_notes(request, partition, seconds, now), *_planned_notes(may_have))
        # whose the job is, is not known
        for kind, admitting in (("partition", partition), ("reservation", reserved)):
            if admitting is not None and admitting.admits:
                users = ", ".join("=".join(pair) for pair in admitting.admits)
                notes += (f"the {kind} {admitting.name} takes jobs of {users} alone",)
        unread = {
            "nodes": self.nodes is None,
            "partitions": not self.known_partitions(),
            "reservations": self.reservations is None,
            "planned starts": self.planned is None and bool(planned),
        }
        if missing := [what for what, is_missing in unread.items() if is_missing]:
            commands = " and ".join(f"`{ASK[what]}`" for what in missing)
            keep_none = f"not known, so they keep no node out: {', '.join(missing)}"
            notes += (f"{keep_none}; --busy takes what {commands} prints",)
        windows = (window for other in self.reservations or () for window in other.windows(own=other is reserved))
        return Availability(uses, kept_out, tuple(windows), limit, notes)

    def instant(self, now: datetime) -> tuple[float | None, bool]:
        """Return when the job would start: at present, unless the records prove to be older than something that has
        begun or ended since; then when they were recorded, ``None`` = which cannot be told.  And whether they are so.
        """
        present = now.timestamp()
        newest = max((node.newest for node in self.nodes or () if node.newest is not None), default=None)
        recorded = newest if self.stated is None else self.stated
        for reservation in self.reservations or ():
            since = reservation.end if reservation.active else reservation.start
            # one that is over already is not active either
            over = not reservation.active and recorded is not None and since <= recorded
            if reservation.active is not None and since <= present and not over:
                return recorded, True
        return present, False

    def _reservations(
        self, request: SlurmRequest, seconds: float, now: datetime
    ) -> tuple[dict[str, str], SlurmReservation | None]:
        """Return the nodes that others' reservations hold before the job ends, and why, and the job's own."""
        own = None
        if wanted := request.reservation:
            if self.reservations is None:
                raise _not_read("reservations", "--reservation", f"nothing says which nodes {wanted!r} holds")
            by_name = {reservation.name: reservation for reservation in self.reservations}
            if wanted not in by_name:
                fix = f"{did_you_mean(wanted, by_name)}reservations: {', '.join(by_name) or 'none'}"
                raise UnknownName(f"there is no reservation {wanted!r}", where="--reservation", fix=fix)
            own = by_name[wanted]
        at, _ = self.instant(now)
        held: dict[str, str] = {}
        for other in self.reservations or ():
            waits = at is None or (other.start < at + seconds and at < other.end)
            if other is own or not (other.active or waits):
                continue
            why = other.why + ("" if other.active or other.start == -inf else f", from {_instant(other.start)}")
            held |= {name: why for name in other.nodes if name not in held}
        return held, own

    def _planned_of(self, seconds: float, now: datetime) -> Callable[[str, SlurmNode], tuple[float | None, bool]]:
        """Return what says of a node that is idle and planned for a job when that starts, ``None`` = not said, and
        whether a job that starts now ends before.
        """
        at, _ = self.instant(now)
        by_node: dict[str, float] = {}
        for job in self.planned or ():
            for name in job.nodes or ():
                by_node[name] = min(job.start, by_node.get(name, inf))
        elsewhere = [job for job in self.planned or () if job.nodes is None]

        def start_of(name: str, node: SlurmNode) -> tuple[float | None, bool]:
            may_take = [job for job in elsewhere if node.partitions is None or {*job.partitions} & {*node.partitions}]
            start = by_node.get(name, min((job.start for job in may_take), default=None))
            return start, start is not None and at is not None and at + seconds <= start

        return start_of

    def _time_notes(
        self, request: SlurmRequest, partition: SlurmPartition | None, seconds: float, now: datetime
    ) -> Iterator[str]:
        if not self.reservations and not self.planned:
            return
        if not request.time and request.expected is not None:
            yield f"no --time, so the job is taken to run as long as it is expected to, {in_words(seconds)}"
        elif not request.time:
            by = (
                f"the time of the partition {partition.name}" if partition is not None and seconds < inf else "for ever"
            )
            yield f"no --time, so the job is taken to run {by}" + (f", {in_words(seconds)}" if seconds < inf else "")
        at, old = self.instant(now)
        own = next((held for held in self.reservations or () if held.name == request.reservation), None)
        if own is not None and at is not None and at + seconds > own.end:
            yield f"the reservation {own.name} ends at {_instant(own.end)}, and the job need not end before (--time)"
        if old and at is None:
            config = "`scontrol show config` prints"
            yield f"when Slurm said this is not known, so all reservations count as begun: give what {config}, too"
        elif old and at is not None:
            yield f"as of {_instant(at)}, when Slurm said this: reservations have begun or ended since"


def _not_read(what: str, option: str, problem: str) -> InvalidInput:
    """Return the error that a record is missing that an option needs."""
    file = f"{what.split(maxsplit=1)[0]}.txt"
    return InvalidInput(problem, where=option, fix=f"{ASK[what]} > {file}, and give it with --busy {file}")


def _planned_notes(planned: Mapping[str, tuple[float | None, bool]]) -> Iterator[str]:
    """Say of nodes that are idle and planned for waiting jobs what they are to this one."""
    groups: dict[str, list[str]] = {}
    for name, (start, free) in planned.items():
        if start is None:
            words = f"in use, as nothing says when those start (`{ASK['planned starts']}` does)"
        elif free:
            words = f"free, as the job ends before {_instant(start)}, when the first of them starts"
        else:
            words = f"in use, as the job need not end before {_instant(start)} (--time), when the first of them starts"
        groups.setdefault(words, []).append(name)
    for words, names in groups.items():
        yield f"idle and planned for jobs that wait, {words}: {some(names)}"


def named_topology(sources: Iterable[Source], request: SlurmRequest) -> tuple[str, str]:
    """Return the name of the topology of the partition that a job goes to, where partitions have several; and a note
    for a cluster's file that does not say which of them it is.  Empty = there are not several.

    :raises InvalidInput: as :meth:`SlurmSnapshot.chosen_partition`.
    """
    parts = [read_snapshot(source, ()) for source in sources if _OF_PARTITIONS.search(source.text)]
    snapshot = SlurmSnapshot.merged(part for part in parts if part is not None)
    if len({partition.topology for partition in snapshot.partitions or ()}) < 2:
        return "", ""
    partition, _ = snapshot.chosen_partition(request)
    if partition is None or not partition.topology:
        return "", ""
    shown = f"`scontrol show topology {partition.topology}` prints it"
    return partition.topology, f"the partition {partition.name} has the topology {partition.topology}: {shown}"


_OF_PARTITIONS = re.compile(r'^[ \t]*PartitionName=|"partitions"\s*:\s*\[\s*\{', re.MULTILINE)

_RECORD = re.compile(r"^[ \t]*(PartitionName|ReservationName|JobId)=", re.MULTILINE)
_CONFIG = re.compile(r"^Configuration data as of (\S+)", re.MULTILINE)
_NO_RESERVATIONS = re.compile(r"^No reservations in the system", re.MULTILINE)
_JOBS = re.compile(r"\A\s*JOBID\b")
_STARTS = re.compile(r"^\s*JOBID\b.*\bSTART_TIME\b", re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
INELIGIBLE = (
    "BeginTime",
    "Dependency",
    "DependencyNeverSatisfied",
    "JobHeldUser",
    "JobHeldAdmin",
    "JobHoldMaxRequeue",
    "launch failed requeued held",
    "launch_failed_requeued_held",
)
"""Reasons of jobs that wait for something else than nodes: Slurm plans none for them."""


def read_snapshot(source: Source, names: Container[str]) -> SlurmSnapshot | None:
    """Return what a text says of a Slurm; ``None`` = it is no output of Slurm.

    :param names: of nodes, which tell a column of nodes from one of partitions.
    :raises InvalidInput: it is damaged, or JSON of something else.
    """
    if source.text.lstrip().startswith("{"):
        return _from_json(load_document(source))
    found = ((match[1], (fields_of(record), place)) for match, record, place in records_of(source, _RECORD))
    records = grouped(found)
    planned = None
    if "JobId" in records:
        planned = _planned(records["JobId"])
    elif _STARTS.search(source.text):
        planned = _planned(_starts_of(source))
    elif _JOBS.search(source.text):
        jobs = "is a list of jobs, as squeue prints, and says no states of nodes: one that is down runs no job"
        raise InvalidInput(jobs, where=source.name, fix='give what `sinfo -N -h -o "%N %t %G"` prints')
    dated = _CONFIG.search(source.text)
    partitions = [_partition_of(*record) for record in records["PartitionName"]] if "PartitionName" in records else None
    reservations = [_reservation_of(*record) for record in records.get("ReservationName", ())]
    has_reservations = bool(reservations) or _NO_RESERVATIONS.search(source.text) is not None
    rows = None
    nothing_else = planned is None and not (dated or partitions or has_reservations)
    if nothing_else or re.search(r"^\s*NodeName=", source.text, re.MULTILINE):
        rows = slurm_nodes(source, names)
        if rows is None:
            return None
    return SlurmSnapshot(
        None if rows is None else tuple(rows),
        None if partitions is None else tuple(partitions),
        tuple(reservations) if has_reservations else None,
        planned,
        None if dated is None else slurm_time(dated[1]),
    )


def _partition_of(fields: Mapping[str, str], place: str) -> SlurmPartition:
    def text(key: str) -> str:
        value = fields.get(key, "")
        return "" if value.upper() in ("(NULL)", "N/A", "NONE", "UNLIMITED") else value

    admits = {key: text(key) for key in ("AllowAccounts", "AllowGroups", "AllowQos", "DenyAccounts", "DenyQos")}
    most = text("MaxNodes")
    if most and not re.fullmatch(r"[0-9]{1,9}", most):
        raise InvalidInput(f"MaxNodes is {most[:40]!r}", where=place, fix="give what Slurm prints, as it is")
    usual, longest = text("DefaultTime"), text("MaxTime")
    return SlurmPartition(
        text("PartitionName"),
        None if text("Nodes") == "ALL" else _names(text("Nodes"), place),
        "Nodes" in fields,
        text("Default") == "YES" or "DEFAULT" in text("Flags").split(","),
        text("State") or "UP",
        int(most) if most else None,
        _limit(longest, place) if longest else inf,
        _limit(usual, place) if usual else None,
        tuple((key, value) for key, value in admits.items() if value not in ("", "ALL")),
        text("ReqResv") == "YES",
        text("Topology"),
    )


def _limit(text: str, place: str) -> float:
    if (seconds := time_limit(text)) is None:
        raise InvalidInput(f"{text[:40]!r} is no time limit", where=place, fix="give what Slurm prints, as it is")
    return seconds


def _names(hostlist: str, place: str) -> frozenset[str]:
    return frozenset(expand_hostlist(hostlist, where=place)) if hostlist not in ("", "(null)") else frozenset()


def _reservation_of(fields: Mapping[str, str], place: str) -> SlurmReservation:
    start, end = (slurm_time(fields.get(key, "")) for key in ("StartTime", "EndTime"))
    state, flags = fields.get("State"), fields.get("Flags", "")
    admits = {key: fields.get(key, "") for key in ("Users", "Groups", "Accounts")}
    return SlurmReservation(
        fields.get("ReservationName", ""),
        _names(fields.get("Nodes", ""), place),
        # a floating reservation begins at a time that moves on with the clock: it never has begun
        -inf if start is None or "TIME_FLOAT" in flags else start,
        inf if end is None else end,
        None if state is None else state == "ACTIVE",
        tuple((key, value) for key, value in admits.items() if value not in ("", "(null)")),
    )


def _planned(records: Iterable[tuple[Mapping[str, str], str]]) -> tuple[PlannedStart, ...]:
    """Return when jobs start that wait for nodes, from their records and where these stand."""
    planned = []
    for job, place in records:
        start, listed = slurm_time(job.get("StartTime", "")), job.get("SchedNodeList", "")
        if "PENDING" in job.get("JobState", "") and job.get("Reason") not in INELIGIBLE and start is not None:
            nodes = _names(listed, place) if listed not in ("", "(null)") else None
            planned.append(PlannedStart(start, tuple(job.get("Partition", "").split(",")), nodes))
    return tuple(planned)


def _starts_of(source: Source) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the jobs of a table of ``squeue --start`` as records; columns are counted from that of the time."""
    header: list[str] = []
    for number, line in enumerate(source.text.splitlines(), 1):
        words = line.split()
        if "START_TIME" in words:
            header = words
            continue
        at = next((i for i, word in enumerate(words) if _TIME.fullmatch(word)), None)
        if not header or at is None or any(f"({reason}" in line for reason in INELIGIBLE):
            continue
        job = {"JobState": "PENDING", "StartTime": words[at]}
        if "SCHEDNODES" in header:
            column = at + header.index("SCHEDNODES") - header.index("START_TIME")
            job["SchedNodeList"] = words[column] if column < len(words) else ""
        if "PARTITION" in header[: header.index("START_TIME")]:
            job["Partition"] = words[header.index("PARTITION")]
        yield job, source.at(number)


class _Partition(BaseModel):
    """A partition of ``scontrol show partitions --json``, and of a row of ``sinfo --json``."""

    name: str = said("PartitionName", "name", default=...)
    nodes: str | None = said("Nodes", "nodes", "configured")
    flags: SlurmWords = said("Flags", "flags", default="")
    state: SlurmState = said("State", "partition", "state", default="")
    max_nodes: SlurmNumber = said("MaxNodes", "maximums", "nodes")
    max_minutes: SlurmNumber = said("MaxTime", "maximums", "time")
    default_minutes: SlurmNumber = said("DefaultTime", "defaults", "time")
    accounts: str = said("AllowAccounts", "accounts", "allowed", default="")
    groups: str = said("AllowGroups", "groups", "allowed", default="")
    qos: str = said("AllowQos", "qos", "allowed", default="")
    denied_accounts: str = said("DenyAccounts", "accounts", "deny", default="")
    denied_qos: str = said("DenyQos", "qos", "deny", default="")
    topology: str = said("Topology", "topology", default="")


class _Reservation(BaseModel):
    name: str = said("ReservationName", "name", default=...)
    node_list: str = said("Nodes", "node_list", default="")
    start_time: SlurmNumber = said("StartTime", "start_time")
    end_time: SlurmNumber = said("EndTime", "end_time")
    users: str = said("Users", "users", default="")
    groups: str = said("Groups", "groups", default="")
    accounts: str = said("Accounts", "accounts", default="")


class _Job(BaseModel):
    job_state: SlurmState = said("JobState", "job_state", default=...)
    start_time: SlurmNumber = said("StartTime", "start_time")
    partition: str = said("Partition", "partition", default="")
    scheduled_nodes: str = said("SchedNodeList", "scheduled_nodes", default="")
    state_reason: str = said("Reason", "state_reason", default="")


class _Row(BaseModel):
    partition: _Partition | None = None


class _Answer(BaseModel):
    partitions: list[_Partition] | None = None
    reservations: list[_Reservation] | None = None
    jobs: list[_Job] | None = None
    sinfo: list[_Row] | None = None
    last_update: SlurmNumber = None


def _from_json(document: Document) -> SlurmSnapshot:
    """Return what an answer of ``scontrol --json``, ``sinfo --json`` or ``squeue --json`` says."""
    keys = {*document.data} if isinstance(document.data, dict) else set()
    answer = document.parse(_Answer)
    place, at = document.source.name, answer.last_update
    rows = [row.partition for row in answer.sinfo or () if row.partition is not None]
    listed = (_partition_of(record_of(row), place) for row in (*(answer.partitions or ()), *rows))
    partitions = {partition.name: partition for partition in listed}
    reservations = []
    for reserved in answer.reservations or ():
        record, start = record_of(reserved), reserved.start_time
        if at is not None and start is not None:
            record["State"] = "ACTIVE" if start <= at else "INACTIVE"
        reservations.append(_reservation_of(record, place))
    jobs = None if answer.jobs is None else [(record_of(job), place) for job in answer.jobs if job.start_time]
    no_nodes = keys & {"partitions", "reservations", "jobs"} and not keys & {"nodes", "sinfo"}
    return SlurmSnapshot(
        None if no_nodes else tuple(nodes_of_json(document)),
        tuple(partitions.values()) if partitions or answer.partitions is not None else None,
        None if answer.reservations is None else tuple(reservations),
        None if jobs is None else _planned(jobs),
        at,
    )
