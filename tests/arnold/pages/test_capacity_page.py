"""Charts and pages of capacity answers: round axes, self-contained, nothing of the user's taken for markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arnold.pages.capacity import capacity_page, picture
from arnold.pages.capacity.axes import axes_of, round_ticks
from simulator.capacity.sheet import Chart, Series, Sheet, Table

NAME = '<script>"&'

CHART = Chart(
    title=f"Chart {NAME}",
    x_label="spares",
    y_label="ETTR",
    series=(
        Series(NAME, [(0.0, 0.2), (1.0, None), (2.0, 0.9)], errors=[0.1, 0.0, 0.05]),
        Series("steps", [(0.0, 0.1), (2.0, 0.5)], shape="step"),
        Series("dots", [(0.0, 0.4)], shape="dots"),
        Series("target", [(0.0, 0.8), (2.0, 0.8)], shape="dashes"),
    ),
    ceiling=1.0,
    lines=((1.0, "here"),),
    percent=True,
)

SHEET = Sheet(NAME, "It is so.", [Table("A table", ("name", "value"), [(NAME, "1")])], [CHART], ["One thing."])


def test_a_picture_is_svg_that_stands_alone() -> None:
    """It parses, names its series, breaks the line where there is no value, and asks for nothing from outside."""
    drawn = picture(CHART)
    root = ET.fromstring(drawn)
    words = [text for element in root.iter() if element.tag.endswith("text") and (text := element.text)]
    assert {f"Chart {NAME}", NAME, "steps", "target", "ETTR", "spares", "here", "100 %"} <= set(words)
    # Two points with a gap between them make two paths of one point each; steps and dashes one path each.
    assert sum(element.tag.endswith("path") for element in root.iter()) == 4
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    assert picture(CHART) == drawn


def test_the_page_stands_alone() -> None:
    """No address, no unescaped name, assumptions and tables in it, and a policy that forbids fetching."""
    page = capacity_page(SHEET)
    assert "default-src" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert NAME not in page
    assert "&lt;script&gt;" in page
    assert "One thing." in page
    assert "<td>1</td>" in page


@settings(max_examples=60)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_inside(low: float, span: float) -> None:
    """At most seven, evenly spaced, none outside."""
    high = low + span
    ticks = round_ticks(low, high)
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-6 * span <= tick <= high + 1e-6 * span for tick in ticks)
    gaps = [b - a for a, b in pairwise(ticks)]
    assert all(gap == pytest.approx(gaps[0], rel=1e-3) for gap in gaps)


@pytest.mark.parametrize("points", [[], [(1.0, 5.0)], [(1.0, None)], [(0.0, 2.0), (9.0, 2.0)]])
def test_charts_of_next_to_nothing(points: list[tuple[float, float | None]]) -> None:
    """No point, a single one, equal ones: axes of some length all the same."""
    chart = Chart("t", "x", "y", [Series("s", points)])
    axes = axes_of(chart)
    assert axes.x[0] < axes.x[1]
    assert axes.y[0] < axes.y[1]
    ET.fromstring(picture(chart))
