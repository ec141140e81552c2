"""Noise taken out of windows before machines are compared.

The paper reconstructs each window with a small LSTM-VAE, one for each metric (:mod:`~health.peers.lstm_vae`).  What it
asks of a denoiser is that healthy windows come out alike and that what a fault did to a window survives; the others
need neither training nor a deep-learning framework.  ``docs/health/peers.md`` has what each of them is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from health.peers.lstm_vae import LstmVae
from health.peers.streams import FloatArray
from topology.errors import UnknownName, did_you_mean

Denoiser = Callable[[FloatArray], FloatArray]
"""Windows of one metric, min-max normalised, shape (windows, machines, samples) -> as many, comparable by Euclidean
distance."""

REACH = 2  # Neighbours on either side in a running median: a spike of as many samples disappears
COMPONENTS = 2  # Shapes of windows that PCA keeps


def raw(windows: FloatArray) -> FloatArray:
    """Return the windows themselves."""
    return windows


def running_median(windows: FloatArray) -> FloatArray:
    """Return the median of each sample and its neighbours: spikes go, edges stay; ends of windows are mirrored."""
    reach = min(REACH, windows.shape[2] - 1)
    padded = np.pad(windows, ((0, 0), (0, 0), (reach, reach)), mode="reflect")
    neighbours = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=2)
    found: FloatArray = np.partition(neighbours, reach, axis=3)[..., reach]
    return found


def level(windows: FloatArray) -> FloatArray:
    """Return each window's median throughout: where a machine stands is kept, how it moves in a window is not."""
    return np.broadcast_to(np.median(windows, axis=2, keepdims=True), windows.shape)


def straight_line(windows: FloatArray) -> FloatArray:
    """Return the straight line nearest to each window: a Savitzky-Golay filter as wide as the window."""
    basis, _ = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, windows.shape[2]), 2))
    fitted: FloatArray = windows @ (basis @ basis.T).astype(windows.dtype)
    return fitted


def pca(windows: FloatArray) -> FloatArray:
    """Return windows rebuilt, around the mean window, from the few shapes that all machines' windows share most.

    The linear counterpart of the paper's auto-encoder: an auto-encoder with linear layers learns this subspace.
    """
    flat = windows.reshape(-1, windows.shape[2])
    mean = flat.mean(axis=0)
    centred = flat - mean
    _, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    kept = vectors[:, -COMPONENTS:].astype(windows.dtype)
    rebuilt: FloatArray = (mean + (centred @ kept) @ kept.T).reshape(windows.shape)
    return rebuilt


DENOISERS: Mapping[str, Denoiser] = {
    "level": level,
    "median": running_median,
    "polynomial": straight_line,
    "pca": pca,
    "raw": raw,
    "lstm-vae": LstmVae().denoise,
}
"""Denoisers by name, the default first."""


def load_denoiser(name: str) -> Denoiser:
    """Return a denoiser by its name.

    :raises UnknownName: there is none.
    """
    if name not in DENOISERS:
        raise UnknownName(
            f"there is no denoiser {name!r}",
            where="--denoiser",
            fix=f"{did_you_mean(name, DENOISERS)}use one of: {', '.join(DENOISERS)}",
        )
    return DENOISERS[name]
