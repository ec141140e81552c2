"""The question of power: remedies that hold what they promise, the trade over power domains, inputs by source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ground.errors import InvalidInput
from simulator.capacity.power import PowerQuestion
from tests.facts import says

# one job of known waves: 8 nodes of 10 and 5 kW, half of the time each; 8 others idle at 1 kW
KNOWN = "watts: {compute: 10000, communicate: 5000, idle: 1000}\nstep_seconds: 4\ncompute_share: 0.5\n"


def known(tmp_path: Path, more: str = "", jobs: tuple[str, ...] = ("8x2x4",), feed_nodes: int = 4) -> PowerQuestion:
    """A question whose answer is plain arithmetic."""
    file = tmp_path / "power.yaml"
    file.write_text(KNOWN + more)
    return PowerQuestion(made="2x8", power=str(file), jobs=jobs, feed_nodes=feed_nodes, seconds=20.0, draws=10)


def test_one_job_by_hand(tmp_path: Path) -> None:
    """8 nodes swing by 40 kW within a second; the mean is 8 x 7.5 + 8 x 1 kW; a floor of 90 % costs 8 x 4 kW x 1/2.

    All inputs are certain but the seed, which moves one job's phase and so nothing.
    """
    answer = known(tmp_path, "edge_seconds: 0\n").answer()
    now, floor = answer.remedies[0], answer.remedies[3]
    assert now.figures.swing_megawatts == pytest.approx(0.040)
    assert now.figures.ramp_megawatts == pytest.approx(0.040)
    assert now.figures.mean_megawatts == pytest.approx(0.068, rel=1e-3)
    assert floor.more_kilowatts == pytest.approx(16.0, rel=1e-2)
    assert floor.figures.swing_megawatts == pytest.approx(0.008)
    assert not now.within
    assert (answer.ranges[0].p10, answer.ranges[0].p90) == pytest.approx((0.040, 0.040))
    assert {one.source for one in answer.ranges[0].swings} == {"any seed"}


def test_a_specification_that_is_met(tmp_path: Path) -> None:
    """The row says so where swing, ramp and share of the band are admitted, and not where one is not."""
    wide = "band_share: 1\nswing_megawatts: 0.05\n"
    assert known(tmp_path, wide).answer().remedies[0].within
    assert not known(tmp_path, wide + "ramp_megawatts: 0.03\n").answer().remedies[0].within


def test_the_trade_over_power_domains(tmp_path: Path) -> None:
    """Feeds of 4 nodes, 2 minipods of 8: a job of 8 lies in one minipod and two feeds; spread over four feeds each has
    half of its swing, 2 x 5 kW, and its groups lie in two minipods.
    """
    spreads = {row.domains: row for row in known(tmp_path).answer().spreads}
    assert {*spreads} == {2, 4}
    assert spreads[2].figures.swing_megawatts == pytest.approx(0.020)
    assert spreads[4].figures.swing_megawatts == pytest.approx(0.010)
    assert spreads[2].step_lost == 0.0
    assert spreads[4].step_lost > 0.0
    assert max(spreads[4].dp, spreads[4].pp) == 2
    assert spreads[2].best
    assert spreads[4].best


def test_equal_steps_can_be_staggered(tmp_path: Path) -> None:
    """Two equal jobs of duty 1/2, half a step apart: nothing swings."""
    rows = {row.name: row for row in known(tmp_path, jobs=("8x2x2", "8x2x2")).answer().remedies}
    assert rows["all in phase"].figures.swing_megawatts == pytest.approx(0.040)
    assert rows["staggered"].figures.swing_megawatts < 1e-3


def test_options_win_over_the_file(tmp_path: Path) -> None:
    """What is given on the command line is drawn, though the file says a number; the source is told."""
    question = known(tmp_path)
    assert [one.source for one in question.inputs[1:]] == ["the power file"] * 3
    given = PowerQuestion(made="2x8", power=question.power, jobs=("8x2x4",), step_seconds="2..9", compute_share="0.7")
    assert [one.source for one in given.inputs[1:]] == ["given", "the power file", "given"]
    assert PowerQuestion(made="2x8", jobs=("8x2x4",)).inputs[2].source == "assumed"


def test_steps_longer_than_what_is_looked_at() -> None:
    """Of a step of 1,000 s the 20 s that are looked at show no swing: refused; of 2 to 60 s that is an assumption."""
    fields: dict[str, Any] = {"made": "2x8", "jobs": ("8x2x4",), "seconds": 20.0}
    with pytest.raises(InvalidInput) as error:
        PowerQuestion(step_seconds="1000", **fields)
    assert says(error.value.message, "20 s", "1,000 s")
    assert error.value.where == "--seconds"
    question = PowerQuestion(step_seconds="2..60", draws=10, **fields)
    assert any("20 s" in sentence and "longer" in sentence for sentence in question.assumptions(question.answer()))


def test_nothing_is_drawn(tmp_path: Path) -> None:
    """Nodes without power swing by nothing, and the answer says so in numbers."""
    file = tmp_path / "power.yaml"
    file.write_text("watts: {compute: 0, communicate: 0, idle: 0}\n")
    answer = PowerQuestion(made="2x8", power=str(file), jobs=("8x2x4",), seconds=20.0, draws=10).answer()
    assert answer.remedies[0].figures.peak_megawatts == 0.0
    assert answer.verdict.startswith("The site swings by 0.00 MW")


def test_no_job() -> None:
    """There is no question, and the message has an example."""
    with pytest.raises(InvalidInput, match="no job runs") as caught:
        PowerQuestion(made="2x8", jobs=())
    assert "8x8x32" in caught.value.fix
