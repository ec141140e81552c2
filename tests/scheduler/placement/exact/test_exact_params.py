"""The tuning numbers: their defaults, what the search makes of them, and that a change reaches the place it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.exact import algorithm, constructions, pair_seats, profile_search
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import DEFAULTS, BandSweep, ExactParams, SkeletonAttempt
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profile_search import PairProfiles
from scheduler.placement.exact.search import count_edges, count_rectangles, search_pairs
from scheduler.placement.exact.skeleton import SkeletonModel
from scheduler.placement.exact.width_model import cover_weights
from scheduler.placement.types import Limits, Pair
from topology.generate import paper_cluster


def test_the_defaults() -> None:
    """Every number, so that none changes unnoticed: published results were made with these."""
    assert asdict(ExactParams()) == {
        "plain_cells": 1024,
        "coverage_points": 24,
        "coverage_least": 0.02,
        "coverage_zooms": 2,
        "coverage_zoom_points": 9,
        "quick_pairs": 3,
        "quick_effort": 0.02,
        "quick_table": 1e8,
        "table_speed": 2.5e8,
        "table_share": 0.25,
        "table_reserve": 0.5,
        "many_cells": 3000,
        "full": 0.95,
        "short_bands": {"share": 0.15, "effort": 0.05, "partitions": 2},
        "ragged_many": {"share": 0.2, "effort": 0.1, "partitions": 1},
        "ragged_few": {"share": 0.05, "effort": 0.1, "partitions": 1},
        "long_whole_bands": {"share": 0.4, "effort": 2.0, "partitions": 2},
        "long_bands": {"share": 0.2, "effort": 0.2, "partitions": 12},
        "pair_efforts": (2.0, 8.0),
        "pair_partitions": 4,
        "front_bands": {"share": 1.0, "effort": 0.02, "partitions": 2},
        "ragged_turns": 64,
        "ragged_rows": 8,
        "cut_columns": range(5, 17),
        "cut_nodes": 4000,
        "cut_share": 0.5,
        "component_columns": 20,
        "component_share": 0.4,
        "component_sets": 100_000,
        "component_nodes": 5000,
        "component_packings": 500,
        "component_builds": 24,
        "component_rounding": 0.1,
        "component_trees": 8,
        "component_states": (20_000, 200_000, 1_000_000),
        "component_graphs": 5,
        "cover_offsets": 12,
        "cover_scales": (1, 2, 3),
        "ordered_domains": 20,
        "narrow_columns": 20,
        "widest_columns": 40,
        "first_effort": 0.25,
        "effort_growth": 2.0,
        "profiles_per_effort": 32,
        "profile_effort": 4.0,
        "retry_effort": 4.0,
        "confirm_effort": 16.0,
        "confirm_least": 1.0,
        "skeleton_attempts": (
            {"share": 0.2, "linearization": 0, "light": True},
            {"share": 1.0, "linearization": 2, "light": True},
            {"share": 1.0, "linearization": 1, "light": False},
        ),
        "skeletons_per_profile": 12,
        "rounding_effort": 0.5,
        "most_covers": 20_000,
        "pricing_rounds": 60,
        "patterns_per_round": 24,
        "price_unit": 1000,
        "touch_table": 3e7,
        "cell_choices": 3_000,
        "closer_choices": 6_000,
        "goal_effort": 0.03,
        "term_effort": 0.3,
        "part_effort": 0.02,
        "part_cost": 0.05,
        "tie_effort": 0.02,
        "fruitless_parts": 40,
        "pair_share": 0.4,
        "shared_share": 0.7,
        "held_terms": 3,
        "seating_share": 0.05,
        "rules_share": 0.2,
        "pod_rules_share": 0.02,
        "front_share": 0.05,
        "least_seconds": 0.05,
    }
    assert ExactParams() == DEFAULTS == Exact().params


def test_every_number_is_read_somewhere() -> None:
    """A field that nothing reads would be a knob that turns nothing."""
    room = Path(algorithm.__file__).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in room.glob("*.py") if path.name != "params.py")
    assert [field.name for field in fields(ExactParams) if f"params.{field.name}" not in code] == []


Step = tuple[Pair, str]

RECORDED: list[tuple[GridProblem, float, list[Step], list[Step]]] = [
    (
        GridProblem(10, 5, (17, 15, 12, 7)),
        0.4,
        [((1, 4), "edges"), ((4, 1), "edges"), ((2, 2), "components")],
        [((2, 4), "contiguous fill"), ((4, 2), "contiguous fill, transposed"), ((3, 2), "column bands")],
    ),
    (
        GridProblem(8, 8, (33, 27, 5)),
        0.4,
        [((1, 3), "edges"), ((3, 1), "edges")],
        [((2, 3), "contiguous fill"), ((3, 2), "contiguous fill, transposed"), ((2, 2), "cut rows")],
    ),
    (
        GridProblem(7, 8, (14, 11, 9, 9, 8, 6)),
        0.4,
        [((1, 6), "edges"), ((6, 1), "edges"), ((2, 2), "product"), ((2, 3), "coverage"), ((3, 2), "coverage")],
        [((2, 6), "contiguous fill"), ((6, 2), "contiguous fill, transposed"), ((4, 2), "column bands, transposed")],
    ),
    (
        GridProblem(150, 8, (93,) * 22),
        0.5,
        [
            *[((1, 8), "edges"), ((13, 1), "edges"), ((2, 6), "product"), ((3, 4), "product"), ((4, 3), "product")],
            *[((5, 2), "product"), ((6, 2), "product"), ((2, 7), "coverage")],
        ],
        [
            *[((3, 8), "contiguous fill"), ((14, 1), "whole columns, transposed")],
            *[((13, 2), "contiguous fill, transposed"), ((4, 4), "column bands")],
        ],
    ),
]
"""Problem, alpha, what was refuted by what, and what was built by what: recorded when the numbers were literals in the
code, seed 3, one worker."""


@pytest.mark.parametrize(("problem", "alpha", "refuted", "built"), RECORDED)
def test_with_the_defaults_the_search_goes_as_before(
    problem: GridProblem, alpha: float, refuted: list[Step], built: list[Step]
) -> None:
    """The same pairs decided by the same methods in the same order."""
    lattice = Lattice(problem, alpha, 1 - alpha)
    search_pairs(PairSearch(lattice, Limits(seconds=60, seed=3, workers=1)))
    assert [(r.pair, r.by) for r in lattice.refutations] == refuted
    assert list(lattice.builders.items()) == built
    assert lattice.proved


OPEN = GridProblem(10, 5, (17, 15, 12, 7))
"""Counting on the edges leaves (2, 2), (2, 3), (3, 2) and (3, 3) open; nearly every node is used."""


def started(problem: GridProblem, **changes: object) -> PairSearch:
    """Return a search with some numbers changed that has counted the edges."""
    search = PairSearch(Lattice(problem, 0.4, 0.6), Limits(seconds=60, workers=1), replace(DEFAULTS, **changes))  # type: ignore[arg-type]
    count_edges(search)
    return search


class Calls:
    """Stands in for a construction that finds nothing, and keeps what it was called with."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self.calls: list[dict[str, Any]] = []
        patch.setattr(constructions, name, self)

    def __call__(self, _: GridProblem, **options: Any) -> None:
        """Note the options."""
        self.calls.append(options)


