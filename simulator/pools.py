"""The cluster of a run, with what jobs hold of it: GPUs that are counted, or nodes on which placement decides.

The engine asks a ``Pool``, which is one of two.  :class:`NodePool` is what most runs have: jobs on one node go where
single pods go on Kubernetes, gangs that take a part of each node to the fewest domains (both ``scheduler.occupancy``);
gangs of whole nodes through the placement algorithm and the evaluator of ``arnold place``.  Numbers in it are units,
``simulator.sim_job.UNITS`` of a GPU.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from ground.errors import InvalidJob, UnknownName, did_you_mean
from scheduler.affinity import Gains
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.job_on_cluster import within_the_tree
from scheduler.objective import spread
from scheduler.occupancy import Occupancy, Rows, fewest_domains, tightest
from scheduler.outcome import Outcome
from scheduler.placement.admission import check_held_together, typed
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.power_caps import PowerCaps
from scheduler.queue.arnold import find_zone
from scheduler.queue.dispatch import Allocation
from scheduler.queue.policy import Keep, Waiting
from simulator.job_record import JobRecord, shape
from simulator.sim_job import UNITS, Need, SimJob, picky
from topology.cluster import BoolArray, Cluster, FloatArray, IntArray, most_together, shortage_apart, together
from topology.flags import HEALTHY, NodeFlag


class Disagreement(Exception):
    """A job that could not run even if the cluster were empty; caught where its file and line are known.

    ``reason`` is one of a few kinds, to count by; ``sentence`` says what it asks for and what there is.
    """

    def __init__(self, reason: str, sentence: str, *, fix: str = "give a cluster that can hold it") -> None:
        super().__init__(f"{reason}: {sentence}")
        self.reason, self.sentence, self.fix = reason, sentence, fix


class NoSuchNodes(Disagreement):
    """A job that wants more nodes, or larger ones, than the cluster has; its sentence names the job."""

    def __init__(self, sentence: str) -> None:
        super().__init__("larger than the cluster", sentence)


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes for a job."""

    places: Sequence[int]
    spread: tuple[int, int] | None = None  # DP and PP spread, of a gang that was placed
    objective: float = inf  # of a gang of whole nodes; infinite = nothing was minimised


Types = tuple[str, ...] | None  # Types of GPU that a job admits; None = any


