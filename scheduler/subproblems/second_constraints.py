"""Constraints at second hierarchies, which nest with nothing: every algorithm heeds them without knowing of them.

Algorithms search a tree.  So a second hierarchy is laid into the tree, after none, one or all of its levels: what lies
in the same domain there and in the same domain of the second hierarchy is a domain of the new level, and closer levels
are cut along it.  Every placement on such a tree is one on the cluster; not the other way round, unless the hierarchy
nests there by itself.  Where it does, the answer for that tree is the answer, with its proof.  Where it nests nowhere,
the best of the answers for all these trees, and without the constraints, is taken; and the only bound is that of the
job without them, with the least that its soft ones can add.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf

import numpy as np

from scheduler.job import Job
from scheduler.objective import TOLERANCE, closer_levels, step_time
from scheduler.placement.admission import Blocks, admissible, least_spread
from scheduler.placement.heuristic import AsksRules
from scheduler.placement.types import Limits, PlacementAlgorithm, PriceOption, Proposal
from scheduler.second_levels import named_beside, without_levels
from scheduler.subproblems.trunks import WeighedProposal, propose, weighed
from scheduler.work_clock import clock, share_until
from topology.cluster import BoolArray, Cluster, IntArray, Level, count_nodes

RULES_SHARE = 0.2  # Of the time limit, for what quick rules propose; the exact search gives them as much


@dataclass(frozen=True, slots=True)
class SecondConstraints:
    """An algorithm that heeds constraints at second hierarchies as well, made from one that heeds those of levels."""

    algorithm: PlacementAlgorithm

    @property
    def name(self) -> str:
        """Name of the algorithm."""
        return self.algorithm.name

    @property
    def summary(self) -> str:
        """Summary of the algorithm."""
        return self.algorithm.summary

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose the best placement found; its bound holds for all there are."""
        if (name := named_beside(cluster, job)) is None:
            return propose(self.algorithm, cluster, job, limits)
        if refusal := _counted_out(cluster, job, name):
            return Proposal(None, infeasible=refusal)
        job = with_levels_named(cluster, job)
        if (nested := nested_depth(cluster, job, name)) is not None:
            return self._nested(cluster, job, name, nested, limits)
        return self._unnested(cluster, job, name, limits)

    def _nested(self, cluster: Cluster, job: Job, name: str, depth: int, limits: Limits) -> Proposal:
        """Return the best placement where a hierarchy is a level of the tree after so many levels, with its proof.

        Closer levels that it cuts count otherwise there, so of placements as good others may be better on the cluster.
        """
        end, everywhere = clock() + limits.seconds, np.arange(len(cluster), dtype=np.int32)
        found = self.place(laid_into_tree(cluster, name, depth), job, limits)
        kept = _as_in_the_tree(cluster, job, name, depth)
        bounds = {level: bound for level, bound in found.closer_bounds.items() if level in kept}
        # domains of that tree may be cut: what was counted there cannot be recounted on the cluster
        found = replace(found, closer_bounds=bounds, proofs=())
        if found.nodes is None or limits.told != "everything" or kept.issuperset(closer_levels(cluster, job)):
            return found
        rest = replace(limits, seconds=share_until(end))
        whole = self.place(cluster, without_levels(job, {name}), rest)
        answers = [weighed(cluster, job, everywhere, one) for one in (found, whole)]
        best = min((*answers, *self._of_rules(cluster, job, rest)), key=lambda one: one.rank)
        return replace(found, nodes=best.proposal.nodes)

    def _unnested(self, cluster: Cluster, job: Job, name: str, limits: Limits) -> Proposal:
        """Return the best placement on all trees and without constraints at a hierarchy, and the bound without them."""
        end, everywhere = clock() + limits.seconds, np.arange(len(cluster), dtype=np.int32)
        parts = len(cluster.levels) + 2
        free = without_levels(job, {name})
        relaxed = self.place(cluster, free, replace(limits, seconds=limits.seconds / parts))
        first = weighed(cluster, job, everywhere, relaxed)
        if relaxed.lower_bound is not None:
            usable = admissible(cluster, job)
            counts = [count for count in job.counts if count.level == name]
            soft = sum(one.weight * least_spread(cluster, job, one.family, name, usable) for one in counts)
            # on a slow node a unit of the objective costs more time yet
            shortest = None if relaxed.step_time_bound is None else relaxed.step_time_bound + job.spread_cost * soft
            prices = tuple(replace(option, bound=(option.bound or 0.0) + soft) for option in relaxed.prices)
            least = relaxed.lower_bound + soft
            relaxed = replace(relaxed, lower_bound=least, step_time_bound=shortest, prices=prices)
        placed = first.evaluation is not None
        if relaxed.infeasible or (len(free.counts) == len(job.counts) and placed) or _is_best(first, relaxed):
            return _with_claims(first, job, relaxed, ())
        answers = [first] if first.evaluation is not None else []
        for number, depth in enumerate(whole_first(cluster, job, name)):
            if clock() > end and any(one.evaluation is not None for one in answers):
                relaxed = replace(relaxed, complete=False)
                break
            seconds = share_until(end, parts - 1 - number)
            tree = laid_into_tree(cluster, name, depth)
            answers.append(weighed(cluster, job, everywhere, self.place(tree, job, replace(limits, seconds=seconds))))
        answers += self._of_rules(cluster, job, limits)
        note = (
            f"{name} nests with no level of the tree: searched were placements on trees that it is laid into, and the "
            f"bound is that without its constraints."
        )
        return _with_claims(min(answers, key=lambda one: one.rank), job, relaxed, (note,))

    def _of_rules(self, cluster: Cluster, job: Job, limits: Limits) -> Iterator[WeighedProposal]:
        """Yield what quick rules propose, each on all those trees, until their share of the time is used up: on a tree
        they may be worse than the algorithm, and better on the cluster.
        """
        if not isinstance(self.algorithm, AsksRules) or limits.told != "everything":
            return
        until, everywhere = clock() + RULES_SHARE * limits.seconds, np.arange(len(cluster), dtype=np.int32)
        for rule in self.algorithm.quick_rules():
            if clock() > until:
                return
            found = SecondConstraints(rule.in_time(until)).place(cluster, job, limits)
            yield weighed(cluster, job, everywhere, replace(found, notes=()))


