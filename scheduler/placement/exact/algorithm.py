"""The algorithm ``exact``: the best (S, R), proved or with a certified gap, then the nodes.

A job is placed by one of three strategies, each of which proposes by itself: the short way of a plain gang, the search
of a grid's pairs, or that of a job whose stages share nodes.  The last two weigh slow nodes against spread first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from ground.errors import InvalidJob, SolverTimeout
from scheduler.job import Hold, Job
from scheduler.objective import TOLERANCE, closer_levels, objective_terms, step_time
from scheduler.placement.admission import admissible
from scheduler.placement.exact.goals import GoalSearch, WeighedPlacement
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.level_bounds import LINES, LevelBounds
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridReduction, counted_where_held
from scheduler.placement.exact.schedule import fill_front
from scheduler.placement.exact.solve import alike_together, search_reduction, seat_cells, seat_pair, seating_seconds
from scheduler.placement.exact.starts import (
    goals_of,
    has_more_terms,
    other_seats,
    pack_groups,
    quick_rules,
    quick_starts,
)
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.types import GridProof, Limits, PriceOption, Proposal
from scheduler.work_clock import LEAST_SECONDS, clock, stopwatch
from topology.cluster import Cluster
from topology.flags import HEALTHY


class Strategy(Protocol):
    """A way to place one job on one cluster."""

    def propose(self) -> Proposal:
        """Propose the best placement that it finds in the time."""


@dataclass(frozen=True)
class Exact:
    """The exact search as a placement algorithm."""

    params: ExactParams = DEFAULTS
    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = (
        "the least objective, proved or with a certified gap; then closer levels, fewest flagged nodes, best fit"
    )

    def quick_rules(self) -> Sequence[Heuristic]:
        """Return the rules that it begins with; see :class:`scheduler.placement.heuristic.AsksRules`."""
        return quick_rules()

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Choose a strategy, and propose the best placement that it finds in the time."""
        return self.strategy(cluster, job, limits).propose()

    def strategy(self, cluster: Cluster, job: Job, limits: Limits) -> Strategy:
        """Return how a job is placed: a plain gang, of which the placement alone is asked for, without a solver; a grid
        of rows and columns by the search of its pairs; or what has no such grid, as its stages share nodes.
        """
        if limits.told != "everything":
            from scheduler.placement.exact.plain_gang import plain_gang

            if (gang := plain_gang(cluster, job, limits, self.params)) is not None:
                return gang
        if not job.grid.aligned:
            return SharedStages(cluster, job, limits, self.params)
        return GridSearch(cluster, _counted_by_lines(job), limits, self.params)


def _counted_by_lines(job: Job) -> Job:
    """Return the job with soft terms of groups that are the columns, or the rows, of its grid as terms of these."""
    groups, counts = job.grid.groups, []
    for term in job.counts:
        members = set(groups[term.family].members)
        alike = (family for family in LINES if set(groups[family].members) == members)
        counts.append(replace(term, family=next(alike, term.family)))
    return job.replace(counts=tuple(counts)) if counts else job


