"""Building pairs by constructions: sweeps over the open pairs by bisection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from scheduler.placement.exact.bands import column_bands, partitions
from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.cuts import cut_rows
from scheduler.placement.exact.ragged import ragged_bands
from scheduler.placement.exact.walk import View, Walk
from scheduler.placement.types import Pair
from topology.cluster import IntArray

_MANY_CELLS = 3000
"""Cells from which bands are first looked for with each domain in one band."""

_LONG_EFFORTS = (2.0, 8.0)
_LONG_PARTITIONS = 2

_CHEAPEST = 3
"""Pairs that are tried before anything that takes longer."""

_FULL = 0.95
"""Part of the nodes that a job uses from which cut rows are looked for."""

_CUT_COLUMNS = range(5, 17)
"""Columns of the views on which cut rows are looked for: with fewer, profiles are quicker; with more, no model is."""

_CUT_NODES = 4000
_CUT_SHARE = 0.5


def build_cheapest(walk: Walk) -> None:
    """One quick band search for the cheapest open pairs: what counting leaves open can often be had at once."""
    view = _narrowest(walk)
    for pair in walk.lattice.open()[:_CHEAPEST]:
        whole = _many_nodes(walk)
        found = _banded(walk, view, view.turn(pair), partitions_each=1, effort=0.02, whole=whole, light=True)
        if found is not None:
            name, cells = found
            walk.build(view, cells, name)
            return


def build_few_bands(walk: Walk) -> None:
    """Short band searches; with many nodes first those that do not have the rows of a domain as integers."""
    if _many_nodes(walk):
        _sweep(walk, partial(_ragged, walk, effort=0.1), share=0.2)
        if not _full(walk):
            _sweep(walk, partial(_banded, walk, partitions_each=2, effort=0.05, whole=True), share=0.15)
    else:
        _sweep(walk, partial(_banded, walk, partitions_each=2, effort=0.05), share=0.15)
        _sweep(walk, partial(_ragged, walk, effort=0.1), share=0.05)


def build_more_bands(walk: Walk) -> None:
    """Longer band searches over more partitions."""
    if _many_nodes(walk) and not _full(walk):
        _sweep(walk, partial(_banded, walk, partitions_each=2, effort=2.0, whole=True), share=0.4)
    if _many_nodes(walk):
        for effort in _LONG_EFFORTS:
            _bands_by_pair(walk, effort)
    else:
        _sweep(walk, partial(_banded, walk, partitions_each=12, effort=0.2), share=0.2)


def build_cut_rows(walk: Walk) -> None:
    """On full clusters, where most open pairs have R = 2 (or S = 2): the cheapest and the middle one, side by side."""
    if not _full(walk):
        return
    until = max(0.0, walk.left - _CUT_SHARE * walk.limits.seconds)
    tried: set[Pair] = set()
    for view in walk.views:
        if view.problem.columns not in _CUT_COLUMNS:
            continue
        while walk.left > until:
            left = walk.lattice.open()
            waiting = [p for p in left if p not in tried and view.turn(p)[1] == 2]
            if 2 * len(waiting) < max(1, len(left)):
                break
            pairs = list(dict.fromkeys([waiting[0], waiting[len(waiting) // 2]]))
            tried.update(pairs)
            walk.limits.say(f"rows cut in two for DP spread {pairs[0][0]}, PP spread {pairs[0][1]}")
            searches = [
                partial(
                    cut_rows,
                    view.problem,
                    dp=view.turn(pair)[0],
                    seconds=walk.left - until,
                    nodes=_CUT_NODES,
                    seed=walk.limits.seed + i,
                )
                for i, pair in enumerate(pairs if len(pairs) == 2 else 2 * pairs)
            ]
            for cells in walk.side_by_side(searches):
                if cells is not None:
                    walk.build(view, cells, "cut rows")


def build_front(walk: Walk) -> None:
    """Pairs that the best one did not need, for the Pareto front."""
    build = partial(_banded, walk, partitions_each=2, effort=0.02)
    _sweep(walk, build, share=1.0, pairs=walk.lattice.undecided)


def _sweep(
    walk: Walk,
    build: Callable[[View, Pair], tuple[str, IntArray] | None],
    *,
    share: float,
    pairs: Callable[[], list[Pair]] | None = None,
) -> None:
    """Try to build open pairs: by bisection for the cheapest that can be had, then the others from the dearest down.

    One that is built closes all dearer ones at once; one that fails says that cheaper ones will hardly do better.

    :param share: part of the time limit for the sweep.
    :param pairs: which pairs to try; by default the open ones.
    """
    tried: set[Pair] = set()
    failed = 0.0
    until = max(0.0, walk.left - share * walk.limits.seconds)
    candidates = pairs or walk.lattice.open
    while waiting := [pair for pair in candidates() if pair not in tried]:
        dearer = [pair for pair in waiting if walk.lattice.cost(pair) > failed]
        pair = dearer[len(dearer) // 2] if dearer else waiting[-1]
        tried.add(pair)
        walk.limits.say(f"bands for DP spread {pair[0]}, PP spread {pair[1]}")
        if walk.left <= until:
            return
        found = walk.side_by_side([partial(build, view, view.turn(pair)) for view in walk.views])
        for view, result in zip(walk.views, found, strict=True):
            if result is not None:
                name, cells = result
                walk.build(view, cells, name)
        if not walk.lattice.is_built(pair):
            failed = max(failed, walk.lattice.cost(pair))


def _bands_by_pair(walk: Walk, effort: float) -> None:
    """Open pairs from the dearest down, of equal ones the squarest first; two partitions at once on the narrow view."""
    view = _narrowest(walk)
    for pair in sorted(walk.lattice.open(), key=lambda pair: (-round(walk.lattice.cost(pair), 9), max(pair))):
        if walk.lattice.is_built(pair):
            continue
        dp, pp = view.turn(pair)
        widths = list(_widths(view, pp, 2 * _LONG_PARTITIONS))
        walk.limits.say(f"bands for DP spread {pair[0]}, PP spread {pair[1]}")
        for two in zip(widths[::2], widths[1::2], strict=False):
            if walk.left <= 0 or walk.lattice.is_built(pair):
                break
            limit = Slice(effort, walk.left, walk.limits.seed)
            searches = [partial(column_bands, view.problem, dp=dp, widths=w, limit=limit) for w in two]
            for cells in walk.side_by_side(searches):
                if cells is not None:
                    walk.build(view, cells, "column bands")


def _narrowest(walk: Walk) -> View:
    return min(walk.views, key=lambda view: view.problem.columns)


def _banded(
    walk: Walk,
    view: View,
    pair: Pair,
    *,
    partitions_each: int,
    effort: float,
    whole: bool = False,
    light: bool = False,
) -> tuple[str, IntArray] | None:
    dp, pp = pair
    for widths in _widths(view, pp, partitions_each):
        if walk.left <= 0:
            return None
        limit = Slice(effort, walk.left, walk.limits.seed, light=light)
        cells = column_bands(view.problem, dp=dp, widths=widths, limit=limit, whole=whole)
        if cells is not None:
            return "column bands", cells
    return None


def _ragged(walk: Walk, view: View, pair: Pair, *, effort: float) -> tuple[str, IntArray] | None:
    dp, pp = pair
    if pp == 1:
        return None
    widths = next(_widths(view, pp - 1, 1))
    limit = Slice(effort, walk.left, walk.limits.seed, light=True)
    cells = ragged_bands(view.problem, dp=dp, widths=widths, limit=limit)
    return None if cells is None else ("ragged bands", cells)


def _widths(view: View, bands: int, most: int) -> Iterator[tuple[int, ...]]:
    """The first so many partitions of the view's columns into at most that many bands, the most even first."""
    columns = view.problem.columns
    return islice(partitions(columns, min(bands, columns)), most)


def _many_nodes(walk: Walk) -> bool:
    """Whether models with the rows of a domain as integers get slow."""
    return walk.problem.cells > _MANY_CELLS


def _full(walk: Walk) -> bool:
    """Whether whole rows of bands waste more nodes than there are to spare."""
    return walk.problem.cells >= _FULL * sum(walk.problem.capacities)
