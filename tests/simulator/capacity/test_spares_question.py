"""Spares: the least cost by brute force, ranges, domains, targets, closed forms, Monte Carlo, what is printed."""

from __future__ import annotations

from dataclasses import replace
from math import exp, expm1, factorial, inf, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, UnknownName
from ground.records import json_data
from simulator.capacity.spares import SparesAnswer, SparesQuestion
from tests.case_counts import examples
from tests.facts import says

CERTAIN = {"failures": "rsc-1", "repair_hours": "24", "restart": "300", "draws": 10}


def brief(**fields: Any) -> SparesQuestion:
    """A question whose inputs are known, and whose Monte Carlo is as short as can be."""
    return SparesQuestion(**({"nodes": 256, "runs": 2, "days": 1.0} | CERTAIN | fields))


def erlang_b(lines: int, load: float) -> float:
    """Erlang's loss formula as a sum: a^c / c! over sum a^k / k!."""
    terms = [load**k / factorial(k) for k in range(lines + 1)]
    return terms[-1] / sum(terms)


def test_the_least_cost_by_brute_force() -> None:
    """1,200 nodes at 6.5 failures in 1,000 node-days and repairs of a day: (N + S) / (N ETTR(S)) is least at 17.

    There a further node buys less than it costs: N dETTR < ETTR.
    """
    nodes, load = 1200, 1200 * 6.5e-3
    rate = load / 86_400
    interval = sqrt(20 / rate)
    ceiling = rate * interval * exp(-rate * 300) / expm1(rate * (interval + 10))
    costs = [(nodes + s) / nodes / (ceiling * (1 - erlang_b(s + 1, load))) for s in range(40)]
    answer = brief(nodes=nodes).answer()
    assert answer.spares == costs.index(min(costs)) == 17
    row = next(row for row in answer.rows if row.spares == 17)
    assert (row.cost, row.cost_p10, row.cost_p90) == pytest.approx((costs[17],) * 3)
    low, high = answer.about_as_good
    assert costs[low] <= 1.01 * costs[17] < costs[low - 1]
    assert costs[high] <= 1.01 * costs[17] < costs[high + 1]
    assert [one.p10 for one in answer.ranges] == [one.p90 for one in answer.ranges]
    assert "Were the inputs known" not in answer.verdict


def test_ranges_of_the_inputs() -> None:
    """The defaults: the best number if all were known has its P10, P50, P90 about 4, 9, 24, and repair time decides.

    Each end of the tornado is the least cost by brute force; what is bought before the inputs are known is more, for
    too few stop the job.
    """
    answer = SparesQuestion(nodes=1200, runs=2, days=1.0, target=0.9).answer()
    best, cost, ettr, fewest = answer.ranges
    assert (best.p10, best.p50) == pytest.approx((4, 9), abs=1)
    assert best.p90 == pytest.approx(24, abs=2)
    assert best.decides == "hours of a node's repair"
    swing, rate = best.swings[0], f"{answer.rate.per_thousand_node_days:.6f}"
    ends = [
        brief(nodes=1200, failures=rate, repair_hours=f"{hours:.6f}").answer().spares
        for hours in (swing.low, swing.high)
    ]
    assert [swing.at_low, swing.at_high] == ends
    assert best.p50 < answer.spares
    assert cost.p10 <= cost.p50 <= cost.p90
    assert answer.reached_share == pytest.approx(0.9, abs=0.05)
    assert ettr.p10 == pytest.approx(0.9, abs=0.02)
    assert (fewest.p50, answer.needed) == (answer.needed, fewest.p50)
    assert "(P10 4, P90 24)" in answer.verdict
    assert {one.name: one.spares for one in answer.by_source} == {
        "rsc-1": 15,
        "llama3": 11,
        "rsc-2": 8,
        "byterobust": 6,
    }


def test_prices_move_costs_and_not_the_least() -> None:
    """2.5 a GPU-hour: every cost is 2.5 times as much, the number the same; what the spares cost a year is told."""
    plain, priced = brief().answer(), brief(price_gpu_hour=2.5).answer()
    assert plain.spares == priced.spares
    assert [2.5 * row.cost for row in plain.rows] == pytest.approx([row.cost for row in priced.rows])
    assert f"{round(priced.spares * 8 * 2.5 * 8_766):,} a year" in priced.verdict
    # 350,640 over 4 years is 10 an hour, a port a GPU at 701.28 is 0.02 a GPU-hour
    assert brief(price_node=350_640.0, price_switch_port=701.28).gpu_hour == pytest.approx(1.25 + 0.02)