@dataclass(frozen=True)
class ThresholdStrategy(ABC):
    """Weigh slow nodes against spread, then meet the other goals in order.

    Only the slowest node sets the pace, so the options are the thresholds between the slowdowns of the free nodes.
    Each is searched, and the least predicted step time (:func:`scheduler.objective.step_time`) wins.
    """

    cluster: Cluster
    job: Job
    limits: Limits
    params: ExactParams

    @abstractmethod
    def search(self, reduction: GridReduction, seconds: float) -> ThresholdSearch:
        """Search the objective on the nodes of one threshold."""

    @abstractmethod
    def offer_front(self, goals: GoalSearch, claims: ThresholdSearch, end: float) -> None:
        """Fill the front of pairs that is told, and offer what is better than the best placement."""

    @abstractmethod
    def with_pairs(self, proposal: Proposal, claims: ThresholdSearch, others: Sequence[ThresholdSearch]) -> Proposal:
        """Return the proposal with what is known of the pairs of the job."""

    def propose(self) -> Proposal:
        """Propose the best placement that the time allows."""
        cluster, job, limits, params = self.cluster, self.job, self.limits, self.params
        start, begun_at = clock(), stopwatch()
        options = thresholds(cluster, job)
        every, held = GridReduction(cluster, job, options[-1]), counted_where_held(cluster, job)
        refusal = (every if held is job else GridReduction(cluster, held, options[-1])).refusal
        if refusal:
            return Proposal(None, infeasible=refusal, solve_seconds=stopwatch() - begun_at)
        searched = search_thresholds(self, every, options)
        chosen = searched.chosen
        # pairs, fronts and closer levels are of the nodes that the job may then use: under `ignore` the slow ones too
        claims = searched.widest if job.avoid == "ignore" else chosen
        solved, solved_at = clock(), stopwatch()
        end = max(start + limits.seconds, solved + LEAST_SECONDS)
        goals = chosen.goals or goals_of(chosen.reduction, chosen.search, limits, end, params)
        closer_proofs: tuple[GridProof, ...] = ()
        if limits.told == "everything":
            goals, closer_proofs = self._closer(goals.best, claims, end)
            self.offer_front(goals, claims, end)
        else:
            # no rule but this is quick on any number of nodes, and mostly good at closer levels as well
            goals.offer_all(quick_starts(chosen.reduction, limits, params, names=("gpu-packing",)))
            goals.certified[:] = [chosen.bound]
            self._meet_experts(goals, end)
        experts, prices = int(job.experts_apart), tuple[PriceOption, ...]()
        if job.avoid == "price" and len(options) > 1:
            # the objective of the way that was chosen is that of the answer
            prices = tuple(
                search.option(
                    goals.best.worth.objective if search is chosen else search.objective, chosen=search is chosen
                )
                for search in searched.searches
            )
        proposal = Proposal(
            goals.best.nodes,
            lower_bound=searched.widest.bound,
            step_time_bound=searched.shortest,
            # under `ignore` that may be known of the healthy nodes alone
            expert_bound=max([1.0, *goals.certified[1 : 1 + experts]]) if goals.reduction is claims.reduction else 1.0,
            closer_bounds=dict(zip(closer_levels(cluster, job), goals.certified[1 + experts :], strict=False)),
            closer_proofs=closer_proofs,
            complete=all(search.complete for search in searched.searches),
            prices=prices,
            solve_seconds=solved_at - begun_at,
            statistics={"afterwards_seconds": stopwatch() - solved_at, "domains": float(len(chosen.reduction.domains))},
        )
        return self.with_pairs(proposal, claims, [search for search in searched.searches if search is not claims])

    def _closer(
        self, best: WeighedPlacement, claims: ThresholdSearch, end: float
    ) -> tuple[GoalSearch, tuple[GridProof, ...]]:
        """Search Eq. 2 at closer levels, from a placement that is best by its objective, over all nodes claimed of;
        return it, with what was refuted of grids there.

        Of all that is seen the best, goal by goal, is kept; quick rules are seen where the search leaves a goal open.
        """
        limits, reduction = self.limits, claims.reduction
        known = {reduction.level.name: claims.lattice}
        bounds = claims.goals.bounds if claims.goals else LevelBounds(reduction, limits, self.params, known, end=end)
        effort = self.params.goal_effort * limits.seconds
        goals = GoalSearch(reduction, bounds, best, [claims.bound], limits, self.params, effort, end)
        held = self._meet_experts(goals, end)
        closer = range(1, len(goals.goals))
        if claims.goals is not None:
            # as good by its objective, it may be better at closer levels; and it has seen the rules
            goals.offer(claims.goals.best.nodes)
        if not goals.counted(closer):
            goals.offer_in_time(other_seats(reduction, claims.search, limits, end, self.params))
            if held is not None:
                goals.offer_in_time(other_seats(held.reduction, held.search, limits, end, self.params))
            if goals.best is not best and not goals.counted(closer):
                # on the domains of a fill that is better the cells may lie better yet
                cells, seconds = reduction.level.domain_of[goals.best.nodes], seating_seconds(limits, self.params)
                goals.offer(seat_cells(reduction, cells, seconds, self.params, end=end))
        proofs: tuple[GridProof, ...] = ()
        if isinstance(bounds, LevelBounds):
            inside: list[tuple[str, Lattice]] = []
            if not goals.counted(closer):
                from scheduler.placement.exact.closer import CloserSearch

                search = CloserSearch(goals, bounds, limits, self.params, end)
                search.search()
                inside = search.lattices
            names = closer_levels(reduction.cluster, reduction.job)
            counted = [(name, lattice) for name, lattice in bounds.lattices.items() if name in names]
            proofs = tuple(grid_proof(name, reduction.slowest, lattice) for name, lattice in (*counted, *inside))
        if claims.goals is None and not (goals.settled(0) and goals.counted(closer)):
            goals.offer_all(quick_starts(reduction, limits, self.params, end=end))
            # a rule may have built a pair that the search has not
            claims.lattice.build(reduction.part_of_block(goals.best.nodes), "quick rule")
        goals.search(closer)
        return goals, proofs

    def _meet_experts(self, goals: GoalSearch, end: float) -> ThresholdSearch | None:
        """Search the least EP spread of placements as good in the objective: first the job with its expert groups held
        in one domain each, for which the pairs are searched anew; if none is as good, some touch two.

        :returns: the search of the job with its expert groups held, where there was one.
        """
        limits, reduction = self.limits, goals.reduction
        cluster, job, slowest = reduction.cluster, reduction.job, reduction.slowest
        if not job.experts_apart:
            return None
        goals.count(1)
        if goals.settled(1):
            return None
        try:
            rows_tied, _ = job.grid.tied(["ep"])
            held = GridReduction(cluster, job.replace(holds=(*job.holds, Hold("ep", reduction.level.name))), slowest)
            refused = bool(GridReduction(cluster, counted_where_held(cluster, held.job), slowest).refusal)
        except InvalidJob:
            return None  # groups that share nodes unequally cannot be held
        reached, search = goals.best.worth.objective + TOLERANCE, None
        if not refused:
            until = min(end, clock() + self.params.short_share * limits.seconds)
            with suppress(SolverTimeout):
                search = self.search(held, max(LEAST_SECONDS, until - clock()))
        if search is not None and search.objective <= reached:
            of_held = search.goals or goals_of(held, search.search, limits, end, self.params)
            goals.offer(of_held.best.nodes)
        if refused or (search is not None and search.bound > reached):
            goals.certified[1] = max(goals.certified[1], min(2.0, goals.best.costs[1]))
        if not goals.settled(1) and job.grid.aligned and reduction.blocks.size == 1:
            # rows may change places: those alike go to the same expert groups
            domains = reduction.level.domain_of[goals.best.nodes]
            alike = domains[alike_together(rows_tied, domains)]
            goals.offer(seat_cells(reduction, alike, seating_seconds(limits, self.params), self.params, end=end))
        return search


