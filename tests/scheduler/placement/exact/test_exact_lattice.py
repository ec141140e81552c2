"""What is known of the pairs: whatever is refuted and built in whatever order, the bound and the front stay true."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.lattice import Lattice, pair_cost, pair_order
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair, corners
from tests.case_counts import examples
from tests.facts import saying
from topology.cluster import IntArray

PROBLEM = GridProblem(4, 4, (16,) * 16)
"""Room for a placement with any S and R up to 4."""

PAIRS = list(product(range(1, 5), repeat=2))


def placement(pair: Pair) -> IntArray:
    """Cells in S x R boxes, each in a domain of its own."""
    row, column = np.indices((4, 4))
    return np.asarray((row * pair[0] // 4) * pair[1] + column * pair[1] // 4, dtype=np.int32)


def lattice(alpha: float) -> Lattice:
    """Nothing known but one placement."""
    start = Lattice(PROBLEM, alpha, 1 - alpha)
    start.build(placement((4, 4)), "start")
    return start


@given(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]), st.lists(st.sampled_from(PAIRS)), st.randoms(use_true_random=False))
@examples(300)
def test_bound_and_front_are_true_whatever_is_known(alpha: float, least: list[Pair], chance: Random) -> None:
    """Any set of feasible pairs that is closed upwards may be the truth; a search learns some of it in any order."""
    feasible = {(s, r) for s, r in PAIRS if (s, r) == (4, 4) or any(s >= a and r >= b for a, b in least)}
    known = lattice(alpha)
    for pair in chance.sample(PAIRS, chance.randrange(len(PAIRS) + 1)):
        if pair in feasible:
            assert known.build(placement(pair), "test") == pair
        else:
            known.refute(pair, "test", "why")
    optimum = min(known.cost(pair) for pair in feasible)
    assert known.bound() <= optimum + 1e-9
    assert known.cost(known.best) >= optimum - 1e-9
    assert not known.proved or known.cost(known.best) == pytest.approx(optimum)
    for point in known.pareto():
        better = {(s, r) for s, r in feasible if s <= point.dp and r <= point.pp} - {(point.dp, point.pp)}
        assert not (point.proved and better)
    for pair in PAIRS:
        assert not (known.is_refuted(pair) and pair in feasible)
        assert not (known.is_built(pair) and pair not in feasible)


@given(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]), st.lists(st.sampled_from(PAIRS)))
@examples(100)
def test_everything_known_is_proved(alpha: float, least: list[Pair]) -> None:
    """When every pair is decided the best is optimal and every corner of the front is proved."""
    feasible = {(s, r) for s, r in PAIRS if (s, r) == (4, 4) or any(s >= a and r >= b for a, b in least)}
    known = lattice(alpha)
    for pair in PAIRS:
        if pair in feasible:
            known.build(placement(pair), "test")
        else:
            known.refute(pair, "test", "why")
    assert known.undecided() == []
    assert known.proved
    assert known.bound() == known.cost(known.best) == pytest.approx(min(known.cost(pair) for pair in feasible))
    corners = {p for p in feasible if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in feasible)}
    assert {(point.dp, point.pp) for point in known.pareto()} == corners
    assert all(point.proved for point in known.pareto())


def test_the_cheapest_open_pair_is_the_bound() -> None:
    """Built (2, 2) at 2.0; (1, 2) and (2, 1) cost 1.5; (1, 1), at 1.0, is refuted, and so bounds nothing."""
    known = lattice(0.5)
    known.build(placement((2, 2)), "test")
    assert known.bound() == 1.0
    known.refute((1, 1), "test", "why")
    assert known.bound() == 1.5
    assert known.open() == [(1, 2), (2, 1)]
    assert not known.proved


def test_a_refutation_says_who_and_why_once() -> None:
    """What is refuted already is not noted again; spread 0 does not exist."""
    known = lattice(0.5)
    known.refute((2, 2), "rectangles", "too few cells")
    known.refute((1, 2), "edges", "no whole column")
    known.refute((0, 3), "product", "nonsense")
    assert [(r.pair, r.by, r.sentence) for r in known.refutations] == [((2, 2), "rectangles", "too few cells")]


def test_of_equal_pairs_the_more_even_one_is_best() -> None:
    """At alpha 0.5 (1, 3), (2, 2) and (3, 1) all cost 2; with alpha 0 less S breaks the tie of (2, 1) and (3, 1)."""
    known = lattice(0.5)
    for pair in [(3, 1), (1, 3), (2, 2)]:
        known.build(placement(pair), "test")
    assert known.best == (2, 2)
    idle = lattice(0.0)
    for pair in [(3, 1), (2, 1)]:
        idle.build(placement(pair), "test")
    assert idle.best == (2, 1)


def test_a_placement_that_does_not_fit_is_a_fault() -> None:
    """What a construction claims is checked."""
    known = Lattice(GridProblem(2, 2, (3, 1)), 0.5, 0.5)
    with pytest.raises(AssertionError, match=saying("a bad maker")):
        known.build(np.zeros((2, 2), dtype=np.int32), "a bad maker")


@given(st.sampled_from([0.0, 0.3, 1.0]), st.lists(st.tuples(st.sampled_from(PAIRS), st.booleans()), max_size=8))
@examples(300)
def test_what_is_open_is_neither_refuted_nor_built(alpha: float, learnt: list[tuple[Pair, bool]]) -> None:
    """Pair by pair, as the words say; and those that would cost less than the best one."""
    known = lattice(alpha)
    for pair, refuted in learnt:
        if refuted:
            known.refute(pair, "test", "why")
        else:
            known.build(placement(pair), "test")
    left = [pair for pair in PAIRS if not known.is_refuted(pair) and not known.is_built(pair)]
    assert sorted(known.undecided()) == left
    most = pair_cost(known.best, alpha) - 1e-9
    assert sorted(known.open()) == [pair for pair in left if pair_cost(pair, alpha) < most]
    assert known.open() == sorted(known.open(), key=lambda pair: pair_order(pair, alpha))
    assert known.most_refuted == [max(r * known.is_refuted((s, r)) for r in range(1, 5)) for s in range(1, 5)]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9))))
@examples(200)
def test_corners_are_what_nothing_is_as_good_as(pairs: list[Pair]) -> None:
    """The definition, pair by pair: of those given, once each, all that no other one is as small as in both."""
    known = set(pairs)
    kept = [p for p in known if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in known)]
    assert corners(pairs) == sorted(kept)
