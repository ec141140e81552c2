"""Growth: what users write, and when demand reaches a load."""

from __future__ import annotations

from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from simulator.capacity.grow import FARTHEST, growth_input, quarters_until
from tests.case_counts import examples


@examples(30)
@given(quarters=st.floats(0.0, FARTHEST - 0.1), growth=st.floats(0.01, 1.0))
def test_demand_reaches_a_load(quarters: float, growth: float) -> None:
    """Demand that has grown for some quarters is what it was to reach then."""
    assert quarters_until(0.5 * (1.0 + growth) ** quarters, today=0.5, growth=growth) == pytest.approx(quarters)


def test_by_hand() -> None:
    """Doubling from 0.2 to 0.8 takes two quarters; what is reached takes none; what shrinks or is too far, no end."""
    assert quarters_until(0.8, today=0.2, growth=1.0) == 2.0
    assert quarters_until(0.8, today=0.9, growth=-0.5) == 0.0
    assert quarters_until(0.8, today=0.7, growth=0.0) == quarters_until(0.8, today=0.7, growth=-0.1) == inf
    # ln 2 / ln 1.01 = 69.7 quarters
    assert quarters_until(0.8, today=0.4, growth=0.01) == inf


def test_growth_as_users_write_it() -> None:
    """A number is certain; of a range 1 + growth has its ends at P10 and P90 and the geometric mean at the median."""
    one = growth_input("-0.1..0.21")
    assert [one.quantile(u) for u in (0.1, 0.5, 0.9)] == pytest.approx([-0.1, sqrt(0.9 * 1.21) - 1.0, 0.21])
    assert growth_input("0.08").certain
    assert growth_input(" 0 ").quantile(0.3) == 0.0


@pytest.mark.parametrize("text", ["", "fast", "-1", "-1..0", "-3", "0.2..0.1", "0.1..", "101", "nan", "8%", "0.1...2"])
def test_no_growth(text: str) -> None:
    """Nothing, words, all of the demand gone, a range upside down: refused, with an example."""
    with pytest.raises(InvalidInput, match="growth") as caught:
        growth_input(text)
    assert (caught.value.where, "0.05..0.12" in caught.value.fix) == ("--growth", True)
