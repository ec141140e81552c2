"""Samples of any clock on a common one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import TooLarge
from health.peers.comparison import ComparisonSettings, detect
from health.peers.streams import GAP_STEPS, Samples, align, sampling_step
from tests.case_counts import examples
from tests.health.peers.made import recording, values


def samples(rows: list[tuple[float, int, float]], machines: tuple[str, ...] = ("a", "b")) -> Samples:
    """Samples from (time, machine, value)."""
    time, machine, value = (np.array(column) for column in zip(*rows, strict=True))
    return Samples("m", machines, time.astype(float), machine.astype(int), value.astype(float))


def test_the_nearest_sample_fills_the_grid() -> None:
    """Machine b is sampled 0.4 s late and misses second 2: at 2 it is what it was at 1.4 (0.6 away; 3.4 is 1.4)."""
    a = [(float(k), 0, float(k)) for k in range(5)]
    b = [(k + 0.4, 1, 10.0 + k) for k in (0, 1, 3, 4)]
    grid = align(samples(a + b))
    assert grid.step == 1.0
    assert grid.values[0].tolist() == [0, 1, 2, 3, 4]
    # At 0: 0.4 is nearest; at 1: 1.4 (0.4 away, 0.4 is 0.6 away); at 3: 3.4; at 4: 4.4 (0.4 away, 3.4 is 0.6 away).
    assert grid.values[1].tolist() == [10, 11, 11, 13, 14]


def test_several_samples_at_once_count_as_their_mean() -> None:
    """Eight GPUs of a machine give one number: four at 0 and four at 8 are 4."""
    rows = [(float(t), 0, 8.0 * (gpu % 2)) for t in range(3) for gpu in range(8)]
    assert align(samples(rows, ("a",))).values.tolist() == [[4.0, 4.0, 4.0]]


def test_order_of_rows_does_not_matter() -> None:
    """A file sorted by anything gives the same grid."""
    rows = [(float(t), m, float(10 * m + t)) for t in range(6) for m in range(2)]
    assert np.array_equal(align(samples(rows)).values, align(samples(rows[::-1])).values)


def test_a_long_gap_is_silence() -> None:
    """Further than GAP_STEPS steps from a sample a machine is silent; nearer it is filled."""
    a = [(float(k), 0, 1.0) for k in range(40)]
    grid = align(samples([*a, (0.0, 1, 2.0), (1.0, 1, 2.0)]))
    assert np.flatnonzero(grid.silent[1])[0] == 1 + GAP_STEPS + 1
    assert not grid.silent[0].any()


def test_a_machine_without_samples_is_silent_throughout() -> None:
    """It has a row, and nothing in it is used."""
    grid = align(samples([(0.0, 0, 1.0), (1.0, 0, 1.0)], ("a",)), machines=["a", "z"])
    assert grid.silent.all(axis=1).tolist() == [False, True]


def test_the_step_is_the_usual_gap() -> None:
    """Samples every 10 s, one of them a second late, are 10 s apart."""
    assert sampling_step(samples([(t, 0, 0.0) for t in (0.0, 10.0, 20.0, 31.0, 40.0, 50.0)])) == 10.0


def test_a_grid_beyond_all_measure_is_refused() -> None:
    """One sample now and one at the epoch would be a grid of 50 years of seconds."""
    with pytest.raises(TooLarge, match="too many"):
        align(samples([(0.0, 0, 1.0), (1.0, 0, 1.0), (2.0, 0, 1.0), (1.7e9, 0, 1.0)], ("a",)))


@given(st.data())
@examples(30)
def test_alignment_agrees_with_looking_at_every_sample(data: st.DataObject) -> None:
    """The vectorised search finds what a loop over all samples finds."""
    times = st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True)
    rows = [(float(t), m, float(100 * m + t)) for m in range(3) for t in data.draw(times)]
    given_ = samples(rows, ("a", "b", "c"))
    grid = align(given_, step=2.0)
    for m in range(3):
        mine = sorted((t, v) for t, k, v in rows if k == m)
        for column in range(grid.values.shape[1]):
            at = grid.start + 2.0 * column
            nearest = min(abs(t - at) for t, _ in mine)
            assert grid.values[m, column] in [v for t, v in mine if abs(t - at) == nearest]
            assert grid.silent[m, column] == (nearest > (GAP_STEPS + 0.5) * 2.0)


def test_days_without_samples_are_cut_to_an_hour() -> None:
    """Two runs of 600 s 17 days apart: 600 + 3,600 + 600 columns, silent between them, and times that are right."""
    late = 17 * 86_400.0
    time = np.concatenate([np.arange(600.0), late + np.arange(600.0)])
    given = Samples("m", ("a", "b"), np.tile(time, 2), np.repeat([0, 1], 1_200), np.zeros(2_400))
    grid = align(given, longest_gap=3_600.0)
    assert grid.values.shape == (2, 599 + 3_600 + 600)
    assert [grid.time(column) for column in (0, 599, 599 + 3_600, 599 + 3_600 + 599)] == [
        0.0,
        599.0,
        late,
        late + 599.0,
    ]
    assert grid.silent[:, 700:4_100].all()
    assert not grid.silent[:, 4_199:].any()
    assert align(given, longest_gap=2 * late).cuts == ()


def test_a_machine_that_stands_out_before_and_after_a_gap_does_so_twice() -> None:
    """Three minutes before and three after days without samples are not the four minutes of an alert."""
    made = values(seconds=400)
    made[4, 20:200] += 60.0
    made[4, 200:380] += 60.0
    whole = recording({"pfc_tx_packet_rate": 100.0 * made})
    given = whole.metrics["pfc_tx_packet_rate"]
    apart = replace(given, time=given.time + np.where(given.time >= 200, 17 * 86_400.0, 0.0))
    assert next(detect(whole, ComparisonSettings())).alerts
    assert not next(detect(replace(whole, metrics={given.metric: apart}), ComparisonSettings())).alerts
