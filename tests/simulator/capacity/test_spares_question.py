"""Spares for a target ETTR: closed forms, Monte Carlo, monotony, and the fewest that suffice."""

from __future__ import annotations

from dataclasses import replace
from math import factorial, inf, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from health.recovery.standby import PUBLISHED
from simulator.capacity.spares_answer import SparesAnswer
from simulator.capacity.spares_question import SparesQuestion, monte_carlo
from simulator.failures.expected_ettr import first_order_ettr
from tests.case_counts import examples
from topology.errors import InvalidInput, UnknownName
from topology.json_record import json_data


def brief(**fields: Any) -> SparesQuestion:
    """A question whose Monte Carlo is as short as can be."""
    return SparesQuestion(**({"nodes": 256, "runs": 2, "days": 1.0} | fields))


def test_spares_suffice_and_agree() -> None:
    """Formula and Monte Carlo are within 5 % in every row; the number named is the first that reaches the target."""
    answer = SparesQuestion(nodes=512, target=0.94, runs=10, days=360.0).answer()
    assert answer.needed is not None
    reaching = [row.spares for row in answer.rows if row.formula >= 0.94]
    assert reaching[0] == answer.needed
    assert all(row.apart < 0.05 for row in answer.rows)
    assert answer.ettr_with_unlimited_spares == pytest.approx(0.961, abs=5e-4)
    assert [row.spares for row in answer.rows] == sorted({row.spares for row in answer.rows})
    assert f"Keep {answer.needed} spares" in answer.verdict


def test_spares_print_what_was_measured() -> None:
    """Both mean times to failure at 1,024 GPUs stand in table and assumptions: 28.8 h by the rate, 7.9 h measured."""
    question = brief(nodes=128)
    answer = question.answer()
    assert "28.8 h by the rate, 7.9 h measured" in str(question.sheet(answer).tables)
    assert "7.9 h" in " ".join(answer.assumptions)


def test_no_spares_reach_the_impossible() -> None:
    """0.99 with 2,048 nodes: restarts alone cost more, and the verdict says so."""
    question = brief(nodes=2048, target=0.99)
    answer = question.answer()
    assert answer.needed is None
    assert not answer.reached
    assert answer.ettr_with_unlimited_spares == first_order_ettr(question.losses)
    assert "restarts and checkpoints alone leave 0.901" in answer.verdict
    assert question.sheet(answer).charts[0].lines == ()


def erlang_b(lines: int, load: float) -> float:
    """Erlang's loss formula as a sum: a^c / c! over sum a^k / k!."""
    terms = [load**k / factorial(k) for k in range(lines + 1)]
    return terms[-1] / sum(terms)


def test_waits_by_erlang() -> None:
    """512 nodes that fail 6.5 times in 1,000 days and are away for a day: a = 3.328, and S spares are S + 1 lines."""
    answer = brief(nodes=512).answer()
    assert answer.nodes_away == pytest.approx(512 * 6.5e-3)
    for row in answer.rows:
        assert row.waiting == pytest.approx(erlang_b(row.spares + 1, 512 * 6.5e-3))
        assert row.formula == pytest.approx(answer.ettr_with_unlimited_spares * (1.0 - row.waiting))


def test_losses_by_hand() -> None:
    """1,000 nodes at 8.64 failures per 1,000 node-days fail once in 10,000 s; the best interval is sqrt(2 w / L)."""
    question = brief(nodes=1000, failures="8.64", restart="120", job_checkpoint_write=20.0)
    answer = question.answer()
    assert answer.mttf_hours == pytest.approx(10_000 / 3600)
    assert answer.checkpoint_interval == pytest.approx(sqrt(2 * 20.0 * 10_000))
    # (1 - L (u0 + d / 2)) / (1 + w / d) with d = sqrt(400,000) = 632.5 s
    assert answer.ettr_with_unlimited_spares == pytest.approx(
        (1 - (120 + 316.23) / 10_000) / (1 + 20 / 632.46), abs=1e-5
    )
    assert "the best interval" in " ".join(answer.assumptions)


def test_an_interval_of_ones_own() -> None:
    """It is taken as it is, is never better than the best one, and nothing says that it is the best."""
    best, own = brief(nodes=1000).answer(), brief(nodes=1000, job_checkpoint_interval=3000.0).answer()
    assert own.checkpoint_interval == 3000.0
    assert own.ettr_with_unlimited_spares < best.ettr_with_unlimited_spares
    assert "the best interval" not in " ".join(own.assumptions)


@examples(20)
@given(nodes=st.integers(1, 600), repair=st.floats(1.0, 72.0), seed=st.integers(0, 3))
def test_more_spares_never_lower_ettr(nodes: int, repair: float, seed: int) -> None:
    """By either formula; none exceeds what a spare always at hand gives, and the last row nearly reaches that."""
    answer = brief(nodes=nodes, repair_hours=repair, seed=seed).answer()
    for values in ([row.formula for row in answer.rows], [row.exact for row in answer.rows]):
        assert values == sorted(values)
    assert all(row.formula <= answer.ettr_with_unlimited_spares for row in answer.rows)
    assert answer.rows[-1].waiting <= 1e-4


