"""Figures of power over time against closed forms: Parseval, harmonics, phases, floor, storage."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.power_file import NodeWatts, PowerSettings
from simulator.site_power import (
    MEGA,
    RATE,
    PowerLoad,
    SitePower,
    band_share,
    figures_of,
    ramps,
    sample_times,
    spectrum,
    stored,
    trapezoid,
)
from topology.cluster import FloatArray
from topology.generate import minipods

SQUARE = PowerSettings(edge_seconds=0.0, checkpoint_seconds=0.0)
ONE = PowerLoad(NodeWatts(1_000.0, 400.0, 100.0), np.arange(1, dtype=np.int32), step=4.0, share=0.5)
HALF = 300.0  # Half of the swing of one node, watts


def drawn(*loads: PowerLoad, seconds: float = 64.0, floor: float = 0.0) -> FloatArray:
    """Return what one node's worth of each load draws above idle, watts."""
    return np.sum([load.drawn(sample_times(seconds), SQUARE, floor=floor) for load in loads], axis=0)


@given(st.lists(st.floats(0.0, 1e7), min_size=2, max_size=300))
def test_parseval(watts: list[float]) -> None:
    """The mean squares of all frequencies above 0 add up to the variance, of even and odd counts."""
    power = np.array(watts)
    assert spectrum(power)[1].sum() == pytest.approx(power.var(), rel=1e-9, abs=1e-3)


def test_harmonics_of_a_square_wave() -> None:
    """Of a square wave of duty 1/2: amplitudes 4/(pi k) of half the swing at odd k, none at even k; 81 % in the first.

    So the fundamental has the amplitude (2/pi)(P_hi - P_lo).  Samples add 1/(N sin) terms below 1e-4 here: 256 a step.
    """
    frequencies, energy = spectrum(drawn(ONE))
    amplitude = np.sqrt(2.0 * energy)
    first = int(np.argmin(np.abs(frequencies - 1 / ONE.step)))
    for k in range(1, 8):
        at = (first + 1) * k - 1
        expected = 4.0 / (pi * k) * HALF if k % 2 else 0.0
        assert amplitude[at] == pytest.approx(expected, rel=2e-3, abs=1e-6)
    assert amplitude[first] == pytest.approx(2.0 / pi * 600.0, rel=1e-3)
    assert energy[first] / energy.sum() == pytest.approx(8.0 / pi**2, rel=1e-3)


@pytest.mark.parametrize("jobs", [2, 4, 8, 16])
def test_equal_jobs_at_even_phases_cancel(jobs: int) -> None:
    """N equal jobs at the phases k/N draw the same at every instant: their squares of duty 1/2 overlap evenly."""
    total = drawn(*(replace(ONE, phase=k / jobs) for k in range(jobs)))
    assert np.ptp(total) < 1e-9 * total.max()
    assert figures_of(total, SQUARE).band_share == 0.0


def test_staggering_finds_even_phases() -> None:
    """Four equal jobs that begin at once are put apart so that nothing swings."""
    loads = [ONE] * 4
    site = SitePower(cluster=minipods(minipods=1, nodes=1), settings=SQUARE, seconds=16.0)
    assert np.ptp(drawn(*site.staggered(loads))) < 1e-6


def test_random_phases_grow_as_the_root_of_their_number() -> None:
    """At random phases the variance of N equal jobs is N times that of one, so the swing grows as sqrt(N), not as N.

    100 draws of the phases: the mean of a variance, whose own deviation is of the order of its mean, is known to 10 %,
    and is held to 25 %; 4 and 16 times as many jobs swing 2 and 4 times as much, within 20 %.
    """
    rng = np.random.default_rng(0)
    swing, variance = {}, {}
    for jobs in (16, 64, 256):
        totals = [
            sum(trapezoid(sample_times(4.0) / 4.0 + phase, 0.5, 0.0) for phase in rng.random(jobs)) for _ in range(100)
        ]
        swing[jobs] = np.mean([np.ptp(total) for total in totals])
        variance[jobs] = np.mean([np.var(total) for total in totals])
    for jobs, found in variance.items():
        assert found == pytest.approx(0.25 * jobs, rel=0.25)
    assert swing[64] / swing[16] == pytest.approx(2.0, rel=0.2)
    assert swing[256] / swing[16] == pytest.approx(4.0, rel=0.2)


