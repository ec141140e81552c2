"""Bands: placements that keep S and R; column bands are found whenever there are any."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bands import column_bands, partitions, ragged_bands
from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import problems
from topology.cluster import IntArray

LIMIT = Slice(effort=10.0, wall=60.0)


@st.composite
def banded(draw: st.DrawFn) -> tuple[GridProblem, int, tuple[int, ...]]:
    """A problem, S, and the widths of bands that cut its columns."""
    problem = draw(problems())
    bands = draw(st.integers(1, problem.columns))
    widths = draw(st.sampled_from(list(partitions(problem.columns, bands))))
    return problem, draw(st.integers(1, problem.largest_pair[0])), widths


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


def check_placement(problem: GridProblem, cells: IntArray, dp: int) -> None:
    """It fits and no column touches more than S domains."""
    assert problem.fits(cells)
    assert problem.pair_of(cells)[0] <= dp


@given(banded())
@examples(200)
def test_column_bands_are_found_whenever_there_are_any(instance: tuple[GridProblem, int, tuple[int, ...]]) -> None:
    """And keep S, and R by the number of bands: in each band a row lies in one domain."""
    problem, dp, widths = instance
    cells = column_bands(problem, dp=dp, widths=widths, limit=LIMIT)
    assert (cells is not None) == bands_exist(problem, dp, widths)
    if cells is not None:
        check_placement(problem, cells, dp)
        assert problem.pair_of(cells)[1] <= len(widths)


@given(banded())
@examples(100)
def test_whole_bands_are_column_bands(instance: tuple[GridProblem, int, tuple[int, ...]]) -> None:
    """With each domain in one band: valid too, and never where no column bands exist."""
    problem, dp, widths = instance
    cells = column_bands(problem, dp=dp, widths=widths, limit=LIMIT, whole=True)
    if cells is not None:
        check_placement(problem, cells, dp)
        assert bands_exist(problem, dp, widths)
        band_of = np.repeat(np.arange(len(widths)), widths)
        for domain in np.unique(cells):
            assert len(set(band_of[np.nonzero(cells == domain)[1]])) == 1


@given(banded())
@examples(100)
def test_ragged_bands_keep_s(instance: tuple[GridProblem, int, tuple[int, ...]]) -> None:
    """They exist wherever column bands do, as they waste nothing."""
    problem, dp, widths = instance
    cells = ragged_bands(problem, dp=dp, widths=widths, limit=LIMIT)
    if cells is not None:
        check_placement(problem, cells, dp)
    else:
        assert not bands_exist(problem, dp, widths)


def test_ragged_bands_use_every_cell() -> None:
    """4 x 4 cells on 7 + 5 + 4, all needed: in two bands of 2 columns the odd domains leave a cell each.  Ragged bands
    leave none; a boundary inside a row of one band costs that row one domain more than the two bands.
    """
    problem = GridProblem(4, 4, (7, 5, 4))
    assert column_bands(problem, dp=2, widths=(2, 2), limit=LIMIT) is None
    cells = ragged_bands(problem, dp=2, widths=(2, 2), limit=LIMIT)
    assert cells is not None
    check_placement(problem, cells, 2)
    assert problem.pair_of(cells)[1] <= 3


@pytest.mark.parametrize("total", range(1, 10))
@pytest.mark.parametrize("parts", range(1, 5))
def test_partitions_are_all_there_the_most_even_first(total: int, parts: int) -> None:
    """Each once, in descending order; in the first, parts differ by one at most."""
    expected = {
        tuple(sorted(choice, reverse=True))
        for choice in combinations_with_replacement(range(1, total + 1), parts)
        if sum(choice) == total
    }
    found = list(partitions(total, parts))
    assert len(found) == len(set(found))
    assert set(found) == expected
    if found:
        assert max(found[0]) - min(found[0]) <= 1
