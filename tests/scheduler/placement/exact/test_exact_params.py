"""The tuning numbers: their defaults, what the search makes of them, and that a change reaches the place it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields, replace
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.exact import algorithm, profiles, schedule, solve
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.bands import SlotSwaps, SplitSwaps, split_bands, tabu_bands
from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import DEFAULTS, ExactParams, FlowEffort, SkeletonAttempt, TabuEffort
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profiles import PairProfiles, SkeletonModel, cover_weights
from scheduler.placement.exact.schedule import count_edges, count_rectangles, search_pairs
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import clock, on_clock
from topology.generate import paper_cluster


def test_the_defaults() -> None:
    """Every number, so that none changes unnoticed: published results were made with these."""
    assert asdict(ExactParams()) == {
        "plain_cells": 1024,
        "coverage_points": 24,
        "coverage_least": 0.02,
        "coverage_zooms": 2,
        "coverage_zoom_points": 9,
        "tabu_listed": 240,
        "tabu_elements": 30_000,
        "quick_tabu": {"partitions": 8, "steps": 8},
        "group_nodes": 20_000,
        "full": 0.97,
        "few_cells": 256,
        "regret_slack": 8.0,
        "regret_entries": 20_000_000,
        "split_columns": 40,
        "split_partitions": 6,
        "split_domains": 2,
        "split_plans": 24,
        "split_steps": ((20, 24), (100, 6), (300, 2)),
        "split_near": 0.005,
        "quick_table": 1e8,
        "table_speed": 2.5e8,
        "many_cells": 3000,
        "pattern_lines": 300,
        "pattern_rounds": 80,
        "pattern_share": 0.1,
        "pattern_shapes": 1000,
        "pattern_cuts": 5000,
        "shape_share": 0.5,
        "choice_effort": 1.2,
        "shape_effort": 2.0,
        "crossing_sets": 400_000,
        "crossing_sets_of_two": 20_000,
        "alone_sets": 5000,
        "component_columns": 20,
        "component_share": 0.3,
        "quick_component_share": 0.02,
        "component_sets": 100_000,
        "component_nodes": 20_000,
        "component_looks": 240,
        "component_rounding": 0.1,
        "component_trees": 8,
        "tree_elements": 100,
        "component_states": (20_000, 200_000, 1_000_000),
        "component_graphs": 5,
        "flow_columns": 16,
        "flow_intervals": 6000,
        "construction_share": 0.35,
        "many_cells_share": 0.2,
        "first_intervals": 400,
        "first_flows": {"programs": 40, "roundings": 1, "seeds": 1},
        "quick_flows": {"programs": 40, "roundings": 1, "seeds": 2},
        "long_flows": {"programs": 200, "roundings": 3, "seeds": 20},
        "peel_domains": 4,
        "peel_sets": 100_000,
        "peel_bands": 1000,
        "peel_kept": 100,
        "peel_parts": (2, 3, 4),
        "quick_peel": {"flows": 16, "programs": 30, "share": 0.05, "least": 1},
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
        "pod_seconds": (0.1, 1.0),
        "band_choices": 600,
        "band_effort": 0.3,
        "band_share": 0.1,
        "cell_choices": 3_000,
        "goal_effort": 0.03,
        "term_effort": 0.3,
        "part_effort": 0.02,
        "part_cost": 0.05,
        "tie_effort": 0.02,
        "fruitless_parts": 40,
        "pair_share": 0.4,
        "shared_share": 0.7,
        "expert_share": 0.1,
        "held_terms": 3,
        "seating_share": 0.05,
        "rules_share": 0.2,
        "rules_least": 0.05,
        "pod_rules_share": 0.02,
        "front_share": 0.05,
        "front_least": 0.01,
        "least_seconds": 0.05,
    }
    assert ExactParams() == DEFAULTS == Exact().params


def test_every_number_is_read_somewhere() -> None:
    """A field that nothing reads would be a knob that turns nothing."""
    room = Path(algorithm.__file__).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in room.rglob("*.py") if path.name != "params.py")
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
        [((2, 3), "contiguous fill"), ((3, 2), "contiguous fill, transposed"), ((2, 2), "cut-outs")],
    ),
    (
        GridProblem(7, 8, (14, 11, 9, 9, 8, 6)),
        0.4,
        [((1, 6), "edges"), ((6, 1), "edges"), ((2, 2), "product"), ((2, 3), "coverage"), ((3, 2), "coverage")],
        [
            *[((2, 6), "contiguous fill"), ((6, 2), "contiguous fill, transposed")],
            *[((3, 3), "column bands, transposed"), ((4, 2), "components, transposed")],
        ],
    ),
    (
        GridProblem(150, 8, (93,) * 22),
        0.5,
        [
            *[((1, 8), "edges"), ((13, 1), "edges"), ((2, 6), "product"), ((3, 4), "product"), ((4, 3), "product")],
            *[((5, 2), "product"), ((6, 2), "product")],
        ],
        [
            *[((3, 8), "contiguous fill"), ((14, 1), "whole columns, transposed")],
            *[((13, 2), "contiguous fill, transposed"), ((4, 5), "column bands"), ((4, 4), "column bands")],
        ],
    ),
]
"""Problem, alpha, what was refuted by what, and what was built by what: recorded with seed 3 and one worker when tabu
search, flows on intervals, cut-outs and patterns had come into the schedule."""


@pytest.mark.parametrize(("problem", "alpha", "refuted", "built"), RECORDED)
def test_with_the_defaults_the_search_goes_as_before(
    problem: GridProblem, alpha: float, refuted: list[Step], built: list[Step]
) -> None:
    """The same pairs decided by the same methods in the same order."""
    lattice = Lattice(problem, alpha, 1 - alpha)
    with on_clock("work", inf):  # beside busy neighbours a stage may run out of time
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
        patch.setattr(schedule, name, self)

    def __call__(self, _: GridProblem, *__: Pair, **options: Any) -> None:
        """Note the options."""
        self.calls.append(options)


@pytest.mark.parametrize(("many", "tried"), [(3000, True), (10, False)])
def test_many_cells(monkeypatch: pytest.MonkeyPatch, many: int, tried: bool) -> None:
    """Fifty cells are many or not: with many, no width profiles are searched."""
    asked: list[PairSearch] = []
    monkeypatch.setattr(profiles, "_run_by_twos", lambda search, _: (asked.append(search), search.extend(0.0)))
    profiles.enumerate_profiles(started(OPEN, many_cells=many))
    assert bool(asked) is tried


def test_effort_of_tabu_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partitions and swaps, and the seed of the limits."""
    tabu = Calls(monkeypatch, "tabu_bands")
    schedule.build_quick_tabu(started(OPEN, quick_tabu=TabuEffort(2, 3)))
    assert {call["effort"] for call in tabu.calls} == {TabuEffort(2, 3)}
    assert {call["seed"] for call in tabu.calls} == {0}


