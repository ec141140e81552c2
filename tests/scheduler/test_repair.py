"""Repair: lost nodes replaced in two orders, checked against trying everything."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import Infeasible, InvalidPlacement, SolverTimeout, UnknownName
from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.objective import evaluate
from scheduler.placement.admission import admissible, blocks_at
from scheduler.placement.moves import MoveModel
from scheduler.placement.types import Limits, Prefer, Proposal
from scheduler.repair import Repair, repair
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node
from topology.flags import FAULTY, NodeFlag

ONE_WORKER = Limits(seconds=120.0, workers=1)
"""Time enough on a busy machine: nothing here is meant to run out of it."""


def cluster_of(*racks: tuple[str, int], slow: tuple[int, ...] = ()) -> Cluster:
    """Racks of one leaf switch each, (minipod, nodes) for every rack; nodes n0, n1, ... in order."""
    places = [(minipod, f"{minipod}-r{k}") for k, (minipod, size) in enumerate(racks) for _ in range(size)]
    rows = [Node(f"n{i}", path, 8, 8, 1.5 if i in slow else 1.0) for i, path in enumerate(places)]
    return build_cluster(["minipod", "rack"], rows)


def grid(rows: int, columns: int, alpha: float = 0.5, **changes: object) -> Job:
    """A job of that many cells."""
    return Job("job", Parallelism(tp=8, dp=rows, pp=columns), alpha=alpha, level="minipod").replace(**changes)


def cells(*nodes: list[int]) -> IntArray:
    """A placement, row by row."""
    return np.array(nodes, dtype=np.int32)


def moved(result: Repair) -> dict[int, int]:
    """Old node -> new node of the cells that moved."""
    return {move.source: move.target for move in result.moves}


def minipods(cluster: Cluster, nodes: IntArray) -> IntArray:
    """The minipod of every cell."""
    return cluster.level("minipod").domain_of[nodes]


@dataclass(frozen=True)
class TryAll:
    """The best placement of a tiny job, by trying every assignment of blocks of cells to racks."""

    name: str = "try-all"
    summary: str = "tries all"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Try all."""
        placements = every_placement(cluster, job, np.full((job.grid.rows, job.grid.columns), -1))
        best = min(placements, key=lambda one: one.objective, default=None)
        if best is None:
            return Proposal(None, infeasible="nothing fits")
        return Proposal(best.nodes, lower_bound=best.objective)


@dataclass(frozen=True)
class Tried:
    """A placement that was tried."""

    objective: float
    moves: int
    slow: int
    nodes: IntArray


def every_placement(cluster: Cluster, job: Job, old: IntArray) -> list[Tried]:
    """All placements that differ in racks: cells that keep their rack keep their node where they can.

    The number of moves of an assignment of cells to racks is the number of cells whose node is lost or whose rack
    changes; within a rack, nodes are alike but for their slowness, and the healthy ones are taken first.
    """
    admitted = admissible(cluster, job)
    rack = cluster.level("rack").domain_of
    free = [np.flatnonzero(admitted & (rack == k)).tolist() for k in range(int(rack.max()) + 1)]
    blocks = blocks_at(cluster, job, 1)
    found = []
    for racks in product(range(len(free)), repeat=blocks.rows * blocks.columns):
        rack_of_cell = np.array(racks)[blocks.of_cell].ravel()
        if any((rack_of_cell == k).sum() > len(free[k]) for k in range(len(free))):
            continue
        nodes = np.full(old.size, -1, dtype=np.int32)
        for cell, node in enumerate(old.ravel()):
            if node >= 0 and admitted[node] and rack[node] == rack_of_cell[cell]:
                nodes[cell] = node
        moves = int((nodes < 0).sum())
        for cell in np.flatnonzero(nodes < 0):
            left = [i for i in free[rack_of_cell[cell]] if i not in nodes]
            nodes[cell] = min(left, key=lambda i: (cluster.slowdown[i], i in old, i))
        nodes = nodes.reshape(old.shape)
        try:
            worth = evaluate(cluster, job, nodes)
        except InvalidPlacement:
            continue
        slow = int((cluster.slowdown[nodes[~np.isin(nodes, old)]] > 1.0).sum())
        found.append(Tried(round(worth.objective, 9), moves, slow, nodes))
    return found