class GridSearch(ThresholdStrategy):
    """Search the pairs (S, R) of a job whose groups are the rows and columns of a grid."""

    def search(self, reduction: GridReduction, seconds: float) -> ThresholdSearch:
        """Search the pairs, then, where more terms than the pair count, the objective on the nodes."""
        limits, params = self.limits, self.params
        if not has_more_terms(reduction.cluster, reduction.job):
            return ThresholdSearch(reduction, search_reduction(reduction, limits, seconds, params))
        until = clock() + seconds
        search = search_reduction(reduction, limits, params.long_share * seconds, params)
        goals = goals_of(reduction, search, limits, until, params)
        if not goals.counted([0]) and isinstance(goals.bounds, LevelBounds):
            from scheduler.placement.exact.closer import CloserSearch

            CloserSearch(goals, goals.bounds, limits, params, until).search_terms()
        if not goals.settled(0):
            pack_groups(goals, search)
        goals.search([0])
        return ThresholdSearch(reduction, search, goals)

    def offer_front(self, goals: GoalSearch, claims: ThresholdSearch, end: float) -> None:
        """Fill the front with cheap methods; where time ran out it may have a better pair than the best placement."""
        limits, params, lattice = self.limits, self.params, claims.lattice
        seconds = min(params.short_share * limits.seconds, max(LEAST_SECONDS, end - clock()))
        fill_front(claims.search, seconds=seconds)
        if claims.goals is None and lattice.cost(lattice.best) < goals.best.worth.objective - TOLERANCE:
            seconds = seating_seconds(limits, params)
            goals.offer(seat_pair(claims.reduction, lattice, lattice.best, seconds, params, end=end))

    def with_pairs(self, proposal: Proposal, claims: ThresholdSearch, others: Sequence[ThresholdSearch]) -> Proposal:
        """Return the proposal with the front, and with what all thresholds refuted, first the one claimed of."""
        return replace(
            proposal,
            pareto=claims.lattice.pareto(),
            refutations=tuple(claims.lattice.refutations),
            proofs=tuple(proof for search in (claims, *others) for proof in search.proofs),
        )


