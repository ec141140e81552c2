"""The models in which jobs do not disturb each other: numbers by hand, and what must hold for any placement.

The job of most tests has 4 x 2 cells, reckoned by hand in placed.py: ideal step 4500 units, half a reduction 222, of
which gradients take twice as much, transfers 960.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, UnknownName
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.models import BusBandwidth, alpha_beta, anchored, drawn, hierarchical, no_cost, spread_counters
from simulator.cost.step import CommModel, PlacedJob
from tests.case_counts import examples
from tests.simulator.cost.placed import BY_HAND, UNIT, pods, put, slowed
from topology.generate import minipods

ROWS_APART = [[0, 0], [0, 0], [1, 1], [1, 1]]
COLUMNS_APART = [[0, 1]] * 4
HALVED = BusBandwidth(np.array([1.0, 1e12]), np.array([1.0, 2.0]), np.array([[1.0, 0.5], [1.0, 0.5]]))
"""A table in which two minipods have half the bandwidth, whatever the size."""

MODELS = [no_cost, anchored, spread_counters, alpha_beta, hierarchical]


def test_counters_price_what_the_objective_counts() -> None:
    """Alpha 0.3 and two domains for DP groups: 0.3 units; for PP groups: 0.7 units; of 1.64 % each."""
    unit = 0.4 * (1 / 0.83 - 1) / 5
    counted = spread_counters()
    assert counted.relative_step_time(put(pods(2, 8), ROWS_APART, alpha=0.3)) == pytest.approx(1 + 0.3 * unit)
    assert counted.relative_step_time(put(pods(2, 8), COLUMNS_APART, alpha=0.3)) == pytest.approx(1 + 0.7 * unit)


def test_a_table_halves_the_bandwidth() -> None:
    """Half the bus bandwidth over two minipods: both halves of the reduction, or the one hop, take twice as long."""
    model = alpha_beta(BY_HAND, all_reduce=HALVED, send_recv=HALVED)
    assert model.relative_step_time(put(pods(2, 8), ROWS_APART)) == pytest.approx((4500 + 444 + 222) / 4500)
    assert model.relative_step_time(put(pods(2, 8), COLUMNS_APART)) == pytest.approx((4500 + 960) / 4500)


def test_a_hop_inside_a_minipod_loses_nothing() -> None:
    """Three stages, the last in another minipod: one hop of two is halved."""
    model = alpha_beta(BY_HAND, all_reduce=HALVED, send_recv=HALVED)
    near, far = (model.step_time(put(pods(2, 8), rows)) for rows in ([[0, 0, 0]] * 2, [[0, 0, 1]] * 2))
    # m = 12: 2 * (1 + 1) + 11 * 2 = 26 transfers' time flat; 2 * (1 + 2) + 11 * 4 = 50 with the far hop.
    assert far.pp / near.pp == pytest.approx(50 / 26)


def test_the_built_in_tables_hold_the_characterisation() -> None:
    """-17 % for collectives and -70 % for send-recv over six minipods, nothing in one; saturated at 256 MB and 2 MB."""
    for collective, loss, saturation in (("all-reduce", 0.17, 256e6), ("send-recv", 0.70, 2e6)):
        table = drawn(collective, PUBLISHED)  # type: ignore[arg-type]
        large = table.at(64 * 2.0**30, np.array([1, 6, 22]))
        assert large == pytest.approx(np.array([1, 1 - loss, 1 - loss]), rel=1e-3)
        assert table.at(saturation, 1) == pytest.approx(0.95, abs=0.005)
        assert table.at(saturation / 100, 1) < 0.2


def test_a_tier_slows_what_crosses_it() -> None:
    """Two for one: columns of 2 + 2 nodes add 296 * 1/2 * (2 - 1) / 2 = 74 to each half, twice that for gradients; the
    hop takes twice its 960.
    """
    model = hierarchical(BY_HAND, oversubscription={"minipod": 2.0})
    assert model.relative_step_time(put(pods(2, 8), ROWS_APART)) == pytest.approx((4500 + 148 + 74) / 4500)
    assert model.relative_step_time(put(pods(2, 8), COLUMNS_APART)) == pytest.approx((4500 + 960) / 4500)


def test_one_node_apart_makes_the_group_a_ring() -> None:
    """4 nodes in 4 minipods: nothing side by side, all of 666 at half the bandwidth, of which 300 hide."""
    model = hierarchical(BY_HAND, oversubscription={"minipod": 2.0})
    step = model.step_time(put(pods(4, 2), [[0, 0], [1, 1], [2, 2], [3, 3]]))
    assert step.dp * UNIT == pytest.approx(2 * 666 - 300)


def test_tiers_multiply() -> None:
    """Racks 2:1 and minipods 3:1: across minipods 6 times slower, across racks of one minipod twice."""
    cluster = minipods(minipods=2, nodes=8, rack_nodes=2)  # racks 0-1 in minipod 0, 2-3 in minipod 1
    model = hierarchical(BY_HAND, oversubscription={"rack": 2.0, "minipod": 3.0})
    inside = put(cluster, [[0, 0]])
    across_racks = replace(inside, nodes=np.array([[0, 2]], dtype=np.int32))
    assert model.relative_step_time(inside) == pytest.approx(1.0)
    assert model.relative_step_time(across_racks) == pytest.approx(1 + 960 / 4500)
    assert model.relative_step_time(put(cluster, [[0, 1]])) == pytest.approx(1 + 5 * 960 / 4500)


def test_reduction_in_turns_over_two_tiers() -> None:
    """8 nodes, 2 in each of 4 racks, 2 racks in each of 2 minipods: three turns summed by hand."""
    cluster = minipods(minipods=2, nodes=8, rack_nodes=2)
    placed = put(cluster, [[0], [0], [0], [0], [1], [1], [1], [1]])
    step = hierarchical(replace(BY_HAND, overlap=0.0), oversubscription={"rack": 2.0, "minipod": 3.0}).step_time(placed)
    # In V / B: rack 1/2; between racks, 2 lanes at half speed, 1/2 * 2 / 2; minipods, 4 lanes at a sixth, 1/2 * 6 / 4.
    # V of one stage 560 bytes, of gradients and once more of weights.
    assert step.dp * UNIT == pytest.approx((2 + 1) * 560 * (0.5 + 0.5 + 0.75))


def test_a_shared_tier_slows_sends_by_collisions() -> None:
    """Without oversubscription a hop is slowed by hashing alone, 3.5 times, and groups side by side by 19 %."""
    hashed = replace(BY_HAND, collective_flows=16, send_recv_flows=1, overlap=0.0)
    flat, rows, columns = (
        hierarchical(hashed).step_time(put(pods(2, 8), domains))
        for domains in ([[0, 0]] * 4, ROWS_APART, COLUMNS_APART)
    )
    assert columns.pp / flat.pp == pytest.approx(3.53, rel=0.01)
    # two lanes side by side between two minipods: (3/4 + 1/2 * 0.19 / 2) / (3/4)
    assert rows.dp / flat.dp == pytest.approx(1 + 0.19 / 3, rel=0.01)


def test_a_ratio_below_one_is_refused() -> None:
    """More bandwidth upwards than below is no oversubscription."""
    with pytest.raises(InvalidInput, match=r"oversubscription of minipod is 0\.5"):
        hierarchical(oversubscription={"minipod": 0.5}).step_time(put(pods(2, 8), ROWS_APART))


def test_a_tier_that_the_cluster_does_not_have_is_named() -> None:
    """The ratio of an unknown level is a mistake, not nothing."""
    with pytest.raises(UnknownName, match="'pod'"):
        hierarchical(oversubscription={"pod": 2.0}).step_time(put(pods(2, 8), ROWS_APART))


@pytest.mark.parametrize("make", MODELS)
def test_without_spread_nothing_is_slower(make: Callable[[], CommModel]) -> None:
    """One minipod and no slow node: relative time 1 in every model."""
    assert make().relative_step_time(put(pods(2, 12), [[0, 0, 0]] * 4)) == pytest.approx(1.0)


@pytest.mark.parametrize("make", MODELS)
def test_a_model_says_what_it_is(make: Callable[[], CommModel]) -> None:
    """A line for lists, sentences for reports, and the same answer for one job and for a list of them."""
    model = make()
    placed = put(pods(2, 8), ROWS_APART)
    assert model.summary
    assert all(sentence.endswith(".") for sentence in model.assumptions)
    assert model.assumptions
    assert not model.shares_links
    assert model.step_times([placed]) == [model.step_time(placed, [placed])]


@st.composite
def refined(draw: st.DrawFn) -> tuple[PlacedJob, PlacedJob]:
    """A placement, and the same with some cells of one domain moved to a domain that had none."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    domains = np.array(draw(st.lists(st.integers(0, 3), min_size=rows * columns, max_size=rows * columns)))
    moved = np.array(draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns)))
    apart = np.where(moved & (domains == domains[0]), 4, domains)
    cluster = pods(5, rows * columns)
    options = {"alpha": draw(st.floats(0, 1)), "chunks": draw(st.integers(1, 2))}
    shape = (rows, columns)
    one, other = (put(cluster, cells.reshape(shape).tolist(), **options) for cells in (domains, apart))
    return one, other


