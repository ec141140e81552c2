"""Claims beyond what decides: what is checked is true, what no certificate shows is told, forgeries are refused."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.certificates.certificate import Certificate, CertifiedGrid, CloserClaim, RefutedPair
from scheduler.job import Job, Parallelism, Speed
from scheduler.objective import worth_of
from scheduler.outcome import Instance
from scheduler.placement.types import ALGORITHMS
from scheduler.unchecked import unchecked_claims
from scheduler.verification.closer_levels import fewest_touched
from scheduler.verification.verdict import Verification, verify
from scheduler.witnesses import NOT_TO_BE_CHECKED, Multipliers
from tests.case_counts import examples
from tests.facts import says
from tests.scheduler.placement.exact.every_placement import costs, tiny_instance
from tests.scheduler.verification.forgery import LIMITS, certified, random_refutation
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def racks_in_pods(*pods: tuple[int, ...]) -> Cluster:
    """Pods of racks with so many free nodes each."""
    nodes = [
        Node(f"n{pod}-{rack}-{i}", (f"p{pod}", f"p{pod}r{rack}"), 8, 8)
        for pod, racks in enumerate(pods)
        for rack, count in enumerate(racks)
        for i in range(count)
    ]
    return build_cluster(["pod", "rack"], nodes)


def grid(rows: int, columns: int, alpha: float = 0.5, **more: int) -> Job:
    """A grid of nodes whose spread counts at the pods."""
    return Job("j", Parallelism(tp=8, dp=rows, pp=columns, **more), alpha=alpha, level="pod")


QUESTIONS = {
    # nine cells in a pod of four racks of 3: by whole columns (1, 3), and no product of spreads is below 3
    "whole groups in one pod": (racks_in_pods((3, 3, 3, 3), (2, 2, 2)), grid(3, 3), "rack", (1, 3)),
    # of a rack of 4 a row of five and a column of five take 2 each: racks of 4 need S R >= 25 / 4, so 7
    "a product in one pod": (racks_in_pods((4,) * 7), grid(5, 5), "rack", (3, 3)),
    # the job is in two pods, as each holds 6 of 10 cells; rows of two lie whole in pods, and none in a rack of one node
    "lines whole in pods": (racks_in_pods((1,) * 6, (1,) * 6), grid(5, 2, 0.1), "rack", (5, 2)),
}
"""What shows a closer level -> cluster, job, the level, and the spread there."""


@pytest.mark.parametrize("kind", QUESTIONS)
def test_closer_levels_are_checked(kind: str) -> None:
    """Every claim of these is checked, so nothing of the answer is said to be beyond checking."""
    cluster, asked, level, spread = QUESTIONS[kind]
    outcome = run(ALGORITHMS.load("exact"), cluster, asked, LIMITS)
    closer = outcome.closer[level]
    assert ((closer.dp, closer.pp), closer.proved) == (spread, True)
    verification = verify(certified(cluster, asked), cluster, asked)
    assert [(claim.claim, claim.checked) for claim in verification.claims] == [("objective", True), (level, True)]
    assert verification.verdict == "verified"
    assert unchecked_claims(Instance(cluster, asked), outcome) == {}


@pytest.mark.parametrize(
    ("types", "factor", "checked"), [(("A",), 1.0, True), (None, 1.0, False), (None, 0.5, True), (None, 2.0, False)]
)
def test_other_types_that_are_as_good_are_looked_at(
    types: tuple[str, ...] | None, factor: float, checked: bool
) -> None:
    """Two nodes of A are in a rack each, two of B in one: on A nothing is closer, and on B something is, for a job that
    may be there and is as fast.
    """
    places = {"A": ["p0r0", "p0r1"], "B": ["p1r0", "p1r0"]}
    nodes = [
        Node(f"{name}{i}", (rack[:2], rack), 8, 8, gpu_type=name)
        for name, racks in places.items()
        for i, rack in enumerate(racks)
    ]
    cluster, asked = build_cluster(["pod", "rack"], nodes), grid(2, 1).replace(speed=(Speed("B", factor),))
    certificate = certified(cluster, asked.replace(gpu_types=("A",)))
    verification = verify(certificate, cluster, asked.replace(gpu_types=types))
    assert {claim.claim: claim.checked for claim in verification.claims}["rack"] == checked


# A pod of uneven racks beside two others: the job lies in two pods, and rack spread (5, 2) is proved by coverage
UNEVEN = racks_in_pods((1, 6, 5, 6, 8, 2, 7, 8, 1, 5), (3, 4, 3, 3, 7, 2, 8, 5, 2, 8, 8, 4), (5, 4, 4, 6, 7, 7, 4, 4))


@pytest.fixture(scope="module")
def by_coverage() -> Certificate:
    """A certificate whose closer level needs witnesses."""
    return certified(UNEVEN, grid(5, 12, 0.3))


def of_closer(certificate: Certificate, **changed: object) -> Verification:
    """What is said of a certificate of the uneven racks with other claims of closer levels."""
    assert certificate.closer is not None
    forged = replace(certificate, closer=replace(certificate.closer, **changed))
    return verify(forged, UNEVEN, grid(5, 12, 0.3))


def test_without_its_witnesses_a_claim_is_not_checked(by_coverage: Certificate) -> None:
    """What decides is verified all the same, and the claim is said not to be checked."""
    assert by_coverage.closer is not None
    assert of_closer(by_coverage).claims[1].checked
    verification = of_closer(by_coverage, grids=())
    assert (verification.verdict, [claim.checked for claim in verification.claims]) == ("verified", [True, False])
    assert NOT_TO_BE_CHECKED in verification.claims[1].sentence
    # of other capacities than the cluster has, the witnesses are of no use
    others = tuple(replace(of, capacities=of.capacities[1:]) for of in by_coverage.closer.grids)
    assert not of_closer(by_coverage, grids=others).claims[1].checked


def test_forged_claims_of_closer_levels_are_refused(by_coverage: Certificate) -> None:
    """Another spread than the placement has, other levels, nodes or types, a pair that its witness does not refute."""
    assert by_coverage.closer is not None
    (own,) = by_coverage.closer.levels
    assert says(of_closer(by_coverage, levels=(replace(own, dp=4),)).sentence, "(5, 2)", "rack", "(4, 2)")
    assert says(of_closer(by_coverage, levels=(replace(own, level="pod"),)).sentence, "not verified", "closer levels")
    assert says(of_closer(by_coverage, gpu_types=("H100",)).sentence, "not verified", "types of GPU")
    assert says(of_closer(by_coverage, gpus_per_node=4).sentence, "not verified", "4 GPUs")
    assert says(of_closer(by_coverage, ep=1).sentence, "not verified", "EP spread")
    (of_rack,) = by_coverage.closer.grids
    wide = replace(of_rack, refuted=(*of_rack.refuted, RefutedPair(5, 5, "coverage", Multipliers(1, 1, 4))))
    assert says(of_closer(by_coverage, grids=(wide,)).sentence, "not verified", "(5, 5)", "rack", "coverage")


def test_what_only_the_solver_proved_is_said_to_be_so() -> None:
    """Three expert groups of four nodes: each pod of six holds one of them whole, so the third touches two pods.
    Counting one group alone says 1.
    """
    cluster, asked = racks_in_pods((6,), (6,)), grid(12, 1, 0.0, ep=4)
    outcome = run(ALGORITHMS.load("exact"), cluster, asked, LIMITS)
    assert outcome.ep is not None
    assert (outcome.ep.spread, outcome.ep.proved) == (2, True)
    unchecked = unchecked_claims(Instance(cluster, asked), outcome)
    assert says(unchecked["ep"], "EP spread 2", NOT_TO_BE_CHECKED)


@given(st.integers(0, 10**9))
@examples(200)
def test_what_is_checked_is_true(seed: int) -> None:
    """Any placement of a tiny job, said to be the best at all closer levels, with any pairs refuted beside: what is
    checked of a level is so, of all placements that are as good before.
    """
    chance = random.Random(seed)
    cluster, asked = tiny_instance(chance)
    goals = costs(cluster, asked)
    honest = certified(cluster, asked)
    if honest.closer is None or goals is None:
        return
    free = np.flatnonzero(cluster.idle).tolist()
    for attempt in range(6):
        nodes = np.array([[cluster.index_of[name] for name in row] for row in honest.nodes], dtype=np.int32)
        if attempt:
            nodes = np.array(chance.sample(free, asked.grid.cells), dtype=np.int32).reshape(nodes.shape)
        if (worth := worth_of(cluster, asked, nodes)) is None:
            continue
        levels = tuple(
            CloserClaim(name, worth.by_level[name]["dp"], worth.by_level[name]["pp"], proved=True)
            for name in worth.closer
        )
        boasted = replace(
            honest,
            status="feasible",
            nodes=tuple(tuple(cluster.names[i] for i in row) for row in nodes.tolist()),
            spread=worth.spread,
            objective=worth.objective,
            bound=min(worth.objective, honest.bound or 0.0),
            closer=replace(
                honest.closer,
                ep=worth.experts,
                levels=levels,
                grids=tuple(_boasted(of, chance) for of in honest.closer.grids),
            ),
        )
        for claim in verify(boasted, cluster, asked).claims[1:]:
            goal = 1 if claim.claim == "ep" else len(worth.goals) - len(levels) + [*worth.closer].index(claim.claim)
            as_good = (goals[:, :goal] <= np.array(worth.goals[:goal]) + 1e-9).all(axis=1)
            assert not claim.checked or worth.goals[goal] <= goals[as_good, goal].min() + 1e-9, claim


def _boasted(of: CertifiedGrid, chance: random.Random) -> CertifiedGrid:
    return replace(of, refuted=(*of.refuted, random_refutation(of.rows, of.columns, chance)))


@pytest.mark.parametrize(
    ("length", "lines", "rooms", "touched"),
    [
        # two lines of 4: one in each pod, in two racks of 2
        (4, 2, [[2, 2], [2, 2]], 2),
        # the first pod takes both whole
        (4, 2, [[4, 4], [2, 2]], 1),
        # three lines of 3 in racks of 2: a pod of 6 takes two, of three racks, so a line touches two
        (3, 3, [[2, 2, 2], [2, 2]], 2),
        # there is no room for a second line
        (4, 2, [[4, 3]], 5),
    ],
)
def test_fewest_domains_that_whole_lines_touch(length: int, lines: int, rooms: list[list[int]], touched: int) -> None:
    """What lines touch that lie whole in broader domains, by counting."""
    assert fewest_touched(length, lines, [np.array(room) for room in rooms]) == touched


def test_claims_are_optional() -> None:
    """A job without closer levels and experts has nothing more to claim."""
    cluster = build_cluster(["pod"], [Node(f"n{i}", (f"p{i // 2}",), 8, 8) for i in range(4)])
    certificate = certified(cluster, grid(2, 1))
    assert certificate.closer is None
    assert [claim.claim for claim in verify(certificate, cluster, grid(2, 1)).claims] == ["objective"]
