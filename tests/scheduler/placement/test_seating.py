"""Seating: from the domain of every cell to its node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.grid import CellGroups
from scheduler.job import Avoid, Count, Hold, Job, Parallelism
from scheduler.objective import evaluate, spread
from scheduler.placement.admission import admissible, blocks_at, capacity_by_level
from scheduler.placement.seating import Fillings, Parcel, ParcelGroups, Weights, choose_fillings, seat, shelf_fillings
from tests.case_counts import examples
from tests.facts import saying
from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node


def racks(*sizes: int, slow: Sequence[int] = (), slowdown: float = 1.5) -> Cluster:
    """One minipod with racks of these sizes; nodes n0, n1, ... in order; some of them slow."""
    rack_of = [f"r{k}" for k, size in enumerate(sizes) for _ in range(size)]
    rows = [Node(f"n{i}", ("m0", rack), 8, 8, slowdown if i in slow else 1.0) for i, rack in enumerate(rack_of)]
    return build_cluster(["minipod", "rack"], rows)


def grid(rows: int, columns: int, alpha: float = 0.5, **changes: object) -> Job:
    """A job of that many cells."""
    return Job("job", Parallelism(tp=8, dp=rows, pp=columns), alpha=alpha, level="minipod").replace(**changes)


def seat_all(cluster: Cluster, job: Job, domain_of_cell: IntArray | None = None, **options: object) -> IntArray:
    """Seat with all admissible nodes; by default all cells in the first minipod."""
    level = cluster.level("minipod")
    if domain_of_cell is None:
        domain_of_cell = np.zeros((job.grid.rows, job.grid.columns), dtype=np.int32)
    admitted = admissible(cluster, job)
    return seat(cluster, job, level=level, domain_of_cell=domain_of_cell, admitted=admitted, **options)  # type: ignore[arg-type]


def rack_spread(cluster: Cluster, job: Job, nodes: IntArray) -> tuple[int, int]:
    """(S, R) at the rack level, by the evaluator."""
    found = evaluate(cluster, job, nodes).by_level["rack"]
    return found["dp"], found["pp"]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Up to 2 minipods of 3 racks of 2 leaves (one nameless) of up to 8 nodes; some busy, slow or faulty."""
    rows = []
    for m, r, leaf in product(range(draw(st.integers(1, 2))), range(3), range(2)):
        states = st.sampled_from([(8, 1.0), (8, 1.0), (8, 1.0), (8, 1.2), (8, 1.5), (8, inf), (0, 1.0)])
        for free, slowdown in draw(st.lists(states, min_size=1, max_size=8)):
            path = (f"m{m}", f"m{m}r{r}", f"m{m}r{r}l{leaf}" if leaf else "")
            rows.append(Node(f"n{len(rows)}", path, 8, free, slowdown))
    return build_cluster(["minipod", "rack", "leaf"], rows or [Node("n", ("m0", "m0r0", ""), 8, 8)])


@st.composite
def instances(draw: st.DrawFn) -> tuple[Cluster, Job, IntArray]:
    """A cluster, a job with or without holds that fits, and a random valid domain for every cell."""
    cluster = draw(clusters())
    ep, dp, pp = draw(st.sampled_from([(1, 5, 2), (1, 2, 5), (2, 4, 2), (2, 2, 3), (4, 4, 1), (4, 8, 1), (2, 2, 1)]))
    hold = st.builds(Hold, st.sampled_from(["ep", "pp"]), st.sampled_from(["rack", "leaf"]))
    job = Job(
        "job",
        Parallelism(tp=8, dp=dp, pp=pp, ep=ep),
        alpha=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        avoid=draw(st.sampled_from(["price", "strict", "ignore"])),
        level="minipod",
        holds=tuple(draw(st.lists(hold, max_size=2))),
    )
    blocks = blocks_at(cluster, job, 0)
    room = capacity_by_level(cluster, job, admissible(cluster, job))[0] // blocks.size
    places = np.repeat(np.arange(len(room)), room)
    assume(len(places) >= blocks.rows * blocks.columns)
    chosen = draw(st.permutations(places.tolist()))[: blocks.rows * blocks.columns]
    return cluster, job, np.array(chosen, dtype=np.int32)[blocks.of_cell]