HOLDS = [(), (Hold("ep", "rack"),), (Hold("pp", "minipod"),), (Hold("ep", "rack"), Hold("pp", "minipod"))]

DEGREES = [
    Parallelism(tp=8, dp=2, pp=2),
    Parallelism(tp=8, dp=3, pp=2),
    Parallelism(tp=8, dp=2, pp=3),
    Parallelism(tp=8, dp=4, ep=2),
    Parallelism(tp=8, dp=2, pp=2, ep=2),
    Parallelism(tp=8, dp=5),
    # expert groups on nodes 0 and 1, and on 1 and 2: in one column, in two, and twice in one column
    Parallelism(dp=24, ep=12),
    Parallelism(dp=24, pp=2, ep=12),
    Parallelism(dp=48, ep=12),
]


@st.composite
def losses(draw: st.DrawFn) -> tuple[Cluster, Job, IntArray, list[str]]:
    """A tiny cluster with a placed job of up to six cells, and one to three lost nodes, some of them not its own."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    sizes[0] += max(0, 7 - sum(sizes))
    homes = draw(st.lists(st.sampled_from(["m0", "m1"]), min_size=len(sizes), max_size=len(sizes)))
    slow = draw(st.sets(st.integers(0, sum(sizes) - 1), max_size=2))
    job = Job(
        "job",
        draw(st.sampled_from(DEGREES)),
        alpha=draw(st.sampled_from([0.1, 0.3, 0.5, 0.8])),
        level="minipod",
        avoid=draw(st.sampled_from(["price", "ignore"])),
        holds=draw(st.sampled_from(HOLDS)),
        counts=draw(st.sampled_from([(), (Count("ep", "rack", 0.25),), (Count("dp", "rack", 0.5),)])),
    )
    cluster = cluster_of(*zip(homes, sizes, strict=True), slow=tuple(slow))
    choices = every_placement(cluster, job, np.full(job.parallelism.shape(8), -1))
    if not choices:
        job = job.replace(holds=())
        choices = every_placement(cluster, job, np.full(job.parallelism.shape(8), -1))
    nodes = draw(st.sampled_from(choices)).nodes
    lost = draw(st.sets(st.integers(0, len(cluster) - 1), min_size=1, max_size=3))
    return cluster.with_busy(nodes.ravel().tolist()), job, nodes, [f"n{i}" for i in sorted(lost)]


def after_loss(cluster: Cluster, nodes: IntArray, lost: list[str]) -> Cluster:
    """The cluster with the job's own nodes idle and the lost ones not."""
    free = cluster.free_gpus.copy()
    free[nodes] = 8
    free[[cluster.index(name) for name in lost]] = 0
    return cluster.replace(free_gpus=free)


@given(losses(), st.sampled_from(["moves", "objective"]))
@examples(80)
def test_both_orders_against_trying_all(loss: tuple[Cluster, Job, IntArray, list[str]], prefer: Prefer) -> None:
    """Moves and objective are those of the best of all placements in the order asked for, and both are proved.

    Before either come new slow nodes, for a job that minds them: no more than it needs to fit.  Where it needs some,
    the best objective may stay unproved.
    """
    cluster, job, old, lost = loss
    left = after_loss(cluster, old, lost)
    tried = every_placement(left, job, old)
    if not tried:
        with pytest.raises(Infeasible):
            repair(cluster, job, old, lost, prefer=prefer, limits=ONE_WORKER, algorithm=TryAll())
        return
    slow = {id(one): 0 if job.avoid == "ignore" else one.slow for one in tried}
    if not np.isin([cluster.index(name) for name in lost], old).any():
        tried = [one for one in tried if not one.moves]
    if prefer == "moves":
        expected = min(tried, key=lambda one: (slow[id(one)], one.moves, one.objective))
    else:
        expected = min(tried, key=lambda one: (slow[id(one)], one.objective, one.moves))
    result = repair(cluster, job, old, lost, prefer=prefer, limits=ONE_WORKER, algorithm=TryAll())
    assert result.objective_proved or (prefer == "objective" and slow[id(expected)])
    if result.objective_proved:
        assert (len(result.moves), round(result.after.objective, 9)) == (expected.moves, expected.objective)
        assert result.moves_proved


