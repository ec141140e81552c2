"""predictions.md of the docs has the predictions of the code."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.predictions.alpha_study import ALPHAS, rows
from benchmarks.predictions.cases import DENSE, LEVEL, MOE, cases, job_of, on_9600, over_unaligned
from benchmarks.predictions.rectangles import published_ratios, rectangles
from benchmarks.predictions.table import HEAD, MODELS, lines_of
from scheduler.job import Parallelism
from scheduler.objective import evaluate
from scheduler.placement.types import Limits
from simulator.cost.step import COMM_MODELS
from topology.generate import minipods

PAGE = Path(__file__).parents[2] / "docs" / "how-it-works" / "predictions.md"


def test_the_page_says_what_the_code_predicts() -> None:
    """The runs on 96 GPUs, which are quick: each stands once with every prediction and its range, in every model."""
    page = PAGE.read_text(encoding="utf-8")
    assert page.startswith(HEAD)
    rows = [row for row in page.splitlines() if row.startswith("|")]
    for line in lines_of(islice(cases(10.0), 8)):
        cells = [str(prediction) for prediction in line.predictions.values()]
        there = [row for row in rows if row.startswith(f"| {line.case.name} ") and all(cell in row for cell in cells)]
        assert len(there) == 1, line.case.name


def test_every_model_has_a_column() -> None:
    """All that are installed but the one in which place has no effect."""
    assert set(MODELS) == set(COMM_MODELS.names()) - {"none"}


def test_a_job_has_one_alpha_and_one_baseline() -> None:
    """Aligning PP groups of 96 GPUs takes R from 2 to 1 and leaves S at 2, aligning DP groups the other way round."""
    for case in over_unaligned(Limits(seconds=10.0)):
        (pair,) = case.pairs
        assert (pair.before.evaluation.dp, pair.before.evaluation.pp) == (2, 2)
        assert pair.ratios == ((1.0, 2.0) if "PP groups" in case.name else (2.0, 1.0))
        assert pair.before.placed.job == pair.after.placed.job
        assert pair.before.placed.job.spread_cost >= (case.published or 0.0)


def test_pp_groups_come_first_and_dp_groups_bring_nothing_to_the_dense_model() -> None:
    """What alpha 0 says, in every model that knows volumes; and a deeper model gains no less from PP alignment."""
    found = lines_of(islice(cases(10.0), 6))
    for name in ("alpha-beta", "hierarchical", "flows"):
        gains = [line.predictions[name].gain for line in found]
        pp, dp = gains[::2], gains[1::2]
        assert min(pp) > 0.003
        assert max(dp) < 0.001
        assert min(pp[1:]) > 0.97 * pp[0]


def test_no_model_asks_for_more_alpha_than_the_dense_record() -> None:
    """From 0.3 on a dense job never loses less by more alpha, whichever model prices it; by 0, its own, at most 0.2 %
    of a step more than by any other: no DP spread counts then, and racks decide between equals.
    """
    found = [row for row in rows(5.0, seeds=1, shapes=[(16, 8)]) if row.record is DENSE]
    assert [row.alpha for row in found] == list(ALPHAS)
    for name in MODELS:
        lost = [row.lost[name] for row in found]
        assert lost[1:] == sorted(lost[1:])
        assert lost[0] <= min(lost) + 0.002
        assert lost[-1] > lost[0] + 0.002


def test_a_range_holds_its_prediction() -> None:
    """The calibration is one of the readings; ours is the model that knows these gains, and no reading changes them."""
    for line in lines_of(islice(cases(10.0), 2)):
        assert all(one.low <= one.gain <= one.high for one in line.predictions.values())
        anchored = line.predictions["anchored"]
        assert (anchored.low, anchored.high) == pytest.approx((line.case.published or 0.0,) * 2)


def test_rectangles_have_the_spreads_they_are_for() -> None:
    """1,200 nodes in minipods of 93: S * R is at least 13, and both are what the evaluator counts."""
    cluster, job = minipods(), job_of(MOE, "9,600 GPUs", Parallelism(tp=8, pp=8, dp=150))
    found = rectangles(cluster, job, LEVEL)
    assert min(dp * pp for dp, pp in found) >= 13
    for spreads, nodes in found.items():
        evaluation = evaluate(cluster, job, nodes)
        assert (evaluation.dp, evaluation.pp) == spreads


def test_pairs_go_down_as_published() -> None:
    """6 to 4 and 4 to 3 do; 5 to 4 is 1.25, which rounds to 1.3; 2 to 1 does not."""
    some = [(6, 4), (4, 3), (6, 5), (4, 4), (2, 2), (1, 1)]
    assert published_ratios(some) == [((6, 4), (4, 3)), ((6, 5), (4, 4))]
    assert all(1.45 <= pair.ratios[0] < 1.55 for pair in on_9600().pairs)
