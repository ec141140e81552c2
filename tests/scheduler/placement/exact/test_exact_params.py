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
from scheduler.placement.cpsat import Slice
from scheduler.placement.exact import algorithm, bands, bounds, schedule, skeletons, solve
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.bands import SlotSwaps, SplitSwaps, split_bands, tabu_bands
from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.schedule import count_edges, count_rectangles, search_pairs
from scheduler.placement.exact.skeletons import SkeletonModel, cover_weights
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import clock, on_clock, spend
from topology.generate import paper_cluster


def test_the_defaults() -> None:
    """Every number, so that none changes unnoticed: published results were made with these."""
    assert asdict(ExactParams()) == {
        "long_share": 0.35,
        "short_share": 0.05,
        "quick_share": 0.02,
        "rules_share": 0.2,
        "goal_effort": 0.03,
        "inside_effort": 0.1,
        "term_effort": 0.3,
        "tie_effort": 0.02,
        "held_terms": 3,
        "plain_cells": 1024,
        "many_cells": 3000,
        "cell_choices": 3_000,
        "narrow_columns": 20,
        "touch_table": 3e7,
        "pod_efforts": (0.05, 0.2, 1.0),
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
            *[((3, 3), "column bands, transposed"), ((4, 2), "split bands, transposed")],
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
    """Fifty cells are many or not: with many, no skeletons are searched."""
    asked: list[PairSearch] = []
    monkeypatch.setattr(skeletons, "decide_pair", lambda search, *_: (asked.append(search), search.extend(0.0)))
    skeletons.decide_skeletons(started(OPEN, many_cells=many))
    assert bool(asked) is tried


@pytest.mark.parametrize(("name", "value", "most"), [("_TRIES", 8, 40), ("TOGETHER", 1, 1), ("_LISTED", 1, 1)])
def test_partitions_of_a_tabu_search(monkeypatch: pytest.MonkeyPatch, name: str, value: int, most: int) -> None:
    """Twelve columns have 15 partitions into four bands: all, or as many as arrays may have, or as are listed."""
    sizes: list[int] = []
    monkeypatch.setattr(bands, name, value)
    monkeypatch.setattr(SlotSwaps, "run", lambda self, *_: sizes.append(len(self)) or self.lacking().sum(axis=1))
    problem = GridProblem(50, 12, (60,) * 8 + (50,) * 4)
    tabu_bands(problem, (3, 4), searched=40, steps=300, seed=0)
    assert sizes
    assert max(sizes) <= most


@pytest.mark.parametrize(
    ("full", "changes", "tried"),
    [
        (1.1, {}, False),
        (1.1, {"many_cells": 10}, True),
        (0.5, {}, True),
        (0.5, {"narrow_columns": 2}, False),
    ],
)
def test_when_bands_are_split(
    monkeypatch: pytest.MonkeyPatch, full: float, changes: dict[str, int], tried: bool
) -> None:
    """On many cells or a full cluster, where the columns are few, and no longer than the search may take."""
    monkeypatch.setattr(schedule, "_FULL", full)
    split = Calls(monkeypatch, "split_bands")
    search = started(OPEN, **changes)
    schedule.build_split_bands(search)
    assert bool(split.calls) is tried
    assert all(call["end"] < clock() + 60 for call in split.calls)


@pytest.mark.parametrize(
    ("changes", "plans", "steps"),
    [
        ({}, 24, {24, 96, 384}),
        ({"_PLANS": 3}, 3, {3}),
        ({"_NEAR": 0.0}, 24, {24}),
        ({"_PARTITIONS": 0}, 0, set()),
    ],
)
def test_plans_of_split_bands(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, float], plans: int, steps: set[int]
) -> None:
    """So many plans at most, each with so many swaps, then a fourth with four times as many; not what is far off."""
    runs: list[int] = []
    for name, value in changes.items():
        monkeypatch.setattr(bands, name, value)

    def run(self: SplitSwaps, steps: int) -> bool:
        runs.append(steps)
        self.best = 1
        return False

    monkeypatch.setattr(SplitSwaps, "run", run)
    split_bands(TIGHT, (3, 5), seed=0)
    assert set(runs) == steps
    assert runs.count(plans) <= 2 * plans  # bands split alone, then together


TIGHT = GridProblem(46, 12, (77, 68, 63, 58, 56, 52, 46, 44, 41, 33, 20, 10))
"""16 nodes to spare."""


@pytest.mark.parametrize(
    ("changes", "rounds", "programs"),
    [({}, 2, {7}), ({"INTERVALS": 3}, 0, set()), ({"COLUMNS": 4}, 0, set())],
)
def test_rounds_of_flows(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], rounds: int, programs: set[int]
) -> None:
    """Round after round with a new seed each; none where the model is too large."""
    for name, value in {"PROGRAMS": 7, **changes}.items():
        monkeypatch.setattr(schedule, name, value)
    flows = Calls(monkeypatch, "interval_flow")
    schedule.build_quick_flows(started(GridProblem(8, 5, (16, 8, 8, 5, 3))))
    assert {call["limit"].programs for call in flows.calls} == programs
    assert list(dict.fromkeys(call["limit"].seed for call in flows.calls)) == list(range(rounds))


