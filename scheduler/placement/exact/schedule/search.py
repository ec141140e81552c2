"""The schedule of the search: refute and build pairs (S, R) until the cheapest one is proved, or time runs out.

Cheap things first, each applied to all open pairs before anything dearer is tried: what counting refutes, then short
constructions, then longer ones, then the width profiles.  Limits are in deterministic time, so the same seed gives the
same answer unless the wall clock runs out first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ground.quantities import plural
from scheduler.placement.exact.components.component_search import pack_components, pack_quick_components
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import (
    RectangleBound,
    contiguous,
    fewest_for_lines,
    product_bound,
    whole_columns,
)
from scheduler.placement.exact.pairs.closed_forms import FILLS, fills_without_affinity
from scheduler.placement.exact.pairs.pair_search import PairSearch
from scheduler.placement.exact.pairs.pattern_bound import UNIT, least_pattern_bound
from scheduler.placement.exact.pairs.regret_table import OutOfEntries, regrets_refute
from scheduler.placement.exact.pairs.row_groups import OutOfNodes, rows_on_two
from scheduler.placement.exact.profiles.profile_search import enumerate_profiles
from scheduler.placement.exact.schedule import constructions
from scheduler.placement.exact.shapes.shape_counts import shapes_refute
from scheduler.placement.exact.shapes.shape_search import decide_shapes, decide_shapes_of_two
from scheduler.placement.types import Pair
from scheduler.work_clock import spend


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
    constructions.build_front(search)


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
    constructions.build_quick_tabu,
    constructions.build_cut_outs,
    count_coverage,
    constructions.build_first_flows,
    count_rectangles_if_quick,
    count_regrets,
    constructions.build_split_bands,
    constructions.build_credits_if_full,
    pack_quick_components,
    constructions.build_quick_peels,
    constructions.build_quick_flows,
    constructions.build_quick_rings,
    count_patterns,
    count_rectangles,
    decide_shapes_of_two,
    pack_components,
    constructions.build_long_peels,
    constructions.build_sets,
    constructions.build_long_rings,
    constructions.build_long_tabu,
    constructions.build_credits,
    count_shapes,
    decide_shapes,
    constructions.build_long_flows,
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