@given(instances())
@examples(150)
def test_every_seating_is_valid_and_keeps_its_domains(instance: tuple[Cluster, Job, IntArray]) -> None:
    """The evaluator accepts it (one free node a cell, holds kept), each cell is in its domain, twice gives the same."""
    cluster, job, domain_of_cell = instance
    nodes = seat_all(cluster, job, domain_of_cell)
    evaluate(cluster, job, nodes)
    assert (cluster.level("minipod").domain_of[nodes] == domain_of_cell).all()
    assert (seat_all(cluster, job, domain_of_cell) == nodes).all()


def fewest_slow(cluster: Cluster, job: Job, inside: IntArray, depth: int) -> list[int]:
    """Least number of slow nodes for 0, 1, 2, ... blocks in one domain, over all ways to share them out.

    :param inside: the nodes of the domain that may be used.
    """
    size = blocks_at(cluster, job, depth).size
    if depth + 1 == len(cluster.levels):
        healthy = int((cluster.slowdown[inside] == 1.0).sum())
        return [max(0, blocks * size - healthy) for blocks in range(len(inside) // size + 1)]
    children = cluster.levels[depth + 1].domain_of[inside]
    best = [0]
    for child in np.unique(children):
        costs = fewest_slow(cluster, job, inside[children == child], depth + 1)
        sums = [
            [best[i] + costs[k - i] for i in range(k + 1) if i < len(best) and k - i < len(costs)]
            for k in range(len(best) + len(costs) - 1)
        ]
        best = [min(ways) for ways in sums]
    return best[:: size // blocks_at(cluster, job, depth + 1).size]


@given(instances())
@examples(100)
def test_no_seating_of_the_same_domains_uses_fewer_slow_nodes(instance: tuple[Cluster, Job, IntArray]) -> None:
    """Against all ways to share blocks out to racks and leaves, holds nested or not."""
    cluster, job, domain_of_cell = instance
    if job.avoid == "ignore":
        return
    nodes = seat_all(cluster, job, domain_of_cell)
    for domain in np.unique(domain_of_cell):
        used = nodes[domain_of_cell == domain]
        inside = np.flatnonzero(admissible(cluster, job) & (cluster.levels[0].domain_of == domain)).astype(np.int32)
        expected = fewest_slow(cluster, job, inside, 0)[len(used) // blocks_at(cluster, job, 0).size]
        assert (cluster.slowdown[used] > 1.0).sum() == expected


def test_the_least_slow_node_goes_first() -> None:
    """Two healthy nodes for three cells: of the slow ones, 1.2 is taken and 1.5 is not."""
    rows = [Node(f"n{i}", ("m0", "r0"), 8, 8, slowdown) for i, slowdown in enumerate([1.5, 1.0, 1.2, 1.0])]
    cluster = build_cluster(["minipod", "rack"], rows)
    assert sorted(seat_all(cluster, grid(3, 1)).ravel().tolist()) == [1, 2, 3]


@pytest.mark.parametrize(("avoid", "expected"), [("price", 0), ("ignore", 2)])
def test_slow_nodes_only_matter_to_a_job_that_minds(avoid: Avoid, expected: int) -> None:
    """Four cells, r0 has 4 nodes of which 2 are slow, r1 has 2: the price is spread over two racks, no slow node; a job
    that takes no notice of flags gets one rack.
    """
    cluster = racks(4, 2, slow=[0, 1])
    job = grid(4, 1, avoid=avoid)
    assert len(evaluate(cluster, job, seat_all(cluster, job)).flagged) == expected


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.1, (4, 1)),  # rows whole: 2 rows a rack, a column touches all 4
        (0.5, (2, 2)),  # tiles of 4 rows x 2 columns: 1.0 + 1.0, against 0.5 + 2.0 for either extreme
        (0.9, (1, 4)),  # columns whole: one column of 8 a rack
    ],
)
def test_racks_are_shared_out_by_affinity(alpha: float, expected: tuple[int, int]) -> None:
    """8 x 4 cells on 4 racks of 8: S * R is at least 4 (product bound), and alpha says which way it goes."""
    cluster, job = racks(8, 8, 8, 8), grid(8, 4, alpha)
    assert rack_spread(cluster, job, seat_all(cluster, job)) == expected


def test_deeper_levels_come_after_broader_ones() -> None:
    """4 x 4 cells, two racks of two leaves of 4 nodes, alpha 0.9: columns stay in a rack (S = 1, R = 2), and inside a
    rack each column has a leaf of its own (S = 1, R = 4).
    """
    rows = [Node(f"n{i}", ("m0", f"r{i // 8}", f"l{i // 4}"), 8, 8) for i in range(16)]
    cluster = build_cluster(["minipod", "rack", "leaf"], rows)
    job = grid(4, 4, 0.9)
    by_level = evaluate(cluster, job, seat_all(cluster, job)).by_level
    assert (by_level["rack"]["dp"], by_level["rack"]["pp"]) == (1, 2)
    assert (by_level["leaf"]["dp"], by_level["leaf"]["pp"]) == (1, 4)


def test_a_domain_with_two_rectangles_is_cut_into_them() -> None:
    """m0 holds rows 0-3 of column 0 and rows 4-7 of column 1; its racks of 4 take a rectangle each, so no column of it
    touches both.  m1 likewise: S = 2 in all, the least possible with two minipods for each column.
    """
    cluster = build_cluster(["minipod", "rack"], [Node(f"n{i}", (f"m{i // 8}", f"r{i // 4}"), 8, 8) for i in range(16)])
    domain_of_cell = np.array([[0, 1]] * 4 + [[1, 0]] * 4, dtype=np.int32)
    job = grid(8, 2, 0.9)
    assert rack_spread(cluster, job, seat_all(cluster, job, domain_of_cell)) == (2, 2)


def brute_force(rows: int, columns: int, capacities: tuple[int, ...], alpha: float, seconds: float) -> IntArray | None:
    """The best assignment of a tiny grid, by trying all."""
    row, column = np.indices((rows, columns))
    best: tuple[float, IntArray] | None = None
    for assignment in product(range(len(capacities)), repeat=rows * columns):
        cells = np.array(assignment, dtype=np.int32).reshape(rows, columns)
        if (np.bincount(cells.ravel(), minlength=len(capacities)) > capacities).any():
            continue
        value = alpha * spread(column, cells) + (1 - alpha) * spread(row, cells)
        if best is None or value < best[0]:
            best = value, cells
    return None if best is None else best[1]


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0]),
)
@examples(40)
def test_one_domain_with_an_exact_solver_is_optimal(rows: int, columns: int, sizes: list[int], alpha: float) -> None:
    """With all cells in one domain the rack level is the same problem: seating is as good as trying all assignments.

    With alpha 0 or 1 one family carries all the weight, and seating asks for no more than it.
    """
    if sum(sizes) < rows * columns:
        sizes = [*sizes, rows * columns]
    cluster, job = racks(*sizes), grid(rows, columns, alpha)
    capacities = tuple(sorted(sizes, reverse=True))
    best = brute_force(rows, columns, capacities, alpha, 1.0)
    assert best is not None
    row, column = np.indices((rows, columns))
    dp, pp = rack_spread(cluster, job, seat_all(cluster, job, solve_grid=brute_force))
    assert alpha * dp + (1 - alpha) * pp <= alpha * spread(column, best) + (1 - alpha) * spread(row, best) + 1e-9


