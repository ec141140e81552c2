"""More minipods on small clusters: counts by hand, what must hold whatever the numbers, verdict and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulator.capacity.grow_question import GrowAnswer, GrowQuestion
from tests.simulator.capacity.clusters_in_use import with_free
from topology.errors import InvalidInput, UnknownName
from topology.generate import fragment, minipods


def test_growing_never_hurts() -> None:
    """More empty minipods: a larger largest job, an objective no worse, and no longer waits."""
    cluster = fragment(minipods(minipods=4, nodes=48), 0.5, seed=1)
    answer = GrowQuestion(cluster=cluster, more=(1, 2), shapes=("8x1", "8x4"), days=0.25, load=1.2).answer()
    assert [row.nodes for row in answer.rows] == [48, 60, 72]
    assert answer.added_nodes == 12
    for i in range(2):
        largest = [row.shapes[i].whole_nodes for row in answer.rows]
        assert largest == sorted(largest)
        objectives = [row.shapes[i].objective or 0.0 for row in answer.rows]
        assert objectives == sorted(objectives, reverse=True)
    # 12 more free nodes hold exactly 12 more cells of a job without pipeline, and three more rows of four stages.
    assert [row.shapes[0].most_nodes for row in answer.rows] == [24, 36, 48]
    assert answer.rows[1].shapes[1].whole_nodes - answer.rows[0].shapes[1].whole_nodes == 12
    waits = [row.wait_hours for row in answer.rows]
    assert waits[0] is not None
    assert waits[-1] is not None
    assert waits[-1] <= waits[0]
    assert "With 1 minipod more" in answer.verdict


@pytest.fixture(scope="module")
def asked() -> tuple[GrowQuestion, GrowAnswer]:
    """Two minipods of eight with 7 and 3 free, and with one or three more of four nodes each."""
    cluster = with_free(7, 3)
    question = GrowQuestion(
        cluster=cluster, source="x.csv", more=(3, 1, 3), domain_nodes=4, shapes=("8x4", "8x1"), days=0.05
    )
    return question, question.answer()


def test_by_hand(asked: tuple[GrowQuestion, GrowAnswer]) -> None:
    """Rows of four: one in the 7, none in the 3, one in every new minipod; each number of minipods once, in order."""
    question, answer = asked
    assert question.steps == 3
    assert [row.more for row in answer.rows] == [0, 1, 3]
    assert [(row.nodes, row.free) for row in answer.rows] == [(16, 10), (20, 14), (28, 22)]
    assert [row.shapes[0].whole_nodes for row in answer.rows] == [4, 8, 16]
    assert [row.shapes[0].most_nodes for row in answer.rows] == [8, 12, 20]
    # 0.9 of today's two rows is one row, of today's ten free nodes nine; the job is the same on all clusters.
    assert {row.shapes[0].job_nodes for row in answer.rows} == {4}
    assert {row.shapes[1].job_nodes for row in answer.rows} == {9}
    assert (answer.level, answer.added_nodes, answer.cluster) == ("minipod", 4, "x.csv")


def test_the_verdict_is_of_the_last_shape(asked: tuple[GrowQuestion, GrowAnswer]) -> None:
    """Without pipeline every free node counts: from 10 to 14."""
    assert (
        "the largest job of shape 8x1 with PP groups inside one minipod grows from 10 to 14 nodes" in asked[1].verdict
    )


def test_nothing_that_starts(asked: tuple[GrowQuestion, GrowAnswer]) -> None:
    """Where no job of the workload starts there are no waits: words instead of numbers, and ``-`` in the table."""
    question, answer = asked
    none = replace(answer, rows=tuple(replace(row, wait_hours=None, wait_hours_p95=None) for row in answer.rows))
    assert "no job of the workload started" in question.verdict(none)
    sheet = question.sheet(none)
    assert sheet.tables[0].rows[0][3:] == ("-", "-")
    assert sheet.charts[0].series[0].points == [(0, None), (1, None), (3, None)]


def test_the_sheet(asked: tuple[GrowQuestion, GrowAnswer]) -> None:
    """One shape after the other, each on every cluster; ``>=`` where a larger job was not refuted."""
    question, answer = asked
    by_shape = question.sheet(answer).tables[1]
    assert [row[:4] for row in by_shape.rows[:3]] == [
        ("8x4", "0", "8", "4"),
        ("8x4", "1", "12", "8"),
        ("8x4", "3", "20", "16"),
    ]
    assert {row[0] for row in by_shape.rows[3:]} == {"8x1"}
    open_ended = replace(answer.rows[0], shapes=(replace(answer.rows[0].shapes[0], whole_proved=False),))
    assert question.sheet(replace(answer, rows=(open_ended,))).tables[1].rows[0][3] == ">= 4"
    waits, largest = question.sheet(answer).charts
    assert [word for _, word in waits.ticks] == ["today", "+1", "+3"]
    assert largest.series[0].points == [(0, 4), (1, 8), (3, 16)]


def test_domains_are_as_large_as_most() -> None:
    """24 nodes in 5 minipods are 5, 5, 5, 5 and 4: one more has 5."""
    cluster = minipods(minipods=5, nodes=24)
    answer = GrowQuestion(cluster=cluster, more=(1,), shapes=("8x1",), days=0.02).answer()
    assert answer.added_nodes == 5


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"more": ()}, InvalidInput, "no domain is added"),
        ({"more": (0,)}, InvalidInput, "more is 0"),
        ({"load": 0.0}, InvalidInput, "load is 0.0"),
        ({"days": 400.0}, InvalidInput, "days is 400.0"),
        ({"policy": "fifa"}, UnknownName, "fifa"),
        ({"level": "pod"}, UnknownName, "pod"),
        ({"made": "22"}, InvalidInput, "'22' is no size"),
    ],
)
def test_impossible_questions(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    """Out of bounds, or a name that is not known."""
    with pytest.raises(error, match=words):
        GrowQuestion(**({"made": "2x4", "days": 0.02, "shapes": ("8x1",)} | fields)).answer()