def test_domains_that_fail_at_once() -> None:
    """Leaves of 16 nodes that fail often make 16 more spares worth their cost; rare ones do not."""
    alone = brief().answer()
    rare, often = (brief(failure_domains=(f"leaf:16:{rate}:24",)).answer() for rate in ("0.017", "20"))
    assert rare.spares == alone.spares == rare.best_without_domains
    assert often.spares >= alone.spares + 12
    assert often.best_without_domains == alone.spares
    leaf = often.domains[0]
    # 256 / 16 leaves, 20 failures in 1,000 days each
    assert (leaf.in_the_job, leaf.failures_a_year) == (16, pytest.approx(16 * 20 / 1000 * 365.25))
    assert 0.0 < leaf.waiting < 0.05
    assert often.mttf_hours < alone.mttf_hours
    row = next(row for row in often.rows if row.spares == often.spares)
    assert row.simulated == pytest.approx(row.formula, abs=0.1)
    assert "leaf of 16 nodes" in " ".join(often.assumptions)
    assert f"Without failures of leaf: {alone.spares} spares" in " ".join(often.changes)


def test_spares_suffice_and_agree() -> None:
    """Formula and Monte Carlo are within 5 % in every row; the number named is the first that reaches the target."""
    answer = SparesQuestion(nodes=512, target=0.94, runs=10, days=360.0, **CERTAIN).answer()  # type: ignore[arg-type]
    assert answer.needed is not None
    assert next(row.spares for row in answer.rows if row.formula >= 0.94) == answer.needed
    assert all(row.apart < 0.05 for row in answer.rows)
    assert answer.first_order_ettr == pytest.approx(0.961, abs=5e-4)
    assert [row.spares for row in answer.rows] == sorted({row.spares for row in answer.rows})
    assert f"An ETTR of 94.0% takes {answer.needed}" in answer.verdict


@pytest.mark.parametrize(
    ("failures", "repair", "needed"),
    [
        *(("byterobust", 24, 3), ("llama3", 24, 7), ("rsc-1", 24, 12), ("23.7", 24, None)),
        *(("rsc-1", 6, 4), ("rsc-1", 72, 29)),
    ],
)
def test_one_target_by_source_and_repair(failures: str, repair: float, needed: int | None) -> None:
    """1,200 nodes, an ETTR of 0.9: worked out apart, by the formula, for each published rate and for repairs of hours
    to days; at the rate that gives 7.9 h at 1,024 GPUs no number is enough.
    """
    assert brief(nodes=1200, target=0.9, failures=failures, repair_hours=str(repair)).needed == needed


def test_spares_print_what_was_measured() -> None:
    """Both mean times to failure at 1,024 GPUs stand in table and assumptions: 28.8 h by the rate, 7.9 h measured."""
    question = brief(nodes=128)
    answer = question.answer()
    assert "28.8 h by the rate, 7.9 h measured" in str(question.sheet(answer).tables)
    assert "7.9 h" in " ".join(answer.assumptions)


def test_no_spares_reach_the_impossible() -> None:
    """0.99 with 2,048 nodes: restarts alone cost more, and the verdict says so."""
    answer = brief(nodes=2048, target=0.99).answer()
    assert (answer.needed, answer.reached, answer.reached_share) == (None, False, 0.0)
    assert answer.ranges[3].p50 == inf
    assert "restarts and checkpoints alone leave 90.3%" in answer.verdict


def test_waits_by_erlang() -> None:
    """512 nodes that fail 6.5 times in 1,000 days and are away for a day: a = 3.328, and S spares are S + 1 lines."""
    answer = brief(nodes=512).answer()
    assert answer.nodes_away == pytest.approx(512 * 6.5e-3)
    for row in answer.rows:
        assert row.waiting == pytest.approx(erlang_b(row.spares + 1, 512 * 6.5e-3))
        assert row.formula == pytest.approx(answer.ettr_with_unlimited_spares * (1.0 - row.waiting))


