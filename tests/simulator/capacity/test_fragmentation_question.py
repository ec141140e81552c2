"""What fragmentation costs: stranded nodes counted by hand, ratios, verdict, tables and charts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, InvalidJob, UnknownName
from simulator.capacity.fragmentation import FragmentationAnswer, FragmentationQuestion
from tests.case_counts import examples
from tests.facts import says
from tests.simulator.capacity.clusters_in_use import with_free
from topology.build import build_cluster
from topology.cluster import Node
from topology.generate import fragment, minipods


def ask(*free: int, **fields: Any) -> FragmentationAnswer:
    """The answer for minipods with so many free nodes."""
    return FragmentationQuestion(cluster=with_free(*free), **fields).answer()


def test_nothing_free() -> None:
    """No job of any shape, no division by zero, and a verdict all the same."""
    answer = ask(0, 0, shapes=("8x2",), spreads=(1,))
    shape = answer.shapes[0]
    assert (answer.free, shape.most_nodes, shape.sizes) == (0, 0, ())
    assert [(one.nodes, one.proved) for one in shape.largest] == [(0, True), (0, True)]
    assert says(answer.verdict, "0 of 16 nodes", "0 minipods")


def test_a_shape_that_fits_nowhere_is_said() -> None:
    """PP groups of 20 nodes find no 20 free: the verdict says so, beside the shape that loses most of what fits."""
    assert says(ask(7, 5, shapes=("8x20",), spreads=(1,)).verdict, "12 of 16 nodes", "8x20")
    assert says(ask(7, 5, shapes=("8x20", "8x4"), spreads=(1,)).verdict, "8x20", "8x4", "8 nodes")


def test_an_empty_cluster_is_not_fragmented() -> None:
    """Every ratio is 1, whatever the shape and size."""
    answer = FragmentationQuestion(cluster=minipods(minipods=4, nodes=32), shapes=("8x2", "8x4")).answer()
    ratios = [size.ratio for row in answer.shapes for size in row.sizes]
    assert len(ratios) == 8
    assert ratios == pytest.approx([1.0] * 8)
    assert answer.free_by_domain == (8, 8, 8, 8)


def test_counts_of_stranded_nodes() -> None:
    """7, 5, 2 and 0 free with PP groups of 4: 2 in a minipod too small, 3 + 1 + 2 left over."""
    answer = ask(7, 5, 2, 0, shapes=("8x4",), spreads=(1,), shares=(0.5,))
    row = answer.shapes[0]
    assert (row.too_small, row.left_over) == (2, 6)
    assert answer.free_by_domain == (7, 5, 2, 0)
    # Half of three rows is one row of four nodes, inside one minipod now and on the empty cluster.
    assert (row.sizes[0].nodes, row.sizes[0].dp, row.sizes[0].pp) == (4, 1, 1)
    # The two whole rows are 8 of the 14 free nodes.
    assert says(answer.verdict, "shape 8x4", "8 nodes", "57% of those free")


@examples(15)
@given(free=st.lists(st.integers(0, 6), min_size=1, max_size=3), stages=st.integers(1, 4))
def test_stranded_nodes_by_the_closed_form(free: list[int], stages: int) -> None:
    """What whole rows leave over is free beyond the largest job with PP spread 1; the too small are part of it."""
    shape = ask(*free, shapes=(f"8x{stages}",), spreads=(1,), shares=()).shapes[0]
    assert shape.left_over == sum(f % stages for f in free)
    assert shape.too_small == sum(f for f in free if f < stages)
    assert shape.too_small <= shape.left_over
    whole = shape.fitting("pp", 1)
    assert whole is None if stages == 1 else whole is not None and whole.nodes == sum(free) - shape.left_over


def test_a_slow_node_does_not_make_fragmentation_look_like_a_gain() -> None:
    """A job of 4 nodes, where one minipod has 4 free and one of them is twice as slow, lies in it now and when empty.

    On the empty cluster a second minipod has 4 healthy nodes, of which 1 is free now.  With a price on slowness the job
    would lie in the second minipod there, and in both now; without one its objective is 1 either way.
    """
    rows = [Node(f"a{i}", ("a",), 8, 8, 2.0 if i == 0 else 1.0) for i in range(4)]
    rows += [Node(f"b{i}", ("b",), 8, 8 if i == 0 else 0) for i in range(4)]
    cluster = build_cluster(["minipod"], rows)
    answer = FragmentationQuestion(cluster=cluster, shapes=("8x1",), shares=(0.8,)).answer()
    size = answer.shapes[0].sizes[0]
    assert (size.nodes, size.dp, size.objective, size.objective_if_empty) == (4, 1, 1.0, 1.0)
    assert "as fast as any" in " ".join(answer.assumptions)


def test_larger_spreads_never_hold_less() -> None:
    """Allowing more domains never makes the largest job smaller."""
    cluster = fragment(minipods(minipods=6, nodes=72), 0.6, 4)
    shape = FragmentationQuestion(cluster=cluster, shapes=("8x4",), time_limit=2.0).answer().shapes[0]
    for family in ("pp", "dp"):
        sizes = [one.nodes for one in shape.largest if one.family == family]
        assert len(sizes) == 3
        assert sizes == sorted(sizes)
        assert sizes[-1] <= shape.most_nodes


def test_fragmentation_never_helps() -> None:
    """No job is worth more than on the empty cluster, where every placement of now is possible too."""
    cluster = fragment(minipods(minipods=4, nodes=48), 0.6, 1)
    answer = FragmentationQuestion(cluster=cluster, shapes=("8x1", "8x4"), time_limit=2.0).answer()
    assert all(size.ratio is None or size.ratio >= 1.0 - 1e-9 for row in answer.shapes for size in row.sizes)


def test_a_made_cluster() -> None:
    """Half of four minipods of 12 is busy, the same half for the same seed, and the name says how it was made."""
    question = FragmentationQuestion(made="4x12", busy_share=0.5, seed=3, shapes=("8x4",))
    assert len(question.now) == 48
    assert int(question.now.idle.sum()) == 24
    assert bool((question.now.idle == FragmentationQuestion(made="4x12", busy_share=0.5, seed=3).now.idle).all())
    assert says(question.cluster_name, "4 minipods of 12 nodes", "50%", "seed 3")
    assert question.steps == 2


def test_the_sheet() -> None:
    """A shape without pipeline has no PP groups, so ``-``; sizes beyond what fits have no line; charts show both."""
    question = FragmentationQuestion(
        cluster=with_free(7, 5, 2), shapes=("8x1", "8x4"), spreads=(1, 2), shares=(0.1, 0.5)
    )
    answer = question.answer()
    largest, sizes = question.sheet(answer).tables
    assert largest.headers[2:6] == ("PP <= 1", "PP <= 2", "DP <= 1", "DP <= 2")
    # With one stage the job is one DP group: 7 nodes in one minipod, 7 + 5 in two.  Of four stages two rows are whole,
    # in the 7 and in the 5; four columns of two fit into single minipods too; all three rows need two minipods a group.
    assert [row[:6] for row in largest.rows] == [
        ("8x1", "14", "-", "-", "7", "12"),
        ("8x4", "12", "8", "12", "8", "12"),
    ]
    # 10 % of 14 rows is one row, of 3 rows none.
    assert [(row[0], row[1], row[2]) for row in sizes.rows] == [
        ("8x1", "10%", "1"),
        ("8x1", "50%", "7"),
        ("8x4", "50%", "4"),
    ]
    jobs, domains = question.sheet(answer).charts
    # Nothing is drawn between PP and DP groups: a point without a value breaks the line.
    assert [y for _, y in jobs.series[1].points] == [8.0, 12.0, None, 8.0, 12.0]
    assert [word for _, word in jobs.ticks] == ["PP <= 1", "PP <= 2", "DP <= 1", "DP <= 2"]
    assert domains.series[0].points == [(1, 7), (2, 5), (3, 2)]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"level": "pod"}, UnknownName, "minipod"),
        ({"shapes": ("3x4",)}, InvalidJob, "does not divide a node of 8"),
        ({"shapes": ("8",)}, InvalidJob, "no shape"),
    ],
)
def test_questions_that_fail(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    """Levels and shapes are checked against the cluster, when it is asked."""
    with pytest.raises(error, match=words):
        ask(4, **({"shapes": ("8x1",)} | fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"time_limit": 0.0}, "time_limit is 0.0"),
        ({"busy_share": -0.1}, "busy_share"),
    ],
)
def test_numbers_out_of_bounds(fields: dict[str, Any], words: str) -> None:
    """The bounds of the options hold for scripts too."""
    with pytest.raises(InvalidInput, match=words):
        FragmentationQuestion(**fields)


def test_a_range_over_the_hours_of_a_replay(tmp_path: Path) -> None:
    """Two minipods of 8: jobs of 3 and 6 nodes, hour by hour; whole PP groups of 4 use what is left by hand.

    At 0 h the first takes 3 nodes of one minipod (13 free: 4 + 8 of them in whole groups); from 1 h on the second has 6
    of the other (5 + 2 free: 4); from 2 h on the first is gone (8 + 2 free: 8); the third comes at 4 h and is the last.
    """
    trace = tmp_path / "jobs.csv"
    rows = ["job_id,submit_time,duration,gpus", "a,0,7000,24", "b,3500,90000,48", "c,14400,60,8", "d,9,-1,8"]
    trace.write_text("\n".join(rows) + "\n")
    question = FragmentationQuestion(cluster=with_free(8, 8), shapes=("8x1", "8x4"), spreads=(1,), trace=str(trace))
    answer = question.answer()
    assert answer.states == 5
    one = answer.ranges[0]
    assert (one.p10, one.p50, one.p90) == pytest.approx((4 / 7, 8 / 10, 12 / 13))
    assert one.swings == ()
    assert says(answer.verdict, "5 samples", "3 jobs")
    assert says(answer.assumptions, "fifo-backfill", "gpu-packing")
    assert any("without 1 " in line for line in answer.assumptions)
    over_time = question.sheet(answer).charts[2]
    assert [x for x, _ in over_time.series[0].points] == [0, 1, 2, 3, 4]
    assert [y for _, y in over_time.series[0].points] == pytest.approx([12 / 13, 4 / 7, 8 / 10, 8 / 10, 8 / 10])


def test_one_state_has_no_range() -> None:
    """A cluster as it is: the answer says so.  A made one has a range over seeds, in which its own state may lie."""
    alone = ask(7, 5, 2, shapes=("8x4",), spreads=(1,), shares=())
    assert alone.ranges == ()
    assert alone.states == 0
    assert says(alone.assumptions, "one state", "no range")
    made = FragmentationQuestion(made="4x12", shapes=("8x4",), spreads=(1,), shares=()).answer()
    one = made.ranges[0]
    assert one.p10 < one.p90
    assert one.decides == "chance"
    full = FragmentationQuestion(made="4x12", busy_share=1.0, shapes=("8x4",), spreads=(1,), shares=()).answer()
    assert full.ranges == ()
