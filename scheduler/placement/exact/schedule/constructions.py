"""Building pairs by constructions: each is tried on open pairs, the roomiest in the cheaper half of them first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Literal

from scheduler.placement.exact.bands.credit_bands import credit_bands
from scheduler.placement.exact.bands.split_bands import split_bands
from scheduler.placement.exact.bands.tabu_bands import tabu_bands
from scheduler.placement.exact.flows.interval_flow import count_intervals, interval_flow
from scheduler.placement.exact.flows.peeled_bands import peeled_bands
from scheduler.placement.exact.flows.ring_flow import count_arcs, count_tilings, ring_flow
from scheduler.placement.exact.flows.set_flow import count_sets, set_flow
from scheduler.placement.exact.flows.whole_rows import FlowLimit
from scheduler.placement.exact.grid.params import FlowEffort, PeelEffort, TabuEffort
from scheduler.placement.exact.pairs.cut_outs import cut_outs
from scheduler.placement.exact.pairs.pair_search import GridView, PairSearch
from scheduler.placement.types import Pair
from scheduler.work_clock import clock
from topology.cluster import IntArray

FlowKind = Literal["interval", "ring", "set"]

Attempt = Callable[[GridView, Pair], IntArray | None]
"""A construction on a view of the problem, for a pair as the view sees it: the domain of each cell, or nothing."""


def build_cut_outs(search: PairSearch) -> None:
    """Cut rectangles out of the largest domain."""
    _from_the_roomiest(search, lambda view, pair: cut_outs(view.problem, pair), "cut-outs")


def build_quick_tabu(search: PairSearch) -> None:
    """Try a short tabu search for open pairs: what counting leaves open can often be had at once."""
    _from_the_roomiest(search, partial(_tabu, search, search.params.quick_tabu), "column bands")


def build_long_tabu(search: PairSearch) -> None:
    """Try longer tabu searches over more partitions."""
    _from_the_roomiest(search, partial(_tabu, search, search.params.long_tabu), "column bands")


def build_split_bands(search: PairSearch) -> None:
    """Split some bands for some of their rows, on many cells or a full cluster: on others it hardly ever decides."""
    end, params = _end(search), search.params

    def attempt(view: GridView, pair: Pair) -> IntArray | None:
        if view.problem.columns > params.split_columns:
            return None
        return split_bands(view.problem, pair, seed=search.limits.seed, params=params, end=end)

    if search.problem.cells > params.many_cells or _full(search):
        _from_the_roomiest(search, attempt, "split bands", end=end)


def build_credits_if_full(search: PairSearch) -> None:
    """Try bands with credits before longer searches for whole rows, where those waste more nodes than there are."""
    if _full(search):
        _credits(search)


def build_credits(search: PairSearch) -> None:
    """Try bands with credits, unless they have been tried; with many cells whole rows waste little of them."""
    if not _full(search) and search.problem.cells <= search.params.many_cells:
        _credits(search)


def _credits(search: PairSearch) -> None:
    def attempt(view: GridView, pair: Pair) -> IntArray | None:
        return credit_bands(view.problem, pair, seed=search.limits.seed, params=search.params)

    _from_the_roomiest(search, attempt, "credit bands", end=_end(search))


def build_quick_peels(search: PairSearch) -> None:
    """Peel a few choices of bands off, with a flow over what they leave: it is small, where one over all is not."""
    _peeled(search, search.params.quick_peel, seed=search.limits.seed)


def build_long_peels(search: PairSearch) -> None:
    """Peel more choices of bands off, with flows of other seeds over what they leave."""
    _peeled(search, search.params.long_peel, seed=search.limits.seed + 1)


def _peeled(search: PairSearch, effort: PeelEffort, *, seed: int) -> None:
    params = search.params
    if search.problem.cells > params.many_cells:
        return
    end = search.end_of(effort.share)

    def attempt(view: GridView, pair: Pair) -> IntArray | None:
        if pair[0] < effort.least:
            return None
        limit = FlowLimit(end - clock(), effort.programs, roundings=1, seed=seed)
        return peeled_bands(view.problem, pair, flows=effort.flows, limit=limit, params=params)

    _from_the_roomiest(search, attempt, "peeled bands", end=end)


def build_first_flows(search: PairSearch) -> None:
    """Cut every row in two, where the model is so small that a dive takes a hundredth of a second."""
    _flows(search, search.params.first_flows, search.params.first_intervals, segments=2)


def build_quick_flows(search: PairSearch) -> None:
    """Cut every row where it suits, with a few short dives."""
    _flows(search, search.params.quick_flows, search.params.flow_intervals)


def build_long_flows(search: PairSearch) -> None:
    """Cut every row where it suits, with more and longer dives."""
    _flows(search, search.params.long_flows, search.params.flow_intervals)


def build_quick_rings(search: PairSearch) -> None:
    """Cut every row where it suits, on columns that lie on a ring, with a few short dives."""
    _flows(search, search.params.quick_flows, search.params.flow_intervals, kind="ring")


def build_long_rings(search: PairSearch) -> None:
    """Cut every row where it suits, on columns that lie on a ring, with more dives."""
    _flows(search, search.params.long_rings, search.params.flow_intervals, kind="ring")


def build_sets(search: PairSearch) -> None:
    """Let domains serve any sets of columns, where these are few."""
    _flows(search, search.params.set_flows, search.params.flow_intervals, kind="set")


def build_front(search: PairSearch) -> None:
    """Build pairs that the best one did not need, for the Pareto front."""
    attempt = partial(_tabu, search, search.params.quick_tabu)
    _from_the_roomiest(search, attempt, "column bands", pairs=search.lattice.undecided)


def _tabu(search: PairSearch, effort: TabuEffort, view: GridView, pair: Pair) -> IntArray | None:
    """Build a pair of the view by tabu bands."""
    return tabu_bands(view.problem, pair, effort=effort, seed=search.limits.seed, params=search.params)


def _flows(
    search: PairSearch, effort: FlowEffort, most: int, *, segments: int | None = None, kind: FlowKind = "interval"
) -> None:
    """Look for intervals of columns, arcs or sets, round after round over all open pairs, each with another seed.

    :param most: intervals up to which they are looked for.
    :param segments: of each row; ``None`` = any number.
    """
    params = search.params
    end = _end(search) if kind == "interval" else search.end_of(params.ring_share)

    @cache
    def small(view: GridView, pair: Pair) -> bool:
        problem = view.problem
        wanted = pair[1] > 1 if segments is None else pair[1] == segments
        if not wanted or problem.columns > (params.set_columns if kind == "set" else params.flow_columns):
            return False
        if kind == "ring" and count_tilings(problem, pair) > params.ring_tilings:
            return False
        if count_intervals(problem, pair) > most:
            return False
        coverage = search.coverage_of(view)
        if kind == "ring":
            return count_arcs(problem, pair, coverage) <= params.ring_arcs
        return kind == "interval" or count_sets(problem, pair, coverage) <= params.flow_sets

    def attempt(view: GridView, pair: Pair, *, seed: int) -> IntArray | None:
        if not small(view, pair):
            return None
        limit = FlowLimit(end - clock(), effort.programs, effort.roundings, seed)
        flow = {"interval": interval_flow, "ring": ring_flow, "set": set_flow}[kind]
        return flow(view.problem, pair, limit=limit, coverage=search.coverage_of(view))

    def pairs() -> list[Pair]:
        return [p for p in search.lattice.open() if any(small(view, view.turn(p)) for view in search.views)]

    for i in range(effort.seeds):
        of_round = partial(attempt, seed=search.limits.seed + i)
        _from_the_roomiest(search, of_round, f"{kind} flow", pairs=pairs, end=end)


def _from_the_roomiest(
    search: PairSearch,
    attempt: Attempt,
    name: str,
    *,
    pairs: Callable[[], list[Pair]] | None = None,
    end: float | None = None,
) -> None:
    """Try open pairs, the roomiest in the cheaper half of them first, on the view with fewer columns first.

    One that is built closes all dearer ones.  Where one fails, pairs with no more of either spread are not tried.

    :param pairs: which pairs are left to try, by cost.
    :param end: when to stop, by ``scheduler.work_clock``; ``None`` = with the search.
    """
    failed: list[Pair] = []
    while search.left > 0 and (end is None or clock() < end):
        waiting = [p for p in (pairs or search.lattice.open)() if not any(_within(p, other) for other in failed)]
        if not waiting:
            return
        pair = max(waiting[: (len(waiting) + 1) // 2], key=lambda p: p[0] * p[1])
        search.say(f"{name} for DP spread {pair[0]}, PP spread {pair[1]}")
        for view in sorted(search.views, key=lambda view: view.problem.columns):
            cells = attempt(view, view.turn(pair))
            if cells is not None:
                search.build(view, cells, name)
            if search.lattice.is_built(pair):
                break
        else:
            failed.append(pair)


def _end(search: PairSearch) -> float:
    """Return when a longer construction stops, by ``scheduler.work_clock``: what comes after it needs time too."""
    params = search.params
    share = params.construction_share if search.problem.cells <= params.many_cells else params.many_cells_share
    return search.end_of(share)


def _within(pair: Pair, other: Pair) -> bool:
    return pair[0] <= other[0] and pair[1] <= other[1]


def _full(search: PairSearch) -> bool:
    """Return whether whole rows of bands waste more nodes than there are to spare; few cells are decided sooner."""
    problem, params = search.problem, search.params
    return problem.cells > params.few_cells and problem.cells >= params.full * sum(problem.capacities)