@pytest.mark.parametrize(("share", "tried"), [(0.0, False), (0.5, True)])
def test_a_share_ends_its_sweep(monkeypatch: pytest.MonkeyPatch, share: float, tried: bool) -> None:
    """A sweep that may use no part of the time tries no band; with a part of it, it does."""
    bands, ragged = Calls(monkeypatch, "column_bands"), Calls(monkeypatch, "ragged_bands")
    sweep = BandSweep(share=share, effort=0.01)
    constructions.build_few_bands(started(OPEN, short_bands=sweep, ragged_few=sweep))
    assert bool(bands.calls) is tried
    assert bool(ragged.calls) is tried


def test_a_sweep_keeps_to_its_effort_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five columns have two partitions into two bands, 3 + 2 and 4 + 1; one is tried, with the effort given."""
    bands = Calls(monkeypatch, "column_bands")
    constructions.build_more_bands(started(OPEN, long_bands=BandSweep(share=0.5, effort=0.07, partitions=1)))
    assert {call["limit"].effort for call in bands.calls} == {0.07}
    assert (3, 2) in {call["widths"] for call in bands.calls}
    assert (4, 1) not in {call["widths"] for call in bands.calls}


@pytest.mark.parametrize(("many", "whole"), [(3000, {False}), (10, {True})])
def test_from_many_cells_each_domain_is_in_one_band(
    monkeypatch: pytest.MonkeyPatch, many: int, whole: set[bool]
) -> None:
    """Fifty cells are many or not; on a cluster that is not full, as ``full`` says."""
    bands = Calls(monkeypatch, "column_bands")
    constructions.build_few_bands(started(OPEN, many_cells=many, full=1.1))
    assert {call["whole"] for call in bands.calls} == whole


def test_pair_by_pair_efforts_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many cells on a full cluster: every effort in turn, four partitions of each pair where there are so many."""
    bands = Calls(monkeypatch, "column_bands")
    constructions.build_more_bands(started(OPEN, many_cells=10, full=0.5, pair_efforts=(0.01, 0.03), pair_partitions=2))
    efforts = [call["limit"].effort for call in bands.calls]
    assert efforts == sorted(efforts)
    assert set(efforts) == {0.01, 0.03}
    assert {call["widths"] for call in bands.calls} == {(3, 2), (4, 1), (2, 2, 1), (3, 1, 1)}


