"""What was measured between two minipods is what a job loses there, and over more it grows as NCCL loses bandwidth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.affinity import RECORDS, Record, job_affinity
from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST, Job
from scheduler.objective import evaluate
from simulator.cost.calibration import PUBLISHED
from simulator.cost.models import anchored
from simulator.cost.step import PlacedJob
from tests.case_counts import examples
from tests.simulator.cost.placed import pods, put
from topology.generate import minipods

DP_APART = [[0, 0]] * 3 + [[1, 1]] * 3  # 6 x 2 cells over two minipods: the grid of the characterisation
PP_APART = [[0, 1]] * 6
BOTH_APART = [[0, 1]] * 3 + [[1, 0]] * 3
PRICE = anchored().relative_step_time


def of_kind(record: Record) -> dict[str, float]:
    """Return what a job has of a record's model on a record's parallelism."""
    known = job_affinity(record.parallelism, model=record.model)
    return {"alpha": known.alpha, "spread_cost": known.spread_cost}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_alpha_and_the_price_of_place_agree_over_two_minipods(record: Record) -> None:
    """For every record: each family costs the gain that was measured, so alpha is the part of DP in both."""
    dp, pp, both = (
        PRICE(put(pods(2, 12), domains, **of_kind(record))) - 1.0 for domains in (DP_APART, PP_APART, BOTH_APART)
    )
    assert (dp, pp) == pytest.approx((record.dp_gain / 100, record.pp_gain / 100))
    assert both == pytest.approx(dp + pp)
    assert dp / (dp + pp) == pytest.approx(record.alpha)


@given(alpha=st.floats(0, 1), cost=st.floats(0, 0.2), data=st.data())
@examples(60)
def test_over_two_minipods_the_objective_is_the_price(alpha: float, cost: float, data: st.DataObject) -> None:
    """Wherever cells lie in two minipods: ``1 + spread_cost * (objective - 1)``, as placement predicts the step."""
    domains = [[data.draw(st.integers(0, 1)) for _ in range(3)] for _ in range(3)]
    placed = put(pods(2, 9), domains, alpha=alpha, spread_cost=cost)
    objective = evaluate(placed.cluster, placed.job, placed.nodes).objective
    assert PRICE(placed) == pytest.approx(1.0 + cost * (objective - 1.0))


def test_over_more_minipods_it_grows_as_bandwidth_is_lost() -> None:
    """PP groups over 2 to 6: send-recv loses .14 .28 .42 .56 .70, which adds .163 .389 .724 1.273 2.333 of its time."""
    extra = [0.14 / 0.86, 0.28 / 0.72, 0.42 / 0.58, 0.56 / 0.44, 0.70 / 0.30]
    for spread, one in enumerate(extra, start=2):
        placed = put(pods(7, 4), [list(range(spread))], alpha=0.0, spread_cost=0.02)
        assert PRICE(placed) == pytest.approx(1.0 + 0.02 * one / extra[0])
    assert PUBLISHED.send_recv_curve.of_two(7) == PUBLISHED.send_recv_curve.of_two(6)
    assert PUBLISHED.collective_curve.of_two(6) == pytest.approx((1 / 0.83 - 1) / (1 / 0.966 - 1))


def test_a_job_of_which_nothing_is_known_has_the_default_record() -> None:
    """The mixture of experts of which alpha is the default, 2.57 % for both families; the assumptions name it."""
    moe = next(record for record in RECORDS if record.name == "24B MoE on H800")
    assert (moe.alpha, moe.spread_cost) == pytest.approx((DEFAULT_ALPHA, DEFAULT_SPREAD_COST))
    assert Job("j", moe.parallelism).spread_cost == DEFAULT_SPREAD_COST
    assert PRICE(put(pods(2, 12), BOTH_APART)) == pytest.approx(1 + 0.018 / 0.7)
    assert any('"24B MoE on H800"' in line and "2.57%" in line for line in anchored().assumptions)


def test_one_that_says_alpha_splits_what_its_record_has() -> None:
    """Alpha 0.5 of the job for the mixture of experts: both families cost half of 2.57 %."""
    moe = next(record for record in RECORDS if record.name == "24B MoE on H800")
    known = job_affinity(moe.parallelism, model=moe.model, alpha=0.5)
    placed = put(pods(2, 12), DP_APART, alpha=known.alpha, spread_cost=known.spread_cost)
    assert PRICE(placed) == pytest.approx(1 + 0.018 / 0.7 / 2)


def test_it_counts_at_the_level_of_the_job() -> None:
    """Two racks of one minipod cost nothing, unless the job's spread counts in racks."""
    cluster = minipods(minipods=2, nodes=8, rack_nodes=2)
    placed = put(cluster, [[0], [0], [0], [0]], alpha=1.0, spread_cost=0.02)
    in_racks = PlacedJob(placed.job.replace(level="rack"), cluster, placed.nodes, placed.model)
    assert PRICE(placed) == 1.0
    assert PRICE(in_racks) == pytest.approx(1.02)
