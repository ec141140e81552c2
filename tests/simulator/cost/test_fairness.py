"""Max-min fair rates: textbook examples, and the property that defines them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cost.shared_flows import max_min_rates
from tests.case_counts import examples

Uses = list[tuple[int, int, float]]


def rates_of(uses: Uses, capacity: list[float], most: list[float]) -> list[float]:
    """Rates for (link, flow, lanes) triples."""
    links, flows, lanes = (np.array([use[i] for use in uses]) for i in range(3))
    rates = max_min_rates(
        links.astype(np.int32),
        flows.astype(np.int32),
        lanes.astype(float),
        capacity=np.array(capacity),
        most=np.array(most),
    )
    return [float(rate) for rate in rates]


def test_one_link_is_split_evenly() -> None:
    """Three flows on a link of 9: 3 each."""
    assert rates_of([(0, 0, 1), (0, 1, 1), (0, 2, 1)], [9], [100] * 3) == [3, 3, 3]


def test_what_a_flow_cannot_use_goes_to_the_others() -> None:
    """One flow stops at 1, the other two share the remaining 8."""
    assert rates_of([(0, 0, 1), (0, 1, 1), (0, 2, 1)], [9], [1, 100, 100]) == [1, 4, 4]


def test_a_long_flow_is_held_at_its_narrowest_link() -> None:
    """Links of 1 and 2; flow 0 on both, 1 on the first, 2 on the second: 1/2, 1/2, and the rest of the second, 3/2."""
    assert rates_of([(0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 2, 1)], [1, 2], [9] * 3) == [0.5, 0.5, 1.5]


def test_a_chain_of_bottlenecks() -> None:
    """Links of 6, 4 and 10 with flows on (0, 1), (1), (0, 2), (2): 2 and 2 by link 1, then 4 by link 0, then 6."""
    uses: Uses = [(0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 2, 1), (2, 2, 1), (2, 3, 1)]
    assert rates_of(uses, [6, 4, 10], [100] * 4) == [2, 2, 4, 6]


def test_lanes_count() -> None:
    """Three lanes and one on a link of 8: a rate of 2 each, 6 and 2 of the link."""
    assert rates_of([(0, 0, 3), (0, 1, 1)], [8], [100, 100]) == [2, 2]


def test_a_flow_without_a_link_has_all_it_can_use() -> None:
    """Nothing holds it back."""
    assert rates_of([(0, 0, 1)], [8], [100, 7]) == [8, 7]


def test_nobody_asks() -> None:
    """No flows, no rates."""
    assert rates_of([], [8], []) == []


@st.composite
def shared(draw: st.DrawFn) -> tuple[Uses, list[float], list[float]]:
    """Up to six links and eight flows."""
    number = st.floats(0.1, 100)
    capacity = draw(st.lists(number, min_size=1, max_size=6))
    most = draw(st.lists(number, min_size=1, max_size=8))
    pairs = draw(st.sets(st.tuples(st.integers(0, len(capacity) - 1), st.integers(0, len(most) - 1)), max_size=30))
    return [(link, flow, draw(st.floats(0.1, 5))) for link, flow in sorted(pairs)], capacity, most


@examples(150)
@given(case=shared())
def test_every_flow_has_a_bottleneck_and_no_link_is_over_capacity(
    case: tuple[Uses, list[float], list[float]],
) -> None:
    """The definition: each flow has all it can use, or a full link on which no flow has a larger rate."""
    uses, capacity, most = case
    rates = rates_of(uses, capacity, most)
    load = [sum(lanes * rates[flow] for at, flow, lanes in uses if at == link) for link in range(len(capacity))]
    assert all(load[link] <= capacity[link] * (1 + 1e-6) for link in range(len(capacity)))
    for flow, rate in enumerate(rates):
        own = [link for link, of, _ in uses if of == flow]
        bottlenecks = [
            link
            for link in own
            if load[link] >= capacity[link] * (1 - 1e-6)
            and all(rates[other] <= rate * (1 + 1e-6) for at, other, _ in uses if at == link)
        ]
        assert bottlenecks or rate == pytest.approx(most[flow])
        assert 0 < rate <= most[flow]