def test_turns_move_the_burden_and_nothing_else() -> None:
    """A 4 x 3 and a 2 x 2 rectangle: every turn is a permutation within each, and the five of them are different.

    A filling in which every row touches three children does so turned as well.
    """
    rows = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5], dtype=np.int32)
    columns = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 0, 1], dtype=np.int32)
    parcel = Parcel(rows, columns, np.array([16], dtype=np.int32), np.arange(16, dtype=np.int32), {})
    piece = parcel.pieces[0]
    child = rows // 2 * 3 + columns
    for turn in parcel.symmetries:
        assert sorted(turn.tolist()) == list(range(16))
        assert (piece[turn] == piece).all()
        assert spread(rows, child[turn]) == 3
    assert len({turn.tobytes() for turn in parcel.symmetries}) == 5


def test_domains_make_up_for_each_other() -> None:
    """Two domains hold both columns.  The first has only a filling in which columns 0 and 1 touch 2 and 1 children, the
    second has that and its mirror image: the mirror image makes the worst column 3, against 4.
    """
    columns = np.array([0, 1], dtype=np.int32)
    both = ParcelGroups(ids=columns, pairs=CellGroups(cell=columns, group=columns))
    parcel = Parcel(columns * 0, columns, np.array([2, 2], dtype=np.int32), columns, {"dp": both})
    either = Fillings(np.stack([columns, columns[::-1]]), {"dp": np.array([[2, 1], [1, 2]])}, np.array([2, 2]))
    weights = Weights(soft={"dp": 0.0}, affinity={"dp": 1.0})
    chosen = choose_fillings([parcel, parcel], [either.only([0]), either], weights=weights, group_counts={"dp": 2})
    assert [child.tolist() for child in chosen] == [[0, 1], [1, 0]]


