"""Small recordings made by hand: machines that move together, and one that can be made to stand out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from health.peers.streams import MetricRecording, Samples

MACHINES, SECONDS = 12, 600

Array = np.ndarray


def values(seed: int = 0, *, machines: int = MACHINES, seconds: int = SECONDS) -> Array:
    """A rhythm of ten seconds around 50, noise of 1: shape (machines, seconds)."""
    noise = np.random.default_rng(seed).normal(0.0, 1.0, (machines, seconds))
    return 50.0 + 10.0 * np.sin(np.arange(seconds) * 2.0 * np.pi / 10.0) + noise


def recording(metrics: Mapping[str, Array], *, absolute: bool = False, start: float = 0.0) -> MetricRecording:
    """A recording with a sample of every machine at every second; NaN = none."""
    made = {}
    for name, grid in metrics.items():
        row, second = np.divmod(np.arange(grid.size), grid.shape[1])
        there = np.isfinite(grid.ravel())
        names = tuple(f"n{k:02d}" for k in range(len(grid)))
        made[name] = Samples(name, names, start + second[there].astype(float), row[there], grid.ravel()[there])
    return MetricRecording(made, absolute, "made")
