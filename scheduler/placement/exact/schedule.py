"""The schedule of the search: refute and build pairs (S, R) until the cheapest one is proved, or time runs out.

Cheap things first, each applied to all open pairs before anything dearer is tried: what counting refutes, then short
constructions, then longer ones, then the skeletons.  A construction takes open pairs one after another, of the
cheaper half of them the roomiest first.  Limits are in deterministic time, so the same seed gives the same answer
unless the wall clock runs out first.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

from ground.quantities import plural
from scheduler.placement.exact.bands import split_bands, tabu_bands
from scheduler.placement.exact.bounds import (
    ENTRY_SECONDS,
    UNIT,
    OutOfEntries,
    contiguous,
    fewest_for_lines,
    least_pattern_bound,
    product_bound,
    regrets_refute,
    whole_columns,
)
from scheduler.placement.exact.closed_forms import OutOfNodes, cut_outs, filled, fills_without_affinity, rows_on_two
from scheduler.placement.exact.components import pack_components, pack_quick_components
from scheduler.placement.exact.flows import (
    COLUMNS,
    INTERVALS,
    PROGRAMS,
    FlowLimit,
    PeeledBands,
    count_intervals,
    interval_flow,
)
from scheduler.placement.exact.lattice import GridView, PairSearch
from scheduler.placement.exact.pieces import count_pieces
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.shapes import decide_shapes
from scheduler.placement.exact.skeletons import decide_skeletons
from scheduler.placement.types import Pair
from scheduler.work_clock import LEAST_SECONDS, clock
from topology.cluster import IntArray

Stage = Callable[[PairSearch], None]

# Cells beyond the grid's that multipliers cover, up to which rectangles are counted: with 22 some pairs were refuted,
# and with hundreds the tables of one take all the time
_BEYOND_CELLS = 24
# Part of the free nodes in use from which a cluster is full: whole rows of bands waste more than is to spare, and bands
# are split
_FULL = 0.97
# Rounds of flows, with more programs in each, and draws of peeled bands in one: of sixty seeds the first twenty found
# all there was
_ROUNDS = 16  # A method, applied to all open pairs of a search

Attempt = Callable[[GridView, Pair], IntArray | None]
"""A construction on a view of the problem, for a pair as the view sees it: the domain of each cell, or nothing."""


def run_stage(stage: Stage, search: PairSearch) -> None:
    """Run a stage of the search, with nothing left out and nothing looked at."""
    stage(search)


def search_pairs(search: PairSearch, run: Callable[[Stage, PairSearch], None] = run_stage) -> None:
    """Search until the cheapest pair is proved, nothing is left to try, or time runs out.

    :param run: what runs each stage in turn; the ablation leaves some out.
    """
    if sum(search.problem.capacities) < search.problem.cells:  # a fault of the caller
        raise ValueError("the grid does not fit; the caller counts capacities first")
    for stage in STAGES:
        if search.lattice.built and (not search.lattice.open() or search.left < -LEAST_SECONDS):
            break
        run(stage, search)
    search.stopped = search.left <= 0


def fill_front(search: PairSearch, *, seconds: float) -> None:
    """Build and refute pairs that the best one did not need, for the Pareto front, with cheap methods only."""
    search.extend(seconds)
    apply_coverage(search, search.lattice.undecided())
    _from_the_roomiest(search, partial(_tabu, search), "column bands", pairs=search.lattice.undecided)


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
            if (cells := filled(view.problem, fill)) is not None:
                search.build(view, cells, fill)


def group_rows(search: PairSearch) -> None:
    """Where S has no affinity, decide R = 2 for any S; and the same transposed."""
    alpha = search.lattice.alpha
    view = search.views[alpha == 1.0]
    if alpha not in (0.0, 1.0) or not any(view.turn(pair)[1] == 2 for pair in search.lattice.open()):
        return
    try:
        cells = rows_on_two(view.problem)
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
        if search.left < -LEAST_SECONDS:
            return
        if not search.lattice.is_refuted(pair) and search.coverage.refutes(*pair):
            covered, charges = search.coverage.least(*pair)
            search.lattice.refute(pair, "coverage", _too_few_covered(search.problem, pair, int(covered)), charges)


def count_rectangles(search: PairSearch) -> None:
    """Apply the rectangle bound to the open pairs, those first where multipliers leave least, as far as time goes."""
    problem, coverage = search.problem, search.coverage
    end = search.end_of(search.params.quick_share)
    for pair in sorted(search.lattice.open(), key=lambda pair: coverage.least(*pair)[0]):
        if search.lattice.is_refuted(pair):
            continue
        covered, prices = coverage.least(*pair)
        if covered - problem.cells > _BEYOND_CELLS:
            return
        entries = int((end - clock()) / ENTRY_SECONDS)
        try:
            refuted = regrets_refute(problem, pair, prices, entries=entries)
        except OutOfEntries:
            return
        if refuted:
            sentence = _too_few_covered(problem, pair, problem.cells - 1)
            search.lattice.refute(pair, "rectangles", sentence, prices)


def count_patterns(search: PairSearch) -> None:
    """Apply the pattern bound to the open pairs, the cheapest first: each that is refuted raises the bound."""
    problem = search.problem
    if problem.cells > search.params.many_cells:
        return
    end = search.end_of(search.params.short_share)
    for pair in search.lattice.open():
        if clock() >= end:
            return
        if search.lattice.is_refuted(pair):
            continue
        search.say(f"patterns for DP spread {pair[0]}, PP spread {pair[1]}")
        bound = search.patterns[pair] = least_pattern_bound(problem, pair, end=end)
        if bound.slack < 0:
            covered = problem.cells + bound.slack // UNIT
            sentence = f"{_too_few_covered(problem, pair, covered)}, as widths and heights must add up, group by group"
            search.lattice.refute(pair, "patterns", sentence, bound.prices)


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


def build_quick_tabu(search: PairSearch) -> None:
    """Try a short tabu search for open pairs: what counting leaves open can often be had at once."""
    _from_the_roomiest(search, partial(_tabu, search), "column bands")


def _tabu(search: PairSearch, view: GridView, pair: Pair) -> IntArray | None:
    return tabu_bands(view.problem, pair, seed=search.limits.seed, end=search.end_of(1.0))


def build_cut_outs(search: PairSearch) -> None:
    """Cut rectangles out of the largest domain, for columns on two."""

    def attempt(view: GridView, pair: Pair) -> IntArray | None:
        cells = cut_outs(view.problem) if pair[0] == 2 else None
        return None if cells is None or view.problem.pair_of(cells)[1] > pair[1] else cells

    _from_the_roomiest(search, attempt, "cut-outs")


def build_split_bands(search: PairSearch) -> None:
    """Split some bands for some of their rows, on many cells or a full cluster: on others it hardly ever decides."""
    params, problem = search.params, search.problem
    end = search.end_of(params.long_share)

    def attempt(view: GridView, pair: Pair) -> IntArray | None:
        if view.problem.columns > 2 * params.narrow_columns:
            return None
        return split_bands(view.problem, pair, seed=search.limits.seed, end=end)

    if problem.cells >= _FULL * sum(problem.capacities) or problem.cells > params.many_cells:
        _from_the_roomiest(search, attempt, "split bands", end=end)


def build_quick_peels(search: PairSearch) -> None:
    """Peel bands off a few times: what they leave is so small that its flow takes hundredths of a second."""
    _peels(search, search.params.short_share, rounds=range(1))


def build_long_peels(search: PairSearch) -> None:
    """Peel bands off again and again."""
    _peels(search, search.params.long_share, rounds=range(1, _ROUNDS))


def _peels(search: PairSearch, share: float, rounds: range) -> None:
    """Peel bands off, each time with another seed, round after round over all open pairs."""
    end = search.end_of(share)
    bands_of = cache(lambda view, pair: PeeledBands(view.problem, pair))

    def attempt(view: GridView, pair: Pair, *, number: int) -> IntArray | None:
        for seed in range(number * _ROUNDS, (number + 1) * _ROUNDS):
            limit = FlowLimit(end - clock(), PROGRAMS, search.limits.seed + seed)
            if limit.seconds <= 0:
                break
            if (cells := bands_of(view, pair).flow(limit)) is not None:
                return cells
        return None

    for number in rounds:
        _from_the_roomiest(search, partial(attempt, number=number), "peeled bands", end=end)


def build_quick_flows(search: PairSearch) -> None:
    """Cut every row where it suits, with two short dives, which ask for different things."""
    _flows(search, range(2))


def build_long_flows(search: PairSearch) -> None:
    """Cut every row where it suits, with more dives, each longer than the one before."""
    _flows(search, range(2, _ROUNDS))


def _flows(search: PairSearch, rounds: range) -> None:
    """Look for intervals of columns, round after round over all open pairs, each with another seed.

    :param rounds: the first two are quick dives.
    """
    end = search.end_of(search.params.long_share)

    @cache
    def small(view: GridView, pair: Pair) -> bool:
        return pair[1] > 1 and view.problem.columns <= COLUMNS and count_intervals(view.problem, pair) <= INTERVALS

    def attempt(view: GridView, pair: Pair, *, number: int) -> IntArray | None:
        if not small(view, pair):
            return None
        limit = FlowLimit(end - clock(), PROGRAMS * max(1, number), search.limits.seed + number)
        return interval_flow(view.problem, pair, limit=limit, coverage=search.coverage_of(view))

    def pairs() -> list[Pair]:
        return [p for p in search.lattice.open() if any(small(view, view.turn(p)) for view in search.views)]

    for number in rounds:
        _from_the_roomiest(search, partial(attempt, number=number), "interval flow", pairs=pairs, end=end)


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
        waiting = [
            p for p in (pairs or search.lattice.open)() if not any(p[0] <= dp and p[1] <= pp for dp, pp in failed)
        ]
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


STAGES: tuple[Stage, ...] = (
    count_edges,
    apply_product,
    fill_without_affinity,
    group_rows,
    build_quick_tabu,
    build_cut_outs,
    count_coverage,
    count_rectangles,
    build_split_bands,
    pack_quick_components,
    build_quick_peels,
    build_quick_flows,
    count_patterns,
    decide_shapes,
    pack_components,
    count_pieces,
    build_long_peels,
    build_long_flows,
    decide_skeletons,
)
"""The methods in order, each applied to all open pairs."""
