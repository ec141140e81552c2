"""The geometry of drawings: everything is drawn once, inside its domain, and nothing lies on anything else."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.drawing.layout import (
    BARS,
    DETAIL,
    MOST_HEIGHT,
    WIDTH,
    DomainFrame,
    Layout,
    best_columns,
    fit,
    inventory,
    labels,
    layout,
    pack,
    shapes,
    text_width,
)
from topology.drawing.page_kit import colour_ramp, wheel
from topology.generate import PRESETS, fat_tree, hpn_segments, llama3_pods, minipods, nvl72, paper_cluster

SLACK = 1e-6
"""Lengths are floats: borders that touch may be apart by this much."""


@st.composite
def trees(draw: st.DrawFn) -> Cluster:
    """Clusters of one to sixty nodes and up to three levels, with switches left out here and there."""
    depth = draw(st.integers(0, 3))
    rows = []
    for i in range(draw(st.integers(1, 60))):
        numbers = draw(st.lists(st.integers(0, 4), min_size=depth, max_size=depth))
        names = ["" if n == 4 else "-".join(map(str, numbers[: d + 1])) for d, n in enumerate(numbers)]
        rows.append(Node(f"n{i}", tuple(names), 8, 8))
    return build_cluster([f"level-{d}" for d in range(depth)], rows)


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two rectangles (x, y, width, height) share more than a border."""
    return all(one[i] + SLACK < other[i] + other[i + 2] and other[i] + SLACK < one[i] + one[i + 2] for i in (0, 1))


def inside(part: tuple[float, ...], whole: tuple[float, ...]) -> bool:
    """Whether a rectangle lies within another."""
    return all(whole[i] - SLACK <= part[i] and part[i] + part[i + 2] <= whole[i] + whole[i + 2] + SLACK for i in (0, 1))


def rectangle(frame: DomainFrame) -> tuple[float, ...]:
    """A frame as (x, y, width, height)."""
    return frame.x, frame.y, frame.width, frame.height


def squares(plan: Layout) -> dict[int, tuple[float, ...]]:
    """Node -> its square as (x, y, width, height)."""
    return {int(n): (x, y, plan.side, plan.side) for n, x, y in zip(plan.nodes, plan.x, plan.y, strict=True)}


@given(trees())
def test_every_node_is_drawn_once_and_no_two_overlap(cluster: Cluster) -> None:
    """On any tree, however uneven: one square a node, all apart, all on the page."""
    plan = layout(cluster)
    assert sorted(plan.nodes) == list(range(len(cluster)))
    drawn = list(squares(plan).values())
    assert not any(overlap(a, b) for i, a in enumerate(drawn) for b in drawn[:i])
    assert all(inside(square, (0, 0, plan.width, plan.height)) for square in drawn)


@given(trees())
def test_boxes_nest_as_domains_do(cluster: Cluster) -> None:
    """A box holds the squares of its nodes and no others, and the boxes of its children; siblings lie apart."""
    plan = layout(cluster)
    drawn = squares(plan)
    for frame in plan.frames:
        below = {int(node) for node in frame.shape.nodes}
        assert all(inside(drawn[node], rectangle(frame)) == (node in below) for node in drawn)
        for other in plan.frames:
            if other is not frame:
                nested = {int(node) for node in other.shape.nodes} <= below and other.depth > frame.depth
                around = below <= {int(node) for node in other.shape.nodes} and other.depth < frame.depth
                assert nested or around or not overlap(rectangle(frame), rectangle(other))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(partial(minipods, minipods=1, nodes=3), id="three nodes"),
        pytest.param(partial(paper_cluster, "i"), id="18 nodes"),
        pytest.param(partial(paper_cluster, "9600"), id="2,046 nodes"),
        llama3_pods,
        hpn_segments,
        nvl72,
        pytest.param(partial(minipods, minipods=50, nodes=12_500, unevenness=0.5), id="12,500 nodes"),
        pytest.param(fat_tree, id="27,648 nodes"),
    ],
)
def test_real_shapes_fit_the_page(made: Callable[[], Cluster]) -> None:
    """Published fabrics from 3 to 27,648 nodes fit into the page's width and a screen or so of height."""
    plan = layout(made())
    assert plan.width <= WIDTH
    assert plan.height <= MOST_HEIGHT * WIDTH


def test_siblings_look_alike() -> None:
    """22 minipods of 93 nodes: boxes of one size on a grid, racks as two by two."""
    plan = layout(paper_cluster("9600"))
    broad = [frame for frame in plan.frames if frame.broad]
    assert len({(frame.width, frame.height) for frame in broad}) == 1
    assert len(broad) == 22
    assert len({frame.x for frame in broad}) * len({frame.y for frame in broad}) >= 22
    rack = squares(plan)
    assert rack[0][1] == rack[1][1]
    assert rack[0][0] == rack[2][0]
    assert rack[3][:2] == (rack[1][0], rack[2][1])


def test_domains_stand_in_their_order() -> None:
    """Equal domains are read row by row: mp01, mp02, ... from left to right and down."""
    plan = layout(paper_cluster("9600"))
    broad = [frame for frame in plan.frames if frame.broad]
    assert [frame.shape.label for frame in broad] == [f"mp{i:02d}" for i in range(1, 23)]
    assert [(frame.y, frame.x) for frame in broad] == sorted((frame.y, frame.x) for frame in broad)