class NodesByType:
    """Nodes of a cluster by their type of GPU."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[Types, BoolArray] = {None: np.ones(len(cluster), dtype=np.bool_)}
        self._usual: dict[Types, int] = {None: cluster.node_size}
        self._ways: dict[object, dict[str, tuple[Allocation, ...]]] = {}

    def check(self, types: Types) -> None:
        """Refuse types of GPU that the cluster does not have.

        :raises Disagreement: one of them is on no node.
        """
        types_there = [*self._cluster.nodes_of_type]
        if unknown := next((name for name in types or () if name not in types_there), None):
            fix = f"{did_you_mean(unknown, types_there)}types of this cluster: {', '.join(types_there) or 'none'}"
            raise Disagreement("types of GPU", f"the cluster has no GPUs of the type {unknown!r}", fix=fix)

    def of(self, types: Types) -> BoolArray:
        """Return which nodes have one of the types, shape [nodes]."""
        if types not in self._nodes:
            self._nodes[types] = typed(self._cluster, types or ())
        return self._nodes[types]

    def usual_gpus(self, types: Types) -> int:
        """Return the GPUs of the usual node among those of some types."""
        if types not in self._usual:
            self._usual[types] = self._cluster.subset(np.flatnonzero(self.of(types)).astype(np.int32)).node_size
        return self._usual[types]

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """Nodes of each type of GPU that is said."""
        return {name: np.flatnonzero(self.of((name,))).tolist() for name in self._cluster.nodes_of_type}

    def allocations(self, record: JobRecord, need: Callable[[JobRecord], Need]) -> dict[str, tuple[Allocation, ...]]:
        """Return how a job may lie by type of GPU: together, or in equal parts on more nodes, fewest first, where its
        speed there is known and nothing is said of its nodes.

        :param need: what a job asks the pool for; a type for which it raises Disagreement is left out.
        """
        key = record.gpus, record.nodes, record.asks, record.speed, record.speed_apart
        if key not in self._ways:
            names = self._cluster.nodes_of_type if record.gpu_types is None else record.gpu_types
            ways = {name: tuple(self._ways_on(name, record, need)) for name in names}
            self._ways[key] = {name: way for name, way in ways.items() if way}
        return self._ways[key]

    def _ways_on(self, name: str, record: JobRecord, need: Callable[[JobRecord], Need]) -> Iterator[Allocation]:
        try:
            least = need(replace(record, gpu_types=(name,)))
        except Disagreement:
            return
        yield Allocation((name,), least.nodes, least.gpus, record.speed_on((name,)))
        fixed = record.nodes is not None or record.parallelism is not None or record.holds or record.counts
        gpus = 0 if fixed or name not in {speed.gpu_type for speed in record.speed_apart} else least.units // UNITS
        for nodes in range(least.nodes + 1, min(gpus, len(self.by_name[name])) + 1):
            if gpus % nodes == 0:
                speed = record.speed_on((name,), apart=True)
                yield Allocation((name,), nodes, gpus // nodes * UNITS, speed)


class NodePool:
    """Nodes in domains.

    :param cluster: GPUs of it that are in use at the start stay so; a node that is faulty is no part of it.
    :param level: the level whose domains spread counts; ``None`` = the broadest with more than one domain.
    :param records: own measurements of what spread costs jobs.
    :param given: by id of a job, what it needs whatever its record says, as it has nodes already.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        algorithm: PlacementAlgorithm,
        limits: Limits,
        level: str | None = None,
        records: Sequence[Gains] = (),
        given: Mapping[str, Need] = MappingProxyType({}),
    ) -> None:
        if level is not None:
            cluster.level_index(level, where="--level")
        self.cluster = cluster
        self.total: IntArray = cluster.usable_gpus * UNITS  # that jobs may use now
        # for each level from broad to close: shape [nodes], the domain of each node
        self.domains = tuple(domains.domain_of for domains in cluster.levels)
        self._at_start: IntArray = self.total.copy()
        self.capacity = int(self.total.sum())  # with nodes that are out at the moment
        self._given = given
        self._algorithm, self._limits, self._level, self._records = algorithm, limits, level, records
        self.occupancy = Occupancy(cluster.gpus * UNITS, self.total, cluster.levels)
        self._whole: BoolArray = self.occupancy.idle.copy()
        self._jobs: dict[tuple[int, int, object], Job] = {}
        self._usable: dict[tuple[int, bool, Types], BoolArray] = {}
        self._gangs: dict[tuple[int, int, Types], bool] = {}
        self._needs: dict[tuple[float, int | None, object], Need] = {}
        self.types = NodesByType(cluster)
        # shape [nodes] for a job, of which the sum decides between placements worth the same
        self.node_costs: tuple[Callable[[SimJob], FloatArray], ...] = ()

    @property
    def free(self) -> IntArray:
        """Shape [nodes], units that no job holds."""
        return self.occupancy.free

    def need(self, record: JobRecord) -> Need:
        """Return nodes and units on each (``simulator.job_record``), worked out once for all jobs of a shape.

        :raises NoSuchNodes: it cannot be cut into nodes, or the cluster has too few of the size that it wants.
        :raises Disagreement: it could not run even if the cluster were empty, for another reason.
        :raises InvalidTopology: it is a gang, and the cluster has no level.
        """
        if record.job_id in self._given:
            return self._given[record.job_id]
        key = (record.gpus, record.nodes, record.asks)
        if key in self._needs:
            return self._needs[key]
        types = record.gpu_types
        self.types.check(types)

        def nodes_with(gpus: float) -> int:
            return int(np.count_nonzero(self.types.of(types) & (self.total >= gpus * UNITS)))

        try:
            nodes, gpus_each = shape(record, self.types.usual_gpus(types), nodes_with=nodes_with)
        except InvalidJob as error:
            raise NoSuchNodes(f"job {record.job_id}: {error.message}") from error
        if (there := nodes_with(gpus_each)) < nodes:
            where = "one node" if nodes == 1 else f"{nodes:,} nodes with {gpus_each:g} each"
            request = f"job {record.job_id} needs {record.gpus:,g} GPUs ({where})"
            raise NoSuchNodes(f"{request}, and the cluster has {there:,} such nodes")
        if (limit := self.cluster.node_limit) is not None and nodes > limit.nodes:
            raise Disagreement("more nodes than a job may have", f"{nodes} nodes, of {limit.nodes} ({limit.why})")
        gpus = ceil(round(gpus_each * UNITS, 6))
        need, gang = Need(nodes, gpus, nodes * gpus), None
        if self._is_gang(nodes, gpus, types):
            # it has to cut into nodes, and the cluster to have its levels
            try:
                gang = self._job(need, record)
                _ = gang.grid, self.cluster.level(gang.level)
            except InvalidJob as error:
                raise Disagreement("does not cut into nodes", error.message) from error
            try:
                for level in gang.constrained_levels:
                    self.cluster.level(level)
                check_held_together(self.cluster, within_the_tree(self.cluster, gang))
            except (UnknownName, InvalidJob) as error:
                raise Disagreement("constraints", error.message, fix=error.fix) from error
        elif nodes > 1 and (record.holds or record.counts):
            parts = f"it has a part of each of {nodes} nodes, and constraints, which are about whole nodes"
            raise Disagreement("constraints", parts, fix="give it whole nodes, or leave out its constraints")
        usable = self._usable_for(nodes, gpus, types)
        wanted = f"{nodes} nodes with {gpus / UNITS:g} free GPUs each"
        if (room := int(np.count_nonzero(usable))) < nodes:
            raise Disagreement("larger than the cluster", f"{wanted}; the cluster has {room}")
        if apart := shortage_apart(self.cluster, usable, nodes):
            fix = "describe a switch above them if jobs can span them"
            raise Disagreement("larger than one domain", f"{wanted} {apart}", fix=fix)
        if (most := most_together(self.cluster, usable, mix_types=record.mix_types)) < nodes:
            of_type = f"{wanted}, all with the same type of GPU; of one type there are at most {most}"
            raise Disagreement("larger than one type of GPU", of_type)
        if gang is not None and picky(record, need.gpus):
            outcome = self._outcome(gang, usable.nonzero()[0])
            if outcome.evaluation is None:
                why = "no placement was found on the empty cluster, which does not prove that there is none"
                if outcome.status == "infeasible":
                    few = "there are too few nodes that are not slow"
                    kept = "its constraints cannot be kept" if gang.holds_groups else few
                    why = f"{kept}, even if the cluster were empty"
                fix = "ask for less (`arnold explain` says what would help), or give a cluster that can keep them"
                raise Disagreement("constraints", f"{wanted}; {why}", fix=fix)
        self._needs[key] = need
        if record.speed:
            # as it may lie on each type of GPU while nothing is away: a node that fails changes no job
            self.types.allocations(record, self.need)
        return need

    def compartments(self, *, mix_types: bool) -> IntArray | None:
        """Shape [nodes], the compartment of each, where a job must lie in one; ``None`` = it may span the cluster."""
        return self.cluster.compartments(mix_types=mix_types)

    def usable(self, job: Waiting) -> BoolArray:
        """Return nodes of its types of GPU with so many for jobs; for a gang of whole nodes, all GPUs of its size."""
        return self._usable_for(job.nodes, job.gpus, job.gpu_types)

    def _usable_for(self, nodes: int, gpus: int, types: Types) -> BoolArray:
        gang = self._is_gang(nodes, gpus, types)
        key = (gpus, gang, types)
        if key not in self._usable:
            enough = self._whole & (self.occupancy.size == gpus) if gang else self.total >= gpus
            self._usable[key] = enough & self.types.of(types)
        return self._usable[key]

    def _is_gang(self, nodes: int, gpus: int, types: Types) -> bool:
        """Return whether whole nodes are asked for: all of a node, usual or larger, of which the cluster has enough.

        Nodes that are out count: what a job is does not change when one fails.
        """
        key = (nodes, gpus, types)
        if key not in self._gangs:
            whole = self.types.of(types) & (self._at_start == gpus) & (self.occupancy.size == gpus)
            usual = self.types.usual_gpus(types) * UNITS
            self._gangs[key] = nodes > 1 and gpus >= usual and int(np.count_nonzero(whole)) >= nodes
        return self._gangs[key]

    def may_fit(self, job: SimJob) -> bool:
        """Return whether enough nodes have enough free; quick, true more often than :meth:`find` finds something."""
        if job.nodes == 1:
            return self.occupancy.most_free >= job.gpus
        fits = self.usable(job) & (self.free >= job.gpus)
        return most_together(self.cluster, fits, mix_types=job.mix_types) >= job.nodes

    def possible(self, job: SimJob) -> bool:
        """Return whether enough nodes would do if they were empty, without those that are out."""
        return most_together(self.cluster, self.usable(job), mix_types=job.mix_types) >= job.nodes

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Return nodes for the job, all of one compartment; ``None`` = it has no room."""
        free = self.free if keep is None else self.free - keep
        fits = (free >= job.gpus) & self.types.of(job.gpu_types)
        if job.nodes == 1:
            rows = fits.nonzero()[0]
            return Found((int(_parts(rows, 1, self.occupancy)[0]),)) if len(rows) else None
        rows = (fits & self.usable(job)).nonzero()[0]
        if self._is_gang(job.nodes, job.gpus, job.gpu_types):
            if len(rows) < job.nodes:
                return None
            costs = np.sum([cost(job) for cost in self.node_costs], axis=0) if self.node_costs else None
            outcome = self._outcome(self.gang(job), rows, costs)
            if outcome.evaluation is None or outcome.proposal.nodes is None:
                return None
            worth = outcome.evaluation
            return Found(tuple(outcome.proposal.nodes.ravel().tolist()), (worth.dp, worth.pp), worth.objective)
        among = together(self.cluster, rows, job.nodes, mix_types=job.mix_types)
        if not len(among):
            return None
        # a gang without a grid: one DP group
        nodes, spreads = _parts(among, job.nodes, self.occupancy), None
        if self.cluster.levels:
            domain_of = self.cluster.level(self._level).domain_of
            spreads = spread(np.zeros(len(nodes), dtype=np.int32), domain_of[nodes]), 1
        return Found(tuple(nodes.tolist()), spreads)

    def _outcome(self, gang: Job, rows: Rows, costs: FloatArray | None = None) -> Outcome:
        """Return what placement finds for a gang on some nodes."""
        free = np.zeros_like(self.free)
        free[rows] = self.occupancy.size[rows] // UNITS
        return run(self._algorithm, self.cluster.replace(free_gpus=free), gang, self._limits, costs=costs)

    def _job(self, need: Need, record: JobRecord) -> Job:
        """Return the gang as placement knows it: as its record says, data parallel over its nodes where it does not."""
        key = (need.nodes, need.gpus, record.asks)
        if key not in self._jobs:
            gpus = need.gpus // UNITS
            degrees = record.parallelism or Parallelism(tp=gpus, dp=need.nodes)
            if ceil(degrees.gpus / gpus) != need.nodes:
                raise InvalidJob(f"its parallelism makes {degrees.gpus} GPUs, it has {gpus * need.nodes}")
            self._jobs[key] = record.job(degrees, gpus_per_node=gpus, level=self._level, records=self._records)
        return self._jobs[key]

    def gang(self, job: SimJob) -> Job:
        """Return a job on several nodes as placement, and a model of communication, know it.

        One that takes a part of each node is data parallel over its nodes where its parallelism does not fit them.
        """
        need = Need(job.nodes, job.gpus, job.units)
        if self._is_gang(job.nodes, job.gpus, job.gpu_types):
            return self._job(need, job.record)
        whole = Need(job.nodes, max(1, job.gpus // UNITS) * UNITS, job.units)
        return self._job(whole, replace(job.record, parallelism=None))

    def occupy(self, job: SimJob) -> None:
        """Give the job its places."""
        self.occupancy.add(job.places, -job.gpus)

    def vacate(self, job: SimJob) -> None:
        """Take the job's places back."""
        self.occupancy.add(job.places, job.gpus)

    def zone(self, job: SimJob, taken: Collection[int]) -> tuple[int, ...]:
        """Return nodes to reserve for an announced job, besides those that are taken; empty = there are none.

        They are where production placement puts it on the cluster as if empty; whole nodes, also for parts of them.
        """
        if not self._is_gang(job.nodes, job.gpus, job.gpu_types):
            fits = self.usable(job).copy()
            fits[list(taken)] = False
            rows = together(self.cluster, fits.nonzero()[0], job.nodes, mix_types=job.mix_types)
            if not len(rows):
                return ()
            empty = Occupancy(self.occupancy.size, self.total, self.cluster.levels)
            return tuple(sorted(_parts(rows, job.nodes, empty).tolist()))
        away = set(taken).union(np.flatnonzero(~self._whole).tolist())
        return find_zone(self.cluster, self.gang(job), algorithm=self._algorithm, limits=self._limits, taken=away)

    def take_out(self, node: int) -> None:
        """Let no job use a node any more; one that is still on it goes on there."""
        self._set_total(node, 0)

    def bring_back(self, node: int) -> None:
        """Let jobs use a node again."""
        self._set_total(node, int(self._at_start[node]))

    def flag(self, node: int, slowdown: float) -> None:
        """Tell the placement algorithm of a slow node; 1.0 = of a healthy one again."""
        self.cluster = flagged(self.cluster, node, slowdown)

    def _set_total(self, node: int, units: int) -> None:
        """Change what jobs may use of a node; where those on it hold more, less than nothing is free."""
        held = int(self.total[node] - self.free[node])
        self.total[node] = units
        self._whole[node] = units == self.occupancy.size[node]
        self.occupancy.put(node, free=units - held)
        self._usable.clear()


