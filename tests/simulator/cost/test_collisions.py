"""Flows that are hashed on the same links: against every hash there is, a closed form, and what was published."""

from __future__ import annotations

from itertools import product
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cost.calibration import PUBLISHED
from simulator.cost.models import Hashing, hashing_of, slowest_flow
from tests.case_counts import examples


def by_every_hash(flows: int, links: int, sub_flows: int) -> tuple[float, float]:
    """The mean and the standard deviation over all hashes of by what the slowest flow is slowed."""
    found = []
    for hashes in product(range(links), repeat=flows * sub_flows):
        load = [hashes.count(link) / sub_flows for link in range(links)]
        each = [hashes[i * sub_flows : (i + 1) * sub_flows] for i in range(flows)]
        found.append(max(1.0, *(sum(load[link] for link in own) / sub_flows for own in each)))
    return float(np.mean(found)), float(np.std(found))


@pytest.mark.parametrize(("flows", "links", "sub_flows"), [(2, 3, 1), (5, 4, 1), (2, 4, 2), (3, 3, 2), (2, 2, 5)])
def test_against_every_hash(flows: int, links: int, sub_flows: int) -> None:
    """Few enough to write down all; the mean over draws lies within four standard errors of the mean over them."""
    draws = 20_000
    mean, deviation = by_every_hash(flows, links, sub_flows)
    (found,) = slowest_flow([flows], links=links, sub_flows=sub_flows, draws=draws)
    assert abs(found - mean) <= 4 * deviation / draws**0.5 + 1e-12


def test_two_flows_collide_once_in_as_many_times_as_there_are_links() -> None:
    """Twice as slow with chance 1/k: 1 + 1/32."""
    (found,) = slowest_flow([2], links=32, sub_flows=1, draws=200_000)
    assert found == pytest.approx(1 + 1 / 32, abs=4 * (1 / 32 / 200_000) ** 0.5)


def test_single_sends_follow_the_fullest_of_random_bins() -> None:
    """E[max] of 32 balls in 32 bins from the exact distribution: ways to throw them with no more than c in a bin."""
    ways = np.zeros((33, 33), dtype=object)  # [c, balls thrown], of the bins so far
    expected = 32.0
    for most in range(33):
        ways = [1] + [0] * 32
        for _ in range(32):
            ways = [sum(ways[n - j] * comb(32 - n + j, j) for j in range(min(most, n) + 1)) for n in range(33)]
        expected -= ways[32] / 32**32 if most < 32 else 0.0
    assert expected == pytest.approx(3.53, abs=0.01)
    assert float(Hashing(32, 1).slowdown(1.0)) == pytest.approx(expected, rel=0.01)


def test_the_published_losses_without_a_fitted_number() -> None:
    """32 ports up and down: sends lose 72 %, collectives of 16 channels 16 %; published are up to 70 % and 17 %."""
    collectives, sends = hashing_of(PUBLISHED)
    assert 1 - 1 / float(sends.slowdown(1.0)) == pytest.approx(0.717, abs=0.005)
    assert 1 - 1 / float(collectives.slowdown(1.0)) == pytest.approx(0.157, abs=0.005)


def test_few_flows_of_many_parts_lose_nothing() -> None:
    """The eight GPUs of a node under a switch of 32 links: sends lose 40 %, collectives nothing."""
    collectives, sends = hashing_of(PUBLISHED)
    assert 1 - 1 / float(sends.slowdown(8 / 32)) == pytest.approx(0.40, abs=0.01)
    assert float(collectives.slowdown(8 / 32)) == pytest.approx(1.0, abs=0.001)


@pytest.mark.parametrize("sub_flows", [1, 4, 16, inf])
@given(loads=st.tuples(st.floats(0, 2000), st.floats(0, 2000)))
@examples(40)
def test_more_flows_are_never_faster(sub_flows: float, loads: tuple[float, float]) -> None:
    """Never below their even share of the links, and never less with more of them."""
    low, high = Hashing(32, sub_flows).slowdown(np.sort(loads))
    assert max(1.0, min(loads)) <= low + 1e-9
    assert max(1.0, *loads) <= high + 1e-9
    assert low <= high


def test_packets_that_are_spread_evenly_collide_nowhere() -> None:
    """Infinitely many sub-flows: half as many flows as links lose nothing, twice as many share them."""
    assert Hashing(32, inf).slowdown(np.array([0.5, 1.0, 2.0])).tolist() == [1.0, 1.0, 2.0]
