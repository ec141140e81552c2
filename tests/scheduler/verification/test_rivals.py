"""What must be ruled out where there are choices: slow nodes at a price, types of GPU, trunks; and with soft terms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.certificates.certificate import Certificate
from scheduler.job import Count, Hold, Job, LevelWeight, Parallelism, Speed
from scheduler.verification.verdict import verify
from tests.facts import says
from tests.scheduler.verification.forgery import certified
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def minipods(*free: int, joined: bool = True, slow: int = 0, kind: str = "", power: bool = False) -> Cluster:
    """Minipods with so many nodes each, racks of two; the last ``slow`` nodes of the first minipod take 1.5 as long.

    :param kind: letters of types of GPU, one for each minipod.
    """
    nodes = [
        Node(
            f"n{k}-{i}",
            (f"m{k}", f"m{k}r{i // 2}"),
            8,
            8,
            1.5 if k == 0 and i >= count - slow else 1.0,
            kind[k : k + 1],
            second_path=(f"p{i % 2}",) if power else (),
        )
        for k, count in enumerate(free)
        for i in range(count)
    ]
    return build_cluster(["minipod", "rack"], nodes, second=["@power"] if power else []).replace(joined=joined)


def job(rows: int = 3, columns: int = 2, **more: Any) -> Job:
    """A grid of nodes whose spread counts at the minipods."""
    return Job("j", Parallelism(tp=8, dp=rows, pp=columns), level="minipod", alpha=0.5).replace(**more)


def without_parts(certificate: Certificate, **same: Any) -> Certificate:
    """The certificate without the parts that have these fields."""
    kept = (one for one in certificate.parts if any(getattr(one, key) != value for key, value in same.items()))
    return replace(certificate, parts=tuple(kept))


def test_slow_nodes_at_a_price() -> None:
    """Six cells on 4 healthy and 3 healthy nodes, or on 6 of one minipod of which 2 are slow: (1, 1) with a step 1.5 as
    long is worse than (1, 2), as a unit of spread costs 2.57 %; so both are to be ruled out, each on its nodes.
    """
    cluster, asked = minipods(6, 3, slow=2), job()
    certificate = certified(cluster, asked)
    # of all nodes no objective is below that of the six in one minipod, slow ones among them
    assert (certificate.slowest, certificate.objective, certificate.bound) == (None, 1.5, 1.0)
    found = verify(certificate, cluster, asked)
    assert (found.verdict, found.bound) == ("verified", 1.0)
    # more is claimed of them than is so
    assert verify(replace(certificate, bound=1.5), cluster, asked).verdict == "cannot be told"
    # nothing says that the pair (1, 1) cannot be had on healthy nodes
    alone = verify(without_parts(certificate, slowest=1.0), cluster, asked)
    assert says(alone.sentence, "not verified", "(1, 1)")


def test_a_price_that_is_worth_it() -> None:
    """The same where a unit of spread costs half a step: then (1, 1) on slow nodes is best, and needs no refutation but
    on the healthy ones, of which nothing but (1, 1) would be as quick.
    """
    cluster, asked = minipods(6, 3, slow=2), job(spread_cost=2.0)
    certificate = certified(cluster, asked)
    assert certificate.objective == 1.0
    assert verify(certificate, cluster, asked).verdict == "verified"
    # the pair of the healthy nodes said to be best: its step is longer
    worse = certified(cluster, asked.replace(avoid="strict"))
    forged = replace(worse, avoid="price")
    found = verify(forged, cluster, asked)
    assert found.verdict == "cannot be told"
    assert says(found.sentence, "up to 1.5 x slow", "no more than the bound")


def test_a_bound_on_fewer_nodes_than_the_placement_has() -> None:
    """A gap said of healthy nodes alone says nothing of a placement on slow ones."""
    cluster, asked = minipods(6, 3, slow=2), job(spread_cost=2.0)
    forged = replace(certified(cluster, asked), status="feasible", slowest=1.0)
    found = verify(forged, cluster, asked)
    assert found.verdict == "not verified"
    assert "its placement uses slower ones" in found.sentence


def test_a_bound_on_some_nodes_is_said_of_these() -> None:
    """Six cells on 4 and 3 healthy nodes, as in the first test, with a gap on these: the verdict says so."""
    cluster, asked = minipods(6, 3, slow=2), job()
    claimed = replace(certified(cluster, asked), status="feasible", slowest=1.0, bound=1.5)
    found = verify(claimed, cluster, asked)
    assert says(found.sentence, "verified", "healthy nodes", "objective below 1.5")
    # of all nodes it is not so: the six of one minipod are one domain
    assert verify(replace(claimed, slowest=1.5), cluster, asked).verdict == "not verified"


def test_every_type_of_gpu_has_its_part() -> None:
    """Six nodes of one minipod are of type A, others of B are 2.5 times as fast and lie apart; with a part left out the
    rest does not show that its type is no better.
    """
    cluster = minipods(6, 3, 3, kind="ABB")
    asked = job(speed=(Speed("B", 2.5),), avoid="strict")
    certificate = certified(cluster, asked)
    assert {one.gpu_types for one in certificate.parts} == {("A",), ("B",)}
    assert certificate.nodes[0][0].startswith(("n1", "n2"))
    assert verify(certificate, cluster, asked).verdict == "verified"
    found = verify(without_parts(certificate, gpu_types=("B",)), cluster, asked)
    assert found.verdict == "cannot be told"
    assert says(found.sentence, "on B", "the bound 1", "no part")


def test_every_trunk_has_its_part() -> None:
    """Trunks of racks of 2: one with room for all rows in whole racks, one with fewer racks."""
    cluster = minipods(6, 8, joined=False)
    asked = job(level="rack")
    certificate = certified(cluster, asked)
    assert {one.trunk for one in certificate.parts} == {"m0", "m1"}
    assert verify(certificate, cluster, asked).verdict == "verified"
    found = verify(without_parts(certificate, trunk="m1"), cluster, asked)
    assert found.verdict == "cannot be told"
    assert "in m1" in found.sentence


@pytest.mark.parametrize(
    "more",
    [
        {"counts": (Count("pp", "rack", 0.3),)},
        {"levels": (LevelWeight("rack", 0.5),)},
        {"holds": (Hold("pp", "rack"),)},
        {"holds": (Hold("pp", "rack"),), "counts": (Count("dp", "rack", 0.1),)},
    ],
)
def test_terms_at_other_levels_are_recounted(more: dict[str, Any]) -> None:
    """Pairs refuted at two levels: the spreads of a placement do not become smaller from one to the closer one."""
    cluster, asked = minipods(4, 4, 2), job(rows=4, columns=2, **more)
    certificate = certified(cluster, asked)
    found = verify(certificate, cluster, asked)
    assert certificate.status == "optimal"
    assert found.verdict == "verified", found.sentence
    bold = replace(certificate, objective=certificate.objective, parts=())
    assert verify(bold, cluster, asked).verdict == "cannot be told"


def test_constraints_beside_the_tree_are_not_counted_against_the_answer() -> None:
    """A soft term at a power domain: without it the pairs say less than the answer, which is told and no fault."""
    cluster = minipods(4, 4, power=True)
    asked = job(rows=2, columns=3, counts=(Count("pp", "@power", 1.0),))
    certificate = certified(cluster, asked)
    found = verify(certificate, cluster, asked)
    assert found.verdict in ("verified", "cannot be told")
    assert not found.faults


def test_that_nothing_fits_is_recounted() -> None:
    """Ten nodes are asked of seven; of eight it is a lie."""
    cluster, asked = minipods(4, 3), job(rows=5, columns=2)
    certificate = certified(cluster, asked)
    assert (certificate.status, certificate.parts, certificate.nodes) == ("infeasible", (), ())
    assert says(verify(certificate, cluster, asked).sentence, "verified", "no placement")
    larger = verify(certificate, minipods(8, 3), asked)
    assert says(larger.sentence, "cannot be told", "counting alone")
