"""Waiting for nodes with spares: Erlang by hand, the Markov chain with domains against all its states and by chance."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.quantities import DAY
from simulator.failures.ettr import (
    DomainFailures,
    Floats,
    Losses,
    Outages,
    best_interval,
    erlang_b,
    exact_ettr,
    exponential,
    simulate_ettr,
    waiting_shares,
)
from tests.case_counts import examples

SINGLE = (1, 1200 * 6.5e-3 / DAY, DAY)
"""Nodes, failures per second and mean repair of single nodes: 1,200 at the rate of RSC-1, 7.8 away."""
LEAF, FEED = (4, 0.6 / DAY, 0.5 * DAY), (32, 0.076 / DAY, 0.25 * DAY)


def outages(nodes: int, failures: float, repair: float) -> Outages:
    """One kind of failure at one point."""
    return Outages(nodes, np.array([failures]), np.array([repair]))


def share(spares: int, single: tuple[int, float, float], *domains: tuple[int, float, float]) -> float:
    """The share of time a job waits."""
    return float(waiting_shares([spares], outages(*single), [outages(*one) for one in domains])[0, 0])


@pytest.mark.parametrize(
    ("spares", "load", "blocked"),
    # Erlang B by hand: B(1, a) = a / (1 + a); B(2, a) = (a^2 / 2) / (1 + a + a^2 / 2).
    [(0, 1.0, 1 / 2), (0, 3.0, 3 / 4), (1, 1.0, 1 / 5), (1, 2.0, 2 / 5), (5, 0.0, 0.0)],
)
def test_erlang_by_hand(spares: int, load: float, blocked: float) -> None:
    """Small cases of the loss formula."""
    assert [*erlang_b(spares, np.array([load]))][spares] == pytest.approx(blocked)
    assert share(spares, (1, load, 1.0)) == pytest.approx(blocked)


def test_shares_of_the_numbers_that_are_asked() -> None:
    """Ten thousand nodes away at 500 points, five numbers of spares: what lies between them is not kept.

    All numbers would be 80 MB; the peak is below 2 MB.
    """
    numbers, load = [0, 5_000, 9_900, 10_000, 20_000], np.full(500, 10_000.0)
    tracemalloc.start()
    found = waiting_shares(numbers, Outages(1, load, np.ones(500)), ())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (500, 5)
    assert peak < 2e6
    # B(S + 1, a) tends to 1 - (S + 1) / a where a is far above S
    assert found[0, 1] == pytest.approx(0.5, abs=0.001)
    assert found[0, 4] < 1e-6


def by_states(spares: int, single: tuple[int, float, float], domains: Sequence[tuple[int, float, float]]) -> float:
    """The same Markov chain with a row for each state, up to three domains of a kind away."""
    kinds = [single, *domains]
    states = [(i, *more) for i in range(spares + 2) for more in product(range(4), repeat=len(domains))]
    away = [sum(k * kind[0] for k, kind in zip(state, kinds, strict=True)) for state in states]
    rates: Floats = np.zeros((len(states), len(states)))
    for at, state in enumerate(states):
        for i, (_, failures, repair) in enumerate(kinds):
            for other, rate in ((1, failures if away[at] <= spares else 0.0), (-1, state[i] / repair)):
                moved = (*state[:i], state[i] + other, *state[i + 1 :])
                if moved in states:
                    rates[at, states.index(moved)] += rate
                    rates[at, at] -= rate
    balance = rates.T.copy()
    balance[-1] = 1.0
    found = np.linalg.solve(balance, np.eye(len(states))[-1])
    return float(sum(p for p, gone in zip(found, away, strict=True) if gone > spares))


@pytest.mark.parametrize("spares", [0, 3, 8])
def test_domains_as_a_chain_of_states(spares: int) -> None:
    """Level by level or all states at once; up to what a fourth domain away at once adds (leaf: 0.3^4 / 4! = 3e-4)."""
    assert share(spares, SINGLE, LEAF, FEED) == pytest.approx(by_states(spares, SINGLE, [LEAF, FEED]), abs=5e-4)
    assert share(spares, SINGLE, FEED) == pytest.approx(by_states(spares, SINGLE, [FEED]), abs=1e-6)


@pytest.mark.parametrize("spares", [8, 20])
def test_domains_by_monte_carlo(spares: int) -> None:
    """Two years of failures of nodes, leaves and feeds: the same waits and ETTR within three times the interval."""
    kinds = (SINGLE, LEAF, FEED)
    total = sum(rate for _, rate, _ in kinds)
    losses = Losses(total, 300.0, 10.0, best_interval(total, 10.0))
    domains = [DomainFailures(rate / total, nodes, exponential(repair)) for nodes, rate, repair in (LEAF, FEED)]
    found = simulate_ettr(
        losses, span=90 * DAY, runs=8, seed=2, spares=spares, repair=exponential(DAY), domains=domains
    )
    waits = share(spares, *kinds)
    assert found.waiting == pytest.approx(waits, abs=0.02)
    assert abs(found.mean - exact_ettr(losses) * (1.0 - waits)) < 3 * found.half_width


@examples(20)
@given(
    load=st.floats(0.0, 20.0),
    nodes=st.integers(1, 12),
    often=st.floats(0.0, 0.5),
    hours=st.floats(0.5, 100.0),
    spares=st.integers(0, 15),
)
def test_domains_only_add(load: float, nodes: int, often: float, hours: float, spares: int) -> None:
    """A kind that never fails changes nothing; any other makes the job wait longer; a further spare never does."""
    single, kind = (1, load / DAY, DAY), (nodes, often / DAY, hours * 3600.0)
    alone = share(spares, single)
    assert share(spares, single, (nodes, 0.0, DAY)) == pytest.approx(alone, abs=1e-9)
    assert share(spares, single, kind) >= alone - 1e-9
    assert share(spares + 1, single, kind) <= share(spares, single, kind) + 1e-9


def test_domains_of_one_node_are_nodes() -> None:
    """Two kinds of single nodes with the same repair are one kind with both rates."""
    two = share(5, (1, 2.0 / DAY, DAY), (1, 1.0 / DAY, DAY))
    assert two == pytest.approx(share(5, (1, 3.0 / DAY, DAY)), abs=1e-6)
