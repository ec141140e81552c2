"""Questions: what the solver is asked about a gang, everything it needs and nothing that changes."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.fleet.fleet import Fleet
from extender.fleet.hosts import demands_of
from extender.fleet.images import with_images
from extender.fleet.table import NOWHERE, FleetTable, Own
from extender.gangs.annotations import watts_of
from extender.gangs.job import holds_for, on_nodes
from extender.gangs.types import Gang, GangKey, InvalidGang, TopologyRequest
from extender.plans.gang_plan import GangPlan
from extender.queueing import FleetState, RunningEntry, key_of_pod, waiting_gang
from ground.errors import ArnoldError, did_you_mean
from scheduler.job import Job, NodeSize
from scheduler.job_on_cluster import named_in_full
from scheduler.power_caps import power_caps
from scheduler.queue.dispatch import Candidate, closed_to, live_candidate
from scheduler.queue.policy import CapacityReservation, Keep, QueuedJob, QueuePolicy, Running
from scheduler.queue.run_times import Prediction
from topology.cluster import BoolArray, Cluster, FloatArray, IntArray
from topology.kubernetes.pods import Pod

# -- stopping --
# What a gang without room would have stopped: whole gangs, and single pods.


@dataclass(frozen=True)
class Stopping:
    """Whole gangs, in this order, and single pods that may be stopped, and would have to for a gang to have room."""

    gangs: tuple[GangKey, ...]
    pods: tuple[Pod, ...]
    nodes: Mapping[GangKey, frozenset[str]]  # those that each gang holds

    def on(self, nodes: Sequence[str]) -> Stopping:
        """Return those that hold any of some nodes: the others need not be stopped."""
        gangs = tuple(gang for gang in self.gangs if not self.nodes[gang].isdisjoint(nodes))
        return Stopping(gangs, tuple(pod for pod in self.pods if pod.node in nodes), self.nodes)


def stopping_of(state: ClusterCache, entries: Sequence[RunningEntry]) -> Stopping:
    """Return those of some that run and are not leaving already."""
    stay = {entry.key for entry in entries if not entry.leaving}
    gangs = tuple(entry.key for entry in entries if entry.key in stay and state.gang(entry.key) is not None)
    pods = tuple(
        pod
        for uid, pod in sorted(state.pods.items())
        if state.member(uid) is None and key_of_pod(pod) in stay and not pod.leaving and not pod.terminal
    )
    hosts = state.fleet.table.hosts
    return Stopping(gangs, pods, {entry.key: frozenset(hosts[row].name for row in entry.places) for entry in entries})


# -- power_room --
# Which nodes the pods of a gang would overload a power domain on, by what pods say of their peak.


def without_power(
    state: ClusterCache,
    gang: Gang,
    table: FleetTable,
    cluster: Cluster,
    rows: IntArray,
    *,
    kept: Sequence[str] = (),
    lost: Sequence[str] = (),
    gone: AbstractSet[GangKey] = frozenset(),
) -> BoolArray:
    """Return shape [nodes of the cluster], idle nodes that the gang may not have: their power domain has too little.

    :param rows: shape [nodes of the cluster], the row of each in the table; -1 = it is gone.
    :param kept: nodes of its plan, which it may have in any case.
    :param lost: those of them that its pods leave.
    :param gone: gangs that are taken to be gone.
    """
    dark = np.zeros(len(cluster), dtype=np.bool_)
    watts = max((watts_of(pod) for pod in gang.pods), default=0.0)
    if table.tree is None or not watts:
        return dark
    levels = {level.name: level for level in table.tree.second_levels}
    here = np.flatnonzero(cluster.idle & (rows >= 0))
    candidates = np.zeros(len(table.tree), dtype=np.bool_)
    candidates[rows[here]] = True
    each = 1 if gang.job is None else max(1, gang.job.gpus_per_node)
    more = watts * np.clip(table.tree.gpus // each, 1, len(gang.members) or 1).astype(np.float64)
    drawn = _drawn(state, table, leaving={(gang.key, name) for name in lost}, gone=gone)
    for name, cap in state.power_caps.items():
        if name in levels:
            caps = power_caps(levels[name], each=cap, named={})
            candidates = caps.admitted(table.tree, candidates, more, drawn)
    dark[here] = ~candidates[rows[here]]
    dark[[cluster.index_of[name] for name in kept if name in cluster.index_of]] = False
    return dark


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
        node = pod.node or state.fleet.pinned(uid)
        if node is not None and not pod.terminal:
            member = state.member(uid)
            add(key_of_pod(pod) if member is None else member.key, node, watts_of(pod))
    for plan in state.plans.values():
        gang = state.gang(plan.key) if plan.holding else None
        if gang is None:
            continue
        watts = max((watts_of(pod) for pod in gang.pods), default=0.0)
        for rank, name in enumerate(plan.nodes):
            there = gang.members[rank] if rank < len(gang.members) else None
            if rank not in gang.done and (there is None or there.pod.node is None):
                add(plan.key, name, watts)
    return drawn


# -- question --
# What the solver is asked about a gang: everything it needs, nothing that changes.


@dataclass(frozen=True)
class Question:
    """A gang that wants nodes, or other nodes."""

    gang: Gang
    before: GangPlan | None  # its plan as it is; None = it has none
    now: datetime
    job: Job | None = None  # on nodes, with its level and holds; None when refused, as cluster and table
    cluster: Cluster | None = None  # the nodes that the gang's pods may use
    left_out: str = ""  # why other nodes are not in it, and how many
    # shape [nodes of the cluster], those with free GPUs that count as in use, as others leave too little else
    short: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_), compare=False)
    shortages: str = ""  # what is short on those whose GPUs are free, on how many
    table: FleetTable | None = None  # the fleet's; its rows are those of rows and of the offers of candidate
    # shape [nodes of the cluster], the row of each; -1 = it is gone
    rows: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32), compare=False)
    # on which terms it may be placed: nodes that it leaves to others, and to which
    candidate: Candidate[QueuedJob] | None = field(default=None, compare=False)
    # reservations with a zone that is closed to it even in the last attempt
    closed: tuple[CapacityReservation, ...] = ()
    stopping: Stopping | None = None  # the question takes these for gone; they are to be stopped if there is room then
    lost: tuple[str, ...] = ()  # nodes to be replaced; empty = this is no repair
    fixed: frozenset[int] = frozenset()  # of a repair, ranks that must stay where they are: their pods run
    guessed: frozenset[str] = frozenset()  # nodes of the plan that are gone, taken to be at the places of others
    refused: str = ""  # why the solver need not be asked
    estimate: Prediction | None = None  # how long the gang will run, as ended ones tell

    @property
    def of_pods(self) -> Job:
        """What a gang that is understood asks for: its job, a cell for each pod."""
        assert self.gang.job is not None
        return self.gang.job

    @property
    def trial(self) -> bool:
        """Whether nothing is to be done with the answer, but to compare it with others."""
        return self.candidate is not None and self.candidate.trial

    @property
    def attempts(self) -> Iterator[Cluster]:
        """The cluster under each offer.

        A gang takes whole nodes, so a node of which anything is to be left is in use for it.
        """
        assert self.cluster is not None
        offers: Sequence[Keep] = (None,) if self.candidate is None else tuple(self.candidate.offers)
        for keep in offers:
            if keep is None:
                yield self.cluster
            else:
                yield self.cluster.with_busy(np.flatnonzero((self.rows >= 0) & (keep[self.rows] > 0)).tolist())
        if not offers:
            yield self.cluster.with_busy(range(len(self.cluster)))

    @property
    def kept_from_it(self) -> bool:
        """Whether anything is kept from the gang even in the last attempt."""
        if self.candidate is None:
            return False
        offers = tuple(self.candidate.offers)
        return not offers or (offers[-1] is not None and bool(offers[-1].any()))


def question_of(
    state: ClusterCache,
    gang: Gang,
    now: datetime,
    candidate: Candidate[QueuedJob] | None = None,
    *,
    closed: Sequence[CapacityReservation] = (),
) -> Question:
    """Return what to ask about a complete gang without nodes; without a candidate it may have all that are free."""
    before, estimate = state.plans.get(gang.key), state.prediction(gang)
    question = Question(gang, before, now, candidate=candidate, closed=tuple(closed), estimate=estimate)
    if gang.job is None:
        return replace(question, refused=str(gang.problem) if gang.problem is not None else gang.waits)
    return _powered(state, _with_cluster(question, state.fleet, gang.job, gang.tiers))


def repair_question(
    state: ClusterCache, plan: GangPlan, lost: Sequence[str], now: datetime, policy: QueuePolicy | None = None
) -> Question:
    """Return what to ask when some ranks cannot have their nodes.

    :param lost: names of those nodes, at least one; pods that are bound to other nodes of the plan stay.
    :param policy: which nodes others may use; no gang waits before one that runs.
    """
    gang = state.gang(plan.key) or Gang(plan.key, plan.spec.dialect, None, (), (), None)
    lost = tuple(dict.fromkeys(lost))
    question = Question(gang, plan, now, lost=lost, fixed=_running(gang, plan, lost))
    if policy is not None and state.reservations and gang.pods:
        fleet = FleetState(state, now)
        candidate = live_candidate(policy, waiting_gang(state, gang), fleet)
        question = replace(question, candidate=candidate, closed=closed_to(candidate, fleet))
    try:
        job = plan.spec.job(str(plan.key)) or gang.job
        if job is not None:
            job = job.replace(gpus_per_node=job.gpus_per_node * plan.pods_per_node)
            fits = plan.moved_to(plan.node_names).nodes == plan.nodes and len(plan.node_names) == job.grid.cells
    except ArnoldError as error:
        return replace(question, refused=str(error))
    unknown = [name for name in lost if name not in plan.node_names]
    if job is None or unknown or not fits:
        what = f"no nodes of it: {', '.join(unknown)}" if unknown else "another size"
        return replace(question, refused=f"the plan does not fit what is asked ({what})")
    job = _as_it_lies(job, plan, lost, state.fleet)
    return _powered(state, _with_cluster(question, state.fleet, job, () if job.holds else gang.tiers))


def worth_question(state: ClusterCache, plan: GangPlan, now: datetime) -> Question:
    """Return what to ask about the worth of a plan: a repair that need not be, on its nodes and all that are free."""
    return repair_question(state, plan, plan.node_names[:1], now)


def _as_it_lies(job: Job, plan: GangPlan, lost: Sequence[str], fleet: Fleet) -> Job:
    """Return a job that has nodes; where their labels changed since, its types are those of the nodes that it keeps."""
    hosts = (fleet.host(name) for name in plan.nodes if name not in lost)
    kept = dict.fromkeys(host.gpu_type for host in hosts if host is not None)
    if len(kept) < 2 and (job.gpu_types is None or kept.keys() <= {*job.gpu_types}):
        return job
    return job.replace(gpu_types=tuple(dict.fromkeys((*kept, *(job.gpu_types or ())))), mix_types=True)


def _running(gang: Gang, plan: GangPlan, lost: Sequence[str]) -> frozenset[int]:
    """Return ranks with a pod that is bound to its node, or has ended well."""
    if len(gang.members) != len(plan.nodes):
        return frozenset()
    ranks = enumerate(zip(gang.members, plan.nodes, strict=True))
    bound = {rank for rank, (member, node) in ranks if member is not None and member.pod.node == node}
    return (gang.done | bound) - {rank for rank, node in enumerate(plan.nodes) if node in lost}


def _with_cluster(question: Question, fleet: Fleet, job: Job, tiers: Sequence[TopologyRequest]) -> Question:
    """Return the question with its cluster, or with the reason why there is none."""
    try:
        # of a repair it is known on which nodes the pods are
        job = placed_in(job, tiers, fleet, sizes=() if question.lost else fleet.table.node_sizes)
    except InvalidGang as error:
        return replace(question, refused=str(error))
    own, stay = NOWHERE, set[str]()
    if question.lost and question.before is not None:
        plan = question.before
        own = Own(plan.node_names, job.gpus_per_node, _likenesses(plan, job, fleet))
        stay, question = {*plan.nodes} - {*question.lost}, replace(question, guessed=frozenset(own.likenesses))
    members = question.gang.members
    demands = demands_of(member.pod for member in members if member is not None)
    view = fleet.view(demands, question.now, counted=levels_counted(job), pods=len(members), own=own)
    if view.cluster is None:
        others = f": {view.counted_out}" if view.left_out else ""
        return replace(question, refused=f"no node with GPUs can be used by the pods{others}")
    flags = {node: flag for node, flag in view.cluster.flags.items() if view.cluster.names[node] not in stay}
    cluster = view.cluster.replace(flags=flags)
    short = ", ".join(f"{count} {why}" for why, count in view.shortages.items())
    question = replace(question, short=view.short, shortages=short, table=fleet.table, rows=view.rows)
    if not question.lost:
        job, cluster = with_images(job, cluster, question.gang, fleet.images)
    return replace(question, job=job, cluster=cluster, left_out=view.counted_out)


def without(state: ClusterCache, question: Question, victims: Sequence[Running]) -> Question:
    """Return the same question on the cluster without those that are to be stopped, or are leaving already."""
    entries = [victim for victim in victims if isinstance(victim, RunningEntry)]
    question = replace(question, stopping=stopping_of(state, entries))
    if question.cluster is None or question.table is None:
        return question
    held = np.zeros(len(question.table.hosts) + 1, dtype=np.int32)  # the last stands for nodes that are gone
    for entry in entries:
        held[list(entry.places)] += entry.gpus
    free = np.minimum(question.cluster.gpus, question.cluster.free_gpus + held[question.rows])
    freed = np.flatnonzero((held[question.rows] > 0) & (question.cluster.free_gpus < free))
    free[_short_without(state, question, freed.tolist(), gone={entry.key for entry in entries})] = 0
    question = replace(question, cluster=question.cluster.replace(free_gpus=free.astype(np.int32)))
    return _powered(state, question, gone={entry.key for entry in entries})


def _powered(state: ClusterCache, question: Question, *, gone: AbstractSet[GangKey] = frozenset()) -> Question:
    """Return the question with nodes in use whose power domain the gang would overload; its own it keeps."""
    cluster, table, lost = question.cluster, question.table, question.lost
    if not state.power_caps or cluster is None or table is None:
        return question
    kept = question.before.node_names if lost and question.before is not None else ()
    dark = without_power(state, question.gang, table, cluster, question.rows, kept=kept, lost=lost, gone=gone)
    words = (question.shortages, f"{dark.sum()} whose power domain has too little power left" if dark.any() else "")
    dim = cluster.replace(free_gpus=np.where(dark, 0, cluster.free_gpus).astype(np.int32))
    return replace(question, cluster=dim, short=question.short | dark, shortages=", ".join(filter(None, words)))


def _short_without(
    state: ClusterCache, question: Question, nodes: Sequence[int], *, gone: AbstractSet[GangKey]
) -> list[int]:
    """Return those of some nodes of the cluster that have too little besides GPUs even when some are gone."""
    assert question.cluster is not None
    members = [member.pod for member in question.gang.members if member is not None]
    demands, gpus = demands_of(members), max(1, question.of_pods.gpus_per_node)
    leaving = [pod.uid for key in gone if (gang := state.gang(key)) is not None for pod in gang.pods]
    leaving += [uid for uid, pod in state.pods.items() if state.member(uid) is None and key_of_pod(pod) in gone]
    found = []
    for i in nodes:
        pods = max(1, min(len(members), int(question.cluster.gpus[i]) // gpus))
        if state.fleet.lacking(question.cluster.names[i], demands, pods=pods, own=leaving):
            found.append(i)
    return found


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
    known = ((tier, levels[-tier.tier]) for tier in tiers if tier.tier and tier.tier <= len(levels))
    holds = [hold for one, level in known for hold in holds_for(job, one, level)]
    job = job.replace(level=job.level or fleet.default_level, holds=tuple(dict.fromkeys((*job.holds, *holds))))
    job = on_nodes(job, sizes)
    gpus_of_nodes = (job.gpus_per_node, *(node_size.gpus for node_size in job.node_sizes))
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


def _likenesses(plan: GangPlan, job: Job, fleet: Fleet) -> dict[str, str]:
    """Return for nodes that are gone one with a known place: of a node rank of the same held group, or of the nearest.

    A repair looks at the whole placement as it was: the members of a group that a hold ties together were together.
    """
    families, parts, nodes = {hold.family for hold in job.holds}, job.nodes_of_tp, plan.node_names
    known = [rank for rank, node in enumerate(nodes) if fleet.host(node) is not None]
    if not known:
        return {}
    node_rank = job.grid.node_rank
    group_of = np.arange(job.grid.cells, dtype=np.int32) // np.int32(parts)  # a TP group is so many ranks in turn
    if families:
        rows, columns = np.indices(node_rank.shape)
        group_of[node_rank] = rows // parts if "pp" in families else columns
    first: dict[int, int] = {}
    for rank in known:
        first.setdefault(int(group_of[rank]), rank)

    def nearest(rank: int) -> int:
        if families or (parts > 1 and int(group_of[rank]) in first):
            return first.get(int(group_of[rank]), known[0])
        at = bisect(known, rank)
        return min(known[max(0, at - 1) : at + 1], key=lambda other: abs(other - rank))

    return {node: nodes[nearest(rank)] for rank, node in enumerate(nodes) if fleet.host(node) is None}
