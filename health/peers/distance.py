"""How far each machine is from its peers, and how far that is beside what peers are from each other.

For each window: the Euclidean distances between all machines' windows, summed for each machine (Minder, section 4.4).
The candidate is the machine with the largest sum.  Its score is scale-free and means the same for 4 machines as for
1,500: its mean distance to the others, over the median of the mean distances of the others among themselves, the
candidate left out.  Score 6 = it is six times farther from its peers than they are from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from health.peers.streams import FloatArray, IntArray

BLOCK_PAIRS = 2_500_000  # Distances that are held at once, 10 MB: six windows of 1,500 machines, or many of few
# Up to so many machines all pairs are measured.  Of more, so many stand for the peers' distances among themselves.
ALL_PAIRS = 256
# ... and the largest sum is looked for among so many: where as many are far from the middle, none stands out
FARTHEST = 16
# Most multiplications in one product of matrices: OpenBLAS splits larger ones (from 2^18) among threads, which on
# busy cores wait for each other several times as long as one of them takes for all of it
ONE_THREAD = 250_000
_MACHINES = (4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 256, 1_500)
_THRESHOLDS = (13.9, 8.5, 6.8, 5.4, 4.9, 4.6, 4.3, 4.1, 4.0, 4.0, 4.1, 4.5)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The machine that stands out most, window by window."""

    machine: IntArray  # row of the machine, -1 where none can reach the threshold; shape (windows,)
    score: FloatArray  # its score, 0 where there is none; shape (windows,)


def candidates(windows: FloatArray, *, threshold: float, least: float) -> Candidates:
    """Return the candidate of each window.

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
    machines = windows.shape[1]
    block = max(1, BLOCK_PAIRS // (machines * min(machines, ALL_PAIRS + FARTHEST)))
    for begin in range(0, len(open_windows), block):
        chosen = open_windows[begin : begin + block]
        machine[chosen], score[chosen] = _score(windows[chosen], floor)
    machine[score < threshold] = -1
    score[machine < 0] = 0.0
    return Candidates(machine, score)


def distances(of: FloatArray, to: FloatArray) -> FloatArray:
    """Return Euclidean distances between machines of each window.

    Shapes: (windows, a, samples), (windows, b, samples) -> (windows, a, b).
    """
    middle = np.median(to, axis=1, keepdims=True)
    left, right = of - middle, to - middle
    squares = [np.einsum("wij,wij->wi", side, side)[:, :, None] for side in (left, right)]
    # One product gives |a|^2 + |b|^2 - 2ab for all pairs.
    left = np.concatenate((-2.0 * left, squares[0], np.ones_like(squares[0])), axis=2, dtype=of.dtype)
    right = np.concatenate((right, np.ones_like(squares[1]), squares[1]), axis=2, dtype=of.dtype)
    between = np.empty((len(of), of.shape[1], to.shape[1]), dtype=of.dtype)
    rows = max(1, ONE_THREAD // right[0].size)
    for k in range(0, of.shape[1], rows):
        np.matmul(left[:, k : k + rows], right.swapaxes(1, 2), out=between[:, k : k + rows])
    np.maximum(between, 0.0, out=between)
    root: FloatArray = np.sqrt(between, out=between)
    return root


def _score(windows: FloatArray, floor: float) -> tuple[IntArray, FloatArray]:
    """Return row and score of the machine with the largest sum of distances, for each window."""
    count, machines = windows.shape[:2]
    rows = np.broadcast_to(np.arange(machines), (count, machines))
    if machines > ALL_PAIRS:
        asked = np.linspace(0, machines - 1, ALL_PAIRS).round().astype(np.int64)
        from_middle = _lengths(windows - np.median(windows, axis=1, keepdims=True))
        far = np.argpartition(from_middle, machines - FARTHEST, axis=1)[:, -FARTHEST:]
        rows = np.concatenate((far, np.broadcast_to(asked, (count, ALL_PAIRS))), axis=1)
    between = distances(np.take_along_axis(windows, rows[:, :, None], axis=1), windows)
    here = np.arange(count)
    # Rounding leaves a machine a little away from itself.
    np.put_along_axis(between, rows[:, :, None], 0.0, axis=2)
    sums = between.sum(axis=2)
    top = sums.argmax(axis=1)
    first = rows[here, top]
    among_peers = (sums - between[here, :, first]) / (machines - 2)
    among_peers[rows == first[:, None]] = np.nan
    if machines > ALL_PAIRS:
        among_peers = among_peers[:, FARTHEST:]
    apart = np.maximum(np.nanmedian(among_peers, axis=1), floor)
    return first, sums[here, top] / (machines - 1) / apart


def _bound(windows: FloatArray, floor: float) -> FloatArray:
    """Return a score that no machine of a window exceeds, shape (windows,).

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
    """Return the score that a healthy machine reaches in one of 50 jobs, if all differ by Gaussian offsets.

    Machines differ for good a little.  The thresholds are quantiles of the score of windows of one level each, drawn
    from a normal distribution (up to 200,000 draws each; of 1,500 machines by the normal tail): few machines say little
    of how far peers are from each other, of many the farthest is far.
    """
    return float(np.interp(np.log(machines), np.log(_MACHINES), _THRESHOLDS))


def _lengths(vectors: FloatArray) -> FloatArray:
    lengths: FloatArray = np.sqrt(np.einsum("wij,wij->wi", vectors, vectors))
    return lengths
