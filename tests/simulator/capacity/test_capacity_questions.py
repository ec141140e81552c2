"""What holds for every question: its answer is its JSON, its assumptions are told, its sheet is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ground.errors import InvalidInput
from ground.records import json_data, read_json
from simulator.capacity.cache import CacheQuestion
from simulator.capacity.cluster_question import parse_minipods
from simulator.capacity.fragmentation import FragmentationQuestion
from simulator.capacity.generations import GenerationsQuestion
from simulator.capacity.grow import GrowQuestion
from simulator.capacity.minipods import MinipodsQuestion
from simulator.capacity.power import PowerQuestion
from simulator.capacity.question import CapacityQuestion
from simulator.capacity.reserve import ReserveQuestion
from simulator.capacity.spares import SparesQuestion
from simulator.sheet import known, text_table

QUESTIONS: list[CapacityQuestion[Any]] = [
    SparesQuestion(nodes=64, runs=2, days=1.0),
    MinipodsQuestion(nodes=32, sizes=(8, 16), jobs=("8x2x4",), seeds=1, algorithms=("best-fit",)),
    FragmentationQuestion(made="2x8", shapes=("8x2",)),
    CacheQuestion(draws=10, jobs=2, samples=1000.0, job_samples=500.0, cache_gb=0.1),
    GrowQuestion(made="2x8", shapes=("8x2",), more=(1,), days=0.02, workloads=1, draws=10),
    PowerQuestion(made="2x8", jobs=("8x2x4", "8x2x2"), feed_nodes=3, seconds=20.0, draws=10),
    ReserveQuestion(made="2x8", job="8x2x3", notice_hours=0.5, after_hours=0.5, warm_hours=3.0, workloads=1),
    GenerationsQuestion(jobs=6, seeds=2, loads=(1.0,), gpus=8, policies=("fifo", "gavel")),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question).__name__)
def test_an_answer_is_its_json_and_its_sheet_is_complete(question: CapacityQuestion[Any]) -> None:
    """It comes back from JSON as it went; question, verdict and figure stand first; each step is called once.

    Its tables have rows as wide as their headers, and error bars of its charts belong to points.
    """
    steps: list[str] = []
    answer = question.answer(step=steps.append)
    assert len(steps) == question.steps
    data = json_data(question.answer_type, answer)
    assert list(data)[:6] == ["question", "verdict", "figure", "ranges", "assumptions", "changes"]
    assert read_json(question.answer_type, data) == answer
    assert answer.verdict.endswith(".")
    assert answer.question.endswith("?")
    assert len(answer.assumptions) >= 4
    sentences = (*answer.assumptions, *answer.changes)
    assert all(line.endswith(".") and line == " ".join(line.split()) for line in sentences)
    sheet = question.sheet(answer)
    assert sheet.tables
    assert all(len(row) == len(table.headers) for table in sheet.tables for row in table.rows)
    assert sheet.charts
    for chart in sheet.charts:
        assert chart.series
        assert all(len(series.errors) in (0, len(series.points)) for series in chart.series)


def test_a_table_of_columns() -> None:
    """Headers in order, a line for each row, ``-`` for what is not known."""

    @dataclass
    class Pair:
        """Two numbers."""

        left: int
        right: float | None

    columns = {"left": lambda pair: str(pair.left), "right": lambda pair: known(pair.right, ".1f")}
    made = text_table("Pairs", [Pair(1, 0.25), Pair(2, None)], columns)
    assert (made.title, made.headers) == ("Pairs", ("left", "right"))
    assert made.rows == [("1", "0.2"), ("2", "-")]


@pytest.mark.parametrize(("text", "sizes"), [("22x93", (22, 93)), ("1X1", (1, 1)), ("1000000x1", (1_000_000, 1))])
def test_sizes_of_a_made_cluster(text: str, sizes: tuple[int, int]) -> None:
    """Minipods and nodes of each."""
    assert parse_minipods(text) == sizes


@pytest.mark.parametrize("text", ["", "22", "22x", "x93", "0x5", "5x0", "1x2x3", "axb", "-1x4", "1000001x1", "1.5x2"])
def test_no_sizes(text: str) -> None:
    """The message has an example."""
    with pytest.raises(InvalidInput, match="no size") as caught:
        parse_minipods(text)
    assert "22x93" in caught.value.fix


def test_numbers_of_thousands_of_digits() -> None:
    """They are no sizes either, though Python refuses to read them as numbers."""
    with pytest.raises(InvalidInput, match="no size"):
        parse_minipods("9" * 5000 + "x1")