@pytest.mark.parametrize(("changes", "most"), [({}, 40), ({"tabu_elements": 1}, 1), ({"tabu_listed": 1}, 1)])
def test_partitions_of_a_tabu_search(monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], most: int) -> None:
    """Twelve columns have 15 partitions into four bands: all, or as many as arrays may have, or as are listed."""
    sizes: list[int] = []
    monkeypatch.setattr(SlotSwaps, "run", lambda self, *_: sizes.append(len(self)) or self.lacking().sum(axis=1))
    problem = GridProblem(50, 12, (60,) * 8 + (50,) * 4)
    tabu_bands(problem, (3, 4), effort=TabuEffort(40, 300), seed=0, params=replace(DEFAULTS, **changes))
    assert sizes
    assert max(sizes) <= most


@pytest.mark.parametrize(
    ("changes", "tried"),
    [
        ({"full": 1.1}, False),
        ({"full": 1.1, "many_cells": 10}, True),
        ({"full": 0.5, "few_cells": 0}, True),
        ({"full": 0.5, "few_cells": 0, "split_columns": 4}, False),
    ],
)
def test_when_bands_are_split(monkeypatch: pytest.MonkeyPatch, changes: dict[str, float], tried: bool) -> None:
    """On many cells or a full cluster, where the columns are few, and no longer than the search may take."""
    split = Calls(monkeypatch, "split_bands")
    search = started(OPEN, **changes)
    schedule.build_split_bands(search)
    assert bool(split.calls) is tried
    assert all(call["end"] < clock() + 60 for call in split.calls)


