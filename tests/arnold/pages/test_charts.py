"""The kit of all charts: round numbers on axes, values where they belong, gaps where there are none."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.pages.charts import (
    MARGINS,
    ChartRow,
    Scale,
    axis_range,
    cells_between,
    line_chart,
    log_range,
    log_ticks,
    plot_of,
    round_step,
    round_ticks,
    row_chart,
)
from ground.quantities import Kind
from simulator.sheet import Chart, Series
from tests.case_counts import examples
from tests.markup import tags
from topology.drawing.layout import text_width
from topology.drawing.page_kit import area, path, rect

KINDS: tuple[Kind, ...] = ("share", "count", "seconds")


@examples(60)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_inside(low: float, span: float) -> None:
    """At most one more than steps were asked for, evenly spaced, none outside."""
    high = low + span
    ticks = [value for value, _ in round_ticks(low, high, most=6)]
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-6 * span <= tick <= high + 1e-6 * span for tick in ticks)
    gaps = [b - a for a, b in pairwise(ticks)]
    assert all(gap == pytest.approx(gaps[0], rel=1e-3) for gap in gaps)


def test_steps_of_time_are_those_of_clocks() -> None:
    """Seconds to days; below a second and beyond fifty days decimal ones."""
    assert [round_step(least, "seconds") for least in (0.3, 0.7, 3, 25, 100, 1000)] == [0.5, 1, 5, 30, 120, 1200]
    assert [round_step(hours * 3600, "seconds") / 3600 for hours in (0.6, 4, 9, 20)] == [1, 6, 12, 24]
    assert [round_step(days * 86_400, "seconds") / 86_400 for days in (3, 60, 700)] == [5, 100, 1000]
    assert [words for _, words in round_ticks(0.0, 7200.0, most=4, kind="seconds")] == [
        "0",
        "30 min",
        "1 h",
        "1.5 h",
        "2 h",
    ]


@given(st.lists(st.floats(0.0, 1e7), max_size=5), st.sampled_from(KINDS))
def test_an_axis_holds_all_values(values: list[float], kind: Kind) -> None:
    """It begins at 0 and ends on a tick that no value exceeds; shares end at 1."""
    shares = [value / 1e7 for value in values] if kind == "share" else values
    low, high = axis_range(shares, kind, most=4)
    assert low == 0.0
    assert high > 0.0
    assert high * (1 + 1e-6) >= max(shares, default=0.0)
    if kind == "share":
        assert high <= 1.0
    *_, (last, _) = round_ticks(low, high, most=4, kind=kind)
    assert last == pytest.approx(high)


def test_an_axis_without_values_has_some_length() -> None:
    """Nothing, zero, or one value, from above or below: the ends differ."""
    for values in ([], [0.0], [5.0]):
        for floor_at in (0.0, None):
            low, high = axis_range(values, "count", most=4, floor_at=floor_at)
            assert low < high
    assert axis_range([0.2], "share", most=4, ceiling=1.0) == (0.0, 1.0)


@given(st.floats(-10.0, 110.0))
def test_values_beyond_an_axis_stand_at_its_end(value: float) -> None:
    """From 0..100 to 10..210 pixels, two for each."""
    assert Scale((0.0, 100.0), (10.0, 210.0))(value) == pytest.approx(10.0 + 2.0 * min(max(value, 0.0), 100.0))
    assert math.isnan(Scale((0.0, 100.0), (10.0, 210.0))(math.nan))


def test_equal_ratios_are_equally_long() -> None:
    """1, 10 and 100 on a logarithmic axis; its numbers keep apart; it ends on the next that people know."""
    scale = Scale((1.0, 100.0), (0.0, 200.0), logarithmic=True)
    assert [scale(value) for value in (0.1, 1.0, 10.0, 100.0)] == pytest.approx([0.0, 0.0, 100.0, 200.0])
    ticks = [value for value, _ in log_ticks(scale, apart=30.0)]
    assert ticks == [1, 2, 4, 8, 16, 32, 64]  # doubling is 200 * log(2) / log(100) = 30.1 pixels
    assert log_range([7000.0, 20.0], "seconds", least=1.0) == (1.0, 86_400)
    assert log_range([], "seconds", least=1.0) == (1.0, 60)


@given(st.floats(0.5, 80.0), st.floats(5.0, 60.0))
def test_numbers_of_cells_have_room(pitch: float, room: float) -> None:
    """From one number to the next there is as much room as it takes."""
    assert cells_between(pitch, room) * pitch >= room * (1 - 1e-6)


def test_a_path_says_no_more_than_it_must() -> None:
    """Level stretches become one, NaN interrupts, and an area closes around what both borders have."""
    assert 'd="M0 1H2V3L4 5"' in path([(0, 1), (1, 1), (2, 1), (2, 3), (4, 5)], "line")
    assert 'd="M0 1M2 1"' in path([(0, 1), (1, math.nan), (2, 1)], "line")
    upper, lower = [(0.0, 1.0), (1.0, math.nan), (2.0, 2.0), (3.0, 2.0)], [(float(x), 5.0) for x in range(4)]
    assert 'd="M0 1L0 5ZM2 2H3L3 5H2Z"' in area(upper, lower, "band")


def test_attributes_are_escaped_and_left_out() -> None:
    """A tip may hold anything; what is None or False is not there."""
    drawn = rect(1.234, 2, 3, 4, "w", tip='<b> "x"', rx=None, hidden=True, data_ring=0)
    assert drawn == (
        '<rect class="w" x="1.23" y="2" width="3" height="4" hidden data-ring="0" data-tip="&lt;b&gt; &quot;x&quot;"/>'
    )


def test_dots_carry_their_words_and_errors() -> None:
    """A dot for each value that there is, with its tooltip; an error bar where the error is not zero."""
    points = [(0.0, 1.0), (1.0, None), (2.0, 3.0)]
    line = Series("a", points, colour=1, errors=[0.5, 0.0, 0.0], tips=["one", "two", "three"])
    drawn = line_chart(Chart("t", "x", "y", [line], floor=0.0, lines=[(1.0, "here")]))
    found = tags(drawn)
    assert [attrs["data-tip"] for tag, attrs in found if tag == "circle"] == ["one", "three"]
    assert sum(attrs.get("class") == "stem l1" for _, attrs in found) == 1
    assert {"x", "y", "here"} <= set(re.findall(r">([^<]+)</text>", drawn))


def test_words_of_a_mark_stay_beside_the_numbers() -> None:
    """Words of a mark at the left border begin there, not on the numbers of the upright axis."""
    line = Series("a", [(0.0, 1.0), (50.0, 2.0)])
    chart = Chart("t", "x", "y", [line], floor=0.0, lines=[(0.0, "the least mean cost")])
    plot = plot_of(chart)
    [words] = [float(x) for x in re.findall(r'<text[^>]* x="([\d.]+)"[^>]*>the least mean cost<', line_chart(chart))]
    assert words - text_width("the least mean cost", 12.0) / 2 == pytest.approx(plot.left, abs=0.01)


def test_a_band_is_on_the_axis_too() -> None:
    """The axis holds the upper end of the band, 70, not only the line at 10."""
    line = Series("a", [(0.0, 10.0), (1.0, None)], shape="step", band=([5.0], [70.0]))
    assert plot_of(Chart("t", "", "", [line], floor=0.0, key="k")).upward == (0.0, 80.0)


def test_rows_stand_on_one_axis() -> None:
    """Lengths are in proportion: a mean of 2 lies twice as far from the border as one of 1; long names are cut."""
    rows = [ChartRow(name, "l0", mean, (0.0, 4.0), "tip") for name, mean in (("a", 1.0), ("b" * 80, 2.0))]
    found = tags(row_chart(rows, name="range", title="t", kind="count"))
    one, other = [float(str(attrs["cx"])) for tag, attrs in found if tag == "circle"]
    assert other - MARGINS[0] == pytest.approx(2 * (one - MARGINS[0]), abs=0.02)
    assert sum(attrs.get("data-tip") == "tip" for _, attrs in found) == 2


@pytest.mark.parametrize(("last", "texts"), [(4, ["1", "2", "3", "4"]), (3.5, ["1", "1.5", "2", "2.5", "3", "3.5"])])
def test_there_is_no_half_of_what_is_counted_along_an_axis(last: float, texts: list[str]) -> None:
    """Four minipods have the numbers 1 to 4; of what was measured at 3.5 halves are told."""
    points = [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75), (last, 0.75)]
    drawn = line_chart(Chart("t", "minipods", "free", [Series("free", points)], floor=0.0, kind="share"))
    assert re.findall(r">([\d.]+)</text>", drawn) == texts