def with_levels_named(cluster: Cluster, job: Job) -> Job:
    """Return a job that says at which levels of a cluster its spread counts and its TP groups are held: a tree with one
    level more might do either elsewhere.
    """
    job = job.replace(level=cluster.level(job.level).name)
    if job.nodes_of_tp > 1 and job.tp_level is None:
        return job.replace(tp_level=cluster.levels[-1].name)
    return job


def _is_best(answer: WeighedProposal, relaxed: Proposal) -> bool:
    """Return whether nothing is better than an answer, by the bounds of the job without some constraints."""
    least, shortest = relaxed.lower_bound, inf
    if relaxed.prices:
        # slow nodes have a price: the time decides, and then the objective on nodes no slower
        least = next(option.bound for option in relaxed.prices if option.chosen)
        shortest = relaxed.step_time_bound or 0.0
    if answer.evaluation is None or least is None:
        return False
    return answer.time <= shortest + TOLERANCE and answer.evaluation.objective <= least + TOLERANCE


def _options(answer: WeighedProposal, job: Job, relaxed: Proposal) -> tuple[PriceOption, ...]:
    """Return the ways to treat slow nodes with the bounds of the job without some constraints: of those not taken no
    placement is known that keeps them.
    """
    options = []
    for option in answer.proposal.prices:
        wider = [one.bound for one in relaxed.prices if one.bound is not None and one.slowest >= option.slowest]
        bound, objective, time = max(wider, default=relaxed.lower_bound), None, None
        if option.chosen and answer.evaluation is not None:
            objective = answer.evaluation.objective
            time = step_time(job, objective=objective, slowest=option.slowest)
            bound = None if bound is None else min(bound, objective)
        options.append(
            PriceOption.of(option.slowest, objective=objective, bound=bound, step_time=time, chosen=option.chosen)
        )
    return tuple(options)


def laid_into_tree(cluster: Cluster, name: str, depth: int) -> Cluster:
    """Return the cluster with a second hierarchy as a level after so many levels of the tree, closer ones cut along it.

    Domains of the new level, and those that are cut, have the nodes that two domains share.  Any placement on it is one
    on the cluster, and no group touches fewer domains of a level than there.
    """
    second = cluster.level(name)
    levels = list(cluster.levels[:depth])
    broader = levels[-1].domain_of if levels else np.zeros(len(cluster), dtype=np.int32)
    for one in (second, *cluster.levels[depth:]):
        shared = broader.astype(np.int64) * len(one) + one.domain_of
        pairs, first, number = np.unique(shared, return_index=True, return_inverse=True)
        own, domain_of = pairs % len(one), number.astype(np.int32)
        names = tuple(one.domains[k] for k in own.tolist())
        levels.append(Level(one.name, names, domain_of, broader[first].astype(np.int32), one.implicit[own]))
        broader = domain_of
    rest = tuple(level for level in cluster.second_levels if level is not second)
    # joined, as a job is given one trunk at a time: the hierarchy is no trunk, though it may be the broadest level
    return cluster.replace(levels=tuple(levels), second_levels=rest, joined=True)