def test_losses_by_hand() -> None:
    """1,000 nodes at 8.64 failures per 1,000 node-days fail once in 10,000 s; the best interval is sqrt(2 w / L)."""
    answer = brief(nodes=1000, failures="8.64", restart="120", job_checkpoint_write=20.0).answer()
    assert answer.mttf_hours == pytest.approx(10_000 / 3600)
    assert answer.checkpoint_interval == pytest.approx(sqrt(2 * 20.0 * 10_000))
    # (1 - L (u0 + d / 2)) / (1 + w / d) with d = sqrt(400,000) = 632.5 s
    assert answer.first_order_ettr == pytest.approx((1 - (120 + 316.23) / 10_000) / (1 + 20 / 632.46), abs=1e-5)
    assert "interval is the best" in " ".join(answer.assumptions)


def test_an_interval_of_ones_own() -> None:
    """It is taken as it is, is never better than the best one, and nothing says that it is the best."""
    best, own = brief(nodes=1000).answer(), brief(nodes=1000, job_checkpoint_interval=3000.0).answer()
    assert own.checkpoint_interval == 3000.0
    assert own.ettr_with_unlimited_spares < best.ettr_with_unlimited_spares
    assert "interval is the best" not in " ".join(own.assumptions)


@examples(15)
@given(nodes=st.integers(1, 600), repair=st.floats(1.0, 72.0), target=st.floats(0.5, 0.9))
def test_more_spares_never_lower_ettr(nodes: int, repair: float, target: float) -> None:
    """None exceeds what a spare always at hand gives; a higher target, more nodes, longer repairs never need fewer."""
    answer = brief(nodes=nodes, repair_hours=f"{repair:.3f}", target=target).answer()
    values = [row.formula for row in answer.rows]
    assert values == sorted(values)
    assert max(values) <= answer.ettr_with_unlimited_spares
    harder = [{"target": target + 0.05}, {"nodes": nodes + 50}, {"repair_hours": f"{repair + 10:.3f}"}]
    for more in harder:
        needed = brief(**({"nodes": nodes, "repair_hours": f"{repair:.3f}", "target": target} | more)).needed
        assert needed is None or (answer.needed is not None and needed >= answer.needed)


@pytest.mark.parametrize(("nodes", "pool"), [(128, 2), (256, 2), (512, 3), (1024, 4)])
def test_the_published_standby_pools(nodes: int, pool: int) -> None:
    """At the rate fitted to ByteRobust, its pools of 2, 2, 3 and 4 machines (arXiv 2509.16293)."""
    assert brief(nodes=nodes, failures="byterobust").answer().standby == pool


def test_restarts_by_name_hang_on_the_gpus() -> None:
    """A requeue costs a larger job more, and more than a hot update; a number is taken as it is."""

    def seconds(**fields: Any) -> float:
        return brief(**fields).model.losses[0].restart

    small, large = (seconds(restart="requeue", gpus_per_node=gpus) for gpus in (8, 64))
    assert small < large
    assert seconds(restart="hot-update") < small
    assert seconds(restart="42.5") == 42.5


def test_nothing_fails() -> None:
    """At a rate of 0 no spare is needed, no checkpoint is written, and the interval is null in JSON.

    The mean time to failure, which JSON has as a million years, is never to a person.
    """
    question = brief(failures="0", target=0.999)
    answer = question.answer()
    assert (answer.spares, answer.needed, answer.nodes_away, answer.standby) == (0, 0, 0.0, 0)
    assert "any other number" not in answer.verdict
    assert says(brief(nodes=1, failures="0").answer().verdict, "over 1% more")
    assert answer.checkpoint_interval == inf
    assert json_data(SparesAnswer, answer)["checkpoint_interval"] is None
    assert {row.simulated for row in answer.rows} == {1.0}
    said = str(question.sheet(answer).tables) + " ".join((*answer.assumptions, *answer.changes, answer.verdict))
    assert "inf" not in said
    assert "8766000000" not in said
    job = dict(question.sheet(answer).tables[0].rows)
    assert job["mean time to failure"] == "never"
    assert says(job["the same at 1,024 GPUs"], "never", "7.9 h", "RSC-1")
    assert json_data(SparesAnswer, answer)["mttf_hours"] == 1e6 * 8766