@pytest.mark.parametrize(
    ("changes", "plans", "steps"),
    [
        ({}, 24, {20, 100, 300}),
        ({"split_plans": 3}, 3, {20, 100, 300}),
        ({"split_steps": ((7, 2),)}, 24, {7}),
        ({"split_near": 0.0}, 24, {20}),
        ({"split_partitions": 0}, 0, set()),
    ],
)
def test_plans_of_split_bands(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], plans: int, steps: set[int]
) -> None:
    """So many plans at most, each with so many swaps; those that stay far off are left."""
    runs: list[int] = []

    def run(self: SplitSwaps, steps: int) -> bool:
        runs.append(steps)
        self.best = 1
        return False

    monkeypatch.setattr(SplitSwaps, "run", run)
    split_bands(TIGHT, (3, 5), seed=0, params=replace(DEFAULTS, **changes))
    assert set(runs) == steps
    assert runs.count(20) <= 2 * plans  # bands split alone, then together


TIGHT = GridProblem(46, 12, (77, 68, 63, 58, 56, 52, 46, 44, 41, 33, 20, 10))
"""16 nodes to spare."""


@pytest.mark.parametrize(
    ("changes", "programs"),
    [
        ({}, {40}),
        ({"quick_flows": FlowEffort(programs=7, roundings=2, seeds=3)}, {7}),
        ({"flow_intervals": 3}, set()),
        ({"flow_columns": 4}, set()),
    ],
)
def test_rounds_of_flows(monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], programs: set[int]) -> None:
    """Round after round with a new seed each; none where the model is too large."""
    flows = Calls(monkeypatch, "interval_flow")
    schedule.build_quick_flows(started(GridProblem(8, 5, (16, 8, 8, 5, 3)), **changes))
    assert {call["limit"].programs for call in flows.calls} == programs
    rounds = changes.get("quick_flows", DEFAULTS.quick_flows)
    assert isinstance(rounds, FlowEffort)
    if programs:
        assert list(dict.fromkeys(call["limit"].seed for call in flows.calls)) == list(range(rounds.seeds))
        assert {call["limit"].roundings for call in flows.calls} == {rounds.roundings}


@pytest.mark.parametrize(("many_cells", "share"), [(40, 0.35), (39, 0.2)])
def test_what_constructions_leave_to_others(monkeypatch: pytest.MonkeyPatch, many_cells: int, share: float) -> None:
    """Flows on 40 cells have a third of the limit of 60 s, and a fifth where that counts as many."""
    flows = Calls(monkeypatch, "interval_flow")
    schedule.build_quick_flows(started(GridProblem(8, 5, (16, 8, 8, 5, 3)), many_cells=many_cells))
    given = [call["limit"].seconds for call in flows.calls]
    assert given
    assert share * 60 - 8 < max(given) <= share * 60


def test_a_table_that_takes_too_long_is_not_made() -> None:
    """With the defaults it is."""
    usual, without = started(OPEN), started(OPEN, quick_table=0.0)
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
    assert len(profiles._narrow_views(search)) == views


def test_efforts_of_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round at 0.1, each after it three times as long; the search ends when its time does."""
    efforts: list[float] = []
    search = started(OPEN, first_effort=0.1, effort_growth=3.0)

    def end_after_three(_: PairProfiles, *, effort: float, seed: int, **others: object) -> tuple[str, None]:
        if effort not in efforts:
            efforts.append(effort)
        if seed == 2:
            search.extend(0.0)
        return "unknown", None

    monkeypatch.setattr(PairProfiles, "search", end_after_three)
    profiles.enumerate_profiles(search)
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

    keep(solve, "seat")
    keep(algorithm, "fill_front")
    job = Job("job", Parallelism(tp=4, dp=12, pp=2))
    exact = Exact(replace(DEFAULTS, seating_share=0.1, front_share=0.2))
    outcome = run(exact, paper_cluster("i"), job, Limits(seconds=60, workers=1))
    assert outcome.status == "optimal"
    assert seconds == pytest.approx({"seat": 6.0, "fill_front": 12.0})


def test_other_numbers_prove_the_same() -> None:
    """All the time for nothing but profiles: another way, the same optimum, for a number never decides an answer."""
    nothing = TabuEffort(partitions=0, steps=0)
    other = replace(
        DEFAULTS,
        quick_tabu=nothing,
        quick_flows=FlowEffort(programs=0, roundings=0, seeds=0),
        long_flows=FlowEffort(programs=0, roundings=0, seeds=0),
    )
    found = []
    for params in (DEFAULTS, other):
        lattice = Lattice(OPEN, 0.4, 0.6)
        search_pairs(PairSearch(lattice, Limits(seconds=60, seed=3, workers=1), params))
        assert lattice.proved
        found.append((lattice.cost(lattice.best), lattice.bound()))
    assert np.allclose(found[0], found[1])
