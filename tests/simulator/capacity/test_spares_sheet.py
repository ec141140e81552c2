"""What a person reads about spares: which sentences there are, and what tables and charts hold."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from simulator.capacity.spares import DEAREST, SparesAnswer, SparesQuestion, as_asked, every
from simulator.sheet import Sheet
from tests.facts import says

CERTAIN = {"nodes": 128, "failures": "6.5", "repair_hours": "24", "restart": "300", "draws": 10, "runs": 2, "days": 1.0}


@cache
def answer(*fields: tuple[str, Any]) -> SparesAnswer:
    """The answer for inputs that are known, with some fields otherwise."""
    return SparesQuestion(**(CERTAIN | dict(fields))).answer()


def sheet(*fields: tuple[str, Any]) -> Sheet:
    """What a person reads of that answer."""
    return SparesQuestion(**(CERTAIN | dict(fields))).sheet(answer(*fields))


@pytest.mark.parametrize(
    ("share", "below", "words"),
    [
        (0.94, None, "94.0%"),
        (0.9999, None, "99.99%"),  # not 100.0%, which nobody asks for
        (0.99949, None, "99.949%"),  # and not 99.9%, which is less
        (0.958_76, 0.97, "95.9%"),
        (0.959_61, 0.96, "95.96%"),  # "no number gives 96.0%: what is left is 96.0%" would contradict itself
        (0.959_999_99, 0.96, "95.999999%"),
    ],
)
def test_shares_beside_each_other_read_as_they_differ(share: float, below: float | None, words: str) -> None:
    """A target is written as it was given, and what stays below it with as many digits as show that."""
    assert as_asked(share, below=below) == words


def test_known_inputs_need_no_range() -> None:
    """The number, its cost and what costs about as much; nothing of what would be best if the inputs were known."""
    found = answer()
    text = found.verdict
    assert says(text, f"{found.spares} spares", "128 nodes")
    assert "Were the inputs known" not in text
    assert "a year" not in text
    low, high = found.about_as_good
    assert (says(text, f"{low} to {high} spares", "1%")) == (low < high)


def test_uncertain_inputs_have_one() -> None:
    """Where the best number differs from draw to draw its P10 and P90 are said, and what an error costs."""
    text = answer(("repair_hours", "2..200"), ("draws", 40)).verdict
    assert says(text, "Were the inputs known")
    assert says(text, "one spare too few", "the whole job", "one too many", "a node")


@pytest.mark.parametrize(
    ("target", "words"),
    [(0.5, "An ETTR of 50.0% takes"), (0.9999, "No number of spares gives an ETTR of 99.99%")],
)
def test_a_target(target: float, words: str) -> None:
    """What it takes, or that restarts and checkpoints alone leave too little."""
    assert words in answer(("target", target)).verdict


def test_money() -> None:
    """A price makes the spares cost so much a year, and the unit of the curve is money."""
    found = answer(("price_gpu_hour", 2.0))
    assert "; the spares cost " in found.verdict
    assert says(found.assumptions, "GPU-hour", "2")
    cost, _ = sheet(("price_gpu_hour", 2.0)).charts
    assert says(cost.y_label, "cost", "GPU-hour")
    assert sheet().charts[0].y_label == "GPU-hours paid for a useful one"


def test_domains_are_assumed_or_left_out() -> None:
    """With domains: their names, a table of them, and what the number would be without; else how to add them."""
    of_leaves = ("failure_domains", ("leaf:16:2:10",))
    plain, leaves = answer(), answer(of_leaves)
    assert says(plain.assumptions, "--failure-domain leaf:32")
    assert says(leaves.assumptions, "leaf of 16 nodes")
    assert any(sentence.startswith("Without failures of leaf: ") for sentence in leaves.changes)
    assert not any("Without failures of" in sentence for sentence in plain.changes)
    assert (len(sheet().tables), len(sheet(of_leaves).tables)) == (2, 3)
    (row,) = sheet(of_leaves).tables[1].rows
    assert row[:3] == ("leaf", "16", "8.0")


def test_the_table_marks_the_best() -> None:
    """Exactly one line says that it is at least cost, that of the answer; a target marks another, or the same."""
    found = answer()
    rows = sheet().tables[-1].rows
    assert [row[0] for row in rows if "at least cost" in row[0]] == [f"{found.spares} at least cost"]
    assert len(rows) == len(found.rows)


def test_charts_end_where_costs_no_longer_matter() -> None:
    """No point of the cost lies above one and a half times the least; the ETTR has the same numbers, none above 1."""
    found = answer(("target", 0.5))
    cost, ettr = sheet(("target", 0.5)).charts
    most = DEAREST * min(row.cost for row in found.rows)
    assert cost.ceiling == most
    drawn = [y for series in cost.series for _, y in series.points if y is not None]
    assert drawn
    assert max(drawn) <= most
    assert [x for x, _ in ettr.series[0].points] == [row.spares for row in found.rows]
    assert ettr.ceiling == 1.0
    assert [one.name for one in ettr.series][-1] == "target"


def test_how_often_a_checkpoint_is_written() -> None:
    """As it is given, in whole seconds; without failures there is nothing to write one for."""
    assert every(answer(("job_checkpoint_interval", 1_234.4))) == "every 1,234 s"
    none = answer(("failures", "0"))
    assert every(none) == "never"
    assert any("no failure ever" in sentence for sentence in none.assumptions)
    job = dict(sheet(("failures", "0")).tables[0].rows)
    assert (job["mean time to failure"], none.spares) == ("never", 0)
