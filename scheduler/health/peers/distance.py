"""How far each machine is from its peers, and how far that is beside what peers are from each other.

For each window: the Euclidean distances between all machines' windows, summed for each machine (Minder, section 4.4).
The candidate is the machine with the largest sum.  Its score is scale-free and means the same for 4 machines as for
1,500: its mean distance to the others, over the median of the mean distances of the others among themselves, the
candidate left out.  Score 6 = it is six times farther from its peers than they are from each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from scheduler.health.peers.streams import BoolArray, FloatArray, IntArray


BLOCK_PAIRS = 2_500_000
"""Distances that are held at once, 10 MB: about one window of 1,500 machines, or many of few."""


FALSE_ALARMS = 1e-3
"""Share of recordings of healthy machines in which one may exceed :func:`default_threshold` for good."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The machine that stands out most, window by window.

    :param machine: row of the machine, -1 where none can reach the threshold; shape (windows,).
    :param score: its score, 0 where there is none; shape (windows,).
    """

    machine: IntArray
    score: FloatArray


def candidates(windows: FloatArray, *, threshold: float, least: float) -> Candidates:
    """The candidate of each window.

    Windows in which a cheap bound proves that no machine reaches the threshold are not looked at further; most windows
    of healthy machines are such.

    :param windows: shape (windows, machines, samples), at least 4 machines.
    :param threshold: scores below it do not matter.
    :param least: a mean distance below this does not matter either: peers that are nearer to each other than
        ``least / threshold`` count as that far apart.
    """
    floor = max(least / threshold, 1e-9)
    machine = np.full(len(windows), -1, dtype=np.int64)
    score = np.zeros(len(windows))
    open_windows = np.flatnonzero(_bound(windows, floor) >= threshold)
    block = max(1, BLOCK_PAIRS // windows.shape[1] ** 2)
    for begin in range(0, len(open_windows), block):
        chosen = open_windows[begin : begin + block]
        machine[chosen], score[chosen] = _score(windows[chosen], floor)
    machine[score < threshold] = -1
    score[machine < 0] = 0.0
    return Candidates(machine, score)


def distances(windows: FloatArray) -> FloatArray:
    """Euclidean distances between all machines of each window, shape (windows, machines, machines)."""
    centred = windows - np.median(windows, axis=1, keepdims=True)
    square = np.einsum("wij,wij->wi", centred, centred)[:, :, None]
    ones = np.ones_like(square)
    # One product gives |a|^2 + |b|^2 - 2ab for all pairs.
    left = np.concatenate((-2.0 * centred, square, ones), axis=2, dtype=windows.dtype)
    right = np.concatenate((centred, ones, square), axis=2, dtype=windows.dtype)
    between = left @ right.swapaxes(1, 2)
    np.maximum(between, 0.0, out=between)
    diagonal = np.arange(windows.shape[1])
    between[:, diagonal, diagonal] = 0.0
    root: FloatArray = np.sqrt(between, out=between)
    return root


def _score(windows: FloatArray, floor: float) -> tuple[IntArray, FloatArray]:
    """Row and score of the machine with the largest sum of distances, for each window."""
    between = distances(windows)
    sums = between.sum(axis=2)
    here, others = np.arange(len(windows)), windows.shape[1] - 1
    first = sums.argmax(axis=1)
    among_peers = (sums - between[here, first]) / (others - 1)
    among_peers[here, first] = np.nan
    apart = np.maximum(np.nanmedian(among_peers, axis=1), floor)
    return first, sums[here, first] / others / apart


def _bound(windows: FloatArray, floor: float) -> FloatArray:
    """A score that no machine of a window exceeds, shape (windows,).

    With r the distance to the window's median machine: the mean distance of i to the others is at most r_i + mean(r)
    (triangle inequality), and the mean distance of j to the others at least its distance to their mean (Jensen).
    """
    machines = windows.shape[1]
    from_median = _lengths(windows - np.median(windows, axis=1, keepdims=True))
    from_mean = _lengths(windows - windows.mean(axis=1, keepdims=True))
    at_most = from_median.max(axis=1) + from_median.sum(axis=1) / (machines - 1)
    # The mean without i and j lies at most this far from the mean of all; without i the median moves one place at most.
    shift = from_mean.max(axis=1) / (machines - 2)
    low = np.partition(from_mean, machines // 2 - 1, axis=1)[:, machines // 2 - 1]
    bound: FloatArray = at_most / np.maximum(low - shift, floor)
    return bound * (1.0 + 1e-4)


def default_threshold(machines: int) -> float:
    """The score that healthy machines exceed in one recording of a thousand, if they differ by Gaussian offsets.

    A machine z standard deviations from the mean of many has a mean distance of z to them, and half of them have one
    below 0.973 (2 phi(q) + q (2 Phi(q) - 1) at the quartile q = 0.674).  The farthest of ``machines`` exceeds the z
    taken here with probability 0.001.  10 machines: 4.0; 1,500: 5.1.
    """
    return NormalDist().inv_cdf(1.0 - FALSE_ALARMS / 2.0 / machines) / 0.973


def _lengths(vectors: FloatArray) -> FloatArray:
    lengths: FloatArray = np.sqrt(np.einsum("wij,wij->wi", vectors, vectors))
    return lengths


def hide(windows: FloatArray, silent: BoolArray) -> FloatArray:
    """Windows in which silent machines stand in the middle of the others: no candidates, and no evidence.

    :param silent: shape (windows, machines).
    """
    if not silent.any():
        return windows
    shown = np.where(silent[:, :, None], np.nan, windows)
    gone = silent.all(axis=1)
    shown[gone] = 0.0
    middle = np.nanmedian(shown, axis=1, keepdims=True)
    hidden: FloatArray = np.where(silent[:, :, None], middle, windows)
    return hidden
