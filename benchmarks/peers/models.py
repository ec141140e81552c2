"""What is learnt ahead, on recordings of other seeds than those that are judged, as the paper does.

An LSTM-VAE for each metric, from healthy recordings; the order of metrics, from recordings with a known fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.peers.cases import cases
from benchmarks.peers.faults import DURATIONS
from benchmarks.peers.streams import SECONDS, SHAPES, healthy_job, recording
from health.peers.comparison import ComparisonSettings, examine
from health.peers.denoise import Denoiser, LstmVae
from health.peers.metrics import in_order, learn_order
from health.peers.streams import FloatArray, MetricRecording, align
from health.peers.verdict import Stretch

Detector = Callable[[MetricRecording], Stretch | None]
"""The first alert on a recording."""

JOBS, MACHINES, STEPS = 6, 16, 3_000

LABELLED = 40
"""Recordings with a fault that the order is learnt from."""


def learnt_order(seed: int) -> tuple[str, ...]:
    """The order of metrics that a decision tree learns."""
    examples = []
    for case in cases(LABELLED, seed, healthy=False):
        assert case.fault is not None
        end = min(float(SECONDS), case.fault.onset + DURATIONS[case.fault.duration])
        examples.append((case.recording, [(float(case.fault.onset), end)]))
    return learn_order(examples).order


def train_models(seed: int) -> dict[str, Denoiser]:
    """A denoiser for each metric, trained on healthy jobs."""
    jobs = [_healthy(np.random.default_rng([seed, k, 1_000])) for k in range(JOBS)]
    models: dict[str, Denoiser] = {}
    for name in SHAPES:
        model = LstmVae(steps=STEPS)
        model.train(np.concatenate([_windows(job, name) for job in jobs]))
        models[name] = model.denoise
    return models


def with_models(models: Mapping[str, Denoiser], settings: ComparisonSettings | None = None) -> Detector:
    """The first alert with each metric's own denoiser."""

    def run(given: MetricRecording) -> Stretch | None:
        for name in in_order(given.metrics):
            grid = align(given.metrics[name], machines=given.machines)
            examined = examine(grid, replace(settings or ComparisonSettings(), denoiser=models[name]))
            if examined.alerts:
                return examined.alerts[0]
        return None

    return run


def _healthy(rng: np.random.Generator) -> MetricRecording:
    return recording(healthy_job(MACHINES, rng), rng, source="training")


def _windows(job: MetricRecording, metric: str) -> FloatArray:
    """Min-max normalised windows of a metric, (windows, machines, samples)."""
    values = align(job.metrics[metric]).values
    low, high = values.min(), values.max()
    normal = ((values - low) / (high - low)).astype(np.float32)
    return np.lib.stride_tricks.sliding_window_view(normal, ComparisonSettings().window, axis=1).swapaxes(0, 1)
