"""One more domain: as large as asked for, divided as the others, everything else as it was."""

from __future__ import annotations

import numpy as np
import pytest

from ground.errors import InvalidTopology, UnknownName
from topology.build import build_cluster
from topology.cluster import Node
from topology.flags import NodeFlag
from topology.generate import fragment, llama3_pods, minipods, with_domain


def test_a_minipod_more() -> None:
    """Three minipods of 8 in racks of 4 get a fourth of 8: two racks, free, 8 GPUs a node."""
    before = fragment(minipods(minipods=3, nodes=24), 0.5, seed=0)
    after = with_domain(before, 8)
    assert len(after) == 32
    assert np.bincount(after.level("minipod").domain_of).tolist() == [8, 8, 8, 8]
    assert np.bincount(after.level("rack").domain_of)[-2:].tolist() == [4, 4]
    assert after.idle[24:].all()
    assert (after.free_gpus[:24] == before.free_gpus).all()
    assert after.names[:24] == before.names


def test_types_of_gpu_stay_and_the_usual_one_comes() -> None:
    """One A100 among H100s: new nodes are H100s."""
    before = minipods(minipods=2, nodes=6).with_gpu_types(dict.fromkeys(range(6), "H100") | {0: "A100"})
    assert [node.gpu_type for node in with_domain(before, 2)] == ["A100", *["H100"] * 7]


def test_flags_stay_where_they_are() -> None:
    """A flag is not lost and not doubled."""
    before = minipods(minipods=2, nodes=8).with_flags([NodeFlag("n3", "straggler", 1.5, source="someone")])
    after = with_domain(before, 2)
    assert {after.names[i]: flag for i, flag in after.flags.items()} == {
        "n3": NodeFlag("n3", "straggler", 1.5, source="someone")
    }


def test_a_closer_level() -> None:
    """A rack hangs below the last pod."""
    before = llama3_pods(pods=2, racks=3)
    after = with_domain(before, 2, level="rack")
    assert len(after.level("pod")) == 2
    assert len(after.level("rack")) == 7
    assert after.level("pod").domain_of[-1] == 1


def test_names_never_clash() -> None:
    """A cluster that was grown before can be grown again, and a node may be called as a new one would be."""
    twice = with_domain(with_domain(minipods(minipods=2, nodes=8), 4), 4)
    assert len(set(twice.names)) == 16
    assert len(twice.level("minipod")) == 4
    odd = build_cluster(["rack"], [Node("new2", ("new-rack1",), 8, 8)])
    grown = with_domain(odd, 1)
    assert len(set(grown.names)) == 2
    assert len(grown.level("rack")) == 2


def test_nodes_on_a_broader_switch_stay_there() -> None:
    """A node without a rack hangs on its pod afterwards, too."""
    rows = [Node("a", ("p1", "r1"), 8, 8), Node("b", ("p1", ""), 8, 8), Node("c", ("p2", "r2"), 8, 8)]
    after = with_domain(build_cluster(["pod", "rack"], rows), 2)
    rack = after.level("rack")
    assert bool(rack.implicit[rack.domain_of[1]])


def test_impossible() -> None:
    """No nodes, or no such level."""
    with pytest.raises(InvalidTopology):
        with_domain(minipods(minipods=2, nodes=8), 0)
    with pytest.raises(UnknownName):
        with_domain(minipods(minipods=2, nodes=8), 1, level="pod")
