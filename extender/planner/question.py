"""What the solver is asked about a gang: everything it needs, nothing that changes."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from extender.cluster_cache import ClusterCache as State
from extender.fleet import Fleet, Own, demands_of
from extender.gangs import Gang, InvalidGang, holds_for
from extender.gangs import TopologyRequest as Wish
from extender.planner.claims import Claims, Terms
from extender.plans import GangPlan as Plan
from extender.queueing import waiting_gang
from scheduler.job import Job
from scheduler.queue.types import QueuePolicy
from topology.cluster import Cluster
from topology.errors import ArnoldError, did_you_mean

_FREE = Terms()
"""All nodes that are free."""


@dataclass(frozen=True)
class Question:
    """A gang that wants nodes, or other nodes.

    :param before: its plan as it is; ``None`` = it has none.
    :param now: when it was asked.
    :param job: with its level and holds; ``None`` when ``refused``.
    :param cluster: the nodes that the gang's pods may use; ``None`` when ``refused``.
    :param left_out: why other nodes are not in it, and how many.
    :param terms: on which it may be placed: nodes that it leaves to others, and to whom.
    :param lost: nodes to be replaced; empty = this is no repair.
    :param fixed: of a repair, ranks that must stay where they are: their pods run.
    :param refused: why the solver need not be asked.
    """

    gang: Gang
    before: Plan | None
    now: datetime
    job: Job | None = None
    cluster: Cluster | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    terms: Terms = _FREE
    lost: tuple[str, ...] = ()
    fixed: frozenset[int] = frozenset()
    refused: str = ""


def question_of(state: State, gang: Gang, now: datetime, terms: Terms = _FREE) -> Question:
    """What to ask about a complete gang without nodes."""
    question = Question(gang, state.plans.get(gang.key), now, terms=terms)
    if gang.job is None:
        return replace(question, refused=str(gang.problem) if gang.problem is not None else gang.waits)
    return _with_cluster(question, state.fleet, gang.job, gang.tiers)


def repair_question(
    state: State, plan: Plan, lost: Sequence[str], now: datetime, policy: QueuePolicy | None = None
) -> Question:
    """What to ask when some ranks cannot have their nodes.

    :param lost: names of those nodes, at least one; pods that are bound to other nodes of the plan stay.
    :param policy: who else may use which nodes; nobody waits before a gang that runs.
    """
    gang = state.gang(plan.key) or Gang(plan.key, plan.spec.dialect, None, (), (), None)
    lost = tuple(dict.fromkeys(lost))
    terms = _FREE
    if policy is not None and state.reservations and gang.pods:
        terms = Claims(policy).terms(state, waiting_gang(state, gang), (), now)
    question = Question(gang, plan, now, terms=terms, lost=lost, fixed=_running(gang, plan, lost))
    try:
        job = plan.spec.job(str(plan.key)) or gang.job
    except ArnoldError as error:
        return replace(question, refused=str(error))
    unknown = [name for name in lost if name not in plan.rank_of_node]
    if job is None or unknown or len(plan.nodes) != job.grid.cells:
        what = f"no nodes of it: {', '.join(unknown)}" if unknown else "another size"
        return replace(question, refused=f"the plan does not fit what is asked ({what})")
    return _with_cluster(question, state.fleet, job, () if job.holds else gang.tiers)


def _running(gang: Gang, plan: Plan, lost: Sequence[str]) -> frozenset[int]:
    """Ranks whose pod is bound to its node, or has ended well."""
    if len(gang.members) != len(plan.nodes):
        return frozenset()
    ranks = enumerate(zip(gang.members, plan.nodes, strict=True))
    bound = {rank for rank, (member, node) in ranks if member is not None and member.pod.node == node}
    return (gang.done | bound) - {plan.rank_of_node[name] for name in lost if name in plan.rank_of_node}


def _with_cluster(question: Question, fleet: Fleet, job: Job, tiers: Sequence[Wish]) -> Question:
    """The question with its cluster, or with the reason why there is none."""
    try:
        job = placed_in(job, tiers, fleet)
    except InvalidGang as error:
        return replace(question, refused=str(error))
    own, stay = None, set[str]()
    if question.lost and question.before is not None:
        plan = question.before
        own, stay = Own(plan.nodes, job.gpus_per_node, _likenesses(plan, job, fleet)), {*plan.nodes} - {*question.lost}
    view = fleet.view(
        demands_of(member.pod for member in question.gang.members if member is not None),
        question.now,
        counted=frozenset((job.level or "", *(hold.level for hold in job.holds))),
        own=own,
    )
    if view.cluster is None:
        others = ", ".join(f"{count} {why}" for why, count in view.left_out.items())
        why = "no node with GPUs can be used by the pods" + (f": {others}" if others else "")
        return replace(question, refused=why)
    flags = {node: flag for node, flag in view.cluster.flags.items() if view.cluster.names[node] not in stay}
    return replace(question, job=job, cluster=view.cluster.replace(flags=flags), left_out=view.left_out)


def placed_in(job: Job, tiers: Sequence[Wish], fleet: Fleet) -> Job:
    """The job with its level named, and with wishes by number as holds.

    :raises InvalidGang: the cluster has not the level that the gang names, or has none.
    """
    levels = fleet.levels
    if not levels:
        raise InvalidGang("no topology is known: " + fleet.table.sentence, reason="NoTopology", fix=_no_topology(fleet))
    wishes = ((wish, levels[-wish.tier]) for wish in tiers if wish.tier and wish.tier <= len(levels))
    holds = [hold for wish, level in wishes for hold in holds_for(job, wish, level)]
    job = job.replace(level=job.level or fleet.default_level, holds=tuple(dict.fromkeys((*job.holds, *holds))))
    for name in (job.level or "", *(hold.level for hold in job.holds)):
        if name not in levels:
            hint = did_you_mean(name, levels)
            raise InvalidGang(
                f"the cluster has no level {name!r}",
                reason="UnknownLevel",
                fix=f"{hint}levels of this cluster: {', '.join(levels)}",
            )
    return job


def _no_topology(fleet: Fleet) -> str:
    return next((problem.fix for problem in fleet.problems), "label the nodes")


def _likenesses(plan: Plan, job: Job, fleet: Fleet) -> dict[str, str]:
    """For nodes that are gone, one whose place is known: of a rank of the same held group, or else of the nearest rank.

    A repair looks at the whole placement as it was: the members of a group that a hold ties together were together.
    """
    rows = job.grid.rows
    families = {hold.family for hold in job.holds}
    known = [rank for rank, node in enumerate(plan.nodes) if fleet.host(node) is not None]
    if not known:
        return {}
    first: dict[int, int] = {}
    for rank in known:
        first.setdefault(rank % rows if "pp" in families else rank // rows, rank)

    def nearest(rank: int) -> int:
        if families:
            return first.get(rank % rows if "pp" in families else rank // rows, known[0])
        at = bisect(known, rank)
        return min(known[max(0, at - 1) : at + 1], key=lambda other: abs(other - rank))

    placed = set(known)
    return {node: plan.nodes[nearest(rank)] for rank, node in enumerate(plan.nodes) if rank not in placed}
