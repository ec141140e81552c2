"""Every kind of answer, certified and verified; and certificates that anyone may have written."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.console.output import to_json
from benchmarks.instances import draw
from ground.documents import load_document
from ground.errors import InvalidInput
from ground.files import Source
from ground.records import json_data
from scheduler.certificates.certificate import Certificate, RefutedPair
from scheduler.job import Count, Hold, Job, Parallelism, Speed
from scheduler.objective import Spread
from scheduler.verification.question import CountedGrid
from scheduler.verification.refutations import recount
from scheduler.verification.verdict import verify
from scheduler.witnesses import Multipliers
from tests.case_counts import examples
from tests.scheduler.verification.forgery import certified, disfigured, is_true
from tests.scheduler.verification.test_rivals import job, minipods
from tests.scheduler.verification.test_verdict import tiny_question
from topology.cluster import Cluster

VERIFIED = "verified: no placement is better"

ANSWERS: dict[str, tuple[Cluster, Job, str]] = {
    "all in one domain": (minipods(6, 3), job(), VERIFIED),
    "spread 1 by counting": (minipods(4, 4), job(rows=4), VERIFIED),
    "coverage": (minipods(3, 3, 3, 3), job(rows=4, columns=3), VERIFIED),
    "TP groups of two nodes": (minipods(4, 4, 4), job(parallelism=Parallelism(tp=16, dp=2, pp=2)), VERIFIED),
    "held beside the tree": (
        minipods(4, 4, power=True),
        job(rows=2, columns=3, holds=(Hold("pp", "@power"),)),
        VERIFIED,
    ),
    "soft beside the tree": (
        minipods(4, 4, power=True),
        job(rows=2, columns=3, counts=(Count("pp", "@power", 1.0),)),
        VERIFIED,
    ),
    "slow nodes as if healthy": (minipods(6, 3, slow=2), job(avoid="ignore"), VERIFIED),
    "slow nodes at a price": (minipods(6, 3, slow=2), job(), VERIFIED),
    "types mixed": (
        minipods(4, 3, kind="AB"),
        job(mix_types=True, speed=(Speed("A", 1.0), Speed("B", 1.0))),
        VERIFIED,
    ),
    "nothing fits": (minipods(2, 2), job(), "verified: there is no placement"),
    "stages that share nodes": (
        minipods(4, 4),
        job(parallelism=Parallelism(tp=4, dp=3, pp=3)),
        "cannot be told: on the nodes of the job it shows no more than the bound 1: "
        "the groups of the job make no grid there",
    ),
    "types mixed, with slow nodes at a price": (
        minipods(4, 3, slow=1, kind="AB"),
        job(rows=2, mix_types=True, speed=(Speed("A", 1.0), Speed("B", 2.0))),
        "cannot be told: on A and B, it shows no more than the bound 1: "
        "the rest was not proved by pairs of spreads alone",
    ),
}
"""Kinds of questions -> cluster, job, and what is said of the certificate of the answer."""


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_kind_of_question_has_a_certificate(kind: str) -> None:
    """What cannot be recounted is said to be so, in words, and is no fault."""
    cluster, asked, sentence = ANSWERS[kind]
    found = verify(certified(cluster, asked), cluster, asked)
    assert found.sentence == sentence
    assert not found.faults


@pytest.mark.parametrize(
    ("number", "kinds"), [(6, {"coverage", "product"}), (31, {"components"}), (89, {"rectangles"})]
)
def test_kinds_of_refutations_as_the_search_makes_them(number: int, kinds: set[str]) -> None:
    """Seeded clusters of the benchmark whose proof needs each kind; recounted without a solver."""
    drawn = draw(number, seed=1)
    cluster, asked = drawn.cluster(), drawn.job()
    found = verify(certified(cluster, asked), cluster, asked)
    assert found.sentence == VERIFIED
    assert kinds <= {pair.by for pair in found.checked}


@given(st.integers(0, 10**9))
@examples(160)
def test_whatever_is_written_is_refused_or_weighed(seed: int) -> None:
    """Odd values anywhere: an error that says what to do, or a verdict to print, verified only if it is so."""
    chance = random.Random(seed)
    cluster, asked = tiny_question(chance)
    data = json_data(Certificate, certified(cluster, asked))
    fixes = []
    for _ in range(8):
        try:
            forged = load_document(Source("proof.json", disfigured(data, chance))).parse(Certificate)
        except InvalidInput as error:
            fixes.append(error.fix)
            continue
        found = verify(forged, cluster, asked)
        assert to_json(found)
        if found.verdict == "verified":
            assert is_true(forged, cluster, asked)
    assert all(fixes)


def with_pair(certificate: Certificate, *pairs: RefutedPair) -> Certificate:
    """The certificate with other refuted pairs."""
    return replace(certificate, parts=(replace(certificate.parts[0], refuted=pairs),))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("dp", 2**31, "less than or equal to 2147483647"),
        ("witness", {"row": 2**60 + 1, "column": 0, "unit": 1}, "less than or equal to 1152921504606846976"),
        ("witness", {"row": 1, "column": 0, "unit": 0}, "greater than or equal to 1"),
    ],
)
def test_numbers_have_bounds(field: str, value: Any, words: str) -> None:
    """So no number of a certificate is too large for what is computed with it."""
    cluster, asked = minipods(4, 3), job()
    data = json_data(Certificate, certified(cluster, asked))
    data["parts"][0]["refuted"] = [{"dp": 1, "pp": 1, "by": "coverage", "witness": None} | {field: value}]
    with pytest.raises(InvalidInput, match=words) as caught:
        load_document(Source("proof.json", json.dumps(data))).parse(Certificate)
    assert caught.value.fix.startswith("correct parts[0].refuted[0]")


HUGE = (
    (CountedGrid(16, 100, (250,) * 20), Spread(2, 5), "components", None),
    (CountedGrid(50, 50, tuple(range(300, 100, -10))), Spread(2, 4), "components", None),
    (CountedGrid(12_500, 8, tuple(range(500, 100, -1))), Spread(4, 4), "rectangles", Multipliers(0, 0, 1)),
    (CountedGrid(1_560, 8, (250,) * 50), Spread(2**31 - 1, 2**31 - 1), "rectangles", Multipliers(0, 0, 1)),
)


@pytest.mark.parametrize(("grid", "pair", "by", "witness"), HUGE)
def test_what_would_take_hours_is_left_open(grid: CountedGrid, pair: Spread, by: str, witness: Multipliers) -> None:
    """Tables of gigabytes, or combinations without end: they are counted first, and then not made."""
    assert recount(grid, pair, by, witness).told == "not told"


def test_thousands_of_refutations_and_parts() -> None:
    """A certificate has so much effort in all, however many pairs and parts it lists."""
    cluster, asked = minipods(4, 3), job()
    certificate = certified(cluster, asked)
    many = with_pair(certificate, *[RefutedPair(2, 2, "rectangles", Multipliers(0, 0, k)) for k in range(1, 2_001)])
    assert verify(many, cluster, asked).verdict == "not verified"
    parts = replace(certificate, parts=certificate.parts * 2_000)
    assert verify(parts, cluster, asked).verdict == "verified"
