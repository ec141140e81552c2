"""A live Slurm at one look: its jobs, and what of its nodes each could have.

Jobs come from ``squeue`` with a separator that is drawn by lot for each question: users write what they like into names
and comments, newlines too, and can so make no field and no job of another.
"""

import re
import secrets
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from math import inf
from typing import Self

import numpy as np

from ground.errors import InvalidInput
from ground.files import Source
from slurm.ask import SlurmRefused, ask, ask_nodes
from topology.cluster import BoolArray, Cluster
from topology.load import load_topology, slurm_list, with_node_list
from topology.node_names import NodeNames, expand_hostlist
from topology.slurm_nodes import (
    SlurmNode,
    Use,
    planned_alone,
    slurm_nodes,
    slurm_time,
    use_of,
    without_jobs,
    without_reservation,
)
from topology.slurm_snapshot import (
    INELIGIBLE,
    NO_REQUEST,
    PlannedStart,
    SlurmPartition,
    SlurmRequest,
    SlurmSnapshot,
    named_topology,
    read_snapshot,
    time_limit,
)

OURS = "arnold_"  # With what names of reservations begin that hold the nodes of a plan; the job's number follows
_OF_A_PLAN = re.compile(rf"{OURS}\d+")
COLUMNS = {
    "number": "%i", "state": "%T", "reason": "%r", "partition": "%P", "features": "%f", "reservation": "%v",
    "limit": "%l", "count": "%D", "priority": "%Q", "submitted": "%V", "begin": "%S", "ends": "%e", "owner": "%u",
    "account": "%a", "nodes": "%N", "required": "%n", "excluded": "%x", "planned": "%Y", "gpus": "%b",
    "name": "%j", "comment": "%k",
}  # fmt: skip
"""What is asked of each job, by the letters of ``squeue --format``."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job of Slurm's; times in seconds since 1970."""

    number: str  # 15, or 15_3 and 15+1 of arrays and heterogeneous jobs
    state: str
    reason: str
    partition: str
    features: str
    reservation: str
    seconds: float | None  # that it may run; infinite = for ever, None = as its partition says
    count: int | None  # nodes that it asks for, or has; None = a range
    priority: int
    submitted: float
    begin: float | None  # when it started, or is to at the earliest; None = not known
    ends: float | None
    owner: str
    account: str
    nodes: str  # a hostlist, as the next three
    required: str
    excluded: str
    planned: str
    gpus: str  # that it asks for on each node, a list of trackable resources: gres/gpu:h100:8
    name: str
    comment: str

    @property
    def pending(self) -> bool:
        """Whether it waits."""
        return self.state == "PENDING"

    @property
    def held(self) -> bool:
        """Whether it waits until it is released: of its user's own will, or as a Prolog failed, say."""
        return self.pending and self.priority == 0

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Self:
        """Return the job of a row; what stands for nothing is empty."""
        text = {key: "" if value in ("(null)", "N/A", "NONE") else value for key, value in row.items()}
        return cls(
            number=text["number"], state=text["state"], reason=text["reason"], partition=text["partition"],
            features=text["features"], reservation=text["reservation"], seconds=time_limit(text["limit"]),
            count=int(text["count"]) if text["count"].isdecimal() else None,
            priority=int(text["priority"]) if text["priority"].isdecimal() else 0,
            submitted=slurm_time(text["submitted"]) or 0.0, begin=slurm_time(text["begin"]),
            ends=slurm_time(text["ends"]), owner=text["owner"], account=text["account"], nodes=text["nodes"],
            required=text["required"], excluded=text["excluded"], planned=text["planned"],
            gpus=text["gpus"].replace("gres:gpu", "gpu"), name=row["name"], comment=text["comment"],
        )  # fmt: skip