class SharedStages(ThresholdStrategy):
    """Search the objective of a job whose stages share nodes: pairs of the grid inside it are not those of the job."""

    def search(self, reduction: GridReduction, seconds: float) -> ThresholdSearch:
        """Search the pairs of the grid inside, then the objective on the nodes."""
        from scheduler.placement.exact.shared_stages import search_shared_stages

        until = clock() + seconds
        search, goals = search_shared_stages(reduction, self.limits, until, self.params)
        return ThresholdSearch(reduction, search, goals, stopped=not goals.settled(0) and clock() >= until)

    def offer_front(self, goals: GoalSearch, claims: ThresholdSearch, end: float) -> None:
        """Offer nothing: no front is told."""

    def with_pairs(self, proposal: Proposal, claims: ThresholdSearch, others: Sequence[ThresholdSearch]) -> Proposal:  # noqa: ARG002
        """Return the proposal as it is."""
        return proposal


@dataclass(frozen=True, slots=True)
class ThresholdSearch:
    """One threshold of slowdown, searched."""

    reduction: GridReduction
    search: PairSearch
    goals: GoalSearch | None = None  # of a job whose pair does not decide, with its objective searched
    stopped: bool = False  # whether time ran out on these goals, where stages share nodes

    @property
    def objective(self) -> float:
        """That of the best placement."""
        return self.lattice.cost(self.lattice.best) if self.goals is None else self.goals.best.worth.objective

    @property
    def bound(self) -> float:
        """No placement on its nodes has a smaller objective."""
        return self.lattice.bound() if self.goals is None else self.goals.certified[0]

    @property
    def time(self) -> float:
        """Predicted step time of the best placement, relative to the ideal."""
        return step_time(self.reduction.job, objective=self.objective, slowest=self.reduction.slowest)

    @property
    def complete(self) -> bool:
        """Whether the search ended by itself."""
        return self.search.complete and not self.stopped

    @property
    def lattice(self) -> Lattice:
        """Its pairs, built and refuted."""
        return self.search.lattice

    @property
    def proofs(self) -> tuple[GridProof, ...]:
        """What was refuted at the job's level, and at others that its objective has terms at."""
        reduction = self.reduction
        known = {reduction.level.name: self.lattice}
        if self.goals is not None and isinstance(self.goals.bounds, LevelBounds):
            counted = {term.level for term in objective_terms(reduction.cluster, reduction.job)}
            known |= {name: lattice for name, lattice in self.goals.bounds.lattices.items() if name in counted}
        return tuple(grid_proof(name, reduction.slowest, lattice) for name, lattice in known.items())

    def option(self, objective: float, *, chosen: bool) -> PriceOption:
        """Return the threshold as one way to treat slow nodes.

        :param objective: of the best placement known on its nodes.
        """
        time = step_time(self.reduction.job, objective=objective, slowest=self.reduction.slowest)
        bound = min(self.bound, objective)
        return PriceOption.of(self.reduction.slowest, objective=objective, bound=bound, step_time=time, chosen=chosen)


