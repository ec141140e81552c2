"""Charts and pages of capacity answers: round axes, self-contained, nothing of the user's taken for markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from math import inf, log

import pytest

from arnold.pages.capacity_page import answer_page, picture, tornado_picture
from arnold.pages.charts import plot_of
from simulator.capacity.question import AnswerFigure, CapacityAnswer, InputPoints, given_input, seed_input
from simulator.sheet import Chart, Series, Sheet, TextTable

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
    kind="share",
)

SHEET = Sheet([TextTable("A table", ("name", "value"), [(NAME, "1")])], [CHART])
ANSWER = CapacityAnswer(
    question=f"Is it so, {NAME}?",
    verdict="It is so.",
    ranges=(
        InputPoints((given_input("1..8", "rate", f"rate {NAME}", where="--rate"), seed_input()), 32, 0).range_over(
            f"spares {NAME}",
            lambda values: inf if values["rate"] > 9.0 else 10.0 - values["rate"] + 0.1 * (values["seed"] > 2**30),
        ),
    ),
    assumptions=("One thing.",),
    changes=("Another thing.",),
)


def test_a_picture_is_svg_that_stands_alone() -> None:
    """It parses, names its series, breaks the line where there is no value, and asks for nothing from outside."""
    drawn = picture(CHART)
    root = ET.fromstring(drawn)
    words = [text for element in root.iter() if element.tag.endswith("text") and (text := element.text)]
    assert {f"Chart {NAME}", NAME, "steps", "target", "ETTR", "spares", "here", "100%"} <= set(words)
    # Two points with a gap between them are two moves of one path; steps and dashes have one path each, dots none.
    ways = [str(element.get("d")) for element in root.iter() if element.tag.endswith("path")]
    assert [way.count("M") for way in ways] == [2, 1, 1]
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    assert picture(CHART) == drawn


def test_a_tornado_has_a_bar_for_each_input() -> None:
    """The answer falls as the rate rises: its P90 stands at the left of its bar; two halves a bar, one dot for P50."""
    drawn = tornado_picture(ANSWER.ranges[0])
    root = ET.fromstring(drawn)
    bars = [element for element in root.iter() if element.get("class", "").startswith("span")]
    assert len(bars) == 4
    words = {element.text: float(element.get("x", "nan")) for element in root.iter() if element.tag.endswith("text")}
    assert words["8"] < words["1"]
    assert sum(element.get("class") == "spot l0" for element in root.iter()) == 1


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_words_of_a_bar_to_one_side(way: float) -> None:
    """An answer that goes the same way at P10 and at P90: both values stand beside the bar, and none on it."""
    points = InputPoints((given_input("0.5..3", "rate", "rate", where=""),), 20, 0)
    bent = points.range_over("cost", lambda at: way * abs(log(at["rate"])))
    root = ET.fromstring(tornado_picture(bent))
    bars = [element for element in root.iter() if element.get("class", "").startswith("span")]
    begin = min(float(bar.get("x", "nan")) for bar in bars)
    end = max(float(bar.get("x", "nan")) + float(bar.get("width", "nan")) for bar in bars)
    (x,) = [float(element.get("x", "nan")) for element in root.iter() if element.text == "0.5, 3"]
    assert x > end if way > 0.0 else x < begin


def test_the_page_stands_alone() -> None:
    """No address, no unescaped name, assumptions and tables in it, and a policy that forbids fetching."""
    page = answer_page(SHEET, ANSWER)
    assert "default-src" in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert NAME not in page
    assert "&lt;script&gt;" in page
    assert "One thing." in page
    assert "Another thing." in page
    assert re.search(r"<t[hd][^>]*>1</t[hd]>", page)


def test_a_table_without_rows_has_its_headers() -> None:
    """As that of jobs of several sizes has none where less than one job is free."""
    page = answer_page(Sheet([TextTable("Nothing fits", ("shape", "nodes"), [])], [CHART]), ANSWER)
    assert "Nothing fits" in page


@pytest.mark.parametrize("points", [[], [(1.0, 5.0)], [(1.0, None)], [(0.0, 2.0), (9.0, 2.0)]])
def test_charts_of_next_to_nothing(points: list[tuple[float, float | None]]) -> None:
    """No point, a single one, equal ones: axes of some length all the same."""
    chart = Chart("t", "x", "y", [Series("s", points)])
    plot = plot_of(chart)
    assert plot.across[0] < plot.across[1]
    assert plot.upward[0] < plot.upward[1]
    ET.fromstring(picture(chart))


@pytest.mark.parametrize(("ranged", "tiles"), [(False, 2), (True, 1)])
def test_the_answer_is_the_first_tile(ranged: bool, tiles: int) -> None:
    """It stands before the ranges; a range of the same number is not told twice."""
    figure = AnswerFigure("29", "spares to keep", "18 to 50 within 1%", ranged=ranged)
    page = answer_page(SHEET, replace(ANSWER, figure=figure))
    found = re.findall(r'data-fact="\d+"><dd><span>([^<]*)</span>', page)
    assert (found[0], len(found)) == ("29", tiles)