@pytest.mark.parametrize(
    ("changes", "nodes"),
    [
        ({}, 4000),
        ({"cut_nodes": 7}, 7),
        ({"cut_columns": range(20, 30)}, None),
        ({"full": 1.1}, None),
        ({"cut_share": 0.0}, None),
    ],
)
def test_when_rows_are_cut_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], nodes: int | None
) -> None:
    """Only on full clusters, on views of these columns, within the share; each search with the limit in nodes."""
    cuts = Calls(monkeypatch, "cut_rows")
    constructions.build_cut_rows(started(GridProblem(8, 5, (16, 8, 8, 5, 3)), **changes))
    assert {call["nodes"] for call in cuts.calls} == ({nodes} if nodes is not None else set())


def test_quick_pairs_and_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the open pairs, one partition each."""
    bands = Calls(monkeypatch, "column_bands")
    constructions.build_cheapest(started(OPEN, quick_pairs=2, quick_effort=0.03))
    assert [call["limit"].effort for call in bands.calls] == [0.03, 0.03]


@pytest.mark.parametrize(
    "changes",
    [{"table_share": 0.0}, {"table_reserve": 61.0}, {"table_speed": 0.0}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_table_for_which_there_is_no_time_is_not_made(changes: dict[str, float]) -> None:
    """With the defaults it is."""
    usual, without = started(OPEN), started(OPEN, **changes)
    for search in (usual, without):
        count_rectangles(search)
    assert usual.table is not None
    assert without.table is None


def test_how_fine_the_coverage_bound_is() -> None:
    """Two multipliers an axis and no zoom bound 3 x 3 cells on 3 + 2 + 2 + 2 from further above than 25 with zooms."""
    problem = GridProblem(3, 3, (3, 2, 2, 2))
    coarse = replace(DEFAULTS, coverage_points=2, coverage_zooms=0)
    assert CoverageBound(problem, coarse).coverable(2, 2) > CoverageBound(problem).coverable(2, 2)
    for changes in ({"coverage_least": 0.5}, {"coverage_zoom_points": 3}):
        assert CoverageBound(problem, replace(coarse, coverage_zooms=1, **changes)).coverable(2, 2) >= 8.0  # type: ignore[arg-type]


def test_weights_of_covers() -> None:
    """Of heights 1, 2, 5 and 6 for a sum of 20 in four parts, 1 and 2 are useful offsets: one of them, the largest."""
    heights = [1, 2, 5, 6]
    assert len(list(cover_weights(20, 4, heights))) == 3 * (1 + 3)
    fewer = replace(DEFAULTS, cover_offsets=1, cover_scales=(1,))
    assert len(list(cover_weights(20, 4, heights, fewer))) == 2 * (1 + 1)


def tried_profiles(patch: pytest.MonkeyPatch, effort: float = 1.0, **changes: object) -> list[tuple[float, int, bool]]:
    """Return the effort, linearization and presolve of each search for a skeleton, none of which finds one."""
    tried: list[tuple[float, int, bool]] = []

    def find(_: SkeletonModel, limit: Any, __: object) -> tuple[str, None]:
        tried.append((limit.effort, limit.linearization, limit.light))
        return "unknown", None

    patch.setattr(SkeletonModel, "find", find)
    profiles = PairProfiles(OPEN, (3, 3), spare_rows=10, params=replace(DEFAULTS, **changes))  # type: ignore[arg-type]
    profiles.search(effort=effort, wall=60.0, seed=0)
    return tried


def test_profiles_of_a_round_and_attempts_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three profiles for an effort of 1; each is looked at in the ways given, in order."""
    ways = (SkeletonAttempt(0.5, 2, False), SkeletonAttempt(1.0, 0, True))
    assert (
        tried_profiles(monkeypatch, profiles_per_effort=3, skeleton_attempts=ways)
        == [(0.5, 2, False), (1.0, 0, True)] * 3
    )


