"""Minipod size and oversubscription on small clusters: closed forms, monotony, verdict, assumptions, tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulator.capacity.minipods_answer import MinipodsAnswer
from simulator.capacity.minipods_question import MinipodsQuestion
from simulator.capacity.minipods_throughput import EVEN
from topology.errors import InvalidInput, InvalidJob, UnknownName

SMALL = MinipodsQuestion(
    nodes=128,
    sizes=(16, 32, 128),
    ratios=(1.0, 2.0, 4.0),
    busy_share=0.5,
    jobs=("8x4x8", "8x2x6"),
    algorithms=("exact", "best-fit"),
    seeds=2,
)


@pytest.fixture(scope="module")
def small() -> MinipodsAnswer:
    """The answer about small clusters."""
    return SMALL.answer()


def test_minipods(small: MinipodsAnswer) -> None:
    """More oversubscription never loses less, none loses what collides, one minipod has no boundary to cross."""
    assert len(small.cells) == 3 * 2 * 4
    for name in SMALL.algorithms:
        for size in SMALL.sizes:
            kept = [small.cell(name, size, ratio).throughput or 0.0 for ratio in SMALL.ratios]
            assert kept == sorted(kept, reverse=True)
            assert all(0.0 < value <= 1.0 for value in kept)
        assert small.cell(name, 128, 4.0).throughput == pytest.approx(1.0)
        assert small.cell(name, 128, None).throughput == pytest.approx(1.0)
    # What the exact algorithm minimises is what costs throughput here.
    exact, other = (small.cell(name, 16, 4.0) for name in SMALL.algorithms)
    assert (exact.throughput or 0.0) >= (other.throughput or 0.0)
    assert "exact instead of best-fit" in small.verdict


def test_cells_stand_in_order(small: MinipodsAnswer) -> None:
    """By algorithm as named, size from small to large, oversubscription as given with the measured loss last."""
    expected = [(a, s, r) for a in SMALL.algorithms for s in SMALL.sizes for r in (*SMALL.ratios, None)]
    assert [(cell.algorithm, cell.minipod_nodes, cell.oversubscription) for cell in small.cells] == expected
    assert [cell.minipods for cell in small.cells[::4]] == [8, 4, 1] * 2
    assert [(job.shape, job.rows, job.nodes) for job in small.jobs] == [("8x4", 8, 32), ("8x2", 6, 12)]


def test_what_does_not_hang_on_the_network(small: MinipodsAnswer) -> None:
    """Placements are made once for all oversubscriptions: spreads and places are the same in a row of the table."""
    for name in SMALL.algorithms:
        for size in SMALL.sizes:
            cells = [small.cell(name, size, ratio) for ratio in (*SMALL.ratios, None)]
            assert len({(cell.dp_spread, cell.pp_spread, cell.placed, cell.cut_short) for cell in cells}) == 1
        assert small.cell(name, 128, None).dp_spread == small.cell(name, 128, None).pp_spread == 1.0


def test_a_single_state() -> None:
    """Of one state there is no interval; the same question gives the same bytes."""
    question = replace(SMALL, seeds=1, sizes=(32,), algorithms=("best-fit",))
    answer = question.answer()
    assert {cell.half_width for cell in answer.cells} == {0.0}
    assert question.answer() == answer
    assert "gains up to" not in answer.verdict


def test_usual_sizes() -> None:
    """Those that the cluster has nodes for; each size and ratio that is named counts once."""
    assert replace(SMALL, sizes=()).minipod_sizes == (32, 64, 128)
    assert replace(SMALL, sizes=(16, 32, 16)).minipod_sizes == (16, 32)
    assert list(replace(SMALL, ratios=(2.0, 2.0, 4.0)).columns.items()) == [
        (2.0, "2:1"),
        (4.0, "4:1"),
        (None, "as measured"),
    ]
    assert MinipodsQuestion().columns[EVEN] == "1:1"
    assert SMALL.steps == 3


def test_no_place_for_any_job(small: MinipodsAnswer) -> None:
    """Then there is no throughput: words in the verdict, ``-`` in the table, nothing on the chart."""
    empty = replace(
        small,
        cells=tuple(replace(cell, throughput=None, dp_spread=None, pp_spread=None, placed=0.0) for cell in small.cells),
    )
    assert SMALL.verdict(empty) == "exact found no place for any of the jobs."
    sheet = SMALL.sheet(empty)
    assert sheet.tables[0].rows[0] == ("16", "8", "-", "-", "0%", "-", "-", "-", "-")
    assert all(y is None for series in sheet.charts[0].series for _, y in series.points)


def test_algorithms_that_were_stopped(small: MinipodsAnswer) -> None:
    """Half of the placements of one algorithm cut short is said, with the limit; nothing is said of the other."""
    stopped = tuple(replace(cell, cut_short=0.5 * (cell.algorithm == "exact")) for cell in small.cells)
    lines = [line for line in SMALL.assumptions(replace(small, cells=stopped)) if "was stopped" in line]
    assert len(lines) == 1
    assert lines[0].startswith("exact was stopped after 0.5 s in 50.0% of its placements")


def test_the_verdict_goes_by_an_even_network() -> None:
    """Where 1:1 is among the columns it is the one spoken of, else the highest."""
    brief = replace(SMALL, sizes=(32,), seeds=1, algorithms=("best-fit",))
    assert "oversubscription of 1 jobs" in brief.answer().verdict
    assert "oversubscription of 7 jobs" in replace(brief, ratios=(2.0, 7.0)).answer().verdict


def test_the_sheet(small: MinipodsAnswer) -> None:
    """A table and a chart for each algorithm, a line of the chart for each column."""
    sheet = SMALL.sheet(small)
    assert [chart.title for chart in sheet.charts] == ["Throughput with exact", "Throughput with best-fit"]
    assert sheet.tables[0].headers[5:] == ("1:1", "2:1", "4:1", "as measured")
    assert [series.name for series in sheet.charts[0].series] == ["1:1", "2:1", "4:1", "as measured"]
    assert [word for _, word in sheet.charts[0].ticks] == ["16", "32", "128"]
    # The axis begins below the least value of all algorithms, so that charts compare.
    least = min(cell.throughput or 1.0 for cell in small.cells)
    assert {chart.floor for chart in sheet.charts} == {max(0.0, int(20 * least - 0.5) / 20)}


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"ratios": (0.5,)}, InvalidInput, "ratios is 0.5"),
        ({"sizes": (0,)}, InvalidInput, "sizes is 0"),
        ({"sizes": (4096,)}, InvalidInput, "a minipod of 4,096 nodes"),
        ({"busy_share": 0.99}, InvalidInput, "a job of 600 nodes does not fit: 20 of 2,048 nodes are free"),
        ({"busy_share": 1.5}, InvalidInput, "busy_share is 1.5"),
        ({"jobs": ("8x8",)}, InvalidJob, "no job"),
    ],
)
def test_impossible_questions(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    """Ratios below 1, sizes beyond the cluster, jobs beyond the free nodes: said before anything is placed."""
    with pytest.raises(error, match=words):
        MinipodsQuestion(**wrong)


def test_no_such_algorithm() -> None:
    """With the closest name."""
    with pytest.raises(UnknownName, match="exakt"):
        replace(SMALL, algorithms=("exakt",)).answer()