def test_longer_flows_have_more_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds two and three have twice and three times as many as a quick one, with seeds of their own."""
    monkeypatch.setattr(schedule, "_ROUNDS", 4)
    flows = Calls(monkeypatch, "interval_flow")
    schedule.build_long_flows(started(GridProblem(8, 5, (16, 8, 8, 5, 3))))
    assert {(call["limit"].seed, call["limit"].programs) for call in flows.calls} == {(2, 80), (3, 120)}


def test_what_constructions_leave_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flows have a third of the limit of 60 s."""
    flows = Calls(monkeypatch, "interval_flow")
    schedule.build_quick_flows(started(GridProblem(8, 5, (16, 8, 8, 5, 3))))
    given = [call["limit"].seconds for call in flows.calls]
    assert given
    assert 0.35 * 60 - 8 < max(given) <= 0.35 * 60


@pytest.mark.parametrize(("share", "refuted"), [(0.02, True), (0.0, False)])
def test_rectangles_have_a_share_of_the_time(share: float, refuted: bool) -> None:
    """3 x 6 cells on 7 + 5 + 5 + 3: rectangles cover 17 of 18 with (2, 2); in no time nothing is known."""
    search = started(GridProblem(3, 6, (7, 5, 5, 3)), quick_share=share)
    count_rectangles(search)
    assert search.lattice.is_refuted((2, 2)) is refuted


def test_how_fine_the_coverage_bound_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two multipliers an axis and no zoom bound 3 x 3 cells on 3 + 2 + 2 + 2 from further above than 25 with zooms."""
    problem = GridProblem(3, 3, (3, 2, 2, 2))
    fine = CoverageBound(problem).coverable(2, 2)
    monkeypatch.setattr(bounds, "POINTS", 2)
    monkeypatch.setattr(bounds, "_ZOOMS", 0)
    assert CoverageBound(problem).coverable(2, 2) > fine
    monkeypatch.setattr(bounds, "_ZOOMS", 1)
    for name, value in (("LEAST", 0.5), ("_ZOOM_POINTS", 3)):
        monkeypatch.setattr(bounds, name, value)
        assert CoverageBound(problem).coverable(2, 2) >= 8.0


def test_weights_of_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of heights 1, 2, 5 and 6 for a sum of 20 in four parts, 1 and 2 are useful offsets: one of them, the largest."""
    heights = [1, 2, 5, 6]
    assert len(list(cover_weights(20, 4, heights))) == 3 * (1 + 3)
    monkeypatch.setattr(skeletons, "_OFFSETS", 1)
    monkeypatch.setattr(skeletons, "_SCALES", 1)
    assert len(list(cover_weights(20, 4, heights))) == 2 * (1 + 1)


def test_skeletons_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is looked for in the ways given, in order, and again with a row asked for until the effort is used up."""
    tried: list[tuple[float, int, bool]] = []
    serves = np.ones((4, 5), dtype=np.bool_)

    def find(_: SkeletonModel, limit: Any) -> tuple[str, skeletons.Skeleton]:
        tried.append((limit.effort, limit.linearization, limit.light))
        spend(0.9)
        return "yes", skeletons.Skeleton(serves, None)

    monkeypatch.setattr(SkeletonModel, "find", find)
    monkeypatch.setattr(skeletons, "realise", lambda *_, **__: (None, np.zeros(4, dtype=np.int32)))
    search, ways = started(OPEN), ((2, False), (0, True))
    model = SkeletonModel(OPEN, (3, 3), spare_rows=10)
    with on_clock("work", 60.0):
        search.extend(60.0)
        skeletons.decide_pair(search, search.views[0], model, Slice(effort=1.0, wall=60.0), ways=ways)
    assert tried == [(1.0, 2, False), (1.0, 0, True)] * 2


@pytest.mark.parametrize(("narrow", "views"), [(20, 2), (5, 1), (3, 1), (2, 0)])
def test_views_that_are_narrow_enough(narrow: int, views: int) -> None:
    """Ten rows, five columns: both views, the narrow one, the one of any use, none."""
    search = started(OPEN, narrow_columns=narrow)
    assert len(skeletons.narrow_views(search)) == views


@pytest.mark.parametrize(("seconds", "rounds"), [(0.3, [0.1, 0.2, 0.4]), (0.05, [0.1]), (60.0, None)])
def test_efforts_of_the_rounds(monkeypatch: pytest.MonkeyPatch, seconds: float, rounds: list[float] | None) -> None:
    """The first round at 0.1, each after it twice as long; the last is the first as long as the limit, so that what
    every round leaves undecided at once ends the search.
    """
    efforts: list[float] = []
    monkeypatch.setattr(skeletons, "EFFORT", 0.1)
    monkeypatch.setattr(skeletons, "decide_pair", lambda *asked: efforts.append(asked[-1].effort))
    search = started(OPEN)
    search.limits = replace(search.limits, seconds=seconds)
    skeletons.decide_skeletons(search)
    assert list(dict.fromkeys(efforts)) == pytest.approx(rounds or [0.1 * 2**i for i in range(11)])


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
    exact = Exact(replace(DEFAULTS, short_share=0.1))
    outcome = run(exact, paper_cluster("i"), job, Limits(seconds=60, workers=1))
    assert outcome.status == "optimal"
    assert seconds == pytest.approx({"seat": 6.0, "fill_front": 6.0})


def test_other_numbers_prove_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """All the time for nothing but skeletons: another way, the same optimum, for a number never decides an answer."""
    found = []
    for quick in (True, False):
        if not quick:
            monkeypatch.setattr(schedule, "tabu_bands", lambda *_, **__: None)
            monkeypatch.setattr(schedule, "PROGRAMS", 0)
        lattice = Lattice(OPEN, 0.4, 0.6)
        search_pairs(PairSearch(lattice, Limits(seconds=60, seed=3, workers=1)))
        assert lattice.proved
        found.append((lattice.cost(lattice.best), lattice.bound()))
    assert np.allclose(found[0], found[1])