@pytest.mark.parametrize(("narrow", "widest", "views"), [(20, 40, 2), (5, 40, 1), (1, 9, 1), (1, 4, 0)])
def test_views_that_are_narrow_enough(narrow: int, widest: int, views: int) -> None:
    """Ten rows, five columns: both views, the narrow one, the one of any use, none."""
    search = started(OPEN, narrow_columns=narrow, widest_columns=widest)
    assert len(profile_search._narrow_views(search)) == views


def test_efforts_of_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round at 0.1, each after it three times as long; the search ends when its time does."""
    efforts: list[float] = []
    search = started(OPEN, first_effort=0.1, effort_growth=3.0)

    def end_after_three(_: PairProfiles, *, effort: float, wall: float, seed: int) -> tuple[str, None]:
        if effort not in efforts:
            efforts.append(effort)
        if seed == 2:
            search.extend(0.0)
        return "unknown", None

    monkeypatch.setattr(PairProfiles, "search", end_after_three)
    profile_search.enumerate_profiles(search)
    assert efforts == pytest.approx([0.1, 0.3, 0.9])


def test_shares_of_seating_and_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds for the closer levels and for the front, of a limit of 60."""
    seconds: dict[str, float] = {}

    def keep(module: ModuleType, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def called(*args: Any, **options: Any) -> Any:
            seconds[name] = options["seconds"]
            return real(*args, **options)

        monkeypatch.setattr(module, name, called)

    keep(pair_seats, "seat")
    keep(algorithm, "fill_front")
    job = Job("job", Parallelism(tp=4, dp=12, pp=2))
    exact = Exact(replace(DEFAULTS, seating_share=0.1, front_share=0.2))
    outcome = run(exact, paper_cluster("i"), job, Limits(seconds=60, workers=1))
    assert outcome.status == "optimal"
    assert seconds == pytest.approx({"seat": 6.0, "fill_front": 12.0})


def test_other_numbers_prove_the_same() -> None:
    """Half the time for nothing but profiles: another way, the same optimum, for a number never decides an answer."""
    nothing = BandSweep(share=0.0, effort=0.01)
    other = replace(DEFAULTS, short_bands=nothing, ragged_few=nothing, long_bands=nothing, cut_share=0.0, quick_pairs=0)
    found = []
    for params in (DEFAULTS, other):
        lattice = Lattice(OPEN, 0.4, 0.6)
        search_pairs(PairSearch(lattice, Limits(seconds=60, seed=3, workers=1), params))
        assert lattice.proved
        found.append((lattice.cost(lattice.best), lattice.bound()))
    assert np.allclose(found[0], found[1])