@given(st.floats(0.0, 1.0), st.integers(0, 8))
def test_energy_of_a_floor(floor: float, eighths: int) -> None:
    """A floor F costs (max(F, lo) - lo)(1 - f) of a job that computes for a share f: whole samples, so exactly."""
    load = replace(ONE, share=eighths / 8)
    more = (drawn(load, floor=floor) - drawn(load)).mean()
    assert more == pytest.approx((max(floor * 1_000.0, 400.0) - 400.0) * (1.0 - load.share), abs=1e-9)


@given(st.floats(0.0, 1e5), st.floats(0.1, 0.9))
def test_storage_holds_what_goes_through_it(joules: float, share: float) -> None:
    """Smoothed power has the same mean, lies within that without storage, and never takes more than the joules."""
    power = drawn(replace(ONE, share=share), seconds=16.0)
    smooth = stored(power, joules)
    assert smooth.mean() == pytest.approx(power.mean())
    assert power.min() - 1e-6 <= smooth.min() <= smooth.max() <= power.max() + 1e-6
    assert np.ptp(np.cumsum(power - smooth)) / RATE <= joules * (1 + 1e-9) + 1e-6


def test_ramps_within_a_second() -> None:
    """A step of 600 W counts whole, although a wave with a period of 1 s has the same power a second later."""
    assert ramps(drawn(replace(ONE, step=1.0))).max() == pytest.approx(600.0)
    assert ramps(np.full(100, 5.0)).max() == 0.0
    # one of 4 s that takes 2 s to rise changes by half of its swing in a second
    slow = np.interp(sample_times(2.0), [0.0, 2.0], [0.0, 600.0])
    assert ramps(slow).max() == pytest.approx(300.0, rel=1e-6)


def test_the_band() -> None:
    """A sine inside the band is all of the energy, one below it nothing."""
    times = sample_times(100.0)
    assert band_share(np.sin(2 * pi * times), (0.1, 20.0)) == pytest.approx(1.0)
    assert band_share(np.sin(2 * pi * 0.05 * times), (0.1, 20.0)) == pytest.approx(0.0, abs=1e-12)


@given(st.floats(0.0, 1.0), st.floats(0.0, 0.5))
def test_a_trapezoid_has_the_mean_of_its_square(share: float, edge: float) -> None:
    """Edges move no energy: the mean is the compute share, as rise and fall have the same area."""
    turns = (np.arange(4_096) + 0.5) / 4_096
    wave = trapezoid(turns, share, edge)
    assert 0.0 <= wave.min() <= wave.max() <= 1.0
    assert wave.mean() == pytest.approx(share, abs=1e-3)


def test_start_stop_and_checkpoint() -> None:
    """A job rises from idle in 10 s, falls in 1 s, and draws what communication does while it writes a checkpoint."""
    settings = replace(SQUARE, checkpoint_every=100.0, checkpoint_seconds=20.0)
    load = replace(ONE, share=1.0, begin=0.0, end=150.0)
    times = np.array([-1.0, 5.0, 50.0, 90.0, 120.0, 150.5, 152.0])
    # 900 W above idle while it computes, 300 W while it communicates; half of either in the middle of a ramp
    assert load.drawn(times, settings).tolist() == pytest.approx([0.0, 450.0, 900.0, 300.0, 900.0, 450.0, 0.0])


def test_domains_add_up() -> None:
    """What the minipod draws that swings most and what the other draws is what the site draws; idle nodes draw 2 kW."""
    cluster = minipods(minipods=2, nodes=8)
    load = replace(ONE, nodes=np.array([0, 1, 5], dtype=np.int32))
    power = SitePower(cluster=cluster, settings=SQUARE, seconds=4.0)
    site, (name, worst) = power.drawn([load]), power.worst(cluster.levels[0], [load])
    assert name == cluster.levels[0].domains[0]
    assert site - worst == pytest.approx(4 * 2_000.0 + load.drawn(power.times, SQUARE))
    assert site.min() == pytest.approx(8 * 2_000.0 + 3 * 300.0)
    assert power.figures(site).swing_megawatts == pytest.approx(3 * 600.0 / MEGA)
