"""Growth on small clusters: dates by hand, what must hold whatever the numbers, verdict, tables and figure."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log
from typing import Any

import pytest

from ground.errors import InvalidInput, InvalidJob, UnknownName
from simulator.capacity.grow import GrowAnswer, GrowQuestion, order_words, quarters_words
from simulator.capacity.question import range_words
from tests.facts import says
from tests.simulator.capacity.clusters_in_use import with_free
from topology.generate import fragment, minipods

Asked = tuple[GrowQuestion, GrowAnswer]


@pytest.fixture(scope="module")
def asked() -> Asked:
    """Two minipods of eight with 7 and 3 free, and with one or three more of four nodes each."""
    question = GrowQuestion(
        cluster=with_free(7, 3),
        source="x.csv",
        more=(3, 1, 3),
        domain_nodes=4,
        shapes=("8x4", "8x1"),
        days=0.3,
        workloads=2,
        draws=50,
        quarters=3,
        price_gpu_hour=2.0,
    )
    return question, question.answer()


def test_larger_clusters_by_hand(asked: Asked) -> None:
    """Rows of four: one in the 7, none in the 3, one in every new minipod; each number of minipods once, in order."""
    question, answer = asked
    assert question.steps == 2 + 3
    assert [row.more for row in answer.rows] == [0, 1, 3]
    assert [(row.nodes, row.free) for row in answer.rows] == [(16, 10), (20, 14), (28, 22)]
    assert [row.shapes[0].whole_nodes for row in answer.rows] == [4, 8, 16]
    assert [row.shapes[0].most_nodes for row in answer.rows] == [8, 12, 20]
    # 0.9 of today's two rows is one row, of today's ten free nodes nine; the job is the same on all clusters
    assert {row.shapes[0].job_nodes for row in answer.rows} == {4}
    assert {row.shapes[1].job_nodes for row in answer.rows} == {9}
    assert (answer.level, answer.added_nodes, answer.cluster) == ("minipod", 4, "x.csv")


def test_dates_by_hand() -> None:
    """With certain inputs and one workload: ln(load at the objective / 0.5) / ln 1.2 quarters, less 6 months."""
    question = GrowQuestion(
        made="2x8", shapes=("8x1",), load="0.5", growth=("0.2",), lead_time="6", days=0.3, workloads=1, draws=10
    )
    answer = question.answer()
    # one workload: what chance does in a run makes P10 to P90
    limits = answer.load_at_objective
    assert limits[0] < limits[2]
    first = answer.scenarios[0]
    # dates are told to a tenth of a quarter
    assert first.breaks == pytest.approx([max(0.0, log(limit / 0.5) / log(1.2)) for limit in limits], abs=0.05)
    assert first.order == pytest.approx([breaks - 2.0 for breaks in first.breaks])
    assert answer.rows[1].lasts == pytest.approx([log(limit * 24 / 16 / 0.5) / log(1.2) for limit in limits], abs=0.05)
    # 0.5, 0.6, 0.72, 0.864, 1.0368: from the fourth quarter on the wait has no answer
    assert [row.load[1] for row in first.quarters[:5]] == pytest.approx([0.5, 0.6, 0.72, 0.864, 1.0368])
    assert first.quarters[3].wait_minutes[1] < inf
    assert first.quarters[4].wait_minutes == (inf, inf, inf)
    for row in first.quarters[:5]:
        # of ten draws the P10 is the least, the P90 the largest but one
        assert row.broken == 0.0 or row.load[1] > limits[0]
        assert row.broken >= 0.9 or row.load[1] <= limits[2]
        # one more minipod of 8 nodes carries 24 / 16 of the load at the objective; the least limit needs the most
        assert row.load[1] <= limits[0] * (16 + 8 * max(row.minipods)) / 16
        assert row.minipods[0] == 0 or row.load[1] > limits[2]


def test_what_must_hold(asked: Asked) -> None:
    """Percentiles in order; the order comes before the break; more minipods last longer, faster growth less long."""
    answer = asked[1]
    for scenario in answer.scenarios:
        assert list(scenario.breaks) == sorted(scenario.breaks)
        assert all(order < breaks for order, breaks in zip(scenario.order, scenario.breaks, strict=True) if order < inf)
        broken = [row.broken for row in scenario.quarters]
        assert broken == sorted(broken)
    expected, slow, fast = (scenario.breaks[1] for scenario in answer.scenarios)
    assert fast <= expected <= slow
    lasts = [row.lasts[1] for row in answer.rows]
    assert lasts == sorted(lasts)
    assert lasts[0] == expected
    assert (answer.ranges[0].p10, answer.ranges[0].p50, answer.ranges[0].p90) == answer.scenarios[0].order


def test_money(asked: Asked) -> None:
    """A node of 8 GPUs at 2 is 16 an hour, a minipod of 4 of them 64; a GPU in use costs 2 / load at the objective."""
    question, answer = asked
    assert answer.cost_domain_hour == 64.0
    assert answer.cost_used_gpu_hour == pytest.approx(2.0 / answer.load_at_objective[1])
    assert question.sheet(answer).tables[-1].title == "Money"
    assert all(table.title != "Money" for table in question.sheet(replace(answer, cost_domain_hour=None)).tables)


def test_the_figure(asked: Asked) -> None:
    """A line for each scenario, the first with its band, the objective, the order; nothing above the axis."""
    chart = asked[0].sheet(asked[1]).charts[0]
    assert [series.name for series in chart.series] == [
        "growth 0.05 to 0.12",
        "growth 0 to 0.04",
        "growth 0.15 to 0.3",
        "objective",
        "order, P10 to P90",
    ]
    assert [word for _, word in chart.lines] == ["order", "broken"]
    assert chart.ceiling == 240.0
    heights = [y for series in chart.series for _, y in series.points if y is not None]
    assert max(heights) <= 240.0
    assert chart.series[0].band is not None
    low, high = chart.series[0].band
    assert len(low) == 4
    assert all(one <= other <= 240.0 for one, other in zip(low, high, strict=True))


def test_words_of_an_order() -> None:
    """Ahead, too late, or never."""
    assert order_words(1.25) == "in 1.2 quarters"
    assert order_words(-2.0) == "now, 2.0 quarters late"
    # less than half a tenth of a quarter is not late
    assert order_words(-0.04) == order_words(0.0) == "now"
    assert order_words(inf) == "nothing yet"
    assert quarters_words((1.0, 2.0, inf)) == "in 2.0 quarters (P10 1.0, P90 not in 10 years)"
    assert says(quarters_words((1.0, inf, inf)), "not in 10 years", "P10 1.0", "P90 not in 10 years")
    assert quarters_words((0.0, 0.0, 0.5)) == "today already (P10 0.0, P90 0.5)"
    assert quarters_words((inf, inf, inf)) == "not in 10 years"


def test_the_sheet(asked: Asked) -> None:
    """A line for each scenario; shapes one after the other, ``>=`` where a larger job was not refuted."""
    question, answer = asked
    tables = question.sheet(answer).tables
    assert [row[0] for row in tables[0].rows] == [range_words(growth) for growth in question.growth]
    assert [row[0] for row in tables[1].rows] == ["today", "1", "2", "3"]
    assert [row[:4] for row in tables[3].rows[:3]] == [
        ("8x4", "0", "8", "4"),
        ("8x4", "1", "12", "8"),
        ("8x4", "3", "20", "16"),
    ]
    open_ended = replace(answer.rows[0], shapes=(replace(answer.rows[0].shapes[0], whole_proved=False),))
    assert question.sheet(replace(answer, rows=(open_ended,))).tables[3].rows[0][3] == ">= 4"


def test_growing_never_hurts_placement() -> None:
    """12 more free nodes hold 12 more cells of a job without pipeline, three more rows of four stages."""
    cluster = fragment(minipods(minipods=4, nodes=48), 0.5, seed=1)
    small = {"days": 0.02, "workloads": 1, "draws": 10, "quarters": 1}
    answer = GrowQuestion(cluster=cluster, shapes=("8x1", "8x4"), **small).answer()  # type: ignore[arg-type]
    assert [row.nodes for row in answer.rows] == [48, 60, 72]
    assert [row.shapes[0].most_nodes for row in answer.rows] == [24, 36, 48]
    assert answer.rows[1].shapes[1].whole_nodes - answer.rows[0].shapes[1].whole_nodes == 12
    for i in range(2):
        objectives = [row.shapes[i].objective or 0.0 for row in answer.rows]
        assert objectives == sorted(objectives, reverse=True)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"more": ()}, InvalidInput, "no --more"),
        ({"growth": ()}, InvalidInput, "no --growth"),
        ({"more": (0,)}, InvalidInput, "more is 0"),
        ({"load": "0"}, InvalidInput, "0 is out of bounds"),
        ({"load": "much"}, InvalidInput, "'much' is neither"),
        ({"lead_time": "-3"}, InvalidInput, "'-3' is neither"),
        ({"growth": ("-1",)}, InvalidInput, "growth of -1"),
        ({"objective_wait": 0.0}, InvalidInput, "objective_wait is 0.0"),
        ({"days": 400.0}, InvalidInput, "days is 400.0"),
        ({"price_gpu_hour": 2.0, "price_node": 1e5}, InvalidInput, "holds"),
        ({"policy": "fifa"}, UnknownName, "fifa"),
        ({"level": "pod"}, UnknownName, "pod"),
        ({"shapes": ("3x1",)}, InvalidJob, "3x1"),
        ({"made": "22"}, InvalidInput, "'22' is no size"),
    ],
)
def test_impossible_questions(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    """Out of bounds, nothing to compare, prices that contradict, or a name that is not known: before any replay."""
    small = {"made": "2x4", "days": 0.02, "workloads": 1, "shapes": ("8x1",)}
    steps: list[str] = []
    with pytest.raises(error, match=words):
        GrowQuestion(**(small | fields)).answer(step=steps.append)
    # a policy is looked up as the first workload is about to be replayed
    assert steps == ["workload 0"] * ("policy" in fields)