def grid_proof(level: str, slowest: float, lattice: Lattice) -> GridProof:
    """Return what was refuted of a grid at a level, on nodes up to some slowdown."""
    grid = lattice.problem
    return GridProof(level, slowest, grid.rows, grid.columns, grid.capacities, tuple(lattice.refutations))


def thresholds(cluster: Cluster, job: Job) -> tuple[float, ...]:
    """Return the slowdowns up to which nodes may be admitted, ascending, 1.0 (no flagged node) first.

    ``strict`` leaves 1.0 alone; ``ignore`` puts no price on slow nodes, so only all or none of them make sense.
    """
    if job.avoid == "strict":
        return (HEALTHY,)
    slow = cluster.slowdown[admissible(cluster, job)]
    slowdowns = sorted({*slow[slow > HEALTHY].tolist()})
    return (HEALTHY, *(slowdowns if job.avoid == "price" else slowdowns[-1:]))


@dataclass(frozen=True, slots=True)
class SearchedThresholds:
    """The thresholds that could win, ascending; the last admits all nodes that the job may use."""

    searches: tuple[ThresholdSearch, ...]
    shortest: float  # certified: no placement has a shorter predicted step

    @property
    def chosen(self) -> ThresholdSearch:
        """The one with the shortest step; of equal ones that with the healthier nodes."""
        return min(self.searches, key=lambda search: (round(search.time, 9), search.reduction.slowest))

    @property
    def widest(self) -> ThresholdSearch:
        """The one whose bound is a bound for all."""
        return self.searches[-1]


def search_thresholds(
    strategy: ThresholdStrategy, every: GridReduction, options: tuple[float, ...]
) -> SearchedThresholds:
    """Search the thresholds that can win; the widest first of all, for its bound serves the others.

    :param every: the job on all nodes that it may use, which are those of the last option.
    """
    cluster, job, end = every.cluster, every.job, clock() + strategy.limits.seconds

    def search(reduction: GridReduction, shares: int) -> ThresholdSearch:
        return strategy.search(reduction, max(LEAST_SECONDS, (end - clock()) / shares))

    searched: list[ThresholdSearch] = []
    fitting = [every.slowest]  # thresholds at which counting does not rule the job out
    # half the time for the widest, the rest shared out among the others as they come
    widest = search(every, min(2, len(options)))
    for i, slowest in enumerate(options[:-1]):
        # fewer nodes have no better objective, so no step time of this threshold is below this one
        fastest = step_time(job, objective=widest.bound, slowest=slowest)
        if GridReduction(cluster, counted_where_held(cluster, job), slowest).refusal:
            continue
        fitting.append(slowest)
        if not any(other.time <= fastest + TOLERANCE for other in searched):
            searched.append(search(GridReduction(cluster, job, slowest), len(options) - 1 - i))
    searched.append(widest)
    # no step is shorter with a node of some slowdown in use, and none slower, than with the best bound on such nodes:
    # what no placement on more nodes is below none on these is
    bounds = {at: max(other.bound for other in searched if other.reduction.slowest >= at) for at in fitting}
    shortest = min(step_time(job, objective=bound, slowest=at) for at, bound in bounds.items())
    return SearchedThresholds(tuple(searched), shortest)