def whole_first(cluster: Cluster, job: Job, name: str) -> list[int]:
    """Return the depths at which a hierarchy can be laid into the tree: first where fewest of the levels that count for
    the job are cut along it, of these the broadest, whose domains have most room.
    """
    nodes, second = admissible(cluster, job), cluster.level(name)
    counted = {job.level, *job.constrained_levels, *closer_levels(cluster, job)}
    cut = [level.name in counted and not _refines(level.domain_of, second.domain_of, nodes) for level in cluster.levels]
    return sorted(range(len(cut) + 1), key=lambda depth: (sum(cut[depth:]), depth))


def nested_depth(cluster: Cluster, job: Job, name: str) -> int | None:
    """Return after how many levels a second hierarchy is a level of the tree by itself; ``None`` = nowhere."""
    depths = range(len(cluster.levels) + 1)
    return next((depth for depth in depths if _nests(cluster, job, name, depth)), None)


def _nests(cluster: Cluster, job: Job, name: str, depth: int) -> bool:
    """Return whether a second hierarchy is a level of the tree there, for the nodes and the levels that a job uses."""
    nodes, second = admissible(cluster, job), cluster.level(name)
    used = {job.level, *job.constrained_levels}
    if depth and not _refines(second.domain_of, cluster.levels[depth - 1].domain_of, nodes):
        return False
    return all(
        _refines(level.domain_of, second.domain_of, nodes) for level in cluster.levels[depth:] if level.name in used
    )


def _as_in_the_tree(cluster: Cluster, job: Job, name: str, depth: int) -> set[str]:
    """Return the closer levels of which a tree with a second hierarchy after so many levels says what the cluster's
    does: those before it, and, where it is no closer level itself, those after it down to the first that it cuts.
    """
    nodes, second, counted = admissible(cluster, job), cluster.level(name), cluster.level_index(job.level)
    if depth > counted:
        return {level.name for level in cluster.levels[counted + 1 : depth]}
    closer = cluster.levels[counted + 1 :]
    whole = takewhile(lambda level: _refines(level.domain_of, second.domain_of, nodes), closer)
    return {level.name for level in whole}


def _refines(closer: IntArray, broader: IntArray, nodes: BoolArray) -> bool:
    """Return whether each domain of one partition of some nodes lies inside one domain of another."""
    pairs = np.unique(np.stack([closer[nodes], broader[nodes]]), axis=1)
    return bool(len(np.unique(pairs[0])) == pairs.shape[1])


def _counted_out(cluster: Cluster, job: Job, name: str) -> str:
    """Return why the groups held at a second hierarchy cannot lie there; empty = counting does not show it."""
    held = [hold.family for hold in job.holds if hold.level == name]
    if not held:
        return ""
    blocks = Blocks(*job.grid.tied(held))
    wanted = blocks.rows * blocks.columns
    room = int((count_nodes(cluster.level(name), admissible(cluster, job)) // blocks.size).sum())
    if room >= wanted:
        return ""
    families = " and ".join(f"every {family} group" for family in held)
    return (
        f"holding {families} inside one {name} makes {wanted} blocks of {blocks.size} nodes, and the free nodes have "
        f"room for {room} such blocks"
    )


def _with_claims(answer: WeighedProposal, job: Job, relaxed: Proposal, notes: tuple[str, ...]) -> Proposal:
    """Return a proposal with the bound and the refutations of the job without some constraints, which hold with them.

    Corners of the trade hold only as far as placements are known: that of the proposal alone.
    """
    proposal, worth = answer.proposal, answer.evaluation
    if worth is None and not relaxed.infeasible:
        proposal = replace(proposal, nodes=None, infeasible="")
    pair = None if worth is None else (worth.dp, worth.pp)
    return replace(
        proposal,
        lower_bound=relaxed.lower_bound,
        step_time_bound=relaxed.step_time_bound,
        prices=_options(answer, job, relaxed),
        expert_bound=relaxed.expert_bound,
        closer_bounds=relaxed.closer_bounds,
        refutations=relaxed.refutations,
        proofs=relaxed.proofs,
        pareto=tuple(point for point in relaxed.pareto if (point.dp, point.pp) == pair),
        complete=proposal.complete and relaxed.complete,
        notes=(*proposal.notes, *notes),
    )
