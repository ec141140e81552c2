"""What power over time amounts to: its swing, its largest ramp, its spectrum; and what storage leaves of it."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from simulator.power.power_file import PowerSettings
from simulator.power.power_wave import MEGA, RATE
from simulator.power.types import PowerFigures
from topology.cluster import FloatArray


def figures_of(watts: FloatArray, settings: PowerSettings) -> PowerFigures:
    """Return the figures of power over time, shape [times], watts."""
    return PowerFigures(
        float(watts.mean()) / MEGA,
        float(watts.max()) / MEGA,
        float(np.ptp(watts)) / MEGA,
        float(ramps(watts).max()) / MEGA,
        band_share(watts, settings.band),
    )


def ramps(watts: FloatArray, *, seconds: float = 1.0) -> FloatArray:
    """Return the largest change of power within each window of some seconds, shape [windows], watts.

    Not the difference of its ends: that of a wave with a period of 1 s would be nothing.
    """
    windows = sliding_window_view(watts, min(len(watts), round(seconds * RATE) + 1))
    found: FloatArray = windows.max(axis=1) - windows.min(axis=1)
    return found


def spectrum(watts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return frequencies above 0 in Hz, and the mean square of the swings at each, watts squared.

    Their sum is the variance of the power (Parseval); a sine of amplitude A has A squared / 2.
    """
    count = len(watts)
    energy = np.abs(np.fft.rfft(watts - watts.mean())) ** 2 * 2.0 / count**2
    if count % 2 == 0:
        energy[-1] /= 2.0  # the highest frequency of an even count stands once in the whole transform, not twice
    return np.arange(1.0, len(energy)) * RATE / count, energy[1:].astype(np.float64)


def band_share(watts: FloatArray, band: tuple[float, float]) -> float:
    """Return the share of the energy of the swings at frequencies of a band, its ends included; 0 without swings."""
    frequencies, energy = spectrum(watts)
    total = float(energy.sum())
    # swings that are nothing but rounding have no spectrum
    if total <= (1e-9 * max(1.0, float(watts.max()))) ** 2:
        return 0.0
    inside = (frequencies >= band[0]) & (frequencies <= band[1])
    return min(1.0, float(energy[inside].sum()) / total)


def stored(watts: FloatArray, joules: float) -> FloatArray:
    """Return what is drawn from outside, shape [times], where storage of so many joules smooths power over time.

    A low-pass of first order with time constant tau = joules / swing, without losses: tau (g[n] - g[n-1]) is what goes
    through the storage in a sample, (P[n] - g[n]) dt; so it never holds more than tau times the swing, its joules.
    """
    swing = float(np.ptp(watts))
    if joules <= 0.0 or swing <= 0.0:
        return watts
    new = 1.0 / (1.0 + joules / swing * RATE)  # share of a sample that is in what is drawn at once
    turns = np.fft.rfftfreq(len(watts))
    gain = new / (1.0 - (1.0 - new) * np.exp(-2j * pi * turns))
    filtered: FloatArray = np.fft.irfft(np.fft.rfft(watts) * gain, len(watts))
    return filtered
