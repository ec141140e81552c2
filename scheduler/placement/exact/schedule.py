"""The schedule of the search: refute and build pairs (S, R) until the cheapest one is proved, or time runs out.

Cheap things first, each applied to all open pairs before anything dearer is tried: what counting refutes, then short
constructions, then longer ones, then the width profiles.  Limits are in deterministic time, so the same seed gives the
same answer unless the wall clock runs out first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Literal

from ground.quantities import plural
from scheduler.placement.exact.bands import credit_bands, split_bands, tabu_bands
from scheduler.placement.exact.bounds import (
    UNIT,
    OutOfEntries,
    RectangleBound,
    contiguous,
    fewest_for_lines,
    least_pattern_bound,
    product_bound,
    regrets_refute,
    whole_columns,
)
from scheduler.placement.exact.closed_forms import FILLS, OutOfNodes, cut_outs, fills_without_affinity, rows_on_two
from scheduler.placement.exact.components import pack_components, pack_quick_components
from scheduler.placement.exact.flows import (
    FlowLimit,
    count_arcs,
    count_intervals,
    count_sets,
    count_tilings,
    interval_flow,
    peeled_bands,
    ring_flow,
    set_flow,
)
from scheduler.placement.exact.lattice import GridView, PairSearch
from scheduler.placement.exact.params import FlowEffort, PeelEffort, TabuEffort
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profiles import enumerate_profiles
from scheduler.placement.exact.shapes import decide_shapes, decide_shapes_of_two, shapes_refute
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import IntArray

# -- constructions --
# Building pairs by constructions: each is tried on open pairs, the roomiest in the cheaper half of them first.


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


# -- search --
# The schedule of the search: refute and build pairs (S, R) until the cheapest one is proved, or time runs out.
#
# Cheap things first, each applied to all open pairs before anything dearer is tried: what counting refutes, then short
# constructions, then longer ones, then the width profiles.  Limits are in deterministic time, so the same seed gives
# the same answer unless the wall clock runs out first.


def search_pairs(search: PairSearch) -> None:
    """Search until the cheapest pair is proved, nothing is left to try, or time runs out."""
    if sum(search.problem.capacities) < search.problem.cells:  # a fault of the caller
        raise ValueError("the grid does not fit; the caller counts capacities first")
    for stage in (*QUICK_STAGES, *STAGES):
        search.lattice.ties = stage in QUICK_STAGES
        if search.lattice.built and (not search.lattice.open() or search.left < -search.params.least_seconds):
            break
        stage(search)
    search.lattice.ties = False
    if not search.lattice.proved and search.problem.cells <= search.params.many_cells:
        enumerate_profiles(search)
    search.stopped = search.left <= 0


def fill_front(search: PairSearch, *, seconds: float) -> None:
    """Build and refute pairs that the best one did not need, for the Pareto front, with cheap methods only."""
    search.extend(seconds)
    apply_coverage(search, search.lattice.undecided())
    build_front(search)


def count_edges(search: PairSearch) -> None:
    """Settle S = 1 and R = 1 by counting, and fill the domains one by one: a placement exists from the start."""
    most = search.problem.largest_pair
    for view in search.views:
        problem, longest = view.problem, view.turn(most)
        cells = whole_columns(problem)
        if cells is not None:
            search.build(view, cells, "whole columns")
        fewest = fewest_for_lines(problem.rows, problem.columns, problem.capacities)
        refuted = (1, longest[1] if fewest is None else fewest - 1)
        search.lattice.refute(view.turn(refuted), "edges", _edge(problem, refuted, transposed=view.transposed))
        search.build(view, contiguous(problem), "contiguous fill")


def apply_product(search: PairSearch) -> None:
    """Apply the product bound to every S."""
    least = product_bound(search.problem)
    most_dp, most_pp = search.problem.largest_pair
    for dp in range(1, most_dp + 1):
        # the largest R with S * R below the bound
        pp = min(most_pp, -int(-least // dp) - 1)
        sentence = (
            f"DP spread x PP spread is at least {least:.2f} on this cluster, however the cells are arranged, and "
            f"{dp} x {pp} = {dp * pp}"
        )
        search.lattice.refute((dp, pp), "product", sentence)


def fill_without_affinity(search: PairSearch) -> None:
    """Where one affinity is zero, build what has the least of the other spread: rows on the fewest domains."""
    alpha = search.lattice.alpha
    if alpha in (0.0, 1.0):
        for fill, transposed in fills_without_affinity(alpha):
            view = search.views[transposed]
            if (cells := FILLS[fill](view.problem)) is not None:
                search.build(view, cells, fill)


def group_rows(search: PairSearch) -> None:
    """Where S has no affinity, decide R = 2 for any S; and the same transposed."""
    alpha = search.lattice.alpha
    view = search.views[alpha == 1.0]
    if alpha not in (0.0, 1.0) or not any(view.turn(pair)[1] == 2 for pair in search.lattice.open()):
        return
    try:
        cells = rows_on_two(view.problem, search.params.group_nodes)
    except OutOfNodes:
        return
    if cells is not None:
        search.build(view, cells, "row groups")
        return
    family, problem = "DP" if view.transposed else "PP", view.problem
    sentence = (
        f"{family} spread 2 lets {family} groups join the domains into sets, each of fewer {family} groups than "
        f"domains by one at most, and the free nodes of no such sets hold all {problem.rows} {family} groups"
    )
    # no column touches more domains than this: any S
    search.lattice.refute(view.turn((problem.largest_pair[0], 2)), "components", sentence)


def count_coverage(search: PairSearch) -> None:
    """Apply the coverage bound to the open pairs."""
    apply_coverage(search, search.lattice.open())


def apply_coverage(search: PairSearch, pairs: Sequence[Pair]) -> None:
    """Apply the coverage bound to some pairs, dearest first, as a refutation holds for all pairs below."""
    for pair in reversed(pairs):
        # a pair takes milliseconds on a hundred domains, and there may be thousands of them
        if search.left < -search.params.least_seconds:
            return
        if not search.lattice.is_refuted(pair) and search.coverage.refutes(*pair):
            covered, charges = search.coverage.least(*pair)
            search.lattice.refute(pair, "coverage", _too_few_covered(search.problem, pair, int(covered)), charges)


def count_rectangles_if_quick(search: PairSearch) -> None:
    """Make the rectangle table where that takes less time than a search."""
    if RectangleBound.work(search.problem, search.lattice.open()) < search.params.quick_table:
        count_rectangles(search)


def count_rectangles(search: PairSearch) -> None:
    """Make the exact rectangle table, for as many open pairs, from the cheapest, as time allows."""
    pairs = [p for p in search.lattice.open() if search.table is None or not search.table.knows(p)]
    params = search.params
    seconds = min(params.table_share * search.limits.seconds, search.left - params.table_reserve)
    allowed = params.table_speed * max(0.0, seconds)
    while pairs and RectangleBound.work(search.problem, pairs) > allowed:
        pairs = pairs[: len(pairs) // 2]
    if not pairs:
        return
    search.say("counting rectangles")
    search.table = RectangleBound(search.problem, pairs)
    spend(RectangleBound.work(search.problem, pairs) / params.table_speed)
    for pair in reversed(pairs):
        if not search.lattice.is_refuted(pair) and search.table.refutes(pair):
            covered, (_, charges) = search.table.most_cells(pair), search.coverage.least(*pair)
            search.lattice.refute(pair, "rectangles", _too_few_covered(search.problem, pair, covered), charges)


def count_regrets(search: PairSearch) -> None:
    """Apply the rectangle bound by regrets to the open pairs with little slack which the rectangle table leaves out."""
    params, problem = search.params, search.problem
    for pair in reversed(search.lattice.open()):
        if search.left <= 0:
            return
        if search.lattice.is_refuted(pair) or (search.table is not None and search.table.knows(pair)):
            continue
        covered, prices = search.coverage.least(*pair)
        if covered - problem.cells > params.regret_slack:
            continue
        with suppress(OutOfEntries):
            if regrets_refute(problem, pair, prices, entries=params.regret_entries):
                sentence = _too_few_covered(problem, pair, problem.cells - 1)
                search.lattice.refute(pair, "rectangles", sentence, prices)


def count_patterns(search: PairSearch) -> None:
    """Apply the pattern bound to the open pairs, the cheapest first: each that is refuted raises the bound."""
    params, problem = search.params, search.problem
    if problem.cells > params.many_cells or max(problem.rows, problem.columns) > params.pattern_lines:
        return
    end = search.left - params.pattern_share * search.limits.seconds
    for pair in search.lattice.open():
        if search.left < max(end, 0.0):
            return
        if search.lattice.is_refuted(pair):
            continue
        search.say(f"patterns for DP spread {pair[0]}, PP spread {pair[1]}")
        bound = search.patterns[pair] = least_pattern_bound(problem, pair, rounds=params.pattern_rounds)
        if bound.slack < 0:
            covered = problem.cells + bound.slack // UNIT
            sentence = f"{_too_few_covered(problem, pair, covered)}, as widths and heights must add up, group by group"
            search.lattice.refute(pair, "patterns", sentence, bound.prices)


def count_shapes(search: PairSearch) -> None:
    """Ask for the open pairs whether any numbers of domains with each shape add up."""
    params, problem = search.params, search.problem
    for pair in search.lattice.open():
        bound = search.patterns.get(pair)
        if bound is None or search.lattice.is_refuted(pair):
            continue
        if search.left <= 0 or bound.number_of_shapes > params.pattern_shapes:
            continue
        search.say(f"shapes for DP spread {pair[0]}, PP spread {pair[1]}")
        if shapes_refute(problem, pair, bound, patterns=params.pattern_cuts, effort=params.pattern_effort):
            sentence = (
                f"two complete searches over how many DP and PP groups each domain touches found no numbers that add "
                f"up to DP groups on at most {pair[0]} domains and PP groups on at most {pair[1]}"
            )
            search.lattice.refute(pair, "shapes", sentence)


QUICK_STAGES = (count_edges, apply_product, fill_without_affinity)
"""What closed forms do, which breaks ties too: where a spread has no affinity less of it is looked for here alone."""

STAGES = (
    group_rows,
    build_quick_tabu,
    build_cut_outs,
    count_coverage,
    build_first_flows,
    count_rectangles_if_quick,
    count_regrets,
    build_split_bands,
    build_credits_if_full,
    pack_quick_components,
    build_quick_peels,
    build_quick_flows,
    build_quick_rings,
    count_patterns,
    count_rectangles,
    decide_shapes_of_two,
    pack_components,
    build_long_peels,
    build_sets,
    build_long_rings,
    build_long_tabu,
    build_credits,
    count_shapes,
    decide_shapes,
    build_long_flows,
)
"""The methods after these in order, each applied to all open pairs; the width profiles come last."""


def _edge(problem: GridProblem, pair: Pair, *, transposed: bool) -> str:
    """Return why spread 1 in one family is impossible: whole groups fit into too few domains; all may be transposed."""
    family, other = ("PP", "DP") if transposed else ("DP", "PP")
    whole = sum(c // problem.rows for c in problem.capacities)
    if whole < problem.columns:
        groups = f"the {family} group" if problem.columns == 1 else f"each of the {problem.columns} {family} groups"
        room = f"{plural(whole, 'whole group')} only" if whole else "none"
        return (
            f"{family} spread 1 puts {groups} of {plural(problem.rows, 'node')} whole into one domain, and the domains "
            f"have room for {room}"
        )
    return (
        f"with {family} spread 1 whole {family} groups fill the domains, and {problem.columns} of them need more than "
        f"{pair[1]} domains, all of which every {other} group touches"
    )


def _too_few_covered(problem: GridProblem, pair: Pair, covered: int) -> str:
    """Return why a pair cannot cover all cells, by the coverage or the rectangle bound."""
    return (
        f"if no DP group touches more than {pair[0]} domains and no PP group more than {pair[1]}, the domains can hold "
        f"at most {covered:,} of the {problem.cells:,} cells"
    )