def rows_in(text: str, separator: str, columns: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the jobs of what ``squeue`` printed with a separator before each field."""
    # the last field of a job ends with the line, and may have lines itself
    words, width = text.split(separator)[1:], len(columns)
    for i in range(0, len(words) - width + 1, width):
        *row, last = words[i : i + width]
        yield dict(zip(columns, [*row, last.removesuffix("\n")], strict=True))


def ask_rows(columns: Collection[str]) -> Iterator[dict[str, str]]:
    """Ask for some columns of all jobs that have not ended; raise as :func:`~slurm.ask.ask`."""
    separator = f"|{secrets.token_hex(8)}|"
    form = separator + separator.join(COLUMNS[column] for column in columns)
    answer, _ = ask("squeue", "", "--all", "--noheader", "--format", form, epoch=True)
    return rows_in(answer.text, separator, columns)


@dataclass(frozen=True)
class LiveSlurm:
    """A Slurm at one look."""

    now: float  # by the clock of its controller
    jobs: tuple[SlurmJob, ...]
    said: SlurmSnapshot  # of its nodes, partitions and reservations, which it calls as the cluster does
    base: Cluster  # the tree, nothing of it in use
    unheld: tuple[str, ...] = ()  # reservations of ours that no job names any more; their nodes count as free
    laid: dict[object, Cluster] = field(default_factory=dict)  # request -> the cluster, but for what jobs have

    @classmethod
    def of(
        cls, jobs: Sequence[SlurmJob], said: SlurmSnapshot, base: Cluster, now: float, before: Self | None = None
    ) -> Self:
        """Return the look of what it says of nodes, partitions and reservations.

        :param before: the look before; what is the same as then is not worked out again.
        """
        starts = tuple(
            PlannedStart(job.begin, tuple(job.partition.split(",")), nodes)
            for job in jobs
            if job.pending and not job.held and job.begin is not None and job.reason not in INELIGIBLE
            for nodes in [frozenset(expand_hostlist(job.planned)) if job.planned else None]
        )
        used = {job.reservation for job in jobs}
        over = [held for held in said.reservations or () if _OF_A_PLAN.fullmatch(held.name) and held.name not in used]
        let_go = {name for held in over for name in held.nodes}
        nodes = said.nodes or ()
        if let_go:
            nodes = tuple(
                replace(node, state=without_reservation(node.state)) if node.name in let_go else node for node in nodes
            )
        reservations = tuple(held for held in said.reservations or () if held not in over)
        left = replace(said, nodes=nodes, reservations=reservations, planned=starts, stated=now)
        laid = {}
        if before is not None and before.base is base and replace(before.said, stated=now) == left:
            laid = before.laid
        return cls(now, tuple(jobs), left, base, tuple(held.name for held in over), laid)

    @cached_property
    def by_number(self) -> Mapping[str, SlurmJob]:
        """Jobs by number."""
        return {job.number: job for job in self.jobs}

    @cached_property
    def _events(self) -> list[float]:
        """When something begins that a job has to end before."""
        starts = (
            *(held.start for held in self.said.reservations or ()),
            *(job.start for job in self.said.planned or ()),
        )
        return sorted({*starts})

    @cached_property
    def _for_requests(self) -> dict[object, Cluster]:
        return {}

    @cached_property
    def _partitions(self) -> dict[str, SlurmPartition | None]:
        return {}

    def free_for(self, job: SlurmJob) -> Cluster:
        """Return the cluster as a job could have it now, as its partition, features, reservation, time and excluded
        nodes say: the same object for all jobs that ask alike.

        :raises ArnoldError: what it asks cannot be told.
        """
        if job.partition not in self._partitions:
            self._partitions[job.partition] = self.said.chosen_partition(SlurmRequest(job.partition))[0]
        partition = self._partitions[job.partition]
        if partition is not None and partition.topology and partition.topology != self.default_topology:
            other = f"its partition has a topology of its own, {partition.topology}, and plans are made on another"
            raise InvalidInput(other, where=f"job {job.number}", fix="plan it with arnold place --partition")
        seconds = job.seconds
        if seconds is None:
            seconds = inf if partition is None else partition.default_seconds or partition.max_seconds
        most = inf if partition is None else partition.max_seconds
        # two times are alike that cross the same beginnings of reservations and of planned jobs
        alike = (bisect_left(self._events, self.now + seconds), seconds > most)
        about = (job.partition, job.features, job.reservation, *alike)
        if about not in self._for_requests:
            if about not in self.laid:
                request = SlurmRequest(job.partition, job.features, job.reservation, expected=seconds)
                self.laid[about] = self._laid(request)
            self._for_requests[about] = self.laid[about].with_busy(self._in_jobs)
        cluster = self._for_requests[about]
        if not job.excluded:
            return cluster
        if (excluding := (*about, job.excluded)) not in self._for_requests:
            excluded = (cluster.index_of[name] for name in expand_hostlist(job.excluded) if name in cluster.index_of)
            self._for_requests[excluding] = cluster.with_kept_out(dict.fromkeys(excluded, "excluded"))
        return self._for_requests[excluding]

    def _laid(self, request: SlurmRequest) -> Cluster:
        names = NodeNames(self.base.index_of)
        source = Source("scontrol", "", numbered=False)
        at = datetime.fromtimestamp(self.now, UTC)
        listed = slurm_list([(source, self.said)], self.base, names, request, now=at, unlisted=None, own=None)
        return with_node_list(self.base, listed)[0]

    def nodes_of(self, job: SlurmJob) -> Sequence[str]:
        """Return the nodes that a job has."""
        return () if job.pending or not job.nodes else nodes_in(job.nodes)

    @cached_property
    def _in_jobs(self) -> Sequence[int]:
        """Nodes that some job has: one may have started since the nodes were asked for."""
        of = self.base.index_of
        return [of[name] for job in self.jobs for name in self.nodes_of(job) if name in of]

    @cached_property
    def _by_state(self) -> tuple[BoolArray, BoolArray]:
        """Shape [nodes] twice: which are idle by their own state, whoever they are reserved or planned for; and which
        would be if the jobs that it speaks of had ended.
        """
        uses = {
            state: (use_of(words), use_of(without_jobs(words)))
            for state in {node.state for node in self.said.nodes or ()}
            for words in [[word for word in without_reservation(state) if not planned_alone([word])] or ["IDLE"]]
        }
        masks = np.zeros((2, len(self.base.names)), dtype=np.bool_)
        seen, of = np.zeros(len(self.base.names), dtype=np.bool_), self.base.index_of
        for node in self.said.nodes or ():
            if (index := of.get(node.name)) is not None:
                free = [use is Use.FREE for use in uses[node.state]]
                masks[:, index] = masks[:, index] & free if seen[index] else free
                seen[index] = True
        return masks[0], masks[1]

    @cached_property
    def idle(self) -> BoolArray:
        """Shape [nodes], which run nothing and could."""
        idle = self._by_state[0].copy()
        idle[self._in_jobs] = False
        return idle

    def idle_with(self, jobs: Sequence[str]) -> BoolArray:
        """Shape [nodes], which may be idle by now, where jobs have the nodes of some hostlists and no others."""
        idle, of = self._by_state[1].copy(), self.base.index_of
        idle[[of[name] for nodes in jobs if nodes for name in nodes_in(nodes) if name in of]] = False
        return idle

    def not_to_be_had(self, nodes: Sequence[str], cluster: Cluster) -> str:
        """Return the first of some nodes that a job cannot have now of what it could, and why; empty = it can have all.

        That it is planned for another job is no reason: Slurm's own order decides between the two.
        """
        for name in nodes:
            node = self.base.index_of.get(name)
            if node is None or node in cluster.kept_out or not self.idle[node]:
                why = "is not there" if node is None else cluster.kept_out.get(node, "is in use, or down")
                return f"{name}: {why}"
        return ""

    @cached_property
    def default_topology(self) -> str:
        """Name of the topology that is the base; empty = there is one alone."""
        defaults = [partition.topology for partition in self.said.partitions or () if partition.default]
        return defaults[0] if defaults else ""


@lru_cache(maxsize=1 << 14)
def nodes_in(hostlist: str) -> tuple[str, ...]:
    """Return the nodes of a hostlist, as most are asked about at each look."""
    return tuple(expand_hostlist(hostlist))


class Eyes:
    """Looks at the live Slurm: four questions a look, and its topology where the nodes are others than before.

    Most of 10,000 nodes are said to be as they were at the look before, and are not read again.
    """

    def __init__(self) -> None:
        self._live: LiveSlurm | None = None
        self._about: object = None
        self._read: dict[str, tuple[str, SlurmSnapshot | None]] = {}  # what was read -> the answer, and what it says
        self._records: dict[str, list[SlurmNode]] = {}  # record of a node, and what of it lasts -> the node

    def look(self) -> LiveSlurm:
        """Ask it; raise as :func:`~slurm.ask.ask`."""
        # the first line of a verbose answer is when the controller gave it
        nodes = ask_nodes("--verbose", epoch=True)
        clock = re.search(r"^last_update_time=(\d+)", nodes.text)
        now = float(clock[1]) if clock is not None else clock_and_counts()[0]
        partitions, _ = ask("scontrol", "show partitions", "--all", "--oneliner")
        reservations, _ = ask("scontrol", "show reservations", "--oneliner", epoch=True)
        # last: what a job has taken since the nodes were asked for is its own
        jobs = [SlurmJob.of(row) for row in ask_rows(COLUMNS)]
        parts = (self._nodes_of(nodes), self._said_in(partitions), self._said_in(reservations))
        said = SlurmSnapshot.merged(part for part in parts if part is not None)
        about = [(node.name, node.gpus, node.gpu_type, node.topology) for node in said.nodes or ()], partitions.text
        if self._live is None or about != self._about:
            texts = (nodes, partitions, reservations)
            name, _ = named_topology(texts, NO_REQUEST)
            topology, _ = ask("scontrol", f"show topology {name}".rstrip())
            base, self._about = base_of(topology, texts), about
        else:
            base = self._live.base
        self._live = LiveSlurm.of(jobs, said, base, now, self._live)
        return self._live

    def _said_in(self, answer: Source) -> SlurmSnapshot | None:
        text, said = self._read.get(answer.name, ("", None))
        if text != answer.text:
            said = read_snapshot(answer, ())
            self._read[answer.name] = answer.text, said
        return said

    def _nodes_of(self, answer: Source) -> SlurmSnapshot:
        nodes, records = list[SlurmNode](), dict[str, list[SlurmNode]]()
        for record in f"\n{answer.text}".split(f"\n{_NODE}")[1:]:
            if (read := self._records.get(record)) is None:
                lasting = _PASSING.sub("", record)
                if (read := self._records.get(lasting)) is None:
                    read = slurm_nodes(Source(answer.name, _NODE + record, numbered=False), ()) or []
                records[lasting] = read
            records[record] = read
            nodes += read
        self._records = records
        return SlurmSnapshot(nodes=tuple(nodes))


_NODE = "NodeName="
_PASSING = re.compile(
    r" (?:CPUAlloc|CPULoad|AllocMem|FreeMem|AllocTRES|BootTime|SlurmdStartTime|LastBusyTime|CurrentWatts|AveWatts)=\S*"
)
"""What changes of a node all the time, and is not asked about here."""


def base_of(topology: Source, said: Sequence[Source]) -> Cluster:
    """Return the tree with the GPUs of its nodes, nothing of it in use."""
    loaded = load_topology(topology, busy=said).cluster
    return loaded.replace(free_gpus=loaded.gpus.copy(), flags={}, kept_out={}, reserved=(), node_limit=None)


def clock_and_counts() -> tuple[float, str]:
    """Return what the clock of the controller shows, and how many jobs came, started and ended: one small question."""
    text = ask("sdiag", "")[0].text
    clock = re.search(r"^sdiag output at .*\((\d+)\)", text, re.MULTILINE)
    if clock is None:
        raise SlurmRefused("it does not say the time", where="sdiag", fix="check that sdiag answers here")
    return float(clock[1]), " ".join(
        re.findall(r"^Jobs (?:submitted|started|completed|canceled|failed): *\d+", text, re.MULTILINE)
    )
