"""Prices by hand: an hour of a node that is rented or bought, and prices that contradict each other."""

from __future__ import annotations

import pytest

from ground.errors import InvalidInput
from simulator.capacity.hardware_prices import HardwarePrices


def test_an_hour_of_a_node() -> None:
    """Rented: 8 GPUs at 2.5.  Bought: 280,512 over 4 years of 8,766 h is 8 an hour, and 10 kW at 0.1 add 1."""
    assert HardwarePrices(price_gpu_hour=2.5).node_hour(8) == 20.0
    assert HardwarePrices(price_node=280_512.0).node_hour(8) == pytest.approx(8.0)
    assert HardwarePrices(price_node=280_512.0, price_kwh=0.1, node_kilowatts=10.0).node_hour(8) == pytest.approx(9.0)
    assert HardwarePrices(price_switch_port=1000.0).node_hour(8) is None
    assert HardwarePrices(years=1.0).an_hour(8_766.0) == 1.0


@pytest.mark.parametrize(
    "prices",
    [
        {"price_gpu_hour": 2.0, "price_node": 3e5},
        {"price_gpu_hour": 2.0, "price_kwh": 0.1},
        {"price_kwh": 0.1},
        {"years": 5.0},
        {"price_gpu_hour": 2.0, "years": 5.0},
        {"price_node": 3e5, "node_kilowatts": 9.0},
    ],
)
def test_prices_that_contradict(prices: dict[str, float]) -> None:
    """A GPU-hour holds node and energy; energy alone is no node; years are of what is bought, kilowatts of energy."""
    with pytest.raises(InvalidInput, match=r"holds|part|means nothing"):
        HardwarePrices(**prices).check_prices()
