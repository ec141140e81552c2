"""Quick seating: counts of fills, the fewest closer domains, and the nodes of closest domains."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import Job, Parallelism
from scheduler.objective import spread
from scheduler.placement.node_order import name_ranks, natural, ranks_of
from scheduler.placement.quick_seating import (
    FreeNodes,
    best_fill,
    orders_of,
    pair_of,
    seat_apart,
    seat_together,
    table_of,
)
from scheduler.placement.seating import nodes_of
from tests.case_counts import examples
from tests.scheduler.placement.exact.test_plain_gang import tree
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def free_nodes(cluster: Cluster) -> FreeNodes:
    """All that are idle, from the broadest level down."""
    return FreeNodes.of(cluster, cluster.idle, 0)


@given(st.lists(st.text("n019-", min_size=3, max_size=3), unique=True))
@examples(200)
def test_names_are_ranked_by_their_numbers(names: list[str]) -> None:
    """Names as long as each other, with digits at the same places or not, and one that is longer: ranks are those of
    the natural order, and of equals (01 and 1 need a longer name) the first comes first.
    """
    for listed in (names, [*names, "n10-1"]):
        ranks = ranks_of(tuple(listed), numbers=True)
        assert np.argsort(ranks).tolist() == sorted(range(len(listed)), key=lambda i: natural(listed[i]))


@st.composite
def parcels(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[int]]:
    """Some cells of a grid, row by row, and how many of them domains take one after another."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    every = [(r, c) for r in range(rows) for c in range(columns)]
    cells = [cell for cell in every if draw(st.booleans())] or every
    sizes = []
    while sum(sizes) < len(cells):
        sizes.append(draw(st.integers(1, 5)))
    return cells, sizes


@given(parcels(), st.floats(0, 1))
@examples(300)
def test_the_pair_of_a_fill_is_that_of_its_cells(parcel: tuple[list[tuple[int, int]], list[int]], alpha: float) -> None:
    """Every domain takes as many cells as the sequence says; row by row is not better."""
    cells, sizes = parcel
    row, column = np.array(cells, dtype=np.int32).T.copy()
    shape = orders_of(row.tobytes(), column.tobytes())
    sequence = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[: len(cells)]
    fill, pair = best_fill(shape, sequence, sequence, dp_weight=alpha, pp_weight=1 - alpha)
    assert np.bincount(fill).tolist() == np.bincount(sequence).tolist()
    assert pair == (spread(column, fill), spread(row, fill))
    row_by_row = spread(column, sequence), spread(row, sequence)
    costs = [alpha * dp + (1 - alpha) * pp for dp, pp in (pair, row_by_row)]
    assert costs[0] <= costs[1] + 1e-6


@given(st.integers(0, 10**9), st.integers(1, 30))
@examples(200)
def test_the_fewest_children(seed: int, cells: int) -> None:
    """As many of the roomiest racks of a minipod as hold the cells."""
    free = free_nodes(tree(random.Random(seed), free=0.5, pods=4))
    domains = np.arange(len(free.counts[0]))
    for domain, fewest in enumerate(free.fewest_children(cells, domains).tolist()):
        counts = sorted(free.counts[1][free.levels[1].parent_of == domain], reverse=True)
        if sum(counts) >= cells:
            assert fewest == int(np.searchsorted(np.cumsum(counts), cells)) + 1


def test_the_fewest_children_where_one_domain_has_nearly_all() -> None:
    """Minipods of 60 racks and of one, twenty times: no table of 60 racks for each, and the same counts."""
    nodes = [Node(f"a{i}", ("m0", f"a{i // 2}"), 8, 8) for i in range(120)]
    nodes += [Node(f"b{i}", (f"m{1 + i // 4}", f"b{i // 4}"), 8, 8) for i in range(80)]
    free = free_nodes(build_cluster(["minipod", "rack"], nodes))
    assert table_of(free.levels[1]).padded is None
    assert free.fewest_children(4, np.arange(21)).tolist() == [2] + [1] * 20


