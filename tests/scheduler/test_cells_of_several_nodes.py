"""TP groups of several nodes: every answer against all placements of tiny instances, on groups that are walked rank by
rank as Megatron numbers them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob, UnknownName
from scheduler.algorithm_run import run
from scheduler.explanation import diagnose, left_over
from scheduler.job import FAMILIES, MEGATRON_ORDER, Count, Family, Hold, Job, Parallelism
from scheduler.placement.admission import check_held_together
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.repair import repair
from tests.facts import saying, says
from tests.scheduler.test_rank_groups import Setting, nodes_touched
from topology.build import build_cluster
from topology.cluster import Cluster, IntArray, Node

LIMITS = Limits(seconds=10.0)
LEVELS = ("minipod", "rack")
MOST_ASSIGNMENTS = 70_000  # of cells to racks; all of them are tried in some milliseconds


def racks(*sizes: int, minipods: int = 1, gpus: int = 2) -> Cluster:
    """Racks of so many nodes, dealt to minipods in turn."""
    rows = [
        Node(f"r{rack}n{i}", (f"m{rack % minipods}", f"r{rack}"), gpus, gpus)
        for rack, size in enumerate(sizes)
        for i in range(size)
    ]
    return build_cluster(LEVELS, rows)


@dataclass(frozen=True)
class Tiny:
    """A job of a few nodes and a cluster of a few racks."""

    setting: Setting
    job: Job
    cluster: Cluster

    def placements(self) -> IntArray:
        """The rack of each node of the job by node rank, for all placements that keep what must be kept; shape
        [placements, nodes].
        """
        gpus, rack = self.job.gpus_per_node, self.cluster.levels[1]
        nodes = -(-self.setting.world // gpus)
        found = np.array(list(product(range(len(rack)), repeat=nodes)), dtype=np.int32)
        room = np.bincount(rack.domain_of[self.cluster.idle], minlength=len(rack))
        for k in range(len(rack)):
            found = found[(found == k).sum(axis=1) <= room[k]]
        for hold in (*self.job.holds, Hold("tp", self.job.tp_level or "rack")):
            found = found[self.spread(found, hold.family, hold.level) == 1]
        return found

    def spread(self, placements: IntArray, family: Family, level: str) -> IntArray:
        """Most domains that a group of a family touches, shape [placements]."""
        domains = placements if level == "rack" else self.cluster.levels[1].parent_of[placements]
        groups = nodes_touched(self.setting.of_family(family), self.job.gpus_per_node)
        touched = [[len(set(row)) for row in domains[:, sorted(group)].tolist()] for group in groups]
        return np.max(np.array(touched, dtype=np.int32).reshape(len(groups), -1), axis=0)

    def objectives(self, placements: IntArray) -> IntArray:
        """Eq. 2 and the soft terms, shape [placements]."""
        job = self.job
        level = job.level or self.cluster.default_level().name
        terms = [(job.alpha, "dp", level), (job.beta, "pp", level)]
        terms += [(count.weight, count.family, count.level) for count in job.counts]
        return np.asarray(sum(weight * self.spread(placements, family, at) for weight, family, at in terms))


@st.composite
def tiny(draw: st.DrawFn) -> Tiny:
    """TP groups of two or three nodes of 2 GPUs, up to 8 nodes in all, on up to 4 racks."""
    parts = draw(st.sampled_from([2, 2, 3]))
    cp, dp, pp = draw(st.sampled_from([c for c in product((1, 2), (1, 2, 3), (1, 2)) if np.prod(c) * parts <= 8]))
    tp, blocks = 2 * parts, cp * dp
    etp, ep = draw(st.sampled_from([(e, f) for e, f in product((1, 2, tp), (1, 2, 4)) if (tp * blocks) % (e * f) == 0]))
    order = draw(st.sampled_from([MEGATRON_ORDER, "tp-dp-cp-ep-pp"]))
    setting = Setting(tp=tp, cp=cp, ep=ep, dp=dp, pp=pp, etp=etp, order=order)
    nodes = parts * blocks * pp
    count = draw(st.integers(1, 4 if nodes < 8 else 3))
    sizes = [draw(st.integers(1, nodes + 1)) for _ in range(count)]
    tp_level, level = draw(st.sampled_from([(None, None), (None, "rack"), ("rack", "minipod"), ("minipod", "minipod")]))
    constraint = st.tuples(st.sampled_from(FAMILIES), st.sampled_from(LEVELS))
    job = Job(
        "tiny",
        setting.parallelism,
        alpha=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        gpus_per_node=2,
        level=level,
        tp_level=tp_level,
        holds=tuple(Hold(*one) for one in draw(st.lists(constraint, max_size=1))),
        counts=tuple(Count(*one, 0.2) for one in draw(st.lists(constraint, max_size=1))),
    )
    cluster = racks(*sizes, minipods=draw(st.integers(1, 2)))
    busy = draw(st.lists(st.integers(0, len(cluster) - 1), max_size=2))
    return Tiny(setting, job, cluster.with_busy(busy))


def by_rank(job: Job, nodes: IntArray) -> IntArray:
    """Nodes of a placement in the order of node ranks."""
    found = np.empty(nodes.size, dtype=np.int32)
    found[job.grid.node_rank.ravel()] = nodes.ravel()
    return found


def check(one: Tiny) -> None:
    """The answer of the exact search against all placements."""
    outcome = run(ALGORITHMS.load("exact"), one.cluster, one.job, LIMITS)
    placements = one.placements()
    if not len(placements):
        assert outcome.status == "infeasible"
        return
    least = float(one.objectives(placements).min())
    assert outcome.objective is not None
    assert outcome.bound is not None
    assert outcome.proposal.nodes is not None
    mine = one.cluster.levels[1].domain_of[by_rank(one.job, outcome.proposal.nodes)][None, :]
    assert (placements == mine).all(axis=1).any()
    assert outcome.objective == pytest.approx(float(one.objectives(mine)[0]))
    assert outcome.bound <= least + 1e-9 <= outcome.objective + 2e-9
    counted = one.cluster.level_index(one.job.level)
    broader = any(one.cluster.level_index(hold.level) < counted for hold in one.job.holds)
    # pairs are searched without a look at soft terms, and at the job's level without holds at broader ones
    if not one.job.grid.aligned or not (one.job.counts or broader):
        assert outcome.status == "optimal"
    closer = outcome.closer.get("rack")
    if closer is not None and outcome.status == "optimal":
        best = placements[one.objectives(placements) < least + 1e-9]
        in_racks = one.job.alpha * one.spread(best, "dp", "rack") + one.job.beta * one.spread(best, "pp", "rack")
        assert outcome.proposal.closer_bounds.get("rack", 0.0) <= float(in_racks.min()) + 1e-9
    if closer is not None and closer.proved:
        assert one.job.alpha * closer.dp + one.job.beta * closer.pp == pytest.approx(float(in_racks.min()))


@given(one=tiny())
def test_against_all_placements(one: Tiny) -> None:
    """Nothing that exists is better than what is proved, no bound is false, and "infeasible" is; without soft terms
    and holds at broader levels what is found is the least.
    """
    check(one)


@st.composite
def part_filled(draw: st.DrawFn) -> Tiny:
    """Ranks that fill nodes of 4 GPUs in any way, stages that share nodes too; up to 7 nodes on up to 3 racks."""
    tp, (cp, dp, pp) = draw(st.sampled_from([1, 2, 4])), (draw(st.integers(1, most)) for most in (2, 7, 4))
    while tp * cp * dp * pp > 28:
        cp, dp, pp = 1, max(1, dp - 1), max(1, pp - (dp == 1))
    # Megatron takes the other order only where context parallelism leaves the experts their data parallelism
    order = draw(st.sampled_from([MEGATRON_ORDER, "tp-cp-ep-pp-dp"])) if cp == 1 else MEGATRON_ORDER
    setting = Setting(tp=tp, cp=cp, ep=1, dp=dp, pp=pp, etp=tp, order=order)
    nodes = -(-setting.world // 4)
    sizes = draw(st.lists(st.integers(1, nodes), min_size=1, max_size=3))
    constraint = st.tuples(st.sampled_from(FAMILIES), st.sampled_from(LEVELS))
    job = Job(
        "tiny",
        setting.parallelism,
        alpha=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        gpus_per_node=4,
        level=draw(st.sampled_from([None, *LEVELS])),
        holds=tuple(Hold(*one) for one in draw(st.lists(constraint, max_size=1))),
        counts=tuple(Count(*one, 0.2) for one in draw(st.lists(constraint, max_size=1))),
    )
    return Tiny(setting, job, racks(*sizes, minipods=draw(st.integers(1, 2)), gpus=4))


@given(one=part_filled())
def test_part_filled_nodes_against_all_placements(one: Tiny) -> None:
    """The same where the last node is filled in part, or stages begin inside nodes; a hold that would tie unequally
    many nodes together is refused.
    """
    try:
        one.job.grid.tied([hold.family for hold in one.job.holds])
    except InvalidJob:
        with pytest.raises(InvalidJob, match=saying("equally many")):
            run(ALGORITHMS.load("exact"), one.cluster, one.job, LIMITS)
        return
    check(one)


@given(one=st.one_of(tiny(), part_filled()), seed=st.integers(0, 100))
def test_repair_against_all_placements(one: Tiny, seed: int) -> None:
    """A lost node is replaced by as few moves as any placement needs, its TP group kept whole."""
    job = one.job.replace(counts=(), holds=one.job.holds if one.job.nodes_of_tp > 1 else ())
    outcome = run(ALGORITHMS.load("exact"), one.cluster, job, LIMITS)
    if outcome.proposal.nodes is None:
        return
    lost = int(outcome.proposal.nodes.ravel()[seed % outcome.proposal.nodes.size])
    left = replace(one, job=job, cluster=one.cluster.with_busy([lost]))
    placements = left.placements()
    if not len(placements):
        return
    repaired = repair(one.cluster, job, outcome.proposal.nodes, [one.cluster.names[lost]], limits=LIMITS)
    old = by_rank(job, outcome.proposal.nodes)
    rack_of = one.cluster.levels[1].domain_of
    # a node that is left where it was moves nothing; the lost one moves even inside its rack
    moved = np.where(old == lost, 1, placements != rack_of[old]).sum(axis=1)
    assert repaired.fewest_moves <= moved.min() <= len(repaired.moves)
    assert repaired.after.by_level[job.tp_level or "rack"]["tp"] == 1


def test_sixteen_of_eighteen_trays() -> None:
    """GB200 NVL72: racks of 18 trays of 4 GPUs.  A TP group of 16 GPUs takes 4 trays, so 16 of a rack are used, and an
    explanation says why two are left; with expert groups of 32 GPUs held too it is 8 trays at a time.
    """
    cluster = racks(18, 18, gpus=4)
    wide = Job("job", Parallelism(tp=16, dp=4, pp=2), gpus_per_node=4, alpha=0.5)
    outcome = run(ALGORITHMS.load("exact"), cluster, wide, LIMITS)
    assert (outcome.status, outcome.objective) == ("optimal", 1.5)
    assert outcome.evaluation is not None
    assert outcome.evaluation.domains == {"r0": 16, "r1": 16}
    (sentence,) = left_over(cluster, wide)
    assert says(sentence, "TP groups", "4 nodes of one rack", "2 racks", "4 usable nodes", "2 of 18 in each of 2")
    experts = wide.replace(parallelism=Parallelism(tp=16, dp=4, pp=2, ep=32, etp=1), holds=(Hold("ep", "rack"),))
    assert says(left_over(cluster, experts)[0], "TP and EP groups", "8 nodes")
    assert not left_over(cluster, Job("job", Parallelism(tp=4, dp=8), gpus_per_node=4))
    # a fifth TP group in a rack does not fit: 5 of them need a third rack, and there is none
    too_many = wide.replace(parallelism=Parallelism(tp=16, dp=9))
    refused = run(ALGORITHMS.load("exact"), cluster, too_many, LIMITS)
    assert refused.status == "infeasible"
    assert says(refused.reason, "every tp group", "one rack", "9 blocks of 4 nodes", "8 such blocks")


def test_a_domain_too_small_for_a_cell() -> None:
    """Racks of 3 nodes of 4 GPUs have room for TP of 12; minipods of 6 nodes have room for TP of 16."""
    cluster = racks(3, 3, 3, 3, minipods=2, gpus=4)
    job = Job("job", Parallelism(tp=16, dp=2), gpus_per_node=4)
    with pytest.raises(InvalidJob, match=saying("4 nodes of 4", "3 such nodes", "12 GPUs")) as caught:
        check_held_together(cluster, job)
    assert caught.value.where == "parallelism.tp"
    assert says(caught.value.fix, "multiples of 4", "at most 12", "tp_level", "minipod")
    check_held_together(cluster, job.replace(tp_level="minipod"))
    with pytest.raises(UnknownName, match="no level 'nvlink'"):
        check_held_together(cluster, job.replace(tp_level="nvlink"))
    with pytest.raises(InvalidJob, match=saying("closer level", "rack")) as caught:
        check_held_together(cluster, job.replace(tp_level="minipod", level="rack"))
    assert caught.value.where == "tp_level"


def test_a_broader_level_is_among_what_would_help() -> None:
    """One node of each of four racks is free: TP groups of two nodes fit into no rack, and into the minipod."""
    cluster = racks(3, 3, 3, 3, gpus=8).with_busy([i for i in range(12) if i % 3])
    job = Job("job", Parallelism(tp=16, dp=2), level="minipod")
    solver = ALGORITHMS.load("exact")
    outcome = run(solver, cluster, job, LIMITS)
    found = diagnose(cluster, job, outcome, solver=solver, limits=LIMITS)
    assert found.constraint == "hold"
    changes = {change.kind: change for change in found.changes}
    assert says(changes["broader-tp-level"].sentence, "TP group of 2 nodes", "rack", "tp_level: minipod")
    # of each rack that has one free node, one more makes room for a group
    assert len(changes["free-nodes"].free) == 2
