"""Jobs that share links: by hand, and against the hierarchical model where the two must agree.

Minipods have half the bandwidth upwards.  The job of 4 x 2 cells as in placed.py: ideal step 4500 units, of which half
a reduction takes 222, transfers 960.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, UnknownName
from simulator.cost.models import hierarchical, tiers_of
from simulator.cost.shared_flows import SharedFlows, demands_of, uplinks
from simulator.cost.step import PlacedJob, flat_step
from tests.case_counts import examples
from tests.simulator.cost.placed import BY_HAND, job, pods, put, slowed
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.generate import PRESETS, llama3_pods, minipods

HALF = {"minipod": 2.0}
ROWS_APART = [[0, 0], [0, 0], [1, 1], [1, 1]]
COLUMNS_APART = [[0, 1]] * 4


def moved(placed: PlacedJob, by: int) -> PlacedJob:
    """The same job on the nodes so many further on."""
    return PlacedJob(placed.job, placed.cluster, (placed.nodes + by).astype(np.int32), placed.model)


def test_a_job_that_fills_its_minipods_has_its_share_of_the_links() -> None:
    """Two minipods of 4 nodes, all used: 2 columns of 2 lanes share 800 GB/s, as if all nodes sent: hierarchical."""
    for rows in (ROWS_APART, COLUMNS_APART):
        placed = put(pods(2, 4), rows)
        alone = SharedFlows(BY_HAND, oversubscription=HALF).step_time(placed)
        busy = hierarchical(BY_HAND, oversubscription=HALF).step_time(placed)
        assert alone.relative == pytest.approx(busy.relative)
        assert alone.relative > 1.04


def test_alone_in_large_minipods_nothing_is_short() -> None:
    """Minipods of 8 with 4 nodes used: 1,600 GB/s upwards for 4 lanes of 400."""
    model = SharedFlows(BY_HAND, oversubscription=HALF)
    assert model.relative_step_time(put(pods(2, 8), ROWS_APART)) == pytest.approx(1.0)


def test_a_second_job_takes_half() -> None:
    """A second job of the same kind in the other halves: now each has 200 GB/s a lane, and 3 * 74 more to wait for."""
    first = put(pods(2, 8), ROWS_APART)
    second = moved(first, 4)
    model = SharedFlows(BY_HAND, oversubscription=HALF)
    assert model.relative_step_time(first, [second]) == pytest.approx((4500 + 222) / 4500)
    assert [step.relative for step in model.step_times([second, first])] == pytest.approx([(4500 + 222) / 4500] * 2)
    assert model.relative_step_time(first) == pytest.approx(1.0)


def test_jobs_meet_in_the_same_phase_only() -> None:
    """One job reduces between the minipods, the other sends between its stages: neither is slowed by the other."""
    reduces = put(pods(2, 8), ROWS_APART)
    sends = moved(put(reduces.cluster, COLUMNS_APART), 4)
    steps = SharedFlows(BY_HAND, oversubscription=HALF).step_times([reduces, sends])
    assert [step.relative for step in steps] == pytest.approx([1.0, 1.0])


def test_three_jobs_by_hand() -> None:
    """Three minipods of 6 nodes, 1,200 GB/s upwards; three reductions over 0-1, 1-2 and 0-2, one of them wider."""
    cluster = pods(3, 6)
    taken = iter(range(18))
    nodes = {domain: [next(taken) for _ in range(6)] for domain in range(3)}

    def ring(one: int, other: int, lanes: int) -> PlacedJob:
        cells = [[nodes[domain].pop()] for domain in (one, other) for _ in range(lanes)]
        return PlacedJob(job(len(cells), 1), cluster, np.array(cells, dtype=np.int32))

    wide, near, far = ring(0, 1, 4), ring(1, 2, 2), ring(0, 2, 1)
    exposed = replace(BY_HAND, overlap=0.0)
    steps = SharedFlows(exposed, oversubscription=HALF).step_times([wide, near, far])
    # Minipod 1 has 4 + 2 lanes for 1,200 GB/s: 200 each.  Minipod 0: 4 * 200 leave the third job all it can use, 400.
    # Reduction: (n-1)/n + 1/2 * (2 - 1) / lanes against (n-1)/n.
    stretch = [(7 / 8 + 1 / 8) / (7 / 8), (3 / 4 + 1 / 4) / (3 / 4), 1.0]
    alone = [flat_step(placed, exposed) for placed in (wide, near, far)]
    assert [step.dp / flat.dp for step, flat in zip(steps, alone, strict=True)] == pytest.approx(stretch)


def test_lanes_of_a_job_at_each_link() -> None:
    """A column of 3 + 1 nodes has one lane at both minipods; the row that crosses twice has one lane at each."""
    cluster = pods(2, 12)
    (demand,) = demands_of(put(cluster, [[0, 1, 0]] + [[0, 0, 0]] * 3), tiers_of(cluster, HALF, BY_HAND), around=False)
    assert demand.dp.flow_of.tolist() == [-1, 0, -1]
    assert demand.dp.lanes.tolist() == [1.0, 1.0]
    assert demand.pp.flow_of.tolist() == [0, -1, -1, -1]
    assert demand.pp.lanes.tolist() == [1.0, 1.0]


def test_equal_groups_are_one_flow() -> None:
    """Two columns with two nodes on either side: one flow of 2 * 2 lanes at each of two links."""
    cluster = pods(2, 4)
    (demand,) = demands_of(put(cluster, ROWS_APART), tiers_of(cluster, HALF, BY_HAND), around=False)
    assert (demand.dp.count, demand.dp.lanes.tolist()) == (1, [4.0, 4.0])
    assert demand.pp.count == 0


def test_closer_tiers_hold_a_flow_too() -> None:
    """Racks 4:1 under minipods 1.01:1: what leaves the minipod is held by its racks."""
    cluster = minipods(minipods=2, nodes=8, rack_nodes=2)
    placed = put(cluster, [[0], [0], [0], [0], [1], [1], [1], [1]])
    ratios = {"rack": 4.0, "minipod": 1.01}
    alone = SharedFlows(oversubscription=ratios).step_time(placed)
    assert alone.relative == pytest.approx(hierarchical(oversubscription=ratios).step_time(placed).relative)


def test_clusters_that_differ_in_what_is_busy_are_one() -> None:
    """The engine derives a cluster at every start: links are shared all the same."""
    first = put(pods(2, 8), ROWS_APART)
    later = first.cluster.with_busy([0])
    second = PlacedJob(first.job, later, first.nodes + 4, first.model)
    assert SharedFlows(BY_HAND, oversubscription=HALF).relative_step_time(first, [second]) > 1.01


def test_jobs_of_two_clusters_are_refused() -> None:
    """Links of different clusters are not shared."""
    with pytest.raises(InvalidInput, match="different clusters"):
        SharedFlows().step_times([put(pods(2, 8), ROWS_APART), put(pods(2, 8), ROWS_APART)])


def test_nobody_runs() -> None:
    """No jobs, no steps; and the model says what it is."""
    model = SharedFlows()
    assert model.step_times([]) == []
    assert model.shares_links
    assert any("same phase" in sentence for sentence in model.assumptions)


@st.composite
def busy_cluster(draw: st.DrawFn) -> tuple[Cluster, list[PlacedJob]]:
    """Up to four jobs on random nodes of four minipods of 12."""
    cluster = pods(4, 12)
    nodes = draw(st.permutations(range(48)))
    placed, start = [], 0
    for _ in range(draw(st.integers(1, 4))):
        rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 2))
        cells = np.array(nodes[start : start + rows * columns], dtype=np.int32).reshape(rows, columns)
        placed.append(PlacedJob(job(rows, columns), cluster, cells))
        start += rows * columns
    return cluster, placed


@examples(60)
@given(case=busy_cluster(), ratio=st.floats(1.0, 8.0))
def test_sharing_lies_between_the_ideal_and_the_busy_cluster(
    case: tuple[Cluster, list[PlacedJob]], ratio: float
) -> None:
    """No job is faster than without spread, none slower than where every node sends: that is the hierarchical model."""
    _, running = case
    ratios = {"minipod": ratio}
    busy = hierarchical(oversubscription=ratios)
    for placed, step in zip(running, SharedFlows(oversubscription=ratios).step_times(running), strict=True):
        assert 1.0 - 1e-9 <= step.relative <= busy.relative_step_time(placed) + 1e-9


@examples(40)
@given(case=busy_cluster())
def test_order_does_not_matter(case: tuple[Cluster, list[PlacedJob]]) -> None:
    """The same jobs in another order: the same steps; and one job asked alone answers the same."""
    _, running = case
    model = SharedFlows()
    there = [step.relative for step in model.step_times(running)]
    back = [step.relative for step in SharedFlows().step_times(running[::-1])][::-1]
    assert there == pytest.approx(back)
    assert model.relative_step_time(running[0], running[1:]) == pytest.approx(there[0])


@examples(30)
@given(case=busy_cluster(), ratios=st.tuples(st.floats(1, 8), st.floats(1, 8)))
def test_alone_more_oversubscription_is_never_faster(
    case: tuple[Cluster, list[PlacedJob]], ratios: tuple[float, float]
) -> None:
    """A job alone on the tree: narrower links never help, nor does a slow node."""
    _, (placed, *_) = case
    low, high = (SharedFlows(oversubscription={"minipod": ratio}) for ratio in sorted(ratios))
    assert low.relative_step_time(placed) <= high.relative_step_time(placed) + 1e-9
    slow = PlacedJob(placed.job, slowed(placed.cluster, int(placed.nodes[0, 0]), 1.4), placed.nodes)
    assert low.relative_step_time(placed) <= low.relative_step_time(slow) + 1e-9


def uneven() -> Cluster:
    """Two pods; n3 hangs on its pod without a rack, n4 on the core itself."""
    rows = [
        Node("n0", ("p1", "r1"), 8, 8),
        Node("n1", ("p1", "r1"), 8, 8),
        Node("n2", ("p1", "r2"), 8, 8),
        Node("n3", ("p2", ""), 8, 8),
        Node("n4", ("", ""), 4, 4),
    ]
    return build_cluster(["pod", "rack"], rows)


def test_no_oversubscription_by_default() -> None:
    """Links upwards carry what the nodes below can send: 50 GB/s a GPU, 4 nodes of 8 GPUs a rack."""
    cluster = minipods(minipods=2, nodes=16, rack_nodes=4)
    capacity = uplinks(cluster, {})
    assert list(capacity) == ["minipod", "rack"]
    assert capacity["rack"].tolist() == [1600.0] * 4
    assert capacity["minipod"].tolist() == [3200.0] * 2


def test_oversubscription_thins_the_links_above_a_level() -> None:
    """Llama 3's pods carry a seventh of their 192 racks x 16 GPUs upwards; the racks below are not thinned."""
    capacity = uplinks(llama3_pods(), PRESETS["llama3-pods"].oversubscription)
    assert capacity["pod"] == pytest.approx([192 * 16 * 50.0 / 7] * 8)
    assert capacity["rack"][0] == 16 * 50.0


def test_implicit_domains_have_no_links_of_their_own() -> None:
    """A node without a rack is not thinned by the racks' ratio: p2 carries its node's 400 GB/s, p1 half of 1200."""
    capacity = uplinks(uneven(), {"rack": 2.0})
    assert capacity["pod"].tolist() == [600.0, 400.0, 200.0]


def test_impossible_links_are_refused() -> None:
    """A ratio of zero and a level that does not exist are errors, not infinities."""
    with pytest.raises(InvalidInput, match="rack is 0"):
        uplinks(uneven(), {"rack": 0.0})
    with pytest.raises(UnknownName, match="no level 'row'"):
        uplinks(uneven(), {"row": 2.0})