@given(losses(), st.sampled_from(["moves", "objective"]))
@examples(40)
def test_what_is_not_moved_stays(loss: tuple[Cluster, Job, IntArray, list[str]], prefer: Prefer) -> None:
    """The evaluator accepts the result on the cluster as it is now; the moves listed are exactly the differences; no
    lost node is used; ranks are those of the grid; the same call gives the same answer.
    """
    cluster, job, old, lost = loss
    try:
        result = repair(cluster, job, old, lost, prefer=prefer, limits=ONE_WORKER, algorithm=TryAll())
    except Infeasible:
        return
    left = after_loss(cluster, old, lost)
    assert evaluate(left, job, result.nodes) == result.after
    nodes = old.copy()
    for move in result.moves:
        assert move.node_rank == job.grid.node_rank[move.row, move.column]
        assert nodes[move.row, move.column] == move.source
        nodes[move.row, move.column] = move.target
    assert (nodes == result.nodes).all()
    assert not {cluster.names[i] for i in result.nodes.ravel()} & set(lost)
    again = repair(cluster, job, old, lost, prefer=prefer, limits=ONE_WORKER, algorithm=TryAll())
    assert (again.nodes == result.nodes).all()


def test_the_nearest_spare_is_taken() -> None:
    """Of three spares in reach, the one in the rack of the lost node; when it is gone too, one of the minipod."""
    cluster = cluster_of(("m0", 3), ("m0", 2), ("m1", 2))
    job = grid(2, 2)
    old = cells([0, 1], [3, 5])
    assert moved(repair(cluster, job, old, ["n0"])) == {0: 2}
    assert moved(repair(cluster, job, old, ["n0", "n2"])) == {0: 4}
    assert moved(repair(cluster, job, old, ["n0", "n2", "n4"])) == {0: 6}


def test_a_placement_may_stand_column_by_column_in_memory() -> None:
    """As algorithms return it that lay columns out: the objective first moves the column of n0 to m2 all the same."""
    cluster, job = cluster_of(("m0", 3), ("m1", 3), ("m2", 3)), grid(3, 2, 0.8)
    old = np.asfortranarray(cells([0, 3], [1, 4], [2, 5]))
    best = np.asfortranarray(cells([6, 3], [7, 4], [8, 5]))

    @dataclass(frozen=True)
    class ByColumns(TryAll):
        """Returns that placement."""

        def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
            """Return it."""
            return Proposal(best, lower_bound=1.2, in_order=True)

    result = repair(cluster, job, old, ["n0"], prefer="objective", limits=ONE_WORKER, algorithm=ByColumns())
    assert moved(result) == {0: 6, 1: 7, 2: 8}


def test_near_means_the_same_rack_not_the_next_name() -> None:
    """n1 follows n0 by name, but n9 is in its rack."""
    rows = [Node(name, ("m0", rack), 8, 8) for name, rack in (("n0", "r0"), ("n1", "r1"), ("n9", "r0"), ("n5", "r1"))]
    cluster = build_cluster(["minipod", "rack"], rows)
    assert moved(repair(cluster, grid(2, 1), cells([0], [3]), ["n0"])) == {0: 2}


def test_the_objective_comes_before_closeness() -> None:
    """The lost cell shared its row with m1 and its column with m0, and both have a spare.  In m0 again, the objective
    stays 0.2 * 2 + 0.8 * 2; in m1 rows are whole: 0.2 * 2 + 0.8 * 1.
    """
    cluster = cluster_of(("m0", 4), ("m1", 2))
    result = repair(cluster, grid(2, 2, 0.2), cells([0, 4], [1, 2]), ["n0"])
    assert moved(result) == {0: 5}
    assert (result.before.objective, result.after.objective) == (pytest.approx(2.0), pytest.approx(1.2))


def test_among_equals_a_cell_stays_in_its_minipod() -> None:
    """One row of two cells in m0 and m1; with alpha 1 its spread is free, and m2 would do as well as m0."""
    cluster = cluster_of(("m0", 3), ("m1", 1), ("m2", 3))
    result = repair(cluster, grid(1, 2, 1.0), cells([0, 3]), ["n0"])
    assert moved(result) == {0: 1}


