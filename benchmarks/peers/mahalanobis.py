"""Mahalanobis distance in place of Euclidean, as the paper's comparison has it."""

from __future__ import annotations

import numpy as np

from health.peers.streams import FloatArray

RIDGE = 1e-3
"""Share of the mean variance that is added to each: windows of steady metrics have next to no variance of their own."""


def whitened(windows: FloatArray) -> FloatArray:
    """Return windows in which Euclidean distance is the Mahalanobis distance of the raw ones.

    The covariance is that of the samples of a window, over all windows and machines, each window's mean machine taken
    off.  Distances are scaled so that their mean square stays what it was.
    """
    centred = (windows - windows.mean(axis=1, keepdims=True)).astype(np.float64)
    flat = centred.reshape(-1, windows.shape[2])
    covariance = flat.T @ flat / len(flat)
    mean = float(np.trace(covariance)) / len(covariance)
    if mean <= 0.0:
        return windows
    variances, axes = np.linalg.eigh(covariance + RIDGE * mean * np.eye(len(covariance)))
    white = axes * np.sqrt(mean / variances) @ axes.T
    found: FloatArray = (centred @ white).astype(windows.dtype)
    return found
