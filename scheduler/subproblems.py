"""What an algorithm is asked instead of the whole problem, so that it need know nothing of these.

There is one question for each type of GPU, and there for each *trunk* where nothing joins the trunks; the best answer
counts, and a proof for each is a proof for the cluster.

*Second hierarchies* may nest with nothing, and algorithms search a tree.  First the job is placed without constraints
at them: where its placement keeps them, it is the answer, with its proof.  Where one nests in the tree by itself, it is
a level there, and the answer for that tree is the answer.  Else the program that decides each cell
(:mod:`scheduler.placement.cell_search`) finds the best placement and proves it.  Where there is much to decide, and for
algorithms that prove nothing, the hierarchy is laid into the tree, after none, one or all of its levels: what lies in
the same domain there and in the same domain of the hierarchy is a domain of the new level, and closer levels are cut
along it.  Every placement on such a tree is one on the cluster, not the other way round: the best of them is where the
program starts.

*Types of GPU*: all nodes of a gang have GPUs of one type, unless its job says that it may mix them.  So a job is placed
once for each type that it admits; and the choice is what has the least ``objective / speed``, the speed of the job on
the type.  A mixed gang is as fast as the slowest type in it.  Of all mixed placements the best is found by one more
placement for each speed: on all types that are at least as fast.  Every placement is one of those whose slowest type is
its own, so the least of ``bound / speed`` over all choices is a bound for every placement there is.

*Preferred nodes* break ties between placements that are equally good, by what each node costs beside the objective: the
GB of images that it would pull minus the affinity of its data; full affinity weighs one GB. That never buys anything:
objective, speed, bound and status stay, and no EP spread, closer level or slow node is worse. Where a job may be on
several types of GPU, this is asked of each that is as good as the best, and the cheapest of these answers is taken.
First nodes of the placement give way to cheaper ones that are alike in all that is counted. Then nodes are put in
order, the cheapest first, and the shortest beginning of that order is sought on which the algorithm finds as good a
placement. Whatever fits on a beginning fits on a longer one, so halving finds it. Last, where there are few choices,
the program that decides each cell finds the cheapest of all that are as good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ground.errors import Infeasible, SolverTimeout
from ground.quantities import number
from ground.records import record_of
from scheduler.job import Count, Job
from scheduler.job_on_cluster import named_beside, within_the_tree
from scheduler.objective import (
    TOLERANCE,
    Evaluation,
    closer_levels,
    goals,
    slowest_in_use,
    step_time,
    trivial_bound,
    worth_of,
)
from scheduler.outcome import Instance, Outcome, PredictedStep, TypeOption
from scheduler.placement.admission import TypeChoice, admissible, least_spread, room_beside, shortage
from scheduler.placement.heuristic import AsksRules
from scheduler.placement.types import Limits, ParetoPoint, PlacementAlgorithm, PriceOption, Proposal, Status, corners
from scheduler.work_clock import LEAST_SECONDS, clock, share_until
from topology.cluster import BoolArray, Cluster, IntArray, Level, count_nodes
from topology.flags import HEALTHY

if TYPE_CHECKING:
    from topology.cluster import FloatArray, IndexArray

Place = Callable[[Cluster, Job, Limits], Proposal]


@dataclass(frozen=True, slots=True)
class WeighedProposal:
    """What an algorithm says of a part of the question, with nodes of the whole cluster."""

    proposal: Proposal
    evaluation: Evaluation | None  # `None` = no placement, or none that is valid
    time: float  # predicted step time; `inf` without a placement

    @property
    def rank(self) -> tuple[float, ...]:
        """By which answers are compared, the least the best."""
        if self.evaluation is None:
            return inf, inf, float(self.proposal.nodes is None)
        # alpha 0 or 1 gives one of the spreads no weight: of equal objectives the smaller spreads are a corner
        worth = self.evaluation
        return *(round(cost, 9) for cost in (self.time, *worth.goals)), worth.dp + worth.pp


def propose(place: Place, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
    """Return what an algorithm proposes; that nothing fits, or that time ran out, is a proposal too."""
    try:
        return place(cluster, job, limits)
    except Infeasible as error:
        return Proposal(None, infeasible=error.message)
    except SolverTimeout:
        return Proposal(None, complete=False)


def propose_in_a_trunk(place: Place, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
    """Return the best proposal over all trunks with enough nodes; of equal ones, that in the tightest trunk."""
    trunks = cluster.levels[0]
    # the level is the cluster's: a trunk by itself might count its spread elsewhere
    job = job.replace(level=cluster.level(job.level).name)
    if reason := shortage(cluster, job):
        return Proposal(None, infeasible=reason)
    free = count_nodes(trunks, admissible(cluster, job))
    fitting = [int(k) for k in np.argsort(free, kind="stable") if free[k] >= job.grid.cells]
    end = clock() + limits.seconds
    answers = []
    for before, trunk in enumerate(fitting):
        seconds = share_until(end, len(fitting) - before)
        nodes = np.flatnonzero(trunks.domain_of == trunk).astype(np.int32)
        proposal = propose(place, cluster.subset(nodes), job, replace(limits, seconds=seconds))
        proofs = tuple(replace(proof, trunk=trunks.domains[trunk]) for proof in proposal.proofs)
        proposal = replace(proposal, proofs=proofs)
        answers.append(weighed(cluster, job, nodes, proposal))
    best = min(answers, key=lambda answer: answer.rank)
    proposals = [answer.proposal for answer in answers]
    placed = [proposal for proposal in proposals if not proposal.infeasible]
    # where a placement in no other trunk is as good, what is said of the goals after the objective holds of all
    unrivalled = best.evaluation is not None and all(
        other.lower_bound is not None and other.lower_bound > best.evaluation.objective + TOLERANCE
        for other in placed
        if other is not best.proposal
    )
    infeasible = "" if placed else proposals[0].infeasible
    points = {point for proposal in placed for point in proposal.pareto}
    all_proved = all(point.proved for point in points) and all(proposal.pareto for proposal in placed)
    return replace(
        best.proposal,
        expert_bound=best.proposal.expert_bound if unrivalled else 1.0,
        closer_bounds=best.proposal.closer_bounds if unrivalled else {},
        lower_bound=_least([proposal.lower_bound for proposal in placed]),
        step_time_bound=_least([proposal.step_time_bound for proposal in placed]),
        complete=all(proposal.complete for proposal in proposals),
        infeasible=infeasible,
        pareto=tuple(ParetoPoint(dp, pp, all_proved) for dp, pp in corners((point.dp, point.pp) for point in points)),
        # what rules a pair out in the chosen trunk, where something rules it out in each other trunk too
        refutations=tuple(
            refutation
            for refutation in best.proposal.refutations
            if all(any(other.covers(*refutation.pair) for other in there.refutations) for there in placed)
        ),
        proofs=(
            *best.proposal.proofs,
            *(proof for other in proposals if other is not best.proposal for proof in other.proofs),
        ),
        solve_seconds=sum(proposal.solve_seconds for proposal in proposals),
    )


def weighed(cluster: Cluster, job: Job, nodes: IntArray, proposal: Proposal) -> WeighedProposal:
    """Return a proposal for some nodes (a trunk's, by their indices in the cluster) as one for the cluster."""
    if proposal.nodes is None:
        return WeighedProposal(proposal, None, inf)
    chosen = nodes[proposal.nodes]
    proposal = replace(proposal, nodes=chosen)
    if (evaluation := worth_of(cluster, job, chosen)) is None:
        return WeighedProposal(proposal, None, inf)
    slowest = slowest_in_use(cluster, evaluation)
    time = step_time(job, objective=evaluation.objective, slowest=slowest)
    return WeighedProposal(proposal, evaluation, time)


def _least(bounds: Sequence[float | None]) -> float | None:
    """Return what holds in all trunks; ``None`` = in one nothing is claimed, or there is none."""
    return None if None in bounds else min((bound for bound in bounds if bound is not None), default=None)


RULES_SHARE = 0.2  # Of the time limit, for what quick rules propose; the exact search gives them as much
RELAXED_SHARE = 0.25  # Of the time limit, for the job without its constraints beside the tree


@dataclass(frozen=True, slots=True)
class SecondConstraints:
    """An algorithm that heeds constraints at second hierarchies as well, made from one that heeds those of levels."""

    algorithm: PlacementAlgorithm

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose the best placement found; its bound holds for all there are."""
        if (name := named_beside(cluster, job)) is None:
            return propose(self.algorithm.place, cluster, job, limits)
        for asked in room_beside(cluster, job, admissible(cluster, job)):
            if asked.refusal:
                return Proposal(None, infeasible=asked.refusal)
        # a tree with one level more might count spread, or hold TP groups, at another one
        closest = cluster.levels[-1].name if job.nodes_of_tp > 1 else None
        job = job.replace(level=cluster.level(job.level).name, tp_level=job.tp_level or closest)
        end = clock() + limits.seconds
        part = replace(limits, seconds=RELAXED_SHARE * limits.seconds)
        relaxed = propose(self.algorithm.place, cluster, within_the_tree(cluster, job), part)
        first, relaxed = _weighed_whole(cluster, job, relaxed), _with_least_soft(cluster, job, relaxed)
        if relaxed.infeasible or _settles(first, cluster, job, relaxed):
            return _with_claims(first, job, relaxed, ())
        answers = [first]
        if (depth := nested_depth(cluster, job, name)) is not None:
            on_tree = self._nested(cluster, job, name, depth, replace(limits, seconds=share_until(end, 2)))
            if on_tree.infeasible or limits.told != "everything":
                return on_tree
            answers.append(_weighed_whole(cluster, job, on_tree))
            if set(closer_levels(cluster, job)) <= set(on_tree.closer_bounds):
                return on_tree
            relaxed = on_tree
        from scheduler.placement.cell_choice import MOST_CHOICES
        from scheduler.placement.cell_search import CellSearch
        from scheduler.placement.moves import LARGEST

        asks = isinstance(self.algorithm, AsksRules)
        choices = CellSearch(cluster, job, limits, None, relaxed).choices if asks else 0
        # few choices are decided first, and that mostly is the end; of many, what trees and rules find is improved
        for few in (True, False):
            if 0 < choices <= LARGEST and few == (choices <= MOST_CHOICES):
                start = min(answers, key=lambda answer: answer.rank).proposal.nodes
                part = replace(limits, seconds=share_until(end, 1 + few))
                decided = CellSearch(cluster, job, part, start, relaxed).propose()
                if decided is not None and (decided.infeasible or decided.complete):
                    return _with_pairs(decided, cluster, job, relaxed)
                if decided is not None:
                    answers.append(_weighed_whole(cluster, job, decided))
                    relaxed = _raised(relaxed, decided)
            if few:
                part = replace(limits, seconds=share_until(end, 2))
                answers += (
                    self._on_trees(cluster, job, name, part) if depth is None else self._of_rules(cluster, job, part)
                )
        if all(answer.evaluation is None for answer in answers):
            # on that hierarchy alone it is a grid of what is held together, which counting mostly decides
            tree, alone = laid_into_tree(cluster, name, 0), job.replace(level=name, counts=(), levels=())
            quick = replace(limits, seconds=LEAST_SECONDS, told="placement")
            answers.append(_weighed_whole(cluster, job, self.place(tree, alone, quick)))
        best = min(answers, key=lambda answer: answer.rank)
        note = f"{name} nests with no level of the tree: what is not proved was searched on trees that it is laid into."
        return _with_claims(best, job, relaxed, (note,) if depth is None else ())

    def _nested(self, cluster: Cluster, job: Job, name: str, depth: int, limits: Limits) -> Proposal:
        """Return the best placement where a hierarchy is a level of the tree after so many levels, with its proof.

        Closer levels that it cuts count otherwise there, so of placements as good others may be better on the cluster.
        """
        on_tree = self.place(laid_into_tree(cluster, name, depth), job, limits)
        # closer levels of which the tree says what the cluster's does: those before the hierarchy, and, where that is
        # no closer level itself, those after it down to the first that it cuts
        second, nodes, counted = cluster.level(name), admissible(cluster, job), cluster.level_index(job.level)
        closer = cluster.levels[counted + 1 : depth if depth > counted else None]
        uncut = takewhile(lambda level: depth > counted or _refines(level.domain_of, second.domain_of, nodes), closer)
        kept = {level.name for level in uncut}
        bounds = {level: bound for level, bound in on_tree.closer_bounds.items() if level in kept}
        # domains of that tree may be cut: what was counted there cannot be recounted on the cluster
        return replace(on_tree, closer_bounds=bounds, proofs=())

    def _on_trees(self, cluster: Cluster, job: Job, name: str, limits: Limits) -> Iterator[WeighedProposal]:
        """Yield the placement on each tree that a hierarchy is laid into, as time allows, and those of quick rules."""
        end, nodes, second = clock() + limits.seconds, admissible(cluster, job), cluster.level(name)
        counted = {job.level, *job.constrained_levels, *closer_levels(cluster, job)}
        # first the depths along which fewest of the levels that count for the job are cut, of these the broadest, whose
        # domains have most room
        cut = [
            level.name in counted and not _refines(level.domain_of, second.domain_of, nodes) for level in cluster.levels
        ]
        depths = sorted(range(len(cut) + 1), key=lambda depth: (sum(cut[depth:]), depth))
        for place, depth in enumerate(depths):
            if clock() > end:
                return
            part = replace(limits, seconds=share_until(end, len(depths) - place))
            yield _weighed_whole(cluster, job, self.place(laid_into_tree(cluster, name, depth), job, part))
        yield from self._of_rules(cluster, job, limits)

    def _of_rules(self, cluster: Cluster, job: Job, limits: Limits) -> Iterator[WeighedProposal]:
        """Yield what quick rules propose, each on all those trees, until their share of the time is used up: on a tree
        they may be worse than the algorithm, and better on the cluster.
        """
        if not isinstance(self.algorithm, AsksRules) or limits.told != "everything":
            return
        until = clock() + RULES_SHARE * limits.seconds
        for rule in self.algorithm.quick_rules():
            if clock() > until:
                return
            proposal = SecondConstraints(rule.in_time(until)).place(cluster, job, limits)
            yield _weighed_whole(cluster, job, replace(proposal, notes=()))


def _weighed_whole(cluster: Cluster, job: Job, proposal: Proposal) -> WeighedProposal:
    """Return a proposal for the whole cluster with its worth."""
    return weighed(cluster, job, np.arange(len(cluster), dtype=np.int32), proposal)


def _with_least_soft(cluster: Cluster, job: Job, relaxed: Proposal) -> Proposal:
    """Return what was proved without constraints beside the tree, with the least that the soft ones can add."""
    beside, usable = {level.name for level in cluster.second_levels}, admissible(cluster, job)
    counts = [count for count in job.counts if count.level in beside]
    if relaxed.lower_bound is None or not counts:
        return relaxed
    soft = sum(count.weight * least_spread(cluster, job, count.family, count.level, usable) for count in counts)
    # on a slow node a unit of the objective costs more time yet
    shortest = None if relaxed.step_time_bound is None else relaxed.step_time_bound + job.spread_cost * soft
    prices = tuple(replace(option, bound=(option.bound or 0.0) + soft) for option in relaxed.prices)
    return replace(relaxed, lower_bound=relaxed.lower_bound + soft, step_time_bound=shortest, prices=prices)


def _settles(first: WeighedProposal, cluster: Cluster, job: Job, relaxed: Proposal) -> bool:
    """Return whether the placement without constraints beside the tree keeps them, and none is better with them."""
    if first.evaluation is None:
        return False
    floor, quickest = relaxed.lower_bound, inf
    if relaxed.prices:
        # slow nodes have a price: the time decides, and then the objective on nodes no slower
        floor = next(option.bound for option in relaxed.prices if option.chosen)
        quickest = relaxed.step_time_bound or 0.0
    best = floor is not None and first.evaluation.objective <= floor + TOLERANCE
    no_soft = len(within_the_tree(cluster, job).counts) == len(job.counts)
    return no_soft or (best and first.time <= quickest + TOLERANCE)


def _raised(relaxed: Proposal, decided: Proposal) -> Proposal:
    """Return what holds of a job with and without some constraints, as far as the program came."""
    return replace(
        relaxed,
        lower_bound=max(decided.lower_bound or 0.0, relaxed.lower_bound or 0.0),
        step_time_bound=decided.step_time_bound,
        prices=decided.prices,
        # of placements as good as that without the constraints, and others may be as good as the answer now
        closer_bounds={},
        expert_bound=1.0,
        proofs=(),
        complete=False,
    )


def _with_pairs(decided: Proposal, cluster: Cluster, job: Job, relaxed: Proposal) -> Proposal:
    """Return what the program decided, with what is known of the pairs of the job without some constraints."""
    worth = None if decided.nodes is None else worth_of(cluster, job, decided.nodes)
    pair = None if worth is None else (worth.dp, worth.pp)
    least = decided.lower_bound is not None and decided.lower_bound <= (relaxed.lower_bound or 0.0) + TOLERANCE
    return replace(
        decided,
        refutations=relaxed.refutations,
        # what proves a smaller bound does not prove this one
        proofs=relaxed.proofs if least else (),
        pareto=tuple(point for point in relaxed.pareto if (point.dp, point.pp) == pair),
        solve_seconds=relaxed.solve_seconds + decided.solve_seconds,
    )


def laid_into_tree(cluster: Cluster, name: str, depth: int) -> Cluster:
    """Return the cluster with a second hierarchy as a level after so many levels of the tree, closer ones cut along it.

    Domains of the new level, and those that are cut, have the nodes that two domains share.  Any placement on it is one
    on the cluster, and no group touches fewer domains of a level than there.
    """
    second = cluster.level(name)
    levels = list(cluster.levels[:depth])
    broader = levels[-1].domain_of if levels else np.zeros(len(cluster), dtype=np.int32)
    for level in (second, *cluster.levels[depth:]):
        shared = broader.astype(np.int64) * len(level) + level.domain_of
        pairs, first, pair_of = np.unique(shared, return_index=True, return_inverse=True)
        own, domain_of = pairs % len(level), pair_of.astype(np.int32)
        names = tuple(level.domains[k] for k in own.tolist())
        levels.append(Level(level.name, names, domain_of, broader[first].astype(np.int32), level.implicit[own]))
        broader = domain_of
    rest = tuple(level for level in cluster.second_levels if level is not second)
    # joined, as a job is given one trunk at a time: the hierarchy is no trunk, though it may be the broadest level
    return cluster.replace(levels=tuple(levels), second_levels=rest, joined=True)


def nested_depth(cluster: Cluster, job: Job, name: str) -> int | None:
    """Return after how many levels a second hierarchy is a level of the tree by itself, for the nodes and the levels
    that a job uses; ``None`` = nowhere.
    """
    nodes, second = admissible(cluster, job), cluster.level(name)
    used = {job.level, *job.constrained_levels}
    for depth in range(len(cluster.levels) + 1):
        if depth and not _refines(second.domain_of, cluster.levels[depth - 1].domain_of, nodes):
            continue
        closer = (level.domain_of for level in cluster.levels[depth:] if level.name in used)
        if all(_refines(domain_of, second.domain_of, nodes) for domain_of in closer):
            return depth
    return None


def _refines(closer: IntArray, broader: IntArray, nodes: BoolArray) -> bool:
    """Return whether each domain of one partition of some nodes lies inside one domain of another."""
    pairs = np.unique(np.stack([closer[nodes], broader[nodes]]), axis=1)
    return bool(len(np.unique(pairs[0])) == pairs.shape[1])


def _with_claims(answer: WeighedProposal, job: Job, relaxed: Proposal, notes: tuple[str, ...]) -> Proposal:
    """Return a proposal with the bound and the refutations of the job without some constraints, which hold with them.

    Corners of the trade hold only as far as placements are known: that of the proposal alone.
    """
    proposal, worth = answer.proposal, answer.evaluation
    if worth is None and not relaxed.infeasible:
        proposal = replace(proposal, nodes=None, infeasible="")
    pair = None if worth is None else (worth.dp, worth.pp)
    options = []
    for option in answer.proposal.prices:
        # of the ways to treat slow nodes that were not taken no placement is known that keeps all constraints
        wider = [other.bound for other in relaxed.prices if other.bound is not None and other.slowest >= option.slowest]
        bound, objective, time = max(wider, default=relaxed.lower_bound), None, None
        if option.chosen and worth is not None:
            objective = worth.objective
            time = step_time(job, objective=objective, slowest=option.slowest)
            bound = None if bound is None else min(bound, objective)
        options.append(
            PriceOption.of(option.slowest, objective=objective, bound=bound, step_time=time, chosen=option.chosen)
        )
    return replace(
        proposal,
        lower_bound=relaxed.lower_bound,
        step_time_bound=relaxed.step_time_bound,
        prices=tuple(options),
        expert_bound=relaxed.expert_bound,
        closer_bounds=relaxed.closer_bounds,
        closer_proofs=relaxed.closer_proofs,
        refutations=relaxed.refutations,
        proofs=relaxed.proofs,
        pareto=tuple(point for point in relaxed.pareto if (point.dp, point.pp) == pair),
        complete=proposal.complete and relaxed.complete,
        notes=(*proposal.notes, *notes),
    )


# Where nothing was placed: what leaves most hope comes first
_HOPE: Sequence[Status] = ("timeout", "gave-up", "refused", "infeasible")


def best_of_types(
    cluster: Cluster,
    choices: Sequence[TypeChoice],
    outcomes: Sequence[Outcome],
    *,
    short: str,
    costs: FloatArray | None = None,
) -> Outcome:
    """Return the best of the outcomes for all choices of types, at least one, its bound that of all of them.

    The least ``objective / speed`` wins; of equal ones fewest flagged nodes, where these have a price, the goals that
    come after the objective, fewest flagged nodes, one type before several, and the type of which most nodes are left;
    but of all that are as good as that one in everything the one whose nodes cost least.

    :param short: why the job cannot fit on any of them, whatever its shape; empty = on one it might.
    :param costs: shape [nodes], what nodes cost beside the objective; ``None`` = nothing.
    """
    pairs = list(zip(choices, outcomes, strict=True))
    ranks = [rank_of_type(*pair) for pair in pairs]
    best = ranks.index(min(ranks))
    if costs is not None and outcomes[best].evaluation is not None:

        def cost(which: int) -> float:
            if which != best and not as_good(cluster, choices[which].job, outcomes[which], outcomes[best].evaluation):
                return inf
            return float(costs[outcomes[which].proposal.nodes].sum())

        # of equal ones the best by rank
        best = min(range(len(pairs)), key=lambda which: (cost(which), ranks[which]))
    options = [_option(*pair, chosen=pair is pairs[best]) for pair in pairs]
    chosen = replace(outcomes[best], types=tuple(options))
    if len(pairs) == 1:
        return chosen
    compared = tuple((choice.job, outcome) for choice, outcome in pairs)
    chosen = replace(chosen, by_type=compared, gpus_per_node=choices[best].job.gpus_per_node)
    # of objective / speed: no placement on any of the types has less
    least = min(_bound(*pair) / pair[0].job.speed_on(pair[0].gpu_types) for pair in pairs)
    bound = least * options[best].speed
    proposal = replace(
        _proved_on_all(chosen, ranks[best][0], [pair for pair in pairs if pair is not pairs[best]]),
        lower_bound=None if chosen.evaluation is None else bound,
        complete=all(outcome.proposal.complete for outcome in outcomes),
        solve_seconds=sum(outcome.proposal.solve_seconds for outcome in outcomes),
    )
    if chosen.evaluation is not None:
        weighed = chosen.weighed(proposal, chosen.evaluation, bound, chosen.step)
        if any(outcome.step is not None for outcome in outcomes):
            # each answer is the best on its types by its step, which the bound of objectives says nothing about
            rivals = (
                choice
                for choice, outcome in pairs
                if choice is not choices[best] and outcome.status not in ("optimal", "infeasible")
                if _bound(choice, outcome) / choice.job.speed_on(choice.gpu_types) < ranks[best][0] - TOLERANCE
            )
            proved = outcomes[best].status == "optimal" and not any(rivals)
            weighed = replace(weighed, status="optimal" if proved else "feasible")
        return weighed
    reason = short or "; ".join(f"{in_words(choice.gpu_types)}: {outcome.reason}" for choice, outcome in pairs)
    return replace(chosen, proposal=replace(proposal, infeasible=proposal.infeasible and reason), reason=reason)


def rank_of_type(choice: TypeChoice, outcome: Outcome) -> tuple[float, ...]:
    """Return by what outcomes for several choices of types are compared, the least the best."""
    worth = outcome.evaluation
    if worth is None:
        return inf, _HOPE.index(outcome.status)
    left = choice.usable - choice.job.grid.cells
    cost, flagged = worth.objective / choice.job.speed_on(worth.gpu_types), len(worth.flagged)
    # expert groups may take several nodes on some sizes of nodes alone
    nearer = (float(worth.experts or 1), *(round(value, 9) for value in worth.closer.values()))
    priced = flagged if choice.job.avoid == "price" else 0
    return round(cost, 9), priced, *nearer, flagged, len(choice.gpu_types) > 1, -left


def _proved_on_all(chosen: Outcome, cost: float, others: Sequence[tuple[TypeChoice, Outcome]]) -> Proposal:
    """Return the proposal of an outcome, its bounds of EP spread and closer levels those of all choices of types: one
    that may cost no more, and is as good at the goals before, says what it has at least.
    """
    proposal, worth = chosen.proposal, chosen.evaluation
    if worth is None:
        return proposal
    experts, closer = proposal.expert_bound, dict(proposal.closer_bounds)
    for choice, outcome in others:
        other, longest = outcome.evaluation, chosen.step_time or inf
        if _bound(choice, outcome) / choice.job.speed_on(choice.gpu_types) > cost + TOLERANCE:
            continue
        if (outcome.step_time_bound or 0.0) > longest + TOLERANCE:
            continue
        # what it has at least is known among placements as good as its own before
        known = other is not None and outcome.status == "optimal"
        bound = outcome.proposal.expert_bound if known else 1.0
        experts = min(experts, bound)
        if bound > (worth.experts or 1) + TOLERANCE:
            continue
        known = known and other is not None and (other.experts or 1) == (worth.experts or 1)
        for level, value in worth.closer.items():
            bound = max(1.0, outcome.proposal.closer_bounds.get(level, 0.0)) if known else 1.0
            closer[level] = min(closer.get(level, 0.0), bound)
            if bound > value + TOLERANCE:
                break
            known = known and other is not None and other.closer[level] <= value + TOLERANCE
    return replace(proposal, expert_bound=experts, closer_bounds=closer)


def _bound(choice: TypeChoice, outcome: Outcome) -> float:
    """Return what no placement on some types is below; infinite = there is none."""
    if outcome.bound is not None:
        return outcome.bound
    if outcome.status == "infeasible":
        return inf
    return max(trivial_bound(choice.job), outcome.proposal.lower_bound or 0.0)


def _option(choice: TypeChoice, outcome: Outcome, *, chosen: bool) -> TypeOption:
    """Return the outcome for some types as what is shown; chosen is one with a placement."""
    names, worth = choice.gpu_types, outcome.evaluation
    speed = choice.job.speed_on(names if worth is None else worth.gpu_types)
    sentence = f"{in_words(names)}: {outcome.verdict}"
    if worth is not None and speed != 1.0:
        sentence += f"; speed {speed:g}, so as good as {worth.objective / speed:.4g} at speed 1"
    placed = chosen and worth is not None
    return record_of(
        TypeOption,
        outcome,
        gpu_types=names,
        nodes=choice.usable,
        speed=speed,
        cost=None if worth is None else worth.objective / speed,
        chosen=placed,
        sentence=f"{sentence}; chosen" if placed else sentence,
    )


def speed_of(cluster: Cluster, job: Job, nodes: IntArray) -> float:
    """Return the relative speed of a job on some nodes, at least one: that of the slowest type in use."""
    return job.speed_on(cluster.gpu_types[k] for k in np.unique(cluster.gpu_type_of[nodes]))


def in_words(names: Sequence[str]) -> str:
    """Return types of GPU as text: ``H100``, ``H100 and H200 mixed``."""
    spoken = [name or "nodes of no type that is said" for name in names]
    return spoken[0] if len(spoken) == 1 else f"{' and '.join(spoken)} mixed"


def pulls_of(cluster: Cluster, job: Job) -> FloatArray | None:
    """Return shape [nodes], GB of the job's images that each node does not have.

    :returns: ``None`` = the job names no image, or no node is known to have any.
    """
    if not (job.images and cluster.cached):
        return None
    pulls = np.zeros(len(cluster))
    for image in job.images:
        having = cluster.cached.get(image.name, frozenset())
        pulls += image.gb * np.array([name not in having for name in cluster.names])
    return pulls


def cold_nodes(pulls: FloatArray) -> str:
    """Return how many nodes pull something, in words, given the GB of each."""
    return f"{np.count_nonzero(pulls):,} of {pulls.size:,} nodes would pull up to {number(float(pulls.max()))} GB"


COST_UNIT = 1_000  # Whole numbers to a GB in a program: finer differences decide nothing


class Preference(NamedTuple):
    """What is asked again on fewer nodes, and what nodes cost beside the objective; of one choice of types."""

    instance: Instance
    costs: FloatArray  # shape [nodes]
    again: Callable[[Cluster, float], Outcome]  # the same question on another cluster, in so many seconds
    end: float  # on the clock of the work


def prefer(question: Preference, plain: Outcome) -> Outcome:
    """Return an outcome on nodes that cost as little as this finds in time, and notes on what they cost.

    An algorithm that claims no bound keeps to its own rule: there only the notes are new.
    """
    best, why = plain, ""
    if plain.proposal.lower_bound is not None and question.costs.any():
        best = _with_nodes(question, best, _given_way(question, best.proposal.nodes))
        best, why = _on_a_beginning(question, best)
        for others in _by_cells(question, best):
            best = _with_nodes(question, best, others)
    return replace(best, notes=(*best.notes, *_notes(question, best, plain, why)))


def _on_a_beginning(question: Preference, best: Outcome) -> tuple[Outcome, str]:
    """Return the best outcome on the shortest beginning of the order of nodes that has one as good, and what there is
    on the nodes alone that cost nothing, in words.
    """
    cluster, costs, nodes, why = question.instance.cluster, question.costs, best.proposal.nodes, ""
    assert nodes is not None
    # the nodes that the job may have, the cheapest first; of equal ones those in domains that cost least in all, so
    # that domains are left out whole, and of these the nodes that are used
    usable = np.flatnonzero(question.instance.usable)
    keys: list[FloatArray | IndexArray | IntArray] = [costs[usable]]
    for level in cluster.levels:
        domain_of = level.domain_of[usable]
        keys += [np.bincount(domain_of, costs[usable], minlength=len(level))[domain_of], domain_of]
    # lexsort sorts by its last key first
    order = usable[np.lexsort((~np.isin(usable, nodes), *reversed(keys)))]
    low, high = question.instance.job.grid.cells, int(np.isin(order, nodes).nonzero()[0].max()) + 1
    if costs[nodes].sum() <= costs[order[:low]].sum() + TOLERANCE:
        return best, why
    # most often the largest step of costs decides: warm nodes or cold ones, near data or not
    length = min(max(low, int(np.diff(costs[order]).argmax()) + 1), high - 1)
    while low < high and clock() < question.end:
        free = np.zeros_like(cluster.free_gpus)
        free[order[:length]] = cluster.free_gpus[order[:length]]
        other = question.again(cluster.replace(free_gpus=free), share_until(question.end))
        if as_good(cluster, question.instance.job, other, best.evaluation):
            high = length
            best = _with_nodes(question, best, other.proposal.nodes)
        else:
            low = length + 1
            if other.evaluation is not None and length == np.count_nonzero(costs[order] <= 0.0):
                why = f"; on warm nodes alone: {other.verdict}"
        length = (low + high) // 2
    return best, why


def as_good(cluster: Cluster, job: Job, new: Outcome | Evaluation | None, old: Evaluation | None) -> bool:
    """Return whether a placement, or that of an outcome, is as good as another in everything that is counted."""
    new = new.evaluation if isinstance(new, Outcome) else new
    if old is None or new is None:
        return False
    one_type = len(new.gpu_types) == 1 or len(old.gpu_types) > 1
    fast = job.speed_on(new.gpu_types) == job.speed_on(old.gpu_types) and one_type
    slow = [(slowest_in_use(cluster, worth), len(worth.flagged)) for worth in (new, old)]
    as_near = all(cost <= most + TOLERANCE for cost, most in zip(new.goals, old.goals, strict=True))
    # where one spread has no weight, it is no reason to take another
    kept = job.alpha not in (0.0, 1.0) or new.dp + new.pp <= old.dp + old.pp
    return as_near and kept and fast and slow[0] <= slow[1]


def _by_cells(question: Preference, outcome: Outcome) -> Iterator[IntArray]:
    """Yield the cheapest placement as good as that of an outcome, in each trunk with few choices."""
    from scheduler.placement.cell_choice import MOST_CHOICES
    from scheduler.placement.moves import MoveChoices, MoveModel
    from scheduler.placement.node_classes import seat_in_classes

    cluster, job, worth = question.instance.cluster, question.instance.job, outcome.evaluation
    assert worth is not None
    speed = job.speed_on(worth.gpu_types)
    fast = np.array([job.speed_on([name]) >= speed for name in cluster.gpu_types], dtype=np.bool_)
    usable = question.instance.usable & fast[cluster.gpu_type_of]
    usable &= cluster.slowdown <= slowest_in_use(cluster, worth)
    trunks, whole = cluster.trunks, np.round(question.costs * COST_UNIT).astype(np.int64)
    parts = [usable] if trunks is None else [usable & (trunks.domain_of == k) for k in range(len(trunks))]
    slow = cluster.slowdown > HEALTHY
    for admitted in parts:
        choices = MoveChoices.anywhere(cluster, job, admitted, slow, depth=len(cluster.levels) - 1)
        if not job.grid.cells <= int(admitted.sum()) or len(choices) > MOST_CHOICES:
            continue
        model = MoveModel(choices, Limits(workers=1))
        kept = [*goals(cluster, job)]
        if job.alpha in (0.0, 1.0):
            kept.append(tuple(Count(family, cluster.level(job.level).name, 1.0) for family in ("dp", "pp")))
        for rank, terms in enumerate(kept):
            model.count(f"goal {rank}", terms)
            model.at_most(f"goal {rank}", model.value_of(worth, terms))
        model.at_most("slow", len(worth.flagged))
        model.price("cost", whole, admitted)
        model.at_most("cost", int(whole[outcome.proposal.nodes].sum()))
        if clock() >= question.end or model.minimise("cost", question.end) is None or model.answer is None:
            continue
        class_of_cell = choices.class_of_cell(model.answer).ravel()
        # of each class as many as are taken, the cheapest
        granted, taken = np.zeros_like(admitted), np.bincount(class_of_cell, minlength=len(choices.kinds))
        for c in np.flatnonzero(taken).tolist():
            inside = np.flatnonzero(admitted & (choices.kinds.class_of == c))
            granted[inside[np.argsort(whole[inside], kind="stable")][: taken[c]]] = True
        yield seat_in_classes(cluster, job, class_of_cell, choices.kinds.class_of, granted)


def _with_nodes(question: Preference, outcome: Outcome, nodes: IntArray | None) -> Outcome:
    """Return an outcome with other nodes, if they are as good and cost less; else as it was."""
    costs, cluster, job = question.costs, question.instance.cluster, question.instance.job
    if nodes is None or costs[nodes].sum() >= costs[outcome.proposal.nodes].sum():
        return outcome
    worth = worth_of(cluster, job, nodes)
    if worth is None or not as_good(cluster, job, worth, outcome.evaluation):
        return outcome
    step = None if outcome.step is None else PredictedStep.of(cluster, job, worth, bound=outcome.step.bound)
    return outcome.weighed(replace(outcome.proposal, nodes=nodes), worth, outcome.bound or 0.0, step)


def _given_way(question: Preference, nodes: IntArray | None) -> IntArray:
    """Return a placement whose nodes gave way to cheaper usable ones, alike in all that is counted: domain, second
    hierarchies, type and number of GPUs, and slowdown.
    """
    assert nodes is not None
    cluster, costs = question.instance.cluster, question.costs
    levels = [level.domain_of.tolist() for level in (*cluster.levels[-1:], *cluster.second_levels)]
    counted = (cluster.gpu_type_of, cluster.gpus, cluster.slowdown)
    kinds = list(zip(*levels, *(attribute.tolist() for attribute in counted), strict=True))
    spare = question.instance.usable.copy()
    spare[nodes] = False
    left: dict[tuple[float, ...], list[int]] = {}
    for node in sorted(np.flatnonzero(spare).tolist(), key=lambda node: -float(costs[node])):
        left.setdefault(kinds[node], []).append(node)
    renamed = np.arange(len(cluster), dtype=np.int32)
    for node in sorted(nodes.ravel().tolist(), key=lambda node: -float(costs[node])):
        others = left.get(kinds[node])
        if others and costs[others[-1]] < costs[node]:
            renamed[node] = others.pop()
    return renamed[nodes]


def _notes(question: Preference, best: Outcome, plain: Outcome, why: str) -> list[str]:
    """Return what nodes would pull, and how many are near their data, a sentence each."""
    cluster, job = question.instance.cluster, question.instance.job
    pulls = pulls_of(cluster, job)
    pulls = np.maximum(question.costs, 0.0) if pulls is None else pulls
    shared = pulls - question.costs
    nodes, notes = best.proposal.nodes, []
    assert nodes is not None
    if pulls[nodes].any():
        notes.append(f"{cold_nodes(pulls[nodes])}{why}.")
    if shared.any():
        before, now = (int(np.count_nonzero(shared[outcome.proposal.nodes])) for outcome in (plain, best))
        than = f", {before:,} of them where nothing is preferred" if before != now else ""
        where = job.data_level or cluster.levels[-1].name
        most = f"(affinity up to {shared.max():.2f})"
        notes.append(
            f"{now:,} of {nodes.size:,} nodes share a {where} with a running job that reads the same data {most}{than}."
        )
    return notes
