"""Certificates are made of what the search refuted: as few pairs as are needed, each with its witness."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.instances import draw
from ground.records import json_data, read_json
from scheduler.algorithm_run import judge, run
from scheduler.certificates.certificate import Certificate
from scheduler.certificates.certificate_writer import NothingToCertify, certificate_of, fewest_needed
from scheduler.job import Job, Parallelism
from scheduler.outcome import Instance
from scheduler.placement.types import ALGORITHMS, Limits, Proposal, Refutation
from scheduler.witnesses import Multipliers, PatternPrices
from tests.case_counts import examples
from tests.facts import saying

KINDS = ("edges", "product", "coverage", "rectangles", "another", "skeleton")


def refutation(dp: int, pp: int, by: str) -> Refutation:
    """A refutation without words."""
    return Refutation((dp, pp), by, "")


@given(
    st.lists(st.builds(refutation, st.integers(1, 6), st.integers(1, 6), st.sampled_from(KINDS)), max_size=8),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.sampled_from([2.0, 3.0, 4.5, float("inf")]),
)
@examples(300)
def test_what_is_needed_is_kept(refutations: list[Refutation], alpha: float, needed: float) -> None:
    """Every pair that is cheap enough and ruled out is ruled out by what is kept; a skeleton is kept only where no
    quicker kind does; each is the first of those kept to rule out some pair.
    """
    job = Job("j", Parallelism(tp=8, dp=6, pp=6), alpha=alpha)
    kept = fewest_needed(refutations, job, needed)
    assert {one.pair for one in kept} <= {one.pair for one in refutations}
    for s, r in product(range(1, 7), range(1, 7)):
        if alpha * s + (1 - alpha) * r < needed:
            by = {one.by for one in refutations if one.covers(s, r)}
            assert bool(by) == any(one.covers(s, r) for one in kept)
            if by - {"skeleton"}:
                assert any(one.covers(s, r) and one.by != "skeleton" for one in kept)
    assert len(kept) == len(set(kept))


@cache
def certified(number: int) -> Certificate:
    """The certificate of a seeded instance."""
    drawn = draw(number, seed=1)
    cluster, job = drawn.cluster(), drawn.job()
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=0.2, workers=1, clock="work"))
    return certificate_of(Instance(cluster, job), outcome)


@pytest.mark.parametrize("number", [6, 8, 89, 101])
def test_witnesses_go_with_their_kinds(number: int) -> None:
    """Coverage and rectangles have multipliers, patterns prices, the others need none; all of it survives JSON."""
    certificate = certified(number)
    refuted = [one for part in certificate.parts for one in part.refuted]
    assert refuted
    for one in refuted:
        assert isinstance(one.witness, Multipliers) == (one.by in ("coverage", "rectangles"))
        assert isinstance(one.witness, PatternPrices) == (one.by == "patterns")
    assert read_json(Certificate, json_data(Certificate, certificate)) == certificate


def test_facts_of_the_question() -> None:
    """The grid, what each domain takes, the nodes by name: as the instance has them."""
    drawn, certificate = draw(8, seed=1), certified(8)
    (part,) = certificate.parts
    assert (part.rows, part.columns) == (drawn.rows, drawn.columns)
    assert part.capacities == tuple(sorted(drawn.free, reverse=True))
    assert (part.level, part.trunk, part.slowest, part.gpu_types) == ("minipod", "", 1.0, ("",))
    assert np.shape(certificate.nodes) == (drawn.rows, drawn.columns)


def test_nothing_to_certify() -> None:
    """An outcome that claims nothing has no certificate, and the error says what would help."""
    drawn = draw(8, seed=1)
    cluster, job = drawn.cluster(), drawn.job()
    outcome = judge("late", cluster, job, Proposal(None, complete=False))
    with pytest.raises(NothingToCertify, match=saying("time limit")) as caught:
        certificate_of(Instance(cluster, job), outcome)
    assert caught.value.exit_code == 4
