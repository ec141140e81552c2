"""Refuting pairs without search: counting on the edges, closed forms, the rectangle table."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.placement.exact import sentences
from scheduler.placement.exact.bounds import CoverageBound, fewest_domains, product_bound
from scheduler.placement.exact.edges import contiguous, whole_columns
from scheduler.placement.exact.rectangles import RectangleBound
from scheduler.placement.exact.walk import Walk
from scheduler.placement.types import Pair

_TABLE_WORK_PER_SECOND = 2.5e8
"""Array elements of the rectangle table per second, measured on one core of a 2.x GHz server."""

_QUICK_TABLE = 1e8
"""Array elements up to which the rectangle table is made before anything is searched."""


def count_edges(walk: Walk) -> None:
    """S = 1 and R = 1, settled by counting; and the contiguous fill, so that a placement exists from the start."""
    most = walk.problem.largest_pair
    for view in walk.views:
        problem, longest = view.problem, view.turn(most)
        cells = whole_columns(problem)
        if cells is not None:
            walk.build(view, cells, "whole columns")
        fewest = fewest_domains(problem.columns, [c // problem.rows for c in problem.capacities])
        refuted = (1, longest[1] if fewest is None else fewest - 1)
        walk.lattice.refute(view.turn(refuted), "edges", sentences.edge(problem, refuted, view.transposed))
        walk.build(view, contiguous(problem), "contiguous fill")


def apply_closed_forms(walk: Walk) -> None:
    """The product bound for every S, then the coverage bound for what it leaves open, dearest first."""
    least = product_bound(walk.problem)
    most_dp, most_pp = walk.problem.largest_pair
    for dp in range(1, most_dp + 1):
        pp = min(most_pp, -int(-least // dp) - 1)
        walk.lattice.refute((dp, pp), "product", sentences.product(least, (dp, pp)))
    apply_coverage(walk, walk.lattice.open())


def apply_coverage(walk: Walk, pairs: Sequence[Pair]) -> None:
    """The coverage bound for some pairs, dearest first, as a refutation holds for all pairs below."""
    if not pairs:
        return
    coverage = CoverageBound(walk.problem)
    for pair in reversed(pairs):
        if not walk.lattice.is_refuted(pair) and coverage.refutes(*pair):
            covered = int(coverage.coverable(*pair))
            walk.lattice.refute(pair, "coverage", sentences.coverage(walk.problem, pair, covered))


def count_rectangles_if_quick(walk: Walk) -> None:
    """The rectangle table where it takes less time than a search."""
    if RectangleBound.work(walk.problem, walk.lattice.open()) < _QUICK_TABLE:
        count_rectangles(walk)


def count_rectangles(walk: Walk) -> None:
    """The exact rectangle table, for as many open pairs, from the cheapest, as time allows."""
    pairs = [p for p in walk.lattice.open() if walk.table is None or not walk.table.knows(p)]
    allowed = _TABLE_WORK_PER_SECOND * max(0.0, min(0.25 * walk.limits.seconds, walk.left - 0.5))
    while pairs and RectangleBound.work(walk.problem, pairs) > allowed:
        pairs = pairs[: len(pairs) // 2]
    if not pairs:
        return
    walk.limits.say("counting rectangles")
    walk.table = RectangleBound(walk.problem, pairs)
    for pair in reversed(pairs):
        if walk.table.refutes(pair):
            covered = walk.table.most_cells(pair)
            walk.lattice.refute(pair, "rectangles", sentences.coverage(walk.problem, pair, covered))