def test_a_fill_of_more_domains_than_a_word_has_bits() -> None:
    """A grid of 3 x 50 on 150 domains of one node: a column touches 3 of them, a row 50."""
    row, column = np.divmod(np.arange(150, dtype=np.int32), np.int32(50))
    sequence = np.arange(150, dtype=np.int32)
    shape = orders_of(row.tobytes(), column.tobytes())
    fill, pair = best_fill(shape, sequence, sequence, dp_weight=0.3, pp_weight=0.7)
    assert (sorted(fill.tolist()), pair) == (list(range(150)), (3, 50))


@given(st.integers(0, 10**9))
@examples(200)
def test_every_domain_is_given_what_it_has(seed: int) -> None:
    """In one minipod or over several: free nodes, each once, inside the domains that were chosen; costs as counted."""
    chance = random.Random(seed)
    cluster = tree(chance, free=0.6, pods=3)
    free = free_nodes(cluster)
    room = free.counts[0]
    rows, columns = chance.randint(1, 5), chance.randint(1, 4)
    job = Job("gang", Parallelism(tp=8, dp=rows, pp=columns), level="minipod")
    if chance.random() < 0.5:
        if room.max() < job.grid.cells:
            return
        chosen = np.full((rows, columns), int(room.argmax()), dtype=np.int32)
        seated = seat_together(free, job, int(room.argmax()))
    else:
        every = np.repeat(np.arange(len(room), dtype=np.int32), room)
        if len(every) < job.grid.cells:
            return
        chosen = np.array(chance.sample(every.tolist(), job.grid.cells), dtype=np.int32).reshape(rows, columns)
        seated = seat_apart(free, job, chosen, pair_of(job, chosen))
    nodes = nodes_of(cluster, job, seated.closest, cluster.idle)
    assert len(np.unique(nodes)) == nodes.size
    assert cluster.idle[nodes].all()
    assert np.array_equal(cluster.levels[0].domain_of[nodes], chosen)
    assert np.array_equal(cluster.levels[1].domain_of[nodes], seated.closest)
    pair = pair_of(job, seated.closest)
    assert seated.costs == pytest.approx((job.alpha * pair[0] + job.beta * pair[1],))


@given(st.integers(0, 10**9))
@examples(100)
def test_ranks_lie_on_the_closest_run_of_free_nodes(seed: int) -> None:
    """Given the rack of each cell: of the free nodes of a rack, by name, those with the fewest nodes between the first
    and the last, of equal runs the first; ranks in order of names.
    """
    chance = random.Random(seed)
    nodes = [
        Node(f"n{number}", ("m", f"r{i // 9}"), 8, chance.choice([8, 8, 0]))
        for i, number in enumerate(chance.sample(range(200), 36))
    ]
    cluster = build_cluster(["minipod", "rack"], nodes)
    free = free_nodes(cluster)
    racks = np.repeat(np.arange(len(free.counts[1]), dtype=np.int32), free.counts[1])
    count = chance.randint(1, len(racks))
    closest = np.array(chance.sample(racks.tolist(), count), dtype=np.int32).reshape(1, count)
    job = Job("gang", Parallelism(tp=8, pp=count), level="rack")
    seated = nodes_of(cluster, job, closest, cluster.idle)[0]
    rack_of = cluster.levels[1].domain_of
    for rack, wanted in Counter(closest[0].tolist()).items():
        by_name = sorted(np.flatnonzero(rack_of == rack).tolist(), key=lambda node: natural(cluster.names[node]))
        places = [place for place, node in enumerate(by_name) if cluster.idle[node]]
        runs = [places[start : start + wanted] for start in range(len(places) - wanted + 1)]
        run = min(runs, key=lambda run: run[-1] - run[0])
        assert seated[closest[0] == rack].tolist() == [by_name[place] for place in run]


def test_names_are_sorted_once() -> None:
    """Ranks of nodes by name, numbers by value; a cluster with other nodes free has the same names."""
    cluster = build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in (10, 2, 1)])
    assert name_ranks(cluster).tolist() == [2, 1, 0]
    assert name_ranks(cluster.with_busy([0])) is name_ranks(cluster)
    assert sorted(cluster.names, key=natural) == ["n1", "n2", "n10"]
