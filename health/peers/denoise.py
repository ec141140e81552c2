"""Noise taken out of windows before machines are compared.

The paper reconstructs each window with a small LSTM-VAE, one for each metric (:mod:`~health.peers.lstm_vae`).
What it asks of a denoiser is that healthy windows come out alike and that what a fault did to a window survives; those
here need neither training nor a deep-learning framework.
``docs/health/peers.md`` has what each of them is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from health.peers.lstm_vae import LstmVae
from health.peers.streams import FloatArray
from topology.errors import UnknownName, did_you_mean


class Denoiser(Protocol):
    """Takes noise out of the windows of one metric."""

    @property
    def name(self) -> str:
        """How it is called on the command line."""
        ...

    def denoise(self, windows: FloatArray) -> FloatArray:
        """Return windows with less noise in them, comparable by Euclidean distance.

        :param windows: shape (windows, machines, samples), min-max normalised.
        :returns: the same shape.
        """
        ...


class Raw:
    """Nothing is taken out."""

    name = "raw"

    def denoise(self, windows: FloatArray) -> FloatArray:
        """Return the windows themselves."""
        return windows


class RunningMedian:
    """Each sample becomes the median of itself and its neighbours inside the window: spikes go, edges stay.

    :param reach: neighbours on either side; a spike of as many samples disappears.
    """

    name = "median"

    def __init__(self, reach: int = 2) -> None:
        self._reach = reach

    def denoise(self, windows: FloatArray) -> FloatArray:
        """Return running medians; beyond the ends of a window its samples are mirrored."""
        reach = min(self._reach, windows.shape[2] - 1)
        padded = np.pad(windows, ((0, 0), (0, 0), (reach, reach)), mode="reflect")
        neighbours = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=2)
        found: FloatArray = np.partition(neighbours, reach, axis=3)[..., reach]
        return found


class LevelDenoiser:
    """A window becomes its median throughout: where a machine stands is kept, how it moves inside a window is not."""

    name = "level"

    def denoise(self, windows: FloatArray) -> FloatArray:
        """Return windows of one value each."""
        middle = np.median(windows, axis=2, keepdims=True)
        return np.broadcast_to(middle, windows.shape)


class Polynomial:
    """A window becomes the straight line (or polynomial) nearest to it: a Savitzky-Golay filter as wide as the window.

    :param degree: of the polynomial.
    """

    name = "polynomial"

    def __init__(self, degree: int = 1) -> None:
        self._degree = degree

    def denoise(self, windows: FloatArray) -> FloatArray:
        """Return least-squares fits."""
        powers = np.vander(np.linspace(-1.0, 1.0, windows.shape[2]), self._degree + 1)
        basis, _ = np.linalg.qr(powers)
        fitted: FloatArray = windows @ (basis @ basis.T).astype(windows.dtype)
        return fitted


class Pca:
    """A window becomes its reconstruction from the few shapes that all machines' windows share most.

    The linear counterpart of the paper's auto-encoder: an auto-encoder with linear layers learns this subspace.

    :param shapes: principal components that are kept.
    """

    name = "pca"

    def __init__(self, shapes: int = 2) -> None:
        self._shapes = shapes

    def denoise(self, windows: FloatArray) -> FloatArray:
        """Return reconstructions around the mean window."""
        flat = windows.reshape(-1, windows.shape[2])
        mean = flat.mean(axis=0)
        centred = flat - mean
        _, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64))
        kept = vectors[:, -self._shapes :].astype(windows.dtype)
        rebuilt: FloatArray = (mean + (centred @ kept) @ kept.T).reshape(windows.shape)
        return rebuilt


DENOISERS: Mapping[str, Callable[[], Denoiser]] = {
    LevelDenoiser.name: LevelDenoiser,
    RunningMedian.name: RunningMedian,
    Polynomial.name: Polynomial,
    Pca.name: Pca,
    Raw.name: Raw,
    LstmVae.name: LstmVae,
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
    return DENOISERS[name]()
