"""Student's t: the quantiles of every table, and an interval by hand."""

from __future__ import annotations

import pytest

from simulator.confidence import half_width, quantile


@pytest.mark.parametrize(
    ("degrees", "value"),
    # 97.5 % quantiles as every table of the t distribution has them.
    [(1, 12.706), (2, 4.303), (4, 2.776), (5, 2.571), (6, 2.447), (9, 2.262), (19, 2.093), (29, 2.045), (99, 1.984)],
)
def test_quantiles(degrees: int, value: float) -> None:
    """To three digits."""
    assert quantile(degrees) == pytest.approx(value, abs=2e-3)


def test_by_hand() -> None:
    """1, 2, 3: standard deviation 1, over the root of 3, times 4.303."""
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5)
    assert half_width([1.0]) == 0.0
