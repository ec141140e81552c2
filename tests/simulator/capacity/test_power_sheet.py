"""Figures of power: what is drawn over time, of swings by frequency, of changes within a second."""

from __future__ import annotations

from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from simulator.capacity.power import BINS, DECADES, SHOWN, PowerAnswer, PowerQuestion, power_sheet
from simulator.site_power import MEGA, RATE
from topology.cluster import FloatArray

KNOWN = "watts: {compute: 10000, communicate: 5000, idle: 1000}\nstep_seconds: 4\ncompute_share: 0.5\n"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[PowerQuestion, PowerAnswer]:
    """A job of 8 nodes on 16, and the answer."""
    file: Path = tmp_path_factory.mktemp("power") / "power.yaml"
    file.write_text(KNOWN)
    question = PowerQuestion(made="2x8", power=str(file), jobs=("8x2x4",), feed_nodes=4, seconds=20.0, draws=10)
    return question, question.answer()


def sine(hertz: float, amplitude: float, *, mean: float = 5 * MEGA, seconds: float = 80.0) -> FloatArray:
    """A wave of power, watts."""
    return mean + amplitude * np.sin(2 * pi * hertz * np.arange(round(seconds * RATE)) / RATE)


def test_tables_of_the_answer(asked: tuple[PowerQuestion, PowerAnswer]) -> None:
    """A line for each remedy, each level and each event; a line for each spread where there are power domains."""
    question, answer = asked
    sheet = power_sheet(answer, {"as it comes": sine(1.0, MEGA)}, question.settings)
    remedies, levels, events, spreads = sheet.tables
    assert [row[0] for row in remedies.rows] == [row.name for row in answer.remedies]
    assert [row[-2] for row in remedies.rows] == ["yes" if row.within else "no" for row in answer.remedies]
    assert [row[0] for row in levels.rows] == [row.name for row in answer.domains]
    assert [row[0] for row in events.rows] == [row.name for row in answer.events]
    assert [row[:2] for row in spreads.rows] == [(row.name, f"{row.domains}") for row in answer.spreads]
    assert all(len(row) == len(table.headers) for table in sheet.tables for row in table.rows)


def test_the_minute_that_is_drawn(asked: tuple[PowerQuestion, PowerAnswer]) -> None:
    """Four points a second of the first minute, in MW; all in phase is a case of the table alone."""
    question, answer = asked
    watts = sine(0.25, MEGA)
    over_time, *_ = power_sheet(answer, {"as it comes": watts, "all in phase": 2 * watts}, question.settings).charts
    (series,) = over_time.series
    assert series.name == "as it comes"
    assert len(series.points) == SHOWN * 4
    assert [x for x, _ in series.points[:3]] == [0.0, 0.25, 0.5]
    assert series.values == pytest.approx([watts[16 * i] / MEGA for i in range(len(series.points))])


@pytest.mark.parametrize(("hertz", "place"), [(0.1, BINS), (1.0, 2 * BINS), (10.0, 3 * BINS)])
def test_a_wave_of_one_frequency(asked: tuple[PowerQuestion, PowerAnswer], hertz: float, place: int) -> None:
    """A sine of 3 MW has a root of the mean square of 3 over the root of 2, in one bar, at its frequency alone."""
    question, answer = asked
    _, swings, _ = power_sheet(answer, {"as it comes": sine(hertz, 3 * MEGA)}, question.settings).charts
    heights = swings.series[0].values
    bar = int(np.argmax(heights))
    assert heights[bar] == pytest.approx(3 / sqrt(2), rel=1e-6)
    # an edge between two bars belongs to the right one, but for rounding
    assert bar in (place, place - 1)
    assert sum(heights) - heights[bar] == pytest.approx(0.0, abs=1e-6)
    assert [word for _, word in swings.ticks] == [f"{10.0**power:g}" for power in DECADES]
    assert [word for _, word in swings.lines] == [f"{end:g} Hz" for end in question.settings.band]


def test_changes_within_a_second(asked: tuple[PowerQuestion, PowerAnswer]) -> None:
    """Bars are shares of the time and sum to all of it; a step of 2 MW is the largest change, and most of the time
    there is none.
    """
    question, answer = asked
    watts = np.full(round(40 * RATE), 5 * MEGA)
    watts[len(watts) // 2 :] += 2 * MEGA
    *_, changes = power_sheet(answer, {"as it comes": watts}, question.settings).charts
    (series,) = changes.series
    assert sum(series.values) == pytest.approx(1.0)
    assert series.points[-1][0] == pytest.approx(2.0)
    # of 39 seconds of windows one second sees the step
    assert series.values[0] == pytest.approx(38 / 39, abs=0.01)
    assert series.values[-2] == pytest.approx(1 / 39, abs=0.01)


def test_power_that_never_changes(asked: tuple[PowerQuestion, PowerAnswer]) -> None:
    """No swing at any frequency, and an axis of changes all the same."""
    question, answer = asked
    _, swings, changes = power_sheet(answer, {"as it comes": np.full(2_000, 1e6)}, question.settings).charts
    assert max(swings.series[0].values) == pytest.approx(0.0, abs=1e-9)
    assert changes.series[0].values[0] == 1.0
