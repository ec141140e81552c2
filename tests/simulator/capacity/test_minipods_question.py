"""Minipod size and oversubscription on small clusters: closed forms, monotony, money, verdict, tables, figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ground.errors import InvalidInput, InvalidJob, UnknownName
from simulator.capacity.minipods import MinipodsAnswer, MinipodsQuestion
from tests.facts import says

SMALL = MinipodsQuestion(
    nodes=128,
    sizes=(16, 32, 128),
    ratios=(1.0, 2.0, 4.0),
    busy_share=0.5,
    jobs=("8x4x8", "8x2x6"),
    algorithms=("exact", "best-fit"),
    seeds=2,
    draws=20,
)
PRICED = replace(SMALL, price_gpu_hour=2.0, price_switch_port=1e4, seeds=1, algorithms=("best-fit",), sizes=(16, 128))


@pytest.fixture(scope="module")
def small() -> MinipodsAnswer:
    """The answer about small clusters."""
    return SMALL.answer()


@pytest.fixture(scope="module")
def priced() -> MinipodsAnswer:
    """The answer with prices of a GPU-hour and a port."""
    return PRICED.answer()


def test_minipods(small: MinipodsAnswer) -> None:
    """More oversubscription never less lost, and one minipod has no links to narrow."""
    assert len(small.cells) == 3 * 2 * 3
    for name in SMALL.algorithms:
        for size in SMALL.sizes:
            kept = [small.cell(name, size, ratio).throughput or (0.0, 0.0, 0.0) for ratio in SMALL.ratios]
            for of_percentile in zip(*kept, strict=True):
                assert list(of_percentile) == sorted(of_percentile, reverse=True)
            assert all(0.0 < low <= median <= high <= 1.0 for low, median, high in kept)
        assert small.cell(name, 128, 4.0).throughput == (1.0, 1.0, 1.0)
    # What the exact algorithm minimises is what costs throughput here.
    exact, other = (small.cell(name, 16, 4.0).throughput or (0.0,) for name in SMALL.algorithms)
    assert exact >= other
    assert "By the model anchored" in small.verdict
    assert "exact instead of best-fit" in small.verdict
    assert small.cheapest == ()


def test_cells_stand_in_order(small: MinipodsAnswer) -> None:
    """By algorithm as named, size and oversubscription from small to large."""
    expected = [(a, s, r) for a in SMALL.algorithms for s in SMALL.sizes for r in SMALL.ratios]
    assert [(cell.algorithm, cell.minipod_nodes, cell.oversubscription) for cell in small.cells] == expected
    assert [cell.minipods for cell in small.cells[::3]] == [8, 4, 1] * 2
    assert [(job.shape, job.rows, job.nodes) for job in small.jobs] == [("8x4", 8, 32), ("8x2", 6, 12)]


def test_what_does_not_hang_on_the_network(small: MinipodsAnswer) -> None:
    """Placements are made once for all oversubscriptions: spreads and places are the same in a row of the table."""
    for name in SMALL.algorithms:
        for size in SMALL.sizes:
            cells = [small.cell(name, size, ratio) for ratio in SMALL.ratios]
            assert len({(cell.dp_spread, cell.pp_spread, cell.placed, cell.cut_short) for cell in cells}) == 1
        assert small.cell(name, 128, 1.0).dp_spread == small.cell(name, 128, 1.0).pp_spread == 1.0


def test_money_by_hand(priced: MinipodsAnswer) -> None:
    """1:1: 8 GPUs at 2 an hour and 16 ports of 10,000 over 4 years of 8,766 h; one minipod needs no such ports."""
    port = 1e4 / (4 * 8_766.0)
    for cell in priced.cells:
        assert cell.throughput is not None
        assert cell.cost is not None
        ports = 16 / cell.oversubscription if cell.minipods > 1 else 0.0
        expected = [(2.0 + ports * port / 8) / kept for kept in reversed(cell.throughput)]
        # the third of 20 draws from below stands for the second from above: they are apart by some per cent
        assert cell.cost == pytest.approx(expected, rel=0.1)
    # one minipod costs the same whatever the ratio: the first is named
    assert [(one.minipod_nodes, one.ratio) for one in priced.cheapest][1] == (128, (1.0, 1.0, 1.0))


def test_what_is_chosen(priced: MinipodsAnswer) -> None:
    """Ports that cost nothing: none are saved.  Ports that cost everything: as few as can be."""
    assert PRICED.told == 16
    assert says(priced.verdict, "oversubscription", "costs least")
    chosen = next(one.choice for one in priced.cheapest if one.minipod_nodes == PRICED.told)
    there = [one for one in priced.cells if (one.algorithm, one.oversubscription) == (PRICED.algorithms[0], chosen)]
    medians = {one.minipod_nodes: one.throughput[1] for one in there if one.throughput is not None}
    enough = min(size for size, median in medians.items() if median >= 0.99 * max(medians.values()))
    assert says(priced.verdict, f"{enough} nodes")
    free = replace(PRICED, price_switch_port=1e-6, crossing="0.6..0.9", sizes=(16,)).answer()
    dear = replace(PRICED, price_switch_port=1e8, sizes=(16,)).answer()
    assert [one.choice for one in free.cheapest] == [1.0]
    assert [one.choice for one in dear.cheapest] == [4.0]
    assert dear.ranges[0].p50 == 4.0


def test_the_figure_of_costs(priced: MinipodsAnswer, small: MinipodsAnswer) -> None:
    """First where there are prices: a line for each size, a band for that of the headline, the choice marked."""
    sheet = PRICED.sheet(priced)
    costs = sheet.charts[0]
    assert [(series.name, series.band is not None) for series in costs.series] == [
        ("minipods of 16", True),
        ("minipods of 128", False),
    ]
    assert [word for _, word in costs.lines] == ["least mean cost"]
    assert says(sheet.tables[0].title, "Least mean cost", "best-fit")
    assert [chart.title for chart in SMALL.sheet(small).charts] == [
        "Throughput with exact, P50",
        "Throughput with best-fit, P50",
    ]


def test_a_single_state() -> None:
    """The same question gives the same bytes; with links wide enough there is nothing uncertain."""
    question = replace(SMALL, seeds=1, sizes=(32,), algorithms=("best-fit",), crossing="0.1")
    answer = question.answer()
    assert all(cell.throughput and len(set(cell.throughput)) == 1 for cell in answer.cells)
    assert question.answer() == answer
    assert "instead of" not in answer.verdict
    assert answer.ranges[0].decides == ""


def test_usual_sizes() -> None:
    """Those that the cluster has nodes for; each size and ratio that is named counts once."""
    assert replace(SMALL, sizes=()).minipod_sizes == (32, 64, 128)
    assert replace(SMALL, sizes=(16, 32, 16)).minipod_sizes == (16, 32)
    assert replace(SMALL, ratios=(4.0, 2.0, 2.0)).columns == (2.0, 4.0)
    assert (SMALL.steps, SMALL.told, MinipodsQuestion().told) == (3, 32, 128)


def test_no_place_for_any_job(small: MinipodsAnswer) -> None:
    """Then there is no throughput: words in the verdict, ``-`` in the table, nothing on the chart."""
    empty = replace(
        small,
        cells=tuple(replace(cell, throughput=None, dp_spread=None, pp_spread=None, placed=0.0) for cell in small.cells),
    )
    assert says(SMALL.verdict(empty), "exact", "no place")
    sheet = SMALL.sheet(empty)
    assert sheet.tables[0].rows[0] == ("16", "8", "-", "-", "0%", "-", "-", "-")
    assert all(y is None for series in sheet.charts[0].series for _, y in series.points)


def test_algorithms_that_were_stopped(small: MinipodsAnswer) -> None:
    """Half of the placements of one algorithm cut short is said, with the limit; nothing is said of the other."""
    stopped = tuple(replace(cell, cut_short=0.5 * (cell.algorithm == "exact")) for cell in small.cells)
    lines = [line for line in SMALL.assumptions(replace(small, cells=stopped)) if "was stopped" in line]
    assert len(lines) == 1
    assert says(lines[0], "exact", "0.5 s", "50.0%")


def test_the_sheet(small: MinipodsAnswer) -> None:
    """A table and a chart for each algorithm, a line of the chart for each column."""
    sheet = SMALL.sheet(small)
    assert sheet.tables[0].headers[5:] == ("1:1", "2:1", "4:1")
    assert [series.name for series in sheet.charts[0].series] == ["1:1", "2:1", "4:1"]
    assert [word for _, word in sheet.charts[0].ticks] == ["16", "32", "128"]
    # The axis begins below the least value of all algorithms, so that charts compare.
    least = min((cell.throughput or (1.0, 1.0))[1] for cell in small.cells)
    assert {chart.floor for chart in sheet.charts} == {max(0.0, int(20 * least - 0.5) / 20)}


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"ratios": (0.5,)}, InvalidInput, "ratios is 0.5"),
        ({"sizes": (0,)}, InvalidInput, "sizes is 0"),
        ({"sizes": (4096,)}, InvalidInput, "a minipod of 4,096 nodes"),
        ({"nodes": 31, "jobs": ("8x1x2",)}, InvalidInput, "a minipod of 32 nodes"),  # the least of the usual ones
        ({"busy_share": 0.99}, InvalidInput, "a job of 600 nodes does not fit: 20 of 2,048 nodes are free"),
        ({"busy_share": 1.5}, InvalidInput, "busy_share is 1.5"),
        ({"jobs": ("8x8",)}, InvalidJob, "no job"),
        ({"crossing": "1.5"}, InvalidInput, "1.5 is out of bounds"),
        ({"crossing": "some"}, InvalidInput, "'some' is neither"),
        ({"price_switch_port": 100.0}, InvalidInput, "a port has a price, a node has none"),
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
