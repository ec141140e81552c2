"""Rounds of pairs, and the slow node, uplink or domain that their bandwidths convict, on simulated clusters."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evidence.tested_pairs import measure, named, search, tree
from health.pairs.group_testing import Pair, findings_of
from health.pairs.rounds import next_round, plan_rounds
from tests.case_counts import cases
from topology.cluster import Cluster

LEAVES = tree(8, 16)  # 128 nodes: 8 leaves below one core
MINIPODS = tree(4, 4, 8)  # 128 nodes: 4 minipods of 4 leaves


@pytest.mark.parametrize("cluster", [LEAVES, MINIPODS], ids=["leaves", "minipods"])
def test_a_node_is_in_one_pair_of_a_round_and_never_in_the_same_twice(cluster: Cluster) -> None:
    """All nodes are busy in each of three rounds, and meet three others."""
    rounds = plan_rounds(cluster, range(len(cluster)))
    assert len(rounds) == 3
    for pairs in rounds:
        assert len({name for pair in pairs for name in pair}) == 2 * len(pairs) == len(cluster)
    assert len({frozenset(pair) for pairs in rounds for pair in pairs}) == 3 * len(cluster) // 2


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", ["node", "link", "domain"])
@pytest.mark.parametrize("cluster", [LEAVES, MINIPODS], ids=["leaves", "minipods"])
def test_one_fault_is_named_in_three_rounds_and_nobody_else(cluster: Cluster, kind: str) -> None:
    """Faults of 1.2 to 4 times at 3 % noise, wherever they are: found, by the plan and step by step."""
    for seed in range(cases(10)):
        rng = np.random.default_rng(seed)
        level = cluster.levels[rng.integers(len(cluster.levels))]
        name = str(rng.choice(cluster.names if kind == "node" else level.domains))
        faults = {(kind, name): float(rng.choice([1.2, 1.5, 2, 4]))}
        pairs = measure(cluster, plan_rounds(cluster, range(len(cluster))), faults, rng)
        assert named(cluster, pairs) == {(kind, name)}, faults
        assert search(cluster, faults, np.random.default_rng(seed), most=3)[0] == {(kind, name)}, faults


@pytest.mark.many_cases
def test_two_slow_nodes_are_named_in_five_rounds() -> None:
    """Two nodes anywhere, also of one leaf or of one pair."""
    for seed in range(cases(10)):
        rng = np.random.default_rng(seed)
        one, other = rng.choice(LEAVES.names, 2, replace=False)
        faults = {("node", str(one)): 1.5, ("node", str(other)): 2.0}
        assert search(LEAVES, faults, np.random.default_rng(seed), most=5)[0] == set(faults)


@pytest.mark.many_cases
def test_a_healthy_cluster_is_left_alone() -> None:
    """Noise of 3 % convicts nobody, and after three rounds there is nothing left to ask."""
    for seed in range(cases(40)):
        assert search(MINIPODS, {}, np.random.default_rng(seed), most=8) == (set(), 3)


def test_who_cannot_be_told_apart_is_possible() -> None:
    """nccl-tests issue 106: one node is in two slow pairs whose partners are fast elsewhere; of another pair either."""
    pairs = [
        Pair("a", "b", 49.36),
        Pair("c", "d", 88.36),
        Pair("e", "f", 49.28),
        Pair("d", "a", 49.3),
        Pair("g", "b", 86.81),
    ]
    first, *others = findings_of(pairs).suspects
    # 87.6 GB/s is the middle of the two fast pairs, 49.3 of the two slow ones
    assert (str(first.place), first.sure, round(first.factor, 1)) == ("a", "certain", 1.8)
    assert {(str(suspect.place), suspect.sure) for suspect in others} == {("e", "possible"), ("f", "possible")}
    assert findings_of(pairs).cleared == ("b", "c", "d", "g")


def test_what_all_pairs_share_cannot_be_told() -> None:
    """Of two halves of a network all pairs between them are slow: it may be built so, and no half is named."""
    cluster = tree(2, 8, 8)
    pairs = measure(cluster, plan_rounds(cluster, range(128)), {("link", "d0"): 2.0}, np.random.default_rng(1))
    findings = findings_of(pairs, cluster)
    assert findings.suspects == ()
    assert "cannot tell" in findings.notes[0]


def test_slow_pairs_that_no_place_explains_are_said_and_tested_once_more() -> None:
    """One pair of 192 is half as fast, and each of its nodes as fast as any with two others: no node is at fault."""
    planned = plan_rounds(LEAVES, range(128))
    slow = planned[1][7]
    pairs = [Pair(*pair, 195.0 if pair == slow else 390.0) for pairs in planned for pair in pairs]
    findings = findings_of(pairs, LEAVES)
    assert (findings.suspects, [pairs[row][:2] for row in findings.unexplained]) == ((), [slow])
    assert next_round(LEAVES, range(128), pairs) == [[slow]]
    # slow again, it is what it is; fast again, it was chance
    assert next_round(LEAVES, range(128), [*pairs, Pair(*slow, 195.0)]) == []
    assert next_round(LEAVES, range(128), [*pairs, Pair(*slow, 390.0)]) == []
    assert findings_of([*pairs, Pair(*slow, 390.0)], LEAVES).unexplained == ()


def test_tests_that_failed_clear_nobody() -> None:
    """Where the program does not start on any pair nothing is known of any node; of one that ran, its two are well."""
    failed = [Pair(f"n{2 * k:04}", f"n{2 * k + 1:04}", 0.0) for k in range(20)]
    nothing = findings_of(failed)
    assert (nothing.suspects, nothing.cleared, len(nothing.unknown)) == ((), (), 40)
    findings = findings_of([Pair("a", "b", 390.0), *failed])
    assert findings.cleared == ("a", "b")


def test_suspects_alone_are_tested_against_others() -> None:
    """Each suspect meets another node in each round, near and far, and no two suspects meet."""
    rounds = plan_rounds(LEAVES, range(128), [5, 6])
    partners = [dict(pairs) for pairs in rounds]
    assert [set(pairs) for pairs in partners] == [{"n0005", "n0006"}] * 3
    assert len({pairs["n0005"] for pairs in partners}) == 3
    assert not {b for pairs in partners for b in pairs.values()} & {"n0005", "n0006"}


def test_more_suspects_than_others_are_all_tested() -> None:
    """Of 100 suspects among 128 nodes each is in each round."""
    for pairs in plan_rounds(LEAVES, range(128), range(100)):
        assert {f"n{node:04}" for node in range(100)} <= {name for pair in pairs for name in pair}


def test_suspects_alone_are_tested_after_results() -> None:
    """The round after one of two suspects has those two, each with another partner."""
    first, *_ = plan_rounds(LEAVES, range(128), [5, 6])
    results = [Pair(a, b, 390.0) for a, b in first]
    (second,) = next_round(LEAVES, range(128), results, [5, 6])
    assert {a for a, _ in second} == {"n0005", "n0006"}
    assert not {*second} & {*first}


def test_a_test_that_fails_twice_convicts_nobody_who_passed_another() -> None:
    """Tests fail by themselves: of three of a node two do, and the third is as fast as any."""
    rounds = plan_rounds(LEAVES, range(128))
    slow = [pair for pairs in rounds[:2] for pair in pairs if "n0005" in pair]
    pairs = [Pair(*pair, 0.0 if pair in slow else 390.0) for of_round in rounds for pair in of_round]
    assert findings_of(pairs, LEAVES).suspects == ()
    pairs = [Pair(*pair, 0.0 if "n0005" in pair else 390.0) for of_round in rounds for pair in of_round]
    assert [str(suspect.place) for suspect in findings_of(pairs, LEAVES).suspects] == ["n0005"]
