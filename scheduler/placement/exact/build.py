"""Building pairs by bands: sweeps over the open pairs by bisection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

from scheduler.placement.exact.bands import column_bands, partitions
from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.ragged import ragged_bands
from scheduler.placement.exact.walk import View, Walk
from scheduler.placement.types import Pair
from topology.cluster import IntArray

_MANY_CELLS = 3000
"""Cells from which bands are first looked for with each domain in one band."""


def build_few_bands(walk: Walk) -> None:
    """Short band searches; with many nodes first those that do not have the rows of a domain as integers."""
    if _many_nodes(walk):
        _sweep(walk, partial(_ragged, walk, effort=0.5), share=0.3)
        _sweep(walk, partial(_banded, walk, partitions_each=2, effort=0.05, whole=True), share=0.15)
    else:
        _sweep(walk, partial(_banded, walk, partitions_each=2, effort=0.05), share=0.15)
        _sweep(walk, partial(_ragged, walk, effort=0.1), share=0.05)


def build_more_bands(walk: Walk) -> None:
    """Longer band searches over more partitions."""
    if _many_nodes(walk):
        _sweep(walk, partial(_banded, walk, partitions_each=2, effort=0.4), share=1.0, narrow=True)
    else:
        _sweep(walk, partial(_banded, walk, partitions_each=12, effort=0.2), share=0.2)


def build_front(walk: Walk) -> None:
    """Pairs that the best one did not need, for the Pareto front."""
    build = partial(_banded, walk, partitions_each=2, effort=0.02)
    _sweep(walk, build, share=1.0, pairs=walk.lattice.undecided)


def _sweep(
    walk: Walk,
    build: Callable[[View, Pair], tuple[str, IntArray] | None],
    *,
    share: float,
    narrow: bool = False,
    pairs: Callable[[], list[Pair]] | None = None,
) -> None:
    """Try to build open pairs: by bisection for the cheapest that can be had, then the others from the dearest down.

    One that is built closes all dearer ones at once; one that fails says that cheaper ones will hardly do better.

    :param share: part of the time limit for the sweep.
    :param narrow: only on the view with fewer columns.
    :param pairs: which pairs to try; by default the open ones.
    """
    views = [min(walk.views, key=lambda view: view.problem.columns)] if narrow else walk.views
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
        found = walk.side_by_side([partial(build, view, view.turn(pair)) for view in views])
        for view, result in zip(views, found, strict=True):
            if result is not None:
                name, cells = result
                walk.build(view, cells, name)
        if not walk.lattice.is_built(pair):
            failed = max(failed, walk.lattice.cost(pair))


def _banded(
    walk: Walk, view: View, pair: Pair, *, partitions_each: int, effort: float, whole: bool = False
) -> tuple[str, IntArray] | None:
    dp, pp = pair
    bands = min(pp, view.problem.columns)
    for widths in islice(partitions(view.problem.columns, bands), partitions_each):
        if walk.left <= 0:
            return None
        limit = Slice(effort, walk.left, walk.limits.seed)
        cells = column_bands(view.problem, dp=dp, widths=widths, limit=limit, whole=whole)
        if cells is not None:
            return "column bands", cells
    return None


def _ragged(walk: Walk, view: View, pair: Pair, *, effort: float) -> tuple[str, IntArray] | None:
    dp, pp = pair
    if pp == 1:
        return None
    widths = next(partitions(view.problem.columns, min(pp - 1, view.problem.columns)))
    limit = Slice(effort, walk.left, walk.limits.seed, light=True)
    cells = ragged_bands(view.problem, dp=dp, widths=widths, limit=limit)
    return None if cells is None else ("ragged bands", cells)


def _many_nodes(walk: Walk) -> bool:
    """Whether models with the rows of a domain as integers get slow."""
    return walk.problem.cells > _MANY_CELLS