@pytest.mark.parametrize("prefer", ["moves", "objective"])
def test_a_healthy_node_comes_before_the_objective(prefer: Prefer) -> None:
    """The slow spare of m0 would keep all in one minipod; the healthy one of m1 is taken, and costs spread."""
    cluster = cluster_of(("m0", 3), ("m1", 1), slow=(2,))
    result = repair(cluster, grid(2, 1), cells([0], [1]), ["n0"], prefer=prefer, algorithm=TryAll())
    assert moved(result) == {0: 3}
    assert (result.after.dp, result.after.flagged) == (2, ())


def test_ranks_do_not_change() -> None:
    """The cell in row 1, column 0 has rank 1 before and after."""
    result = repair(cluster_of(("m0", 5)), grid(2, 2), cells([0, 1], [2, 3]), ["n2"])
    assert [(move.row, move.column, move.node_rank, move.target) for move in result.moves] == [(1, 0, 1, 4)]


def test_a_healthy_spare_goes_before_a_slow_one_nearby() -> None:
    """n2, in the same rack, is slow; n3, in another, is not.  A job that ignores flags takes the near one."""
    cluster = cluster_of(("m0", 3), ("m0", 1), slow=(2,))
    old = cells([0], [1])
    assert moved(repair(cluster, grid(2, 1), old, ["n0"])) == {0: 3}
    assert moved(repair(cluster, grid(2, 1, avoid="ignore"), old, ["n0"])) == {0: 2}


def test_a_slow_spare_goes_before_none() -> None:
    """With n3 in use by others the slow node is taken; and a strict job says that it could be."""
    cluster = cluster_of(("m0", 3), ("m0", 1), slow=(2,)).with_busy([3])
    old = cells([0], [1])
    assert moved(repair(cluster, grid(2, 1), old, ["n0"])) == {0: 2}
    with pytest.raises(Infeasible) as error:
        repair(cluster, grid(2, 1, avoid="strict"), old, ["n0"])
    assert says(
        error.value.message,
        "nodes needed: 1",
        "spare nodes of 8 GPUs left: 0",
        "1 in use",
        "1 flagged",
        "avoid: strict",
    )
    assert says(error.value.fix, "1 more node of 8 GPUs", "1 slow node with avoid: price", "smaller job")


def test_the_two_orders_differ() -> None:
    """m0 and m1 hold one column each (S = 1, R = 2, objective 0.8 + 0.4 = 1.2 with alpha 0.8), all of m2 is spare.

    With n0 lost, column 0 touches m0 and m2: one move, 2.0.  Moving all of column 0 to m2 keeps 1.2: three moves.
    """
    cluster = cluster_of(("m0", 3), ("m1", 3), ("m2", 3))
    job = grid(3, 2, 0.8)
    old = cells([0, 3], [1, 4], [2, 5])
    few = repair(cluster, job, old, ["n0"], limits=ONE_WORKER)
    assert (len(few.moves), few.after.objective) == (1, pytest.approx(2.0))
    good = repair(cluster, job, old, ["n0"], prefer="objective", limits=ONE_WORKER, algorithm=TryAll())
    assert (len(good.moves), good.after.objective) == (3, pytest.approx(1.2))
    assert (minipods(cluster, good.nodes) == [2, 1]).all()
    assert few.moves_proved
    assert few.objective_proved
    assert good.moves_proved
    assert good.objective_proved


def test_a_group_held_together_moves_as_one() -> None:
    """Expert groups of 2 rows inside a rack; the rack of the lost node is full, so its partner moves too, to the only
    rack with two spares.
    """
    cluster = cluster_of(("m0", 2), ("m0", 3), ("m0", 2))
    job = Job("job", Parallelism(tp=8, dp=4, ep=2), level="minipod", holds=(Hold("ep", "rack"),))
    result = repair(cluster, job, cells([0], [1], [2], [3]), ["n0"], limits=ONE_WORKER)
    assert moved(result) == {0: 5, 1: 6}
    assert result.moves_proved