def flagged(cluster: Cluster, node: int, slowdown: float) -> Cluster:
    """Return a cluster with a node flagged as slow by a factor; 1.0 = without a flag of it."""
    flags = {i: flag for i, flag in cluster.flags.items() if i != node}
    if slowdown > HEALTHY:
        flags[node] = NodeFlag(cluster.names[node], "straggler", slowdown, source="simulator")
    return cluster.replace(flags=flags)


def _parts(rows: Rows, count: int, occupancy: Occupancy) -> Rows:
    """Return nodes of a job on one node, or on a part of each of several, of those with room."""
    free, idle, domains = occupancy.free, occupancy.idle, occupancy.idle_in_domain
    if count == 1:
        return tightest(rows, free=free, idle=idle, idle_in_domain=domains)[:1]
    return fewest_domains(rows, count, free=free, idle=idle, domain_of=[domain_of for domain_of, _ in domains])


class CappedPool(NodePool):
    """Nodes in domains, and in power domains.

    A part of a node draws as large a part of what its GPUs add at most; GPUs in use from the start count too.

    :param idle: shape [nodes], watts without a job.
    :param peak: shape [nodes], watts at most.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        algorithm: PlacementAlgorithm,
        limits: Limits,
        level: str | None = None,
        records: Sequence[Gains] = (),
        caps: PowerCaps,
        idle: FloatArray,
        peak: FloatArray,
    ) -> None:
        super().__init__(cluster, algorithm=algorithm, limits=limits, level=level, records=records)
        self._caps = caps
        self._of_unit: FloatArray = (peak - idle) / (cluster.gpus * UNITS)
        self._others: FloatArray = idle + self._of_unit * (cluster.gpus - cluster.free_gpus) * UNITS

    def need(self, record: JobRecord) -> Need:
        """Return nodes and units on each, as without caps.

        :raises Disagreement: also where the caps would not let it run on the empty cluster.
        """
        need = super().need(record)
        usable = self._usable_for(need.nodes, need.gpus, record.gpu_types)
        admitted = self._admitted(usable, need.gpus, self._others)
        if most_together(self.cluster, admitted, mix_types=record.mix_types) < need.nodes:
            request = f"{need.nodes} nodes with {need.gpus / UNITS:g} GPUs each at their peak"
            fix = "raise the caps of the power file, or ask for less"
            raise Disagreement("power cap", f"{request}; {self._caps.level.name} has power for fewer", fix=fix)
        return need

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Return nodes for the job on which its peak keeps all caps."""
        kept = np.zeros_like(self.free) if keep is None else keep
        fits: BoolArray = self.usable(job) & (self.free - kept >= job.gpus)
        admitted = self._admitted(fits, job.gpus, self._others + self._of_unit * (self.total - self.free))
        if admitted is fits:
            return super().find(job, keep)
        return super().find(job, np.where(admitted, kept, np.maximum(self.free, kept)))

    def _admitted(self, nodes: BoolArray, units: int, drawn: FloatArray) -> BoolArray:
        return self._caps.admitted(self.cluster, nodes, self._of_unit * units, drawn)


