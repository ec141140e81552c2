"""Split bands: what they build keeps S and R, where there are more domains than straight bands have slots."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bands import (
    BANDS,
    CUTS,
    PARTS,
    SplitGroup,
    SplitSwaps,
    lay_split,
    split_bands,
    tabu_bands,
)
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import (
    FULL,
    Planted,
    alike,
    check_pair,
    check_placement,
    pairs,
    planted,
    problems,
)

LONG_TABU = {"searched": 40, "steps": 300}  # more than the search itself gives straight bands


def swaps(rows: int, groups: tuple[SplitGroup, ...], capacities: tuple[int, ...], *, most_split: int) -> SplitSwaps:
    """A search whose parts need no whole rows."""
    rng = np.random.default_rng(0)
    return SplitSwaps(rows, groups, capacities, most_split=most_split, whole=False, rng=rng)


@given(st.one_of(problems(), alike(most_cells=10)), st.data(), st.integers(0, 5))
@examples(300)
def test_what_is_found_keeps_the_pair(problem: GridProblem, data: st.DataObject, seed: int) -> None:
    """On either view, and brute force finds the pair too."""
    for view in (problem, problem.transposed):
        pair = data.draw(st.sampled_from(pairs(view)))
        cells = split_bands(view, pair, seed=seed)
        if cells is not None:
            check_placement(view, cells, pair)


@given(planted(served_by=3), st.integers(0, 3))
@examples(100)
def test_they_keep_the_pair_on_larger_problems(plant: Planted, seed: int) -> None:
    """Problems made for a placement; that none of split bands is found is allowed."""
    problem, pair = plant.problem, plant.pair
    cells = split_bands(problem, pair, seed=seed)
    if cells is not None:
        check_pair(problem, cells, pair)


@given(st.data())
@examples(200)
def test_room_and_split_rows_are_those_of_every_number_of_split_rows_tried(data: st.DataObject) -> None:
    """One group: the fewest split rows with which parts and wide domains fill both bands, found one by one."""
    rows = data.draw(st.integers(1, 6))
    bands, cuts = data.draw(st.sampled_from([((3,), (2, 1)), ((4,), (2, 2)), ((3, 3), (2, 2, 2)), ((4, 4), (3, 2, 3))]))
    group = SplitGroup(bands, cuts, 1, 1)
    held = {part: data.draw(st.integers(0, rows * 4)) for part in (*BANDS[: len(bands)], *CUTS[: len(cuts)])}
    # one slot in each part: the domains are dealt to slots of one width by chance, so the parts are read back
    search = swaps(rows, (group,), tuple(sorted(held.values(), reverse=True)), most_split=rows)
    held = {part: sum(cells for _, cells in inside) for part, inside in enumerate(search.inside(0))}
    left, inner, outer, right = group.overlaps
    between = held[2] // (inner + outer) if len(bands) > 1 else held[2] / inner

    def filled(split: int) -> bool:
        one = held[0] + min(held[1], left * split) + min(inner * between, inner * split)
        two = held[3] + min(outer * between, outer * split) + min(held[4], right * split)
        return one >= rows * bands[0] and (len(bands) == 1 or two >= rows * bands[1])

    enough = [split for split in range(rows + 1) if filled(split)]
    assert search.run(1) is bool(enough)
    if enough:
        assert search.split_rows().tolist() == [enough[0]]


def test_parts_and_overlaps_by_hand() -> None:
    """Two bands of three columns, in split rows three parts of two: the middle one has a column of each band."""
    group = SplitGroup((3, 3), (2, 2, 2), 4, 3)
    assert group.width == 6
    assert group.parts == [(3, 4), (2, 3), (2, 3), (3, 4), (2, 3)]
    assert len(group.parts) == PARTS
    assert group.overlaps == (2, 1, 1, 2)
    assert SplitGroup((3,), (2, 1), 4, 3).overlaps == (2, 1, 0, 0)
    assert SplitGroup((3,), (), 7, 0).overlaps == (0, 0, 0, 0)


def test_two_bands_in_three_parts_by_hand() -> None:
    """Four rows of 3 + 3 columns: two rows are split into 2 + 2 + 2, so five domains lie where two bands have four."""
    problem = GridProblem(4, 6, (6, 6, 4, 4, 4))
    group = SplitGroup((3, 3), (2, 2, 2), 1, 1)
    search = swaps(4, (group,), problem.capacities, most_split=2)
    assert search.run(1)
    assert search.split_rows().tolist() == [2]
    cells = lay_split(problem, (group,), search, whole=True)
    assert problem.fits(cells)
    assert problem.pair_of(cells) == (2, 3)


def test_split_rows_are_laid_apart() -> None:
    """Two bands of two columns, each split in half of its four rows: a row touches three domains, not four."""
    problem = GridProblem(4, 4, (4, 4, 2, 2, 2, 2))
    groups = (SplitGroup((2,), (1, 1), 1, 1),) * 2
    search = swaps(4, groups, problem.capacities, most_split=4)
    assert search.run(1)
    cells = lay_split(problem, groups, search, whole=True)
    assert problem.fits(cells)
    assert problem.pair_of(cells) == (2, 3)


@pytest.mark.parametrize("pair", [(4, 5), (5, 4)])
def test_more_domains_than_bands_have_slots(pair: tuple[int, int]) -> None:
    """22 domains of two sizes that fill 60 x 8 cells, made of split bands: R bands have 20 slots for them."""
    dp, pp = pair
    # four bands of two columns, or three of 3 + 3 + 2, with wide domains in 36 rows and narrow ones in 24
    widths = (2,) * 4 if pp == 5 else (3, 3, 2)
    problem = planted_split(widths, dp, pp)
    assert len(problem.capacities) > dp * pp
    assert sum(problem.capacities) == problem.cells
    assert tabu_bands(problem, pair, **LONG_TABU, seed=0) is None
    cells = split_bands(problem, pair, seed=0)
    assert cells is not None
    check_pair(problem, cells, pair)


def planted_split(widths: tuple[int, ...], dp: int, pp: int) -> GridProblem:
    """A grid of 60 rows filled by bands that are split in as many rows as R allows, with one wide domain less than S
    leaves.
    """
    rows, narrow = 60, dp - 1
    split = (pp - len(widths)) * rows // len(widths)
    sizes = []
    for width in widths:
        sizes.append(width * (rows - split))
        for half in (ceil(width / 2), width // 2):
            sizes += [half * (split // narrow + (i < split % narrow)) for i in range(narrow)]
    return GridProblem(rows, sum(widths), tuple(sorted(sizes, reverse=True)))


@pytest.mark.parametrize("pair", [(2, 12), (8, 3), (9, 3)])
def test_a_full_cluster_is_used_up(pair: tuple[int, int]) -> None:
    """24 domains with 18 nodes to spare; no straight bands have these pairs."""
    assert tabu_bands(FULL, pair, **LONG_TABU, seed=0) is None
    cells = split_bands(FULL, pair, seed=0)
    assert cells is not None
    check_pair(FULL, cells, pair)


def test_same_seed_same_cells() -> None:
    """However often; and no time gives nothing."""
    problem = planted_split((2,) * 4, 4, 5)
    first, again = (split_bands(problem, (4, 5), seed=3) for _ in range(2))
    assert first is not None
    assert again is not None
    assert np.array_equal(first, again)
    assert split_bands(problem, (4, 5), seed=3, end=0.0) is None
