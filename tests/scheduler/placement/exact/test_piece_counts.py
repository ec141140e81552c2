"""Counts of pieces against all placements of tiny grids, and on a full cluster that only they settle."""

from __future__ import annotations

import itertools
import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.bands import partitions
from scheduler.placement.exact.closer import column_touches
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.pieces import SOLUTIONS, PieceCounts, count_pieces
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import on_clock
from tests.case_counts import examples
from topology.cluster import IntArray

LIMIT = Slice(5.0, 60.0)


def spreads(cells: IntArray) -> Pair:
    """What a column and a row touch at most."""
    return max(len(set(column)) for column in cells.T.tolist()), max(len(set(row)) for row in cells.tolist())


@given(seed=st.integers(0, 10**9))
@examples(80)
def test_counts_agree_with_all_placements(seed: int) -> None:
    """All placements of up to six cells on up to six domains: a "no" is right, a placement keeps to the pair, and no
    placement of the pair touches fewer domains than counting says.
    """
    chance = random.Random(seed)
    rows, columns = chance.choice([(2, 2), (3, 2), (2, 3), (4, 1), (5, 1), (1, 4)])
    room = sorted((chance.randint(1, 4) for _ in range(chance.randint(1, 6))), reverse=True)
    pair = chance.randint(1, 3), chance.randint(1, columns)
    problem = GridProblem(rows, columns, tuple(room))

    def keeps(cells: IntArray) -> bool:
        return all(a <= b for a, b in zip(spreads(cells), pair, strict=True))

    kept = [
        placement
        for domains in itertools.product(range(len(room)), repeat=rows * columns)
        if (np.bincount(domains, minlength=len(room)) <= room).all()
        and keeps(placement := np.reshape(domains, (rows, columns)))
    ]
    counts = PieceCounts(problem, pair)
    answer, cells = counts.lay(LIMIT, SOLUTIONS)
    assert answer != "no" or not kept
    if cells is not None:
        assert keeps(cells)
        assert (np.bincount(cells.ravel(), minlength=len(room)) <= room).all()
    if kept:
        assert counts.fewest_touches(LIMIT) <= min(map(column_touches, kept))


def test_each_column_needs_a_large_piece() -> None:
    """Two columns of three cells on two domains each are of 2 + 1 cells: of 2, 1, 1, 1 and 1 only one holds two."""
    assert PieceCounts(GridProblem(3, 2, (2, 1, 1, 1, 1)), (2, 2)).lay(LIMIT, SOLUTIONS) == ("no", None)
    answer, cells = PieceCounts(GridProblem(3, 2, (2, 2, 1, 1)), (2, 2)).lay(LIMIT, SOLUTIONS)
    assert answer == "yes"
    assert cells is not None
    assert spreads(cells)[0] == 2


def test_a_full_cluster_is_settled_by_counts() -> None:
    """29 x 16 cells, columns of two pieces: 464 of the 478 on leaves of 32 and fewer, where each row may touch nine; no
    order of the columns is looked at.  What is cheaper is taken as refuted.
    """
    problem = GridProblem(29, 16, (*[32] * 11, 31, 31, 30, 16, 16, 1, 1))
    # counted work, as a busy machine ends no search then
    with on_clock("work", 10):
        search = PairSearch(Lattice(problem, 0.9, 0.1), Limits(seconds=10, workers=1))
        search.lattice.refute((2, 8), "coverage", "")
        search.lattice.refute((1, 18), "edges", "")
        search.lattice.most = 0.9 * 2 + 0.1 * 10
        count_pieces(search)
    assert list(search.lattice.built) == [(2, 9)]


def test_partitions_are_those_of_the_definition() -> None:
    """All multisets of three sizes from 2 to 5 with the sum 10."""
    wanted = sorted(
        sizes[::-1] for sizes in itertools.combinations_with_replacement(range(2, 6), 3) if sum(sizes) == 10
    )
    assert sorted(partitions(10, 3, 5, 2)) == wanted