def test_nothing_is_useful() -> None:
    """An hour between failures and a checkpoint in thirty years: no number of spares helps, and no cost is a number."""
    question = brief(nodes=1000, failures="24", job_checkpoint_interval=1e9, target=0.5)
    answer = question.answer()
    assert says(answer.verdict, "no number of spares")
    assert answer.ranges[1].words == "P10 without end, P50 without end, P90 without end"
    assert json_data(SparesAnswer, answer)["ranges"][1]["p50"] is None
    assert not answer.reached
    # a curve of costs without end cannot be drawn
    assert [chart.title for chart in question.sheet(answer).charts] == ["ETTR by number of spares"]
    # a day's restart of nodes that fail each second day: costs of 1e200 and more, and no warning
    assert "no number of spares" in brief(nodes=1000, failures="500", restart="86400").answer().verdict


def test_the_same_seed_is_the_same_answer() -> None:
    """Another seed is another Monte Carlo, and the same formulas where the inputs are known."""
    first, again, other = brief().answer(), brief().answer(), brief(seed=1).answer()
    assert first == again
    assert [row.formula for row in first.rows] == [row.formula for row in other.rows]
    assert [row.simulated for row in first.rows] != [row.simulated for row in other.rows]


def test_the_sheet() -> None:
    """Words mark the best number, upright lines stand at it and at the ends of its range, dots carry error bars."""
    question = brief(repair_hours="12..48", target=0.9, failure_domains=("leaf:8",))
    answer = question.answer()
    sheet = question.sheet(answer)
    rows = sheet.tables[2].rows
    assert [row[0] for row in rows if "cost" in row[0]] == [f"{answer.spares} at least cost"]
    assert len(rows) == question.steps == len(answer.rows)
    cost, ettr = sheet.charts
    assert [words for _, words in cost.lines] == ["P10", "P50", "P90", f"{answer.spares} spares"]
    assert all(low <= high for low, high in zip(*(cost.series[0].band or ((), ())), strict=True))
    assert [series.name for series in ettr.series] == ["formula, band P10 to P90", "Monte Carlo", "target"]
    assert list(ettr.series[1].errors) == [row.half_width for row in answer.rows]
    assert question.verdict(replace(answer, spares=0)).startswith("Keep 0 spares")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": 0}, "nodes is 0"),
        ({"target": 1.0}, "target is 1.0"),
        ({"target": 0.0}, "target is 0.0"),
        ({"job_checkpoint_write": 0.0}, "job_checkpoint_write is 0.0"),
        ({"job_checkpoint_interval": -1.0}, "job_checkpoint_interval is -1.0"),
        ({"repair_hours": "nan"}, "'nan' is neither"),
        ({"repair_hours": "72..6"}, "out of bounds"),
        ({"runs": 1}, "runs is 1"),
        ({"failures": "3..2000"}, "out of bounds"),
        ({"failures": "2000"}, "more than one per node"),
        ({"failures": "-1"}, "nor a number from 0"),
        ({"failures": "nan"}, "nor a number from 0"),
        ({"restart": "soon"}, "no way to restart"),
        ({"restart": "9..1"}, "out of bounds"),
        ({"failure_domains": ("leaf",)}, "how many nodes a leaf has"),
        ({"failure_domains": ("leaf:0",)}, "'0' is no number of nodes"),
        ({"failure_domains": ("leaf:2000000",)}, "'2000000' is no number of nodes"),
        ({"failure_domains": ("leaf:8", "leaf:9")}, "stands twice"),
        ({"failure_domains": ("leaf:8:1:2:3",)}, "no failure domain"),
        ({"failure_domains": (":8",)}, "no failure domain"),
        ({"failure_domains": ("leaf:8:often",)}, "'often' is neither"),
        ({"price_switch_port": 900.0}, "only a part"),
        ({"price_switch_port": 900.0, "price_gpu_hour": 2.0}, "holds what --price-switch-port says"),
    ],
)
def test_what_cannot_be_asked(wrong: dict[str, Any], words: str) -> None:
    """Said before anything is simulated, with the name of the field or the option."""
    with pytest.raises(InvalidInput, match=words):
        SparesQuestion(**({"nodes": 8} | wrong))


def test_rates_that_are_not_known() -> None:
    """A rate by name, misspelled."""
    with pytest.raises(UnknownName, match="rsc3"):
        brief(failures="rsc3")
