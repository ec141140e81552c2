"""Grid problems small enough for brute force: all of a size, and drawn ones that are a little larger."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import usable_domains
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Limits, Pair
from tests.scheduler.placement.exact import brute_force
from topology.cluster import BoolArray, IntArray

FULL = GridProblem(
    68, 16, (79, 78, 77, 75, 73, 70, 66, 60, 57, 52, 50, 47, 44, 41, 39, 37, 34, 31, 26, 20, 16, 14, 12, 8)
)
"""1,106 free nodes for 1,088 cells."""

ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.8, 1.0)

SHAPES = [(3, 3, 4), (4, 3, 3), (3, 4, 3), (5, 2, 4), (2, 6, 3), (6, 2, 4), (2, 4, 5), (9, 1, 4), (1, 9, 4)]
"""Rows, columns and domains of the largest problems drawn, so that brute force takes less than a tenth of a second."""


def all_problems(*, rows: int, columns: int, domains: int, largest: int) -> list[GridProblem]:
    """Every problem up to that size with room for its cells."""
    some = brute_force.instances(rows=rows, columns=columns, domains=domains, largest=largest)
    return [GridProblem(d, p, capacities) for d, p, capacities in some]


@st.composite
def problems(draw: st.DrawFn) -> GridProblem:
    """A problem with room for its cells, often just enough: where there is too little the largest domain grows."""
    most_rows, most_columns, most_domains = draw(st.sampled_from(SHAPES))
    rows, columns = draw(st.integers(1, most_rows)), draw(st.integers(1, most_columns))
    largest = draw(st.sampled_from([2, 4, 7, 12]))
    capacities = sorted(draw(st.lists(st.integers(1, largest), min_size=1, max_size=most_domains)), reverse=True)
    capacities[0] += max(0, rows * columns - sum(capacities))
    return GridProblem(rows, columns, tuple(capacities))


@st.composite
def alike(draw: st.DrawFn, *, most_cells: int = 9) -> GridProblem:
    """A problem with hardly a cell to spare on domains most of which are equal; brute force manages up to 10 cells."""
    shapes = [(d, p) for d in range(2, 7) for p in range(2, 6) if d * p <= most_cells]
    rows, columns = draw(st.sampled_from(shapes))
    domains = draw(st.integers(2, 4 if most_cells <= 10 else 6))
    equal = draw(st.integers(2, domains))
    total = rows * columns + draw(st.integers(0, 2))
    size = -(-total // domains)
    capacities = [size] * min(equal, domains) + draw(st.lists(st.integers(1, size), max_size=max(0, domains - equal)))
    while sum(capacities) < rows * columns:
        capacities[-1] += 1
    return GridProblem(rows, columns, tuple(sorted(capacities, reverse=True)))


@dataclass(frozen=True)
class Planted:
    """A placement, the problem made for it, its S and R, and the columns that each domain serves in it."""

    problem: GridProblem
    cells: IntArray
    pair: Pair
    widths: IntArray


@st.composite
def planted(draw: st.DrawFn, *, served_by: int, transposed: bool = False) -> Planted:
    """The placement comes first, so that the problem may be too large to try all: every column on some domains.

    Domains hold what they are given, rounded up so that some are equal; among equal ones the widest comes first.

    :param served_by: most domains of a column; of a row when transposed.
    """
    rows, columns, domains = draw(st.integers(2, 7)), draw(st.integers(2, 6)), draw(st.integers(2, 6))
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    cells = np.stack([random.choice(random.integers(domains, size=served_by), size=rows) for _ in range(columns)], 1)
    if transposed:
        cells = cells.T
    used, cells = np.unique(cells, return_inverse=True)
    cells = cells.reshape((columns, rows) if transposed else (rows, columns))
    unit = draw(st.integers(1, 3))
    capacity = -(-np.bincount(cells.ravel()) // unit) * unit
    width = np.array([(cells == k).any(axis=0).sum() for k in range(len(used))])
    order = np.lexsort((-width, -capacity))
    cells = np.argsort(order)[cells].astype(np.int32)
    spare = draw(st.lists(st.integers(1, int(capacity.min())), max_size=1))
    problem = GridProblem(*cells.shape, (*(int(c) for c in capacity[order]), *spare))
    pair = problem.pair_of(cells)
    widths = np.zeros(usable_domains(problem, pair), dtype=np.int32)
    widths[: len(used)] = width[order]
    return Planted(problem, cells, pair, widths)


def spare_rows(problem: GridProblem, pair: Pair) -> int:
    """What the search allows beyond the rows that a pair needs."""
    search = PairSearch(Lattice(problem, 0.5, 0.5), Limits())
    return search.spare_rows(search.views[0], pair)


def pairs(problem: GridProblem) -> list[Pair]:
    """All pairs (S, R) that a placement may have."""
    dp, pp = problem.largest_pair
    return list(product(range(1, dp + 1), range(1, pp + 1)))


def feasible(problem: GridProblem, pair: Pair) -> bool:
    """Whether some placement keeps both, by brute force."""
    return brute_force.feasible(problem.rows, problem.columns, problem.capacities, pair)


def corners(problem: GridProblem) -> frozenset[Pair]:
    """The Pareto front of (S, R), by brute force."""
    return brute_force.corners(problem.rows, problem.columns, problem.capacities)


def can_be_realised(problem: GridProblem, serves: BoolArray, pp: int) -> bool:
    """Whether rows on at most ``pp`` domains exist that use in each column only domains that serve it.

    Tries all rows one after another; what is remembered is the cells taken of each domain.

    :param serves: shape [domains, columns].
    """
    domains = len(serves)
    options = [np.flatnonzero(column) for column in serves.T]
    loads = {tuple(np.bincount(row, minlength=domains)) for row in product(*options) if len(set(row)) <= pp}
    taken = {(0,) * domains}
    for _ in range(problem.rows):
        more = {tuple(a + b for a, b in zip(one, load, strict=True)) for one in taken for load in loads}
        taken = {one for one in more if all(a <= c for a, c in zip(one, problem.capacities, strict=False))}
    return bool(taken)


def bands_exist(problem: GridProblem, dp: int, widths: tuple[int, ...]) -> bool:
    """Whether domains have room for whole rows of the bands, at most S domains in each, by trying all ways."""
    shares = [
        share
        for share in product(range(problem.rows + 1), repeat=len(problem.capacities))
        if sum(share) == problem.rows and sum(rows > 0 for rows in share) <= dp
    ]
    loads = {(0,) * len(problem.capacities)}
    for width in widths:
        loads = {
            load
            for before in loads
            for share in shares
            if (load := tuple(b + width * s for b, s in zip(before, share, strict=True)))
            if all(used <= room for used, room in zip(load, problem.capacities, strict=True))
        }
    return bool(loads)


def check_placement(problem: GridProblem, cells: IntArray, pair: Pair) -> None:
    """It fits, no column touches more than S domains and no row more than R; and brute force finds such a one."""
    check_pair(problem, cells, pair)
    assert feasible(problem, pair)


def check_pair(problem: GridProblem, cells: IntArray, pair: Pair) -> None:
    """It fits, no column touches more than S domains and no row more than R."""
    assert cells.min() >= 0
    assert problem.fits(cells)
    dp, pp = problem.pair_of(cells)
    assert dp <= pair[0]
    assert pp <= pair[1]


def shapes_of(plant: Planted) -> list[tuple[int, int]]:
    """The columns and the rows that each domain touches in the placement."""
    touched = [plant.cells == k for k in range(len(plant.problem.capacities))]
    return [(int(here.any(axis=0).sum()), int(here.any(axis=1).sum())) for here in touched]


def sorted_alike(problem: GridProblem, shapes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The shapes, of equal domains in descending order."""
    every = sorted(zip(problem.capacities, shapes, strict=True), reverse=True)
    return [shape for _, shape in every]