@pytest.mark.parametrize("make", MODELS)
@examples(40)
@given(pair=refined())
def test_more_spread_is_never_faster(make: Callable[[], CommModel], pair: tuple[PlacedJob, PlacedJob]) -> None:
    """Moving part of a domain's cells to a domain of their own never helps."""
    model = make()
    before, after = (model.relative_step_time(placed) for placed in pair)
    assert 1.0 - 1e-9 <= before <= after + 1e-9


@examples(40)
@given(pair=refined(), ratios=st.tuples(st.floats(1, 20), st.floats(1, 20)))
def test_more_oversubscription_is_never_faster(pair: tuple[PlacedJob, PlacedJob], ratios: tuple[float, float]) -> None:
    """Hierarchical time grows with the ratio; where no tier is shared nothing costs, wherever the job lies."""
    low, high = (hierarchical(oversubscription={"minipod": ratio}) for ratio in sorted(ratios))
    flat = hierarchical(oversubscription={})
    for placed in pair:
        assert low.relative_step_time(placed) <= high.relative_step_time(placed) + 1e-9
        assert flat.relative_step_time(placed) == pytest.approx(1.0)


@pytest.mark.parametrize("make", MODELS)
@examples(20)
@given(pair=refined(), factors=st.tuples(st.floats(1, 4), st.floats(1, 4)))
def test_a_slower_node_is_never_faster(
    make: Callable[[], CommModel], pair: tuple[PlacedJob, PlacedJob], factors: tuple[float, float]
) -> None:
    """Of two slowdowns of one node in use the larger never makes the shorter step."""
    model, placed = make(), pair[0]
    node = int(placed.nodes[0, 0])
    low, high = (
        model.relative_step_time(replace(placed, cluster=slowed(placed.cluster, node, factor)))
        for factor in sorted(factors)
    )
    assert model.relative_step_time(placed) <= low + 1e-9
    assert low <= high + 1e-9


@examples(20)
@given(pair=refined(), share=st.tuples(st.floats(0.05, 0.9), st.floats(0.05, 0.9)))
def test_the_more_of_the_step_is_something_else_the_less_spread_costs(
    pair: tuple[PlacedJob, PlacedJob], share: tuple[float, float]
) -> None:
    """A larger share of the step that is not compute is more of what is the same wherever the job lies."""
    low, high = (alpha_beta(Calibration(communication_share=value)) for value in sorted(share))
    assert low.relative_step_time(pair[1]) >= high.relative_step_time(pair[1]) - 1e-9