def test_no_room_for_a_group_held_together() -> None:
    """Two spares are left, one in each rack: a group of two fits in neither."""
    cluster = cluster_of(("m0", 3), ("m0", 3))
    job = Job("job", Parallelism(tp=8, dp=4, ep=2), level="minipod", holds=(Hold("ep", "rack"),))
    with pytest.raises(Infeasible, match=saying("2 cells", "one rack")):
        repair(cluster, job, cells([0], [1], [3], [4]), ["n0", "n2"])


def test_a_lost_node_of_others_moves_nothing() -> None:
    """It is named in a note; with a node of the job lost as well, it is not taken as a spare."""
    cluster = cluster_of(("m0", 4))
    old = cells([0], [1])
    result = repair(cluster, grid(2, 1), old, ["n2"])
    assert (result.nodes == old).all()
    stranger, unmoved = result.notes
    assert says(stranger, "n2", "not used", "spare")
    assert says(unmoved, "nothing moves")
    assert moved(repair(cluster, grid(2, 1), old, ["n2", "n0"])) == {0: 3}


def test_an_unknown_node_is_refused_with_its_neighbour() -> None:
    """The error says which option, and asks whether another node was meant."""
    with pytest.raises(UnknownName) as error:
        repair(cluster_of(("m0", 4)), grid(2, 1), cells([0], [1]), ["n1o"])
    assert error.value.where == "--lost"
    assert error.value.fix.startswith("did you mean 'n1'?")


def test_a_faulty_node_of_the_job_is_replaced_unasked() -> None:
    """n1 was flagged faulty since the job started; it cannot stay, and the note says why."""
    cluster = cluster_of(("m0", 4)).with_flags([NodeFlag("n1", "faulty", slowdown=FAULTY)])
    result = repair(cluster, grid(2, 1), cells([0], [1]), ["n0"])
    assert moved(result) == {0: 2, 1: 3}
    assert says(result.notes, "n1", "faulty", "replaced")


def test_the_placement_before_has_to_be_valid() -> None:
    """A node that hosts two cells was never a placement."""
    with pytest.raises(InvalidPlacement, match="'n0' is used twice"):
        repair(cluster_of(("m0", 4)), grid(2, 1), cells([0], [0]), ["n0"])


def test_a_lost_node_may_have_come_back_as_another() -> None:
    """The machine that stands in place of a lost one has a GPU less, of another type: no matter, it is lost."""
    cluster, placed = cluster_of(("a", 3), ("b", 1)), cells([0], [1])
    gpus = np.array([7, 8, 8, 8], dtype=np.int32)
    other = cluster.replace(gpus=gpus, free_gpus=gpus).with_gpu_types({0: "H200", 1: "H100", 2: "H100", 3: "H200"})
    for now in (cluster.replace(gpus=gpus, free_gpus=gpus), other):
        mended = repair(now, grid(2, 1), placed, ["n0"], limits=ONE_WORKER)
        assert (moved(mended), mended.before.objective) == ({0: 2}, 1.0)
    # the other way round it is the one that is kept
    with pytest.raises(InvalidPlacement, match="n0"):
        repair(other, grid(2, 1), placed, ["n1"], limits=ONE_WORKER)


def test_a_lost_node_may_have_come_back_elsewhere() -> None:
    """A DP group is held in minipod a; its lost node is in b by now: the spare in a takes its cell."""
    cluster, held = cluster_of(("a", 3), ("b", 2)), grid(3, 1, holds=(Hold("dp", "minipod"),))
    placed = cells([0], [3], [1])
    assert moved(repair(cluster, held, placed, ["n3"], limits=ONE_WORKER)) == {3: 2}
    with pytest.raises(InvalidPlacement, match="minipod"):
        repair(cluster, held, placed, ["n0"], limits=ONE_WORKER)