@examples(15)
@given(targets=st.lists(st.floats(0.5, 0.9), min_size=2, max_size=4), nodes=st.integers(1, 800))
def test_a_higher_target_never_needs_fewer(targets: list[float], nodes: int) -> None:
    """With the same job; and one spare fewer than needed does not reach the target."""
    answers = [brief(nodes=nodes, target=target) for target in sorted(targets)]
    needed = [question.fewest[0] for question in answers if question.fewest[0] is not None]
    assert needed == sorted(needed)


def test_larger_jobs_need_more() -> None:
    """More nodes and longer repairs never need fewer spares for the same target."""
    by_nodes = [brief(nodes=nodes, target=0.85).fewest[0] or 0 for nodes in (64, 256, 1024)]
    by_repair = [brief(nodes=512, target=0.85, repair_hours=hours).fewest[0] or 0 for hours in (1.0, 24.0, 72.0)]
    assert by_nodes == sorted(set(by_nodes))
    assert by_repair == sorted(set(by_repair))


@pytest.mark.parametrize("nodes", PUBLISHED)
def test_the_published_standby_pools(nodes: int) -> None:
    """At the rate fitted to ByteRobust, its pools of 2, 2, 3 and 4 machines (arXiv 2509.16293)."""
    assert brief(nodes=nodes, failures="byterobust").answer().standby == PUBLISHED[nodes]


def test_restarts_by_name_hang_on_the_gpus() -> None:
    """A requeue costs a larger job more, and more than a hot update; a number is taken as it is."""
    small, large = (brief(restart="requeue", gpus_per_node=gpus).losses.restart for gpus in (8, 64))
    assert small < large
    assert brief(restart="hot-update").losses.restart < small
    assert brief(restart="42.5").losses.restart == 42.5


def test_nothing_fails() -> None:
    """At a rate of 0 no spare is needed, no checkpoint is written, and the interval is null in JSON.

    The mean time to failure, which JSON has as a million years, is never to a person.
    """
    question = brief(failures="0", target=0.999)
    answer = question.answer()
    assert (answer.needed, answer.nodes_away, answer.standby) == (0, 0.0, 0)
    assert answer.checkpoint_interval == inf
    assert json_data(SparesAnswer, answer)["checkpoint_interval"] is None
    assert [row.simulated for row in answer.rows] == [1.0, 1.0]
    assert "inf" not in str(question.sheet(answer).tables)
    assert "inf" not in " ".join(answer.assumptions)
    job = dict(question.sheet(answer).tables[0].rows)
    assert job["mean time to failure"] == "never"
    assert job["the same at 1,024 GPUs"] == "never by the rate, 7.9 h measured on RSC-1"
    assert "8766000000" not in str(question.sheet(answer).tables) + " ".join(answer.assumptions)
    assert json_data(SparesAnswer, answer)["mttf_hours"] == 1e6 * 8766


def test_the_same_seed_is_the_same_answer() -> None:
    """Another seed is another Monte Carlo and the same formulas; every number of spares is simulated once."""
    first, again, other = brief().answer(), brief().answer(), brief(seed=1).answer()
    assert first == again
    assert [row.formula for row in first.rows] == [row.formula for row in other.rows]
    assert [row.simulated for row in first.rows] != [row.simulated for row in other.rows]
    assert monte_carlo(brief(), 0) is monte_carlo(brief(), 0)


def test_the_sheet() -> None:
    """A star marks the number that is needed, an upright line stands at it, and dots carry error bars."""
    question = brief(target=0.9)
    answer = question.answer()
    sheet = question.sheet(answer)
    starred = [row[0] for row in sheet.tables[1].rows if "*" in row[0]]
    assert starred == [f"{answer.needed} *"]
    assert len(sheet.tables[1].rows) == question.steps == len(answer.rows)
    chart = sheet.charts[0]
    assert [series.name for series in chart.series] == ["formula", "Monte Carlo", "target"]
    assert list(chart.series[1].errors) == [row.half_width for row in answer.rows]
    assert chart.lines == ((answer.needed, f"{answer.needed} spares"),)
    assert question.verdict(replace(answer, needed=0)).startswith("Keep 0 spares")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": 0}, "nodes is 0"),
        ({"target": 1.0}, "target is 1.0"),
        ({"target": 0.0}, "target is 0.0"),
        ({"job_checkpoint_write": 0.0}, "job_checkpoint_write is 0.0"),
        ({"job_checkpoint_interval": -1.0}, "job_checkpoint_interval is -1.0"),
        ({"repair_hours": float("nan")}, "repair_hours is nan"),
        ({"runs": 1}, "runs is 1"),
    ],
)
def test_numbers_out_of_bounds(wrong: dict[str, float], words: str) -> None:
    """Said before anything is simulated, with the name of the field."""
    with pytest.raises(InvalidInput, match=words):
        SparesQuestion(**({"nodes": 8} | wrong))  # type: ignore[arg-type]


def test_words_that_are_not_known() -> None:
    """Rates and restarts by name."""
    with pytest.raises(UnknownName, match="rsc3"):
        brief(failures="rsc3").answer()
    with pytest.raises(InvalidInput, match="soon"):
        brief(restart="soon").answer()
