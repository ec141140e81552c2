"""The verdict on whole certificates: what is verified is true, and what is forged is never accepted."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ground.records import json_data, read_json
from scheduler.certificates.certificate import Certificate, RefutedPair
from scheduler.job import Job, Parallelism
from scheduler.objective import Spread
from scheduler.verification.verdict import verify
from scheduler.witnesses import Multipliers
from tests.case_counts import cases, examples
from tests.facts import says
from tests.scheduler.placement.exact.every_placement import tiny_instance
from tests.scheduler.verification.forgery import boasted, certified, changed, is_true
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def tiny_question(chance: random.Random) -> tuple[Cluster, Job]:
    """A tiny cluster and job, some with slow nodes at a price, two types of GPU, trunks that nothing joins."""
    cluster, job = tiny_instance(chance, types=chance.choice([("",), ("",), ("A", "B")]))
    cluster = cluster.replace(joined=chance.random() < 0.8)
    return cluster, job.replace(avoid="price") if chance.random() < 0.3 else job


def minipods(*free: int, alpha: float = 0.5, rows: int = 3, columns: int = 2) -> tuple[Cluster, Job]:
    """Minipods with so many free nodes each, and a job of a grid of nodes."""
    nodes = [Node(f"n{k}-{i}", (f"m{k}", f"m{k}r{i % 2}"), 8, 8) for k, count in enumerate(free) for i in range(count)]
    job = Job("j", Parallelism(tp=8, dp=rows, pp=columns), alpha=alpha, level="minipod")
    return build_cluster(["minipod", "rack"], nodes), job


@given(st.integers(0, 10**9))
@examples(320)
def test_what_is_verified_is_true(seed: int) -> None:
    """The answers of the search: with holds, soft terms, weighed levels, slow nodes, types of GPU, or not feasible."""
    cluster, job = tiny_question(random.Random(seed))
    certificate = certified(cluster, job)
    found = verify(certificate, cluster, job)
    assert found.verdict != "not verified", found.sentence
    if found.verdict == "verified":
        assert is_true(certificate, cluster, job)


@given(st.integers(0, 10**9))
@examples(320)
def test_what_is_boasted_is_verified_only_if_it_is_true(seed: int) -> None:
    """Any placement said to be best, with any pairs said to be refuted beside the true ones: never a wrong claim."""
    chance = random.Random(seed)
    cluster, job = tiny_question(chance)
    certificate = certified(cluster, job)
    for _ in range(6):
        forged = boasted(certificate, cluster, job, chance)
        if forged is not None and verify(forged, cluster, job).verdict == "verified":
            assert is_true(forged, cluster, job)


@given(st.integers(0, 10**9))
@examples(240)
def test_a_change_anywhere_is_accepted_only_if_the_claim_is_still_true(seed: int) -> None:
    """Any number, name or list of the document: pairs, multipliers, capacities, alpha, nodes, status, bounds."""
    chance = random.Random(seed)
    cluster, job = tiny_question(chance)
    data = json_data(Certificate, certified(cluster, job))
    for _ in range(20):
        try:
            forged = read_json(Certificate, changed(data, chance, list(cluster.names)))
        except ValidationError:
            continue
        if verify(forged, cluster, job).verdict == "verified":
            assert is_true(forged, cluster, job)


def test_most_tiny_answers_are_verified_without_a_solver() -> None:
    """Of 160 of them, seeded: all but a few whose soft terms were settled cell by cell; so the tests above say much."""
    verdicts = Counter[str]()
    for seed in range(cases(160)):
        cluster, job = tiny_question(random.Random(f"verified {seed}"))
        verdicts[verify(certified(cluster, job), cluster, job).verdict] += 1
    assert verdicts["verified"] >= 0.9 * verdicts.total()


FORGED = {
    "placement": (lambda one: replace(one, nodes=one.nodes[:-1]), "its placement is none"),
    "node": (lambda one: replace(one, nodes=(("n9-9", "n1-0"), *one.nodes[1:])), "has no node 'n9-9'"),
    "node twice": (lambda one: replace(one, nodes=(one.nodes[0], one.nodes[0], one.nodes[2])), "used twice"),
    "ragged": (lambda one: replace(one, nodes=(one.nodes[0][:1], *one.nodes[1:])), "not equally long"),
    "pair": (lambda one: replace(one, spread=Spread(1, 1)), "and it says (1, 1)"),
    "objective": (lambda one: replace(one, objective=1.0), "and it says 1"),
    "bound": (lambda one: replace(one, bound=1.2), "does not go with the status optimal"),
    "no worth": (lambda one: replace(one, bound=None), "does not say what it is worth"),
    "alpha": (lambda one: replace(one, alpha=0.4), "it is about alpha 0.4, and the job says 0.5"),
    "level": (lambda one: replace(one, level="rack"), "it is about level rack"),
    "avoid": (lambda one: replace(one, avoid="strict"), "it is about avoid strict"),
    "nothing fits": (lambda one: replace(one, status="infeasible"), "claims that there is no placement, and has one"),
    "capacities": (
        lambda one: replace(one, parts=(replace(one.parts[0], capacities=(3, 3)),)),
        "it counts room for 3 cells in a domain that has room for 4",
    ),
    "domains": (lambda one: replace(one, parts=(replace(one.parts[0], capacities=(4,)),)), "counts 1 domains"),
    "grid": (lambda one: replace(one, parts=(replace(one.parts[0], rows=2),)), "a grid of 2 x 2, and that of the job"),
    "trunk": (lambda one: replace(one, parts=(replace(one.parts[0], trunk="t"),)), "has no trunk 't'"),
    "part's level": (lambda one: replace(one, parts=(replace(one.parts[0], level="row"),)), "has no level 'row'"),
    "types": (lambda one: replace(one, parts=(replace(one.parts[0], gpu_types=("H",)),)), "types of GPU H"),
    "refutation": (
        lambda one: replace(one, parts=(replace(one.parts[0], refuted=(RefutedPair(9, 9, "edges", None),)),)),
        "(9, 9) is not refuted by edges: neither spread is 1",
    ),
    "left out": (
        lambda one: replace(one, parts=(replace(one.parts[0], refuted=()),)),
        "nothing in it rules out (1, 1)",
    ),
}
"""What is changed -> a change of the certificate below, and what the verdict says of it."""


@pytest.mark.parametrize("what", FORGED)
def test_each_forgery_is_named(what: str) -> None:
    """Six cells on minipods of 4 and 3 nodes: (1, 1) is refuted, (1, 2) found.  One fault each, in words."""
    cluster, job = minipods(4, 3)
    certificate = certified(cluster, job)
    assert says(verify(certificate, cluster, job).sentence, "verified", "no placement")
    forge, words = FORGED[what]
    found = verify(forge(certificate), cluster, job)
    assert found.verdict == "not verified"
    assert words in found.sentence


def test_another_cluster_is_told() -> None:
    """A certificate holds for one cluster: with a node more in a minipod the counts differ."""
    cluster, job = minipods(4, 3)
    other, _ = minipods(5, 3)
    found = verify(certified(cluster, job), other, job)
    assert found.verdict == "not verified"
    assert says(found.sentence, "4 cells", "5")


def test_a_bound_is_verified_as_a_bound() -> None:
    """A placement with the pair (2, 2) and objective 2, said to be at most 0.5 from the best: (1, 1) is refuted, so it
    is; said to be at most 0.4 from it, nothing shows that.
    """
    cluster, job = minipods(4, 3)
    nodes = (("n0-0", "n1-0"), ("n1-1", "n0-1"), ("n0-2", "n0-3"))
    best = certified(cluster, job)
    worse = replace(best, status="feasible", nodes=nodes, spread=Spread(2, 2), objective=2.0, bound=1.5)
    found = verify(worse, cluster, job)
    assert found.verdict == "verified"
    assert says(found.sentence, "verified", "objective below 1.5")
    assert found.bound == 1.5
    bold = verify(replace(worse, bound=1.6), cluster, job)
    assert bold.verdict == "not verified"
    assert "nothing in it rules out (1, 2), (2, 1)" in bold.sentence


def test_what_only_a_solver_can_tell() -> None:
    """A pair refuted by complete searches is told without a solver as what it is, and with one settled either way."""
    from scheduler.verification.cell_program import solver_check

    cluster, job = minipods(4, 3)
    certificate = certified(cluster, job)

    def claims(*pairs: tuple[int, int]) -> Certificate:
        refuted = tuple(RefutedPair(*pair, "skeleton", None) for pair in pairs)
        return replace(certificate, parts=(replace(certificate.parts[0], refuted=refuted),))

    solve = solver_check(seconds=20.0, seed=0, workers=1)
    found = verify(claims((1, 1)), cluster, job)
    assert found.verdict == "cannot be told"
    assert says(found.sentence, "cannot be told", "(1, 1)", "solver")
    assert verify(claims((1, 1)), cluster, job, solve=solve).verdict == "verified"
    wrong = verify(claims((1, 2)), cluster, job, solve=solve)
    assert says(wrong.sentence, "(1, 2)", "skeleton", "a solver")


def test_a_kind_that_is_not_known_is_left_open() -> None:
    """A later version may refute in another way: that is no forgery, and no proof."""
    cluster, job = minipods(4, 3)
    certificate = certified(cluster, job)
    refuted = (RefutedPair(1, 1, "magic", None),)
    found = verify(replace(certificate, parts=(replace(certificate.parts[0], refuted=refuted),)), cluster, job)
    assert found.verdict == "cannot be told"
    assert says(found.checked[0].sentence, "'magic'", "not known")


def test_multipliers_only_help() -> None:
    """A refutation stands or falls with the pair; charges that do not show it are refused, however large."""
    cluster, job = minipods(4, 3)
    certificate = certified(cluster, job)
    for charges in (Multipliers(0, 0, 1), Multipliers(10**30, 1, 7), Multipliers(1, 10**40, 10**35)):
        refuted = (RefutedPair(2, 2, "rectangles", charges),)
        forged = replace(certificate, parts=(replace(certificate.parts[0], refuted=refuted),))
        assert verify(forged, cluster, job).verdict != "verified"