def test_out_of_time_the_quick_answer_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the solver finds nothing in time, each cell goes where it adds least; nothing more is claimed."""
    monkeypatch.setattr(MoveModel, "minimise", lambda *_: None)
    result = repair(cluster_of(("m0", 2), ("m1", 1), ("m0", 1)), grid(2, 1), cells([0], [1]), ["n0"])
    assert moved(result) == {0: 3}
    assert result.after.objective == 1.0
    result = repair(cluster_of(("m0", 2), ("m1", 1)), grid(2, 1), cells([0], [1]), ["n0"])
    assert (result.moves_proved, result.objective_proved) == (True, False)


def test_out_of_time_without_a_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the quick answer breaks a hard constraint, that time ran out is said, with what to do.

    Both expert groups of two keep to a rack each, and all four cells to a minipod.  With n0 lost only m2 has room for
    all; the quick answer leaves the first group in m0, where there is room for one.
    """
    monkeypatch.setattr(MoveModel, "minimise", lambda *_: None)
    cluster = cluster_of(("m0", 4), ("m1", 2), ("m2", 2), ("m2", 2))
    holds = (Hold("ep", "rack"), Hold("pp", "minipod"))
    job = Job("job", Parallelism(tp=8, dp=2, pp=2, ep=2), level="minipod", holds=holds)
    with pytest.raises(SolverTimeout, match="time ran out"):
        repair(cluster, job, cells([0, 2], [1, 3]), ["n0"])


def test_too_many_choices_are_trimmed_and_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the roomiest minipod is tried, m2, though m1 would be as good; the objective is then not proved."""
    monkeypatch.setattr("scheduler.placement.moves.LARGEST", 1)
    cluster = cluster_of(("m0", 2), ("m1", 1), ("m2", 2))
    result = repair(cluster, grid(2, 1), cells([0], [1]), ["n0"])
    assert moved(result) == {0: 3}
    assert result.moves_proved
    assert not result.objective_proved
    assert "too many choices" in result.notes[0]


def test_a_job_too_large_for_all_cells_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the two orders above, with a model of at most 9 choices: the three cells that the best placement moves,
    times three minipods.  The answer is as good, and fewer moves are not ruled out.
    """
    monkeypatch.setattr("scheduler.placement.moves.LARGEST", 9)
    cluster = cluster_of(("m0", 3), ("m1", 3), ("m2", 3))
    old = cells([0, 3], [1, 4], [2, 5])
    result = repair(cluster, grid(3, 2, 0.8), old, ["n0"], prefer="objective", limits=ONE_WORKER, algorithm=TryAll())
    assert (len(result.moves), result.after.objective) == (3, pytest.approx(1.2))
    assert not result.moves_proved


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("counts", "largest"),
    [
        ((), 1),  # no model at all: whole segments move
        (
            (Count("tp", "minipod", 0.1),),
            30,
        ),  # soft terms rule segments out: the model of five lines, 5 * 2 * 3 choices
    ],
)
def test_few_moves_are_found_without_letting_all_cells_move(
    counts: tuple[Count, ...], largest: int, transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten lines of two cells, each line in one minipod; n0 is lost, and only m2 has spares.

    The affinity of lines is 0.9, so the rest of the line follows to m2: two moves.  The algorithm moves another line as
    well.  All 20 cells on three minipods make 60 choices, too many here.
    """
    cluster = cluster_of(("m0", 10), ("m1", 10), ("m2", 4))
    lines = np.arange(20, dtype=np.int32).reshape(10, 2)
    known = lines.copy()
    known[0], known[9] = [20, 21], [22, 23]

    @dataclass(frozen=True)
    class Known:
        name: str = "known"
        summary: str = "knows an answer"

        def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
            return Proposal(known.T if transposed else known)

    monkeypatch.setattr("scheduler.placement.moves.LARGEST", largest)
    job = grid(2, 10, 0.9, counts=counts) if transposed else grid(10, 2, 0.1, counts=counts)
    old = lines.T.copy() if transposed else lines
    result = repair(cluster, job, old, ["n0"], prefer="objective", limits=ONE_WORKER, algorithm=Known())
    assert moved(result) == {0: 20, 1: 21}


def test_an_algorithm_without_an_answer_leaves_the_fewest_moves() -> None:
    """What moves least is still a repair; the note says why nothing better was sought."""

    @dataclass(frozen=True)
    class Silent:
        name: str = "silent"
        summary: str = "finds nothing"

        def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
            return Proposal(None, complete=False)

    result = repair(cluster_of(("m0", 3)), grid(2, 1), cells([0], [1]), ["n0"], prefer="objective", algorithm=Silent())
    assert moved(result) == {0: 2}
    assert says(result.notes, "silent", "no placement", "time ran out")
