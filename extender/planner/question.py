"""Questions: what the solver is asked about a gang, everything it needs and nothing that changes."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from extender.cluster_cache import ClusterCache, key_of_pod
from extender.fleet.fleet import Fleet
from extender.fleet.hosts import demands_of
from extender.fleet.images import with_images
from extender.fleet.table import NOWHERE, FleetTable, Own
from extender.gangs.annotations import watts_of
from extender.gangs.job import holds_for, on_nodes, ranks_by_node
from extender.gangs.pod_rules import hosts_chosen
from extender.gangs.types import Gang, GangKey, InvalidGang, TopologyRequest
from extender.plans.gang_plan import GangPlan
from extender.queue_views import FleetState, waiting_gang
from ground.errors import ArnoldError, did_you_mean
from scheduler.job import Job, NodeSize
from scheduler.job_on_cluster import named_in_full, off_probation
from scheduler.power_caps import power_caps
from scheduler.queue.dispatch import Candidate, closed_to, live_candidate
from scheduler.queue.policy import CapacityReservation, Keep, QueuedJob, QueuePolicy, Running, RunningEntry
from scheduler.queue.run_times import Prediction
from topology.cluster import BoolArray, Cluster, FloatArray, IntArray
from topology.kubernetes.pods import Pod


@dataclass(frozen=True)
class PlanningCase:
    """A gang that wants nodes, or other nodes, as it stands in the queue."""

    gang: Gang
    before: GangPlan | None  # its plan as it is; None = it has none
    now: datetime
    repairs: bool = False  # whether that plan is to be repaired
    # on which terms it may be placed: nodes that it leaves to others, and to which; None = all that are free are its
    candidate: Candidate[QueuedJob] | None = field(default=None, compare=False)
    # reservations with a zone that is closed to it even in the last attempt
    closed: tuple[CapacityReservation, ...] = ()
    estimate: Prediction | None = None  # how long it will run, as ended ones tell

    @property
    def trial(self) -> bool:
        """Whether nothing is to be done with the answer, but to compare it with others."""
        return self.candidate is not None and self.candidate.trial

    @property
    def stops_others(self) -> bool:
        """Whether others are taken for gone, which are to be stopped if there is room then."""
        return self.candidate is not None and bool(self.candidate.victims)

    @property
    def offers(self) -> tuple[Keep, ...]:
        """What it leaves to others in each attempt; empty = it may have nothing."""
        return (None,) if self.candidate is None else tuple(self.candidate.offers)


@dataclass(frozen=True)
class NotAsked:
    """A gang about which the solver need not be asked."""

    case: PlanningCase
    why: str


@dataclass(frozen=True)
class Asked:
    """What the solver is asked about a gang."""

    case: PlanningCase
    job: Job  # on nodes, with its level and holds
    of_pods: Job  # the same as the gang asks for it, a cell for each pod; of a repair one for each node
    cluster: Cluster  # the nodes that the gang's pods may use
    left_out: str  # why other nodes are not in it, and how many
    # shape [nodes of the cluster], those with free GPUs that count as in use, as others leave too little else
    short: BoolArray = field(compare=False)
    shortages: str  # what is short on those whose GPUs are free, on how many
    table: FleetTable  # the fleet's; its rows are those of rows and of the offers
    rows: IntArray = field(compare=False)  # shape [nodes of the cluster], the row of each; -1 = it is gone
    repair: RepairedPlan | None  # the plan that is to be repaired; None = the gang has no nodes
    # by rank, of a repair by node rank, the nodes that its pods select; empty = the solver chooses
    chosen: tuple[str, ...] = ()
    stopping: Stopping | None = None  # the question takes these for gone; they are to be stopped if there is room then

    @property
    def attempts(self) -> Iterator[Cluster]:
        """The cluster under each offer.

        A gang takes whole nodes, so a node of which anything is to be left is in use for it.
        """
        for keep in self.case.offers:
            if keep is None:
                yield self.cluster
            else:
                yield self.cluster.with_busy(np.flatnonzero((self.rows >= 0) & (keep[self.rows] > 0)).tolist())
        if not self.case.offers:
            yield self.cluster.with_busy(range(len(self.cluster)))

    @property
    def unreserved(self) -> Cluster | None:
        """The nodes of which nothing is to be left to others in the last attempt, whoever is on them, of those that its
        pods select; ``None`` = no such.
        """
        if not self.case.offers:
            return None
        if (keep := self.case.offers[-1]) is None and not self.chosen:
            return self.cluster
        theirs = np.ones(len(self.rows), dtype=np.bool_) if keep is None else (self.rows >= 0) & (keep[self.rows] == 0)
        if self.chosen:
            theirs &= np.isin(self.cluster.names, self.chosen)
        rows = np.flatnonzero(theirs).astype(np.int32)
        return self.cluster.subset(rows) if len(rows) else None


Question = Asked | NotAsked


@dataclass(frozen=True)
class RepairedPlan:
    """A plan of which some nodes are to be replaced."""

    plan: GangPlan
    nodes: tuple[str, ...]  # by node rank, as the cluster of the question calls them
    lost: tuple[str, ...]  # those to be replaced
    fixed: frozenset[int]  # ranks that must stay where they are: their pods run
    guessed: frozenset[str]  # nodes that are gone, taken to be at the places of others


@dataclass(frozen=True)
class Stopping:
    """Whole gangs, in this order, and single pods that may be stopped, or leave already, for a gang to have room."""

    gangs: tuple[GangKey, ...]
    pods: tuple[Pod, ...]
    nodes: Mapping[GangKey, frozenset[str]]  # those that each gang holds

    def holding(self, nodes: Sequence[str]) -> Stopping:
        """Return those that hold any of some nodes: the others need not be stopped."""
        gangs = tuple(key for key in self.gangs if not self.nodes[key].isdisjoint(nodes))
        return Stopping(gangs, tuple(pod for pod in self.pods if pod.node in nodes), self.nodes)


def question_of(
    state: ClusterCache,
    gang: Gang,
    now: datetime,
    candidate: Candidate[QueuedJob] | None = None,
    *,
    closed: Sequence[CapacityReservation] = (),
) -> Question:
    """Return what to ask about a complete gang without nodes; without a candidate it may have all that are free."""
    case = PlanningCase(gang, state.plans.get(gang.key), now, False, candidate, tuple(closed), state.prediction(gang))
    if gang.job is None:
        return NotAsked(case, str(gang.problem) if gang.problem is not None else gang.waits)
    return _asked(state, case, gang.job, gang.tiers)


def repair_question(
    state: ClusterCache, plan: GangPlan, lost: Sequence[str], now: datetime, policy: QueuePolicy | None = None
) -> Question:
    """Return what to ask when some ranks cannot have their nodes, or are vacant.

    :param lost: names of those nodes; pods that are bound to other nodes of the plan stay.
    :param policy: which nodes others may use; no gang waits before one that runs.
    """
    gang = state.gang(plan.key) or Gang(plan.key, plan.spec.dialect, None, (), (), None)
    case = PlanningCase(gang, plan, now, repairs=True)
    if policy is not None and state.reservations and gang.pods:
        fleet_state = FleetState(state, now)
        candidate = live_candidate(policy, waiting_gang(state, gang), fleet_state)
        case = replace(case, candidate=candidate, closed=closed_to(candidate, fleet_state))
    try:
        job = plan.spec.job(str(plan.key)) or gang.job
        if job is not None:
            job = job.replace(gpus_per_node=job.gpus_per_node * plan.pods_per_node)
            fits = plan.moved_to(plan.nodes_by_rank).nodes == plan.nodes
            fits = fits and len(plan.nodes_by_rank) == job.grid.cells
    except ArnoldError as error:
        return NotAsked(case, str(error))
    unknown = [name for name in lost if name not in plan.node_names]
    if job is None or unknown or not fits:
        what = f"no nodes of it: {', '.join(unknown)}" if unknown else "another size"
        return NotAsked(case, f"the plan does not fit what is asked ({what})")
    # where labels of nodes changed since, the job's types are those of the nodes that it keeps
    hosts = (state.fleet.host(name) for name in plan.node_names if name not in lost)
    types = dict.fromkeys(host.gpu_type for host in hosts if host is not None)
    if len(types) > 1 or (job.gpu_types is not None and not types.keys() <= {*job.gpu_types}):
        job = job.replace(gpu_types=tuple(dict.fromkeys((*types, *(job.gpu_types or ())))), mix_types=True)
    return _asked(state, case, job, () if job.holds else gang.tiers, lost=lost)


def _asked(
    state: ClusterCache, case: PlanningCase, job: Job, tiers: Sequence[TopologyRequest], *, lost: Sequence[str] = ()
) -> Question:
    """Return the question with its cluster, or the reason why there is none."""
    fleet, gang, plan = state.fleet, case.gang, case.before if case.repairs else None
    of_pods = job
    pods = [member.pod for member in gang.members if member is not None]
    try:
        chosen = tuple(map(fleet.node_called, hosts_chosen(pods)))
        # of a repair it is known on which nodes the pods are
        job = placed_in(job, tiers, fleet, sizes=fleet.table.node_sizes if plan is None else ())
    except InvalidGang as error:
        return NotAsked(case, str(error))
    own, stay, repair = NOWHERE, set[str](), None
    if plan is not None:
        # a vacant rank leaves a node that is gone, under a name that no node can have
        vacant = {i: f"rank {i * plan.pods_per_node}" for i, name in enumerate(plan.nodes_by_rank) if name is None}
        nodes = tuple(name or vacant[i] for i, name in enumerate(plan.nodes_by_rank))
        gone = tuple(dict.fromkeys((*lost, *vacant.values())))
        own, stay = Own(nodes, job.gpus_per_node, _likenesses(nodes, job, fleet)), {*nodes} - {*gone}
        fixed = set[int]()
        if len(gang.members) == len(plan.nodes):
            # pods that are bound to their node, or have ended well
            members = enumerate(zip(gang.members, plan.nodes, strict=True))
            bound = {rank for rank, (member, node) in members if member is not None and member.pod.node == node}
            fixed = {rank for rank in gang.done.keys() | bound if plan.node_of_rank.get(rank) in stay}
        repair = RepairedPlan(plan, nodes, gone, frozenset(fixed), frozenset(own.likenesses))
        if chosen:  # those that are replaced go where their pods say, the others are there
            of_pod = dict(zip((pod.uid for pod in pods), chosen, strict=True))
            by_rank = [None if member is None else of_pod[member.pod.uid] for member in gang.members]
            groups = ranks_by_node(len(plan.nodes), plan.pods_per_node)
            selected = (min(filter(None, by_rank[ranks.start : ranks.stop]), default=None) for ranks in groups)
            chosen = tuple((node in gone and wanted) or node for node, wanted in zip(nodes, selected, strict=True))
    view = fleet.view(demands_of(pods), case.now, counted=levels_counted(job), pods=len(gang.members), own=own)
    if view.cluster is None:
        others = f": {view.counted_out}" if view.left_out else ""
        return NotAsked(case, f"no node with GPUs can be used by the pods{others}")
    flags = {node: flag for node, flag in view.cluster.flags.items() if view.cluster.names[node] not in stay}
    cluster = off_probation(view.cluster.replace(flags=flags), job)
    shortages = ", ".join(f"{count} {why}" for why, count in view.shortages.items())
    if repair is None:
        job, cluster = with_images(job, cluster, gang, fleet.images)
    else:  # a node of it counts as it was, whatever is left of its GPUs
        gpus = cluster.gpus.copy()
        gpus[[cluster.index_of[name] for name in repair.nodes]] = job.gpus_per_node
        cluster = cluster.replace(gpus=gpus)
    question = Asked(
        case, job, of_pods, cluster, view.counted_out, view.short, shortages, fleet.table, view.rows, repair, chosen
    )
    return _within_power_caps(state, question)


def without(state: ClusterCache, question: Question, victims: Sequence[Running]) -> Question:
    """Return the same question on the cluster without those that are to be stopped, or are leaving already."""
    if isinstance(question, NotAsked):
        return question
    entries = [victim for victim in victims if isinstance(victim, RunningEntry)]
    gone = {entry.key for entry in entries}
    singles = {uid: pod for uid, pod in state.pods.items() if state.member(uid) is None and key_of_pod(pod) in gone}
    hosts = question.table.hosts
    stopping = Stopping(
        tuple(entry.key for entry in entries if state.gang(entry.key) is not None),
        tuple(pod for _, pod in sorted(singles.items()) if not pod.terminal),
        {entry.key: frozenset(hosts[row].name for row in entry.places) for entry in entries},
    )
    held = np.zeros(len(hosts) + 1, dtype=np.int32)  # the last stands for nodes that are gone
    for entry in entries:
        held[list(entry.places)] += entry.gpus
    cluster = question.cluster
    free = np.minimum(cluster.gpus, cluster.free_gpus + held[question.rows])
    # some of the nodes that are freed have too little besides GPUs even then
    members = [member.pod for member in question.case.gang.members if member is not None]
    demands, gpus = demands_of(members), max(1, question.of_pods.gpus_per_node)
    leaving = [pod.uid for key in gone if (gang := state.gang(key)) is not None for pod in gang.pods] + [*singles]
    for i in np.flatnonzero((held[question.rows] > 0) & (cluster.free_gpus < free)).tolist():
        pods = max(1, min(len(members), int(cluster.gpus[i]) // gpus))
        if state.fleet.lacking(cluster.names[i], demands, pods=pods, own=leaving):
            free[i] = 0
    question = replace(question, cluster=cluster.replace(free_gpus=free.astype(np.int32)), stopping=stopping)
    return _within_power_caps(state, question, gone=gone)


def _within_power_caps(state: ClusterCache, question: Asked, *, gone: AbstractSet[GangKey] = frozenset()) -> Asked:
    """Return the question with idle nodes in use whose power domain the gang would overload; its own it keeps.

    What is drawn is what pods say of their peak.

    :param gone: gangs that are taken to be gone.
    """
    cluster, table, rows, gang = question.cluster, question.table, question.rows, question.case.gang
    watts = max((watts_of(pod) for pod in gang.pods), default=0.0)
    if not state.power_caps or table.tree is None or not watts:
        return question
    kept, lost = (question.repair.nodes, question.repair.lost) if question.repair is not None else ((), ())
    levels = {level.name: level for level in table.tree.second_levels}
    here = np.flatnonzero(cluster.idle & (rows >= 0))
    candidates = np.zeros(len(table.tree), dtype=np.bool_)
    candidates[rows[here]] = True
    gpus = 1 if gang.job is None else max(1, gang.job.gpus_per_node)
    more = watts * np.clip(table.tree.gpus // gpus, 1, len(gang.members) or 1).astype(np.float64)
    drawn = _drawn(state, table, leaving={(gang.key, name) for name in lost}, gone=gone)
    for name, cap in state.power_caps.items():
        if name in levels:
            caps = power_caps(levels[name], each=cap, named={})
            candidates = caps.admitted(table.tree, candidates, more, drawn)
    dark = np.zeros(len(cluster), dtype=np.bool_)
    dark[here] = ~candidates[rows[here]]
    dark[[cluster.index_of[name] for name in kept if name in cluster.index_of]] = False
    words = (question.shortages, f"{dark.sum()} whose power domain has too little power left" if dark.any() else "")
    dim = cluster.replace(free_gpus=np.where(dark, 0, cluster.free_gpus).astype(np.int32))
    return replace(question, cluster=dim, short=question.short | dark, shortages=", ".join(filter(None, words)))


def _drawn(
    state: ClusterCache, table: FleetTable, *, leaving: AbstractSet[tuple[GangKey, str]], gone: AbstractSet[GangKey]
) -> FloatArray:
    """Return what is drawn at peak on each node of the table, by pods that are there and those that are to come."""
    drawn = np.zeros(len(table.hosts))

    def add(key: GangKey, name: str, watts: float) -> None:
        row = None if key in gone or (key, name) in leaving else table.index_of.get(name)
        if row is not None:
            drawn[row] += watts

    for uid, pod in state.pods.items():
        node = pod.node or state.fleet.released_to(uid)
        if node is not None and not pod.terminal:
            add(state.key_of(pod), node, watts_of(pod))
    for plan in state.plans.values():
        gang = state.gang(plan.key) if plan.holding else None
        if gang is None:
            continue
        watts = max((watts_of(pod) for pod in gang.pods), default=0.0)
        for rank, name in plan.node_of_rank.items():
            there = gang.members[rank] if rank < len(gang.members) else None
            if rank not in gang.done and (there is None or there.pod.node is None):
                add(plan.key, name, watts)
    return drawn


def placed_in(job: Job, tiers: Sequence[TopologyRequest], fleet: Fleet, *, sizes: Sequence[NodeSize] = ()) -> Job:
    """Return the job with its levels named, and with requests that give a level by its number as holds.

    Of several types of GPU one may be missing: its nodes may be yet to come.

    :param sizes: of nodes on which its cells, which are pods, may lie; empty = its cells are nodes.
    :raises InvalidGang: the cluster has not the level that the gang names, or has none; or no type that it names; or
        its pods would fill no node.
    """
    levels = fleet.levels
    if not levels:
        fix = next((problem.fix for problem in fleet.problems), "label the nodes")
        raise InvalidGang(f"no topology is known: {fleet.table.sentence}", reason="NoTopology", fix=fix)
    job = named_in_full(job, levels, fleet.second_levels)
    by_number = ((request, request.tier) for request in tiers if request.tier and request.tier <= len(levels))
    holds = [hold for request, tier in by_number for hold in holds_for(job, request, levels[-tier])]
    job = job.replace(level=job.level or fleet.default_level, holds=tuple(dict.fromkeys((*job.holds, *holds))))
    job = on_nodes(job, sizes)
    gpus_of_nodes = (job.gpus_per_node, *(size.gpus for size in job.node_sizes))
    if job.parallelism.nodes_of_tp(min(gpus_of_nodes)) > 1:
        job = job.replace(tp_level=job.tp_level or levels[-1])
    in_tree = {job.level, job.tp_level}  # spread counts, and TP groups lie, at a level of the tree
    for name in (job.level or "", *job.constrained_levels):
        named = levels if name in in_tree else (*levels, *fleet.second_levels)
        if name not in named:
            fix = f"{did_you_mean(name, named)}levels of this cluster: {', '.join(named)}"
            raise InvalidGang(f"the cluster has no level {name!r}", reason="UnknownLevel", fix=fix)
    types = [name for name in fleet.gpu_types if name]
    if job.gpu_types is not None and not {*types} & {*job.gpu_types}:
        fix = f"{did_you_mean(job.gpu_types[0], types)}types of this cluster: {', '.join(types) or 'none'}"
        wanted = " or ".join(map(repr, job.gpu_types))
        raise InvalidGang(f"the cluster has no GPUs of the type {wanted}", reason="UnknownGpuType", fix=fix)
    return job


def levels_counted(job: Job) -> frozenset[str]:
    """Return the levels whose domains matter to a job."""
    return frozenset((job.level or "", *job.constrained_levels))


def _likenesses(nodes: Sequence[str], job: Job, fleet: Fleet) -> dict[str, str]:
    """Return for nodes that are gone one with a known place: of a node rank of the same held group, or of the nearest.

    A repair looks at the whole placement as it was: the members of a group that a hold ties together were together.
    """
    families, parts = {hold.family for hold in job.holds}, job.nodes_of_tp
    placed = fleet.table.index_of
    there = [rank for rank, node in enumerate(nodes) if node in placed]
    if not there:
        return {}
    node_rank = job.grid.node_rank
    group_of = np.arange(job.grid.cells, dtype=np.int32) // np.int32(parts)  # a TP group is so many ranks in turn
    if families:
        rows, columns = np.indices(node_rank.shape)
        group_of[node_rank] = rows // parts if "pp" in families else columns
    first: dict[int, int] = {}
    for rank in there:
        first.setdefault(int(group_of[rank]), rank)

    def nearest(rank: int) -> int:
        if families or (parts > 1 and int(group_of[rank]) in first):
            return first.get(int(group_of[rank]), there[0])
        at = bisect(there, rank)
        return min(there[max(0, at - 1) : at + 1], key=lambda other: abs(other - rank))

    return {node: nodes[nearest(rank)] for rank, node in enumerate(nodes) if node not in placed}
