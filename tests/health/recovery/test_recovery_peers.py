"""Checkpoint peers: the matching against all permutations, and the rules on real grids."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import Infeasible, InvalidJob, InvalidPlacement, UnknownName
from health.recovery.checkpoint_peers import FORBIDDEN, Peers, assign, checkpoint_peers, peer_notes, peer_sentence
from health.recovery.machines import JobMachine, Machines
from scheduler.job import Job, Parallelism
from tests.case_counts import examples
from tests.facts import saying
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.generate import minipods


def racks(*of: str) -> Cluster:
    """A node for each ``minipod/rack``."""
    nodes = [Node(f"n{i}", tuple(path.split("/")), gpus=8, free_gpus=8) for i, path in enumerate(of)]
    return build_cluster(["minipod", "rack"], nodes)


def assigned(cluster: Cluster, *, dp: int, pp: int, level: str | None = "rack") -> Peers:
    """Peers of a job on the first nodes of a cluster, in order of node rank."""
    job = Job("j", Parallelism(tp=8, dp=dp, pp=pp))
    nodes = np.arange(job.grid.cells, dtype=np.int32)
    return checkpoint_peers(cluster, Machines(job, cluster.names[: len(nodes)]), nodes, level=level)


@examples(80)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_the_matching_is_the_cheapest_permutation(rows: list[list[int]]) -> None:
    """Against all permutations of up to six."""
    costs = np.array(rows, dtype=np.int64)
    columns = assign(len(rows), lambda row: costs[row].copy())
    assert sorted(columns) == list(range(len(rows)))
    best = min(sum(costs[i, j] for i, j in enumerate(order)) for order in permutations(range(len(rows))))
    assert int(costs[np.arange(len(rows)), columns].sum()) == best


@examples(60)
@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_as_few_rules_are_broken_as_any_permutation_breaks(dp: int, pp: int, data: st.DataObject) -> None:
    """On grids of up to seven machines in random racks: PP groups shared, then racks, then DP groups, then distance
    are the least, in this order, over all permutations without a machine on itself.
    """
    size = dp * pp
    if not 2 <= size <= 7:
        return
    paths = [f"m{data.draw(st.integers(0, 1))}" for _ in range(size)]
    paths = [f"{pod}/{pod}r{data.draw(st.integers(0, 1))}" for pod in paths]
    cluster = racks(*paths)
    peers = assigned(cluster, dp=dp, pp=pp)
    machines, pods = peers.machines, [path.split("/")[0] for path in paths]

    def broken(order: tuple[int, ...]) -> tuple[int, int, int, int]:
        pairs = list(enumerate(order))
        return (
            sum(machines.row[a] == machines.row[b] for a, b in pairs),
            sum(paths[a] == paths[b] for a, b in pairs),
            sum(machines.column[a] == machines.column[b] for a, b in pairs),
            sum(pods[a] != pods[b] for a, b in pairs),
        )

    allowed = [order for order in permutations(range(size)) if all(a != b for a, b in enumerate(order))]
    assert broken(tuple(peers.peer.tolist())) == min(map(broken, allowed))
    counted = tuple(int(peers.shared[rule].sum()) for rule in ("pp", "level", "dp"))
    assert counted == broken(tuple(peers.peer.tolist()))[:3]
    # Rules are in conflict exactly when no permutation keeps them all.
    assert bool(peers.conflict) == all(broken(order)[:3] != (0, 0, 0) for order in allowed)


@pytest.mark.parametrize(("dp", "pp"), [(16, 4), (10, 3), (25, 8)])
def test_a_large_job_keeps_every_rule(dp: int, pp: int) -> None:
    """Each machine has one peer and is one; none shares its PP group, its DP group or its rack; most are mutual."""
    cluster = minipods(minipods=4, nodes=256)
    peers = assigned(cluster, dp=dp, pp=pp)
    assert sorted(peers.peer) == list(range(dp * pp))
    assert peers.conflict == ()
    assert not any(peers.shared[rule].any() for rule in peers.shared)
    machines, rack = peers.machines, cluster.level("rack").domain_of
    for machine, peer in enumerate(peers.peer):
        assert machines.row[machine] != machines.row[peer]
        assert machines.column[machine] != machines.column[peer]
        assert rack[machine] != rack[peer]
    # A ring of n machines has n pairs that must not be lost, a mutual pair one.
    assert dp * pp / 2 <= peers.fatal_pairs == dp * pp - peers.mutual / 2 < dp * pp


def test_peers_of_tensor_parallel_groups_of_several_machines() -> None:
    """TP 16 over two machines, 4 replicas of 2 stages: a peer is in another TP group, DP group and PP group, and rack.

    Without racks the rule of TP groups is one of its own: with one replica of two stages, four machines, the peer of a
    machine is that of the other part and the other stage; with one stage both machines are in one TP group.
    """
    wide = Job("j", Parallelism(tp=16, dp=4, pp=2))
    nodes = np.arange(16, dtype=np.int32)
    machines = Machines(wide, tuple(f"n{i}" for i in range(16)))
    peers = checkpoint_peers(minipods(minipods=2, nodes=16, rack_nodes=2), machines, nodes, level="rack")
    assert [*peers.shared] == ["dp", "tp", "level", "pp"]
    assert not any(shared.any() for shared in peers.shared.values())
    assert (nodes // 2 != peers.peer // 2).all()
    assert (machines.group_of("dp") != machines.group_of("dp")[peers.peer]).all()
    assert machines.machine(5) == JobMachine(5, "n5", dp=2, pp=0, part=1)
    flat = minipods(minipods=1, nodes=4, rack_nodes=1)
    for pp, shares in ((2, ()), (1, ("tp",))):
        few = Machines(Job("j", Parallelism(tp=16, dp=1, pp=pp)), ("a", "b", "c", "d")[: 2 * pp])
        found = checkpoint_peers(flat, few, np.arange(2 * pp, dtype=np.int32), level="rack").rows()
        assert {one.shares for one in found} == {shares}


def test_machines_with_parts_of_two_stages() -> None:
    """They are in no one DP group: 12 ranks a stage on machines of 8."""
    with pytest.raises(InvalidJob, match=saying("j", "inside machines")):
        Machines(Job("j", Parallelism(tp=4, dp=3, pp=2)))


def test_peers_are_in_the_nearest_broader_domain() -> None:
    """Two minipods of two racks of one machine each, 4 x 1 grid in which only the PP rule and the rack bind: each
    machine finds a peer in its own minipod.
    """
    peers = assigned(racks("a/a1", "a/a2", "b/b1", "b/b2"), dp=4, pp=1)
    assert peers.distance.tolist() == [0, 0, 0, 0]
    assert peers.peer.tolist() == [1, 0, 3, 2]
    assert (peers.mutual, peers.fatal_pairs) == (4, 2)


@pytest.mark.parametrize(
    ("grid", "paths", "conflict", "broken", "words"),
    [
        # One stage: all machines in one DP group; the rack and PP rules are kept.
        ((2, 1), ["a/r1", "a/r2"], ("dp",), {"dp": 2, "level": 0, "pp": 0}, "one pipeline stage"),
        # One replica: all in one PP group.
        ((1, 2), ["a/r1", "a/r2"], ("pp",), {"dp": 0, "level": 0, "pp": 2}, "one replica"),
        # Three of four machines in one rack. Opposite corners of the 2 x 2 grid are pairs: one of them in that rack.
        ((2, 2), ["a/r1", "a/r1", "a/r1", "a/r2"], ("level",), {"dp": 0, "level": 2, "pp": 0}, "more than half"),
        # In a 2 x 2 grid only the opposite corner shares no group; here it is in the same rack.
        ((2, 2), ["a/r1", "a/r2", "a/r2", "a/r1"], ("dp", "level", "pp"), {"dp": 4, "level": 0, "pp": 0}, "together"),
    ],
)
def test_rules_that_cannot_all_be_kept(
    grid: tuple[int, int], paths: list[str], conflict: tuple[str, ...], broken: dict[str, int], words: str
) -> None:
    """What makes it so is named, and the DP group gives way before the rack, the rack before the PP group."""
    peers = assigned(racks(*paths), dp=grid[0], pp=grid[1])
    assert peers.conflict == conflict
    assert {rule: int(peers.shared[rule].sum()) for rule in peers.shared} == broken
    assert "fewer are impossible" in peer_sentence(peers, "rack")
    assert words in peer_notes(peers, "rack")[0]


def test_a_cluster_without_levels() -> None:
    """No rack, no rule of it: only groups count."""
    peers = assigned(
        build_cluster([], [Node(f"n{i}", (), gpus=8, free_gpus=8) for i in range(4)]), dp=2, pp=2, level=None
    )
    assert peers.peer.tolist() == [3, 2, 1, 0]
    assert peers.conflict == ()


def test_what_cannot_be() -> None:
    """One machine, a node twice, a level that is not there."""
    cluster = racks("a/r1", "a/r2")
    with pytest.raises(Infeasible, match="one machine"):
        assigned(cluster, dp=1, pp=1)
    with pytest.raises(UnknownName, match="no level 'rakc'"):
        assigned(cluster, dp=2, pp=1, level="rakc")
    machines = Machines(Job("j", Parallelism(tp=8, dp=2)), ("n0", "n0"))
    with pytest.raises(InvalidPlacement, match="more than one cell"):
        checkpoint_peers(cluster, machines, np.zeros(2, dtype=np.int32), level="rack")


def test_forbidden_pairs_are_taken_only_where_there_is_no_other() -> None:
    """Three rows, a forbidden diagonal: a ring, whatever the other costs."""
    costs = np.array([[FORBIDDEN, 5, 5], [5, FORBIDDEN, 5], [5, 5, FORBIDDEN]], dtype=np.int64)
    columns = assign(3, lambda row: costs[row].copy())
    assert all(row != column for row, column in enumerate(columns))
