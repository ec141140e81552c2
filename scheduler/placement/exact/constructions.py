"""Building pairs by constructions: sweeps over the open pairs by bisection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Literal

from scheduler.placement.exact.bands import column_bands, cut_rows, partitions, ragged_bands
from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.credit_bands import credit_bands
from scheduler.placement.exact.lattice import GridView, PairSearch
from scheduler.placement.exact.params import BandSweep, TabuEffort
from scheduler.placement.exact.tabu_bands import tabu_bands
from scheduler.placement.types import Pair
from topology.cluster import IntArray


def build_quick_tabu(search: PairSearch) -> None:
    """Try a short tabu search for open pairs: what counting leaves open can often be had at once."""
    _from_the_roomiest(search, partial(_tabu, search, search.params.quick_tabu), "column bands")


def build_long_tabu(search: PairSearch) -> None:
    """Try longer tabu searches over more partitions."""
    _from_the_roomiest(search, partial(_tabu, search, search.params.long_tabu), "column bands")


def build_credits(search: PairSearch) -> None:
    """Try bands with credits, which waste fewer nodes."""
    _from_the_roomiest(search, partial(_credits, search), "credit bands")


def build_few_bands(search: PairSearch) -> None:
    """Sweep with short band searches; with many nodes first those without the rows of a domain as integers."""
    params = search.params
    if _many_nodes(search):
        _sweep(search, "ragged", params.ragged_many)
        if not _full(search):
            _sweep(search, "column", params.short_bands, whole=True)
    else:
        _sweep(search, "column", params.short_bands)
        _sweep(search, "ragged", params.ragged_few)


def build_more_bands(search: PairSearch) -> None:
    """Sweep with longer band searches over more partitions."""
    params = search.params
    if _many_nodes(search):
        if not _full(search):
            _sweep(search, "column", params.long_whole_bands, whole=True)
        for effort in params.pair_efforts:
            _bands_by_pair(search, effort)
    else:
        _sweep(search, "column", params.long_bands)


def build_cut_rows(search: PairSearch) -> None:
    """Cut rows in two on full clusters where most open pairs have R = 2 (or S = 2, on the transpose).

    The cheapest of these pairs and the middle one are tried side by side: the first would decide most, the second
    succeeds more often.
    """
    if not _full(search):
        return
    until = max(0.0, search.left - search.params.cut_share * search.limits.seconds)
    tried: set[Pair] = set()
    for view in search.views:
        if view.problem.columns not in search.params.cut_columns:
            continue
        while search.left > until:
            left = search.lattice.open()
            waiting = [p for p in left if p not in tried and view.turn(p)[1] == 2]
            if 2 * len(waiting) < max(1, len(left)):
                break
            pairs = list(dict.fromkeys([waiting[0], waiting[len(waiting) // 2]]))
            tried.update(pairs)
            search.limits.say(f"rows cut in two for DP spread {pairs[0][0]}, PP spread {pairs[0][1]}")
            searches = [
                partial(
                    cut_rows,
                    view.problem,
                    dp=view.turn(pair)[0],
                    seconds=search.left - until,
                    nodes=search.params.cut_nodes,
                    seed=search.limits.seed + i,
                )
                # a single pair is tried twice, with two seeds
                for i, pair in enumerate(pairs if len(pairs) == 2 else 2 * pairs)
            ]
            for cells in search.side_by_side(searches):
                if cells is not None:
                    search.build(view, cells, "cut rows")


def build_front(search: PairSearch) -> None:
    """Build pairs that the best one did not need, for the Pareto front."""
    _sweep(search, "column", search.params.front_bands, pairs=search.lattice.undecided)


def _from_the_roomiest(search: PairSearch, attempt: Callable[[GridView, Pair], IntArray | None], name: str) -> None:
    """Try open pairs, the roomiest in the cheaper half of them first, on the view with fewer columns first.

    One that is built closes all dearer ones.  Where one fails, pairs with no more of either spread are not tried.
    """
    failed: list[Pair] = []
    while search.left > 0:
        waiting = [p for p in search.lattice.open() if not any(p[0] <= dp and p[1] <= pp for dp, pp in failed)]
        if not waiting:
            return
        pair = max(waiting[: (len(waiting) + 1) // 2], key=lambda p: p[0] * p[1])
        search.limits.say(f"{name} for DP spread {pair[0]}, PP spread {pair[1]}")
        for view in sorted(search.views, key=lambda view: view.problem.columns):
            cells = attempt(view, view.turn(pair))
            if cells is not None:
                search.build(view, cells, name)
                if search.lattice.is_built(pair):
                    break
        else:
            failed.append(pair)


def _tabu(search: PairSearch, effort: TabuEffort, view: GridView, pair: Pair) -> IntArray | None:
    """Build a pair of the view by tabu bands."""
    return tabu_bands(view.problem, pair, effort=effort, seed=search.limits.seed, params=search.params)


def _credits(search: PairSearch, view: GridView, pair: Pair) -> IntArray | None:
    """Build a pair of the view by credit bands."""
    return credit_bands(view.problem, pair, seed=search.limits.seed, params=search.params)


def _sweep(
    search: PairSearch,
    bands: Literal["column", "ragged"],
    sweep: BandSweep,
    *,
    whole: bool = False,
    pairs: Callable[[], list[Pair]] | None = None,
) -> None:
    """Try to build open pairs: by bisection for the cheapest that can be had, then the others from the dearest down.

    One that is built closes all dearer ones at once; one that fails says that cheaper ones will hardly do better.
    """
    tried: set[Pair] = set()
    failed = 0.0
    until = max(0.0, search.left - sweep.share * search.limits.seconds)
    candidates = pairs or search.lattice.open
    build = partial(_column, whole=whole) if bands == "column" else _ragged
    while waiting := [pair for pair in candidates() if pair not in tried]:
        dearer = [pair for pair in waiting if search.lattice.cost(pair) > failed]
        pair = dearer[len(dearer) // 2] if dearer else waiting[-1]
        tried.add(pair)
        search.limits.say(f"bands for DP spread {pair[0]}, PP spread {pair[1]}")
        if search.left <= until:
            return
        both = [partial(build, search, view, view.turn(pair), sweep=sweep) for view in search.views]
        for view, cells in zip(search.views, search.side_by_side(both), strict=True):
            if cells is not None:
                search.build(view, cells, f"{bands} bands")
        if not search.lattice.is_built(pair):
            failed = max(failed, search.lattice.cost(pair))


def _bands_by_pair(search: PairSearch, effort: float) -> None:
    """Try open pairs from the dearest down, of equal ones the squarest first, on the view with fewer columns."""
    view = _narrowest(search)
    for pair in sorted(search.lattice.open(), key=lambda pair: (-round(search.lattice.cost(pair), 9), max(pair))):
        if search.lattice.is_built(pair):
            continue
        dp, pp = view.turn(pair)
        widths = list(_widths(view, pp, search.params.pair_partitions))
        search.limits.say(f"bands for DP spread {pair[0]}, PP spread {pair[1]}")
        for two in zip(widths[::2], widths[1::2], strict=False):
            if search.left <= 0 or search.lattice.is_built(pair):
                break
            limit = Slice(effort, search.left, search.limits.seed)
            searches = [partial(column_bands, view.problem, dp=dp, widths=w, limit=limit) for w in two]
            for cells in search.side_by_side(searches):
                if cells is not None:
                    search.build(view, cells, "column bands")


def _narrowest(search: PairSearch) -> GridView:
    return min(search.views, key=lambda view: view.problem.columns)


def _column(
    search: PairSearch, view: GridView, pair: Pair, *, sweep: BandSweep, whole: bool = False, light: bool = False
) -> IntArray | None:
    """Build a pair of the view by column bands."""
    dp, pp = pair
    for widths in _widths(view, pp, sweep.partitions):
        if search.left <= 0:
            return None
        limit = Slice(sweep.effort, search.left, search.limits.seed, light=light)
        cells = column_bands(view.problem, dp=dp, widths=widths, limit=limit, whole=whole)
        if cells is not None:
            return cells
    return None


def _ragged(search: PairSearch, view: GridView, pair: Pair, *, sweep: BandSweep) -> IntArray | None:
    """Build a pair of the view by ragged bands, on the most even partition."""
    dp, pp = pair
    if pp == 1:
        return None
    # one band fewer than R: a boundary inside a row costs it one domain more
    widths = next(_widths(view, pp - 1, 1))
    limit = Slice(sweep.effort, search.left, search.limits.seed, light=True)
    return ragged_bands(view.problem, dp=dp, widths=widths, limit=limit, params=search.params)


def _widths(view: GridView, bands: int, most: int) -> Iterator[tuple[int, ...]]:
    """Return the first so many partitions of the view's columns into at most that many bands, the most even first."""
    columns = view.problem.columns
    return islice(partitions(columns, min(bands, columns)), most)


def _many_nodes(search: PairSearch) -> bool:
    """Return whether models with the rows of a domain as integers get slow."""
    return search.problem.cells > search.params.many_cells


def _full(search: PairSearch) -> bool:
    """Return whether whole rows of bands waste more nodes than there are to spare."""
    return search.problem.cells >= search.params.full * sum(search.problem.capacities)