def test_a_huge_domain_beside_small_ones_takes_several_columns() -> None:
    """400 nodes beside twelve domains of 8: the large box is wider, and the page is not a tower."""
    rows = [Node(f"n{i}", (f"p{0 if i < 400 else 1 + (i - 400) // 8}",), 8, 8) for i in range(496)]
    plan = layout(build_cluster(["pod"], rows))
    large, *small = plan.frames
    assert large.width > 2 * small[0].width
    assert plan.height < MOST_HEIGHT * WIDTH


def test_beyond_the_detail_nodes_become_bars() -> None:
    """27,648 nodes: one bar for each of the 1,152 edge switches, of an area in proportion to its nodes, no squares."""
    cluster = fat_tree()
    assert len(cluster) > DETAIL
    plan = layout(cluster)
    assert len(plan.nodes) == 0
    assert len(plan.bars) == 1152 <= BARS
    assert sorted(np.concatenate([bar.shape.own for bar in plan.bars])) == list(range(len(cluster)))
    assert len({round(bar.width * bar.height, 6) for bar in plan.bars}) == 1


def test_too_many_close_domains_become_bars_of_broader_ones() -> None:
    """30,000 nodes in 7,500 racks: bars stand for the 500 minipods instead."""
    plan = layout(minipods(minipods=500, nodes=30_000))
    assert len(plan.bars) == 500


def test_a_flat_cluster_of_any_size_can_be_drawn() -> None:
    """Without levels all nodes stand in one field, or in one bar."""
    flat = minipods(minipods=1, nodes=20_000).replace(levels=())
    assert len(layout(flat).bars) == 1
    assert len(layout(flat, detail=20_000).nodes) == 20_000


def test_chains_share_a_box_and_single_nodes_need_none() -> None:
    """A rack with one leaf switch is one box with both names; a leaf switch of one node is not drawn."""
    rows = [Node(f"n{i}", (f"p{i // 8}", f"r{i // 4}", f"s{i // 4}"), 8, 8) for i in range(16)]
    tree = shapes(build_cluster(["pod", "rack", "switch"], rows))
    assert not tree.bars
    assert [shape.label for shape in tree.root.children[0].children] == ["r0 / s0", "r1 / s1"]
    rows = [Node(f"n{i}", (f"p{i // 8}", f"s{i}"), 8, 8) for i in range(16)]
    root = shapes(build_cluster(["pod", "switch"], rows)).root
    assert [len(shape.children) for shape in root.children] == [0, 0]


@given(st.integers(1, 400))
def test_grids_waste_little(count: int) -> None:
    """Whatever the count, less than a third of a grid's cells stays empty, and at most three for small counts."""
    columns = best_columns(count)
    holes = -count % columns
    assert holes <= max(3, count / 3)


@pytest.mark.parametrize(("count", "columns"), [(2, 2), (4, 2), (8, 4), (18, 6), (32, 8), (128, 16)])
def test_usual_racks_get_the_grid_a_person_would_draw(count: int, columns: int) -> None:
    """Racks of 2, 4, 8, 18 and 32 nodes and segments of 128 fill their grid without a hole."""
    assert best_columns(count) == columns


def test_blocks_of_one_height_stand_in_rows_and_others_are_stacked() -> None:
    """Equal blocks: row by row.  Heights 10 and 1 by turns on two columns: rows would waste, so columns are filled."""
    even = pack([(10, 10)] * 5, columns=2, unit=10, gap=2)
    assert even == [(0, 0), (12, 0), (0, 12), (12, 12), (0, 24)]
    heights = (40, 4, 4, 4, 4)
    uneven = pack([(10, height) for height in heights], columns=2, unit=10, gap=2)
    assert max(y + height for (_, y), height in zip(uneven, heights, strict=True)) == 40


@given(trees())
def test_labels_stay_inside_their_boxes(cluster: Cluster) -> None:
    """By our estimate of widths no label leaves its box, and a note never runs into the name."""
    plan = layout(cluster)
    ends: dict[int, float] = {}
    for label in labels(plan, lambda shape: f"{len(shape.nodes)}/{len(shape.nodes)}"):
        frame = plan.frames[label.frame]
        width = text_width(label.text, label.size)
        left, right = (label.x - width, label.x) if label.right else (label.x, label.x + width)
        assert frame.x <= left
        assert right <= frame.x + frame.width + SLACK
        if label.name:
            ends[label.frame] = right
        else:
            assert left > ends[label.frame]


def test_long_names_are_cut() -> None:
    """A name too long for its room ends in an ellipsis; no room, no text."""
    assert fit("minipod-with-a-long-name", 10, 60) == "minipod-…"
    assert fit("mp1", 10, 60) == "mp1"
    assert fit("mp1", 10, 3) == ""


def test_the_inventory_counts_real_switches_only() -> None:
    """One pod without a rack: implicit domains are not counted, and one is not many."""
    rows = [Node("n0", ("p1", "r1"), 8, 8), Node("n1", ("p2", ""), 8, 8)]
    assert inventory(build_cluster(["pod", "switch"], rows)) == "2 pods, 1 switch, 2 nodes, 16 GPUs"


@given(st.integers(1, 64))
def test_colours_differ(count: int) -> None:
    """Ramps and wheels give as many different colours as asked for."""
    for colours in (colour_ramp(count), wheel(count)):
        assert len(set(colours)) == count
        assert all(len(colour) == 7 and int(colour[1:], 16) >= 0 for colour in colours)


def test_every_preset_can_be_laid_out_small() -> None:
    """Smallest clusters of every preset: no division by nothing, no empty page."""
    for preset in PRESETS.values():
        smallest = {name: 2 for name in preset.sizes if name not in ("unevenness", "seed")}
        plan = layout(preset.build(**smallest))
        assert plan.width > 0
        assert plan.height > 0