class GpuPool:
    """A cluster as a number of GPUs: no nodes, no topology; for speed, and where queues have exact answers."""

    domains: Sequence[IntArray] = ()

    def __init__(self, cluster: Cluster) -> None:
        self._sizes: list[int] = (cluster.usable_gpus * UNITS).tolist()
        self.capacity = sum(self._sizes)
        self._total = self._free = self.capacity
        self._all: BoolArray = np.ones(1, dtype=np.bool_)

    @property
    def total(self) -> IntArray:
        """Shape [1]."""
        return np.array([self._total], dtype=np.int32)

    @property
    def free(self) -> IntArray:
        """Shape [1]."""
        return np.array([self._free], dtype=np.int32)

    def need(self, record: JobRecord) -> Need:
        """Return its GPUs; raises Disagreement where the cluster has fewer."""
        units = round(record.gpus * UNITS)
        if units > self.capacity:
            raise Disagreement(
                "larger than the cluster", f"{record.gpus:g} GPUs; the cluster has {self.capacity / UNITS:g}"
            )
        return Need(1, units, units)

    def compartments(self, *, mix_types: bool) -> None:
        """Return ``None``: without nodes there are no compartments."""

    def usable(self, job: Waiting) -> BoolArray:  # noqa: ARG002
        """Shape [1]: the pool."""
        return self._all

    def possible(self, job: SimJob) -> bool:
        """Return whether there are so many GPUs."""
        return bool(job.units <= self._total)

    def may_fit(self, job: SimJob) -> bool:
        """Return whether so many GPUs are free."""
        return bool(job.units <= self._free)

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Return the pool, if so many GPUs are free in it."""
        free = self._free if keep is None else self._free - int(keep[0])
        return _THE_POOL if job.units <= free else None

    def occupy(self, job: SimJob) -> None:
        """Count its GPUs as held."""
        self._free -= job.units

    def vacate(self, job: SimJob) -> None:
        """Count its GPUs as free."""
        self._free += job.units

    def zone(self, job: SimJob, taken: Collection[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Return no nodes: there are none."""
        return ()

    def take_out(self, node: int) -> None:
        """Count a node's GPUs no more."""
        self._total -= self._sizes[node]
        self._free -= self._sizes[node]

    def bring_back(self, node: int) -> None:
        """Count a node's GPUs again."""
        self._total += self._sizes[node]
        self._free += self._sizes[node]

    def flag(self, node: int, slowdown: float) -> None:
        """Do nothing: where jobs are is not known."""


_THE_POOL = Found((0,))

Pool: TypeAlias = NodePool | GpuPool