def test_a_cell_in_two_groups_counts_in_both() -> None:
    """Groups {0, 1} and {1, 2}: with cells 0 and 1 in one child and 2 in another they touch one and two children."""
    groups = ParcelGroups(ids=np.array([3, 5]), pairs=CellGroups(np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1])))
    assert groups.touched(np.array([[1, 1, 0], [0, 0, 0]], dtype=np.int32), 2).tolist() == [[1, 2], [1, 1]]


def test_no_time_no_exact_search() -> None:
    """With no seconds left the solver is not asked, and the seating stands."""

    def refuse(*_: object) -> IntArray:
        raise AssertionError("asked without time")

    cluster, job = racks(4, 4), grid(4, 2)
    assert rack_spread(cluster, job, seat_all(cluster, job, solve_grid=refuse, seconds=0.0)) == (1, 2)


def test_the_solver_gets_the_time_that_the_shelves_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 s the shelves take 6 on a clock that only they move: the one exact search has 4, and none is left of 5."""
    now = [0.0]
    given_seconds = []

    def slow_shelves(parcel: Parcel) -> Iterator[IntArray]:
        now[0] += 6.0
        return shelf_fillings(parcel)

    def record(*question: object) -> None:
        given_seconds.append(question[-1])

    refining = import_module("scheduler.placement.seating")
    monkeypatch.setattr(refining, "clock", lambda: now[0])
    monkeypatch.setattr(refining, "shelf_fillings", slow_shelves)
    for seconds in (10.0, 5.0):
        seat_all(racks(4, 4), grid(4, 2), solve_grid=record, seconds=seconds)
    assert given_seconds == [4.0]


def test_out_of_time_every_domain_is_filled_in_the_first_way() -> None:
    """Without a second left 4 x 2 cells still go to two racks of four nodes, whatever order that is, and none twice."""
    nodes = seat_all(racks(4, 4), grid(4, 2), most_seconds=-1.0)
    assert sorted(nodes.ravel().tolist()) == list(range(8))


def test_a_broken_rack_is_used_before_a_whole_one() -> None:
    """Three cells: r0 is all free, r1 has 4 of 6 nodes free.  Either holds them all; r1 is taken, r0 stays whole."""
    cluster = racks(6, 6).with_busy([6, 7])
    assert sorted(seat_all(cluster, grid(3, 1)).ravel().tolist()) == [8, 9, 10]


def test_a_whole_rack_that_fits_exactly_is_best() -> None:
    """Four cells: the rack of 4 is used up, the broken rack with 5 free would leave one node over."""
    cluster = racks(6, 4).with_busy([0])
    assert sorted(seat_all(cluster, grid(4, 1)).ravel().tolist()) == [6, 7, 8, 9]


def test_ranks_follow_names_on_the_closest_run() -> None:
    """n2 comes before n10; with n1 in use the shortest run of four in the rack is n2, n9, n10, n11."""
    names = ["n11", "n0", "n2", "n10", "n1", "n9"]
    cluster = build_cluster(["minipod", "rack"], [Node(name, ("m0", "r0"), 8, 8) for name in names]).with_busy([4])
    nodes = seat_all(cluster, grid(2, 2))
    by_rank = [cluster.names[i] for i in nodes.T.ravel()]
    assert by_rank == ["n2", "n9", "n10", "n11"]


def test_a_counted_family_is_kept_together() -> None:
    """Expert groups of 3 rows, racks of 4: eight racks for 24 cells would fill to the brim; the soft term makes every
    expert group stay in one rack, as there is room (one group of 3 in each of 8 racks).
    """
    job = Job(
        "job",
        Parallelism(tp=8, dp=12, pp=2, ep=3),
        alpha=0.5,
        level="minipod",
        counts=(Count("ep", "rack", 10.0),),
    )
    cluster = racks(*[4] * 8)
    assert evaluate(cluster, job, seat_all(cluster, job)).by_level["rack"]["ep"] == 1


def test_too_many_cells_for_a_domain_is_an_internal_error() -> None:
    """The message names the domain and both numbers; in whole blocks 7 free nodes take one expert group of 4."""
    cluster = racks(4, 3)
    held = Job("job", Parallelism(tp=8, dp=8, ep=4), level="minipod", holds=(Hold("ep", "rack"),))
    with pytest.raises(ValueError, match=saying("'m0'", "8 cells", "4")):
        seat_all(cluster, held)
