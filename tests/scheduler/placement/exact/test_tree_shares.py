"""Trees of domains: the fewest row touches are those of the best of all trees and all ways to fill their columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.placement.exact import schedule
from scheduler.placement.exact.components import TreeShares, pack_components
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Limits
from tests.case_counts import examples


def joins(edges: Sequence[tuple[int, int]], domains: int) -> bool:
    """Whether the edges join all domains."""
    reached = {0}
    for _ in edges:
        reached |= {k for edge in edges if reached & set(edge) for k in edge}
    return len(reached) == domains


def fewest_rows(height: int, capacities: Sequence[int]) -> int | None:
    """Least sum of largest shares over all trees and all ways to share out each column; nothing in common with the
    solver.
    """
    domains, sums = len(capacities), []
    for edges in combinations(list(combinations(range(domains), 2)), domains - 1):
        if not joins(edges, domains):
            continue
        for held in product(range(height + 1), repeat=len(edges)):
            shares: list[list[int]] = [[] for _ in capacities]
            for (j, k), cells in zip(edges, held, strict=True):
                shares[j].append(cells)
                shares[k].append(height - cells)
            if all(sum(own) <= c for own, c in zip(shares, capacities, strict=True)):
                sums.append(sum(max(own) for own in shares))
    return min(sums, default=None)


@given(st.integers(1, 6), st.lists(st.integers(1, 12), min_size=2, max_size=4))
@examples(300)
def test_it_is_the_best_of_all_trees(height: int, capacities: list[int]) -> None:
    """Columns of up to six cells on up to four domains, with any number of free nodes; the columns returned are a tree
    with which so few rows can be had.
    """
    room = tuple(sorted(capacities, reverse=True))
    columns = len(room) - 1
    assume(sum(room) >= columns * height)
    found = TreeShares(GridProblem(height, columns, room)).least(room)
    real = fewest_rows(height, room)
    if real is None:
        assert found.columns is None
        assert found.rows > height * len(room)
        return
    assert found.rows == real
    assert found.columns is not None
    assert len(found.columns) == columns
    edges = [(min(on), max(on)) for on in found.columns]
    assert joins(edges, len(room))
    assert any(
        all(sum(own) <= c for own, c in zip(shares, room, strict=True)) and sum(map(max, shares)) == real
        for shares in every_filling(edges, height, len(room))
    )


def every_filling(edges: Sequence[tuple[int, int]], height: int, domains: int) -> list[list[list[int]]]:
    """All ways to share out the columns of a tree: the shares of each domain."""
    ways = []
    for held in product(range(height + 1), repeat=len(edges)):
        shares: list[list[int]] = [[] for _ in range(domains)]
        for (j, k), cells in zip(edges, held, strict=True):
            shares[j].append(cells)
            shares[k].append(height - cells)
        ways.append(shares)
    return ways


def test_a_part_of_a_larger_grid() -> None:
    """Subtrees are kept from one tree to the next, and a grid with more to spare than the tree changes nothing.

    Two columns of 33 on three domains of 29: the middle one holds 14 and 15, the others 19 and 18: 52 rows.
    """
    trees = TreeShares(GridProblem(33, 16, (29,) * 20))
    assert [trees.least((29,) * v).rows for v in range(2, 9)] == [33, 52, 74, 97, 123, 150, 180]


def test_equal_domains_lower_than_a_column() -> None:
    """33 x 16 cells on 25 domains of 29, of the seeded benchmark: components are trees, as v domains hold less than v
    columns.  (2, 11) is refuted: 16 columns in trees touch 388 rows or more, and 11 x 33 = 363; (2, 12) is built.
    """
    lattice = Lattice(GridProblem(33, 16, (29,) * 25), 0.9, 0.1)
    made = PairSearch(lattice, Limits(seconds=60, workers=1))
    schedule.count_edges(made)
    pack_components(made)
    assert lattice.is_refuted((2, 11))
    assert lattice.is_built((2, 12))
