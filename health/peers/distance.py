"""How far each machine is from its peers, and how far that is beside what peers are from each other.

For each window: the Euclidean distances between all machines' windows, summed for each machine (Minder, section 4.4).
The candidate is the machine with the largest sum.  Its score is scale-free and means the same for 4 machines as for
1,500: its mean distance to the others, over the median of the mean distances of the others among themselves, the
candidate left out.  Score 6 = it is six times farther from its peers than they are from each other.  Of the machines
that remain the next is sought in the same way, until none reaches the threshold.  Two that are alike hide each other,
so one that does not reach it is left out as well, and counts if the next does (Rosner 1983, generalised extreme
Studentised deviate: the number of outliers is the last step that is significant, not the first that is not).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from health.peers.streams import FloatArray, IntArray
from topology.cluster import BoolArray

BLOCK_PAIRS = 2_500_000  # Distances that are held at once, 10 MB: six windows of 1,500 machines, or many of few
# Up to so many machines all pairs are measured.  Of more, so many stand for the peers' distances among themselves.
ALL_PAIRS = 256
# Up to so many machines two that are alike can hide each other: of n machines, each adds a share of 1 / n of its
# distance to what peers are from each other, which of more machines hardly lowers a score of 4
HIDING = 16
# ... and the largest sum is looked for among so many: where as many are far from the middle, none stands out
FARTHEST = 16
# Most multiplications in one product of matrices: OpenBLAS splits larger ones (from 2^18) among threads, which on
# busy cores wait for each other several times as long as one of them takes for all of it
ONE_THREAD = 250_000
LEAST_MACHINES = 4  # Fewer have no peers worth the name: of three, two that differ leave open which of them is odd
FEW = 2  # So many machines may stand out in one metric of any job, ...
FEW_SHARE = 0.05  # ... and of a large one this share of them: a job of 1,500 does not lose more than some tens at once
_MACHINES = (4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 256, 1_500)
_THRESHOLDS = (13.9, 8.5, 6.8, 5.4, 4.9, 4.6, 4.3, 4.1, 4.0, 4.0, 4.1, 4.5)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The machines that stand out: entry ``k`` says that one does in one window."""

    window: IntArray  # index of the window; shape (entries,)
    machine: IntArray  # row of the machine, at most once a window; same shape
    score: FloatArray  # its score among the machines that do not stand out more; same shape
    first: BoolArray  # whether it is the farthest and stands out with all others there; same shape

    def only(self, kept: BoolArray) -> Candidates:
        """Return some of the entries; ``kept`` has shape (entries,)."""
        return Candidates(self.window[kept], self.machine[kept], self.score[kept], self.first[kept])


def together(parts: Sequence[Candidates]) -> Candidates:
    """Return candidates that were found apart, in the order of their windows."""
    if not parts:
        return Candidates(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_))
    window, machine, score, first = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("window", "machine", "score", "first")
    )
    order = np.argsort(window, kind="stable")
    return Candidates(window[order], machine[order], score[order], first[order])


def few(machines: int) -> int:
    """Return how many of these machines may stand out; of more, the machines are no peers."""
    return max(FEW, int(FEW_SHARE * machines))


def candidates(windows: FloatArray, *, threshold: float | None, least: float) -> Candidates:
    """Return the candidates of each window; where more than a few stand out, only the farthest.

    Windows in which a cheap bound proves that no machine reaches the threshold are not looked at further; most windows
    of healthy machines are such.

    :param windows: shape (windows, machines, samples).
    :param threshold: scores below it do not matter; ``None`` = :func:`default_threshold` of the machines compared.
    :param least: a mean distance below this does not matter either: peers that are nearer to each other than
        ``least / threshold`` count as that far apart.
    """
    found: list[Candidates] = []
    most = few(windows.shape[1])
    here, rows = np.arange(len(windows)), np.broadcast_to(np.arange(windows.shape[1]), windows.shape[:2])
    hidden = np.zeros(len(windows), dtype=np.bool_)  # Whether the machine left out last did not reach the threshold
    while len(here) and windows.shape[1] >= LEAST_MACHINES and len(found) <= most:
        top, score, later = _farthest(windows, threshold, least)
        out = np.flatnonzero((score > 0.0) | later & ~hidden)
        here, windows, rows, top, score = here[out], windows[out], rows[out], top[out], score[out]
        found.append(Candidates(here, rows[np.arange(len(out)), top], score, (score > 0.0) & (not found)))
        hidden = score == 0.0
        others = np.ones(rows.shape, dtype=np.bool_)
        others[np.arange(len(out)), top] = False
        windows = windows[others].reshape(len(out), rows.shape[1] - 1, windows.shape[2])
        rows = rows[others].reshape(len(out), rows.shape[1] - 1)
    return _believed(found, most)


def _believed(found: Sequence[Candidates], most: int) -> Candidates:
    """Return the candidates of each round, one a window, without those that did not matter and those beyond a few.

    Of two machines the one left out first is the farther from those that remain, so its score beside the same peers is
    at least that of the other.
    """
    best = np.zeros(1 + max((int(one.window.max(initial=0)) for one in found), default=0))
    parts = []
    for one in reversed(found):
        best[one.window] = np.maximum(best[one.window], one.score)
        parts.append(replace(one, score=best[one.window]).only(best[one.window] > 0.0))
    every = together(parts[::-1])
    count = np.bincount(every.window, minlength=1)
    return every.only((count[every.window] <= most) | every.first)


def _farthest(windows: FloatArray, threshold: float | None, least: float) -> tuple[IntArray, FloatArray, BoolArray]:
    """Return the row of the machine that is farthest from the others, its score, 0 = below the threshold, and whether
    another may reach it when that one is left out.

    Shapes: (windows,) all.
    """
    machines = windows.shape[1]
    threshold = threshold or default_threshold(machines)
    floor = max(least / threshold, 1e-9)
    machine = np.zeros(len(windows), dtype=np.int64)
    score = np.zeros(len(windows))
    left_out = int(LEAST_MACHINES < machines <= HIDING)
    later = _bound(windows, floor, left_out=left_out) >= threshold
    open_windows = np.flatnonzero(later)
    block = max(1, BLOCK_PAIRS // (machines * min(machines, ALL_PAIRS + FARTHEST)))
    for begin in range(0, len(open_windows), block):
        chosen = open_windows[begin : begin + block]
        machine[chosen], score[chosen] = _score(windows[chosen], floor)
    score[score < threshold] = 0.0
    return machine, score, later & bool(left_out)


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


def _bound(windows: FloatArray, floor: float, *, left_out: int) -> FloatArray:
    """Return a score that no machine of a window exceeds, with up to so many others left out; shape (windows,).

    With r the distance to the window's median machine: the mean distance of i to the others is at most r_i + mean(r)
    (triangle inequality), and the mean distance of j to the others at least its distance to their mean (Jensen).
    """
    machines = windows.shape[1]
    from_median = _lengths(windows - np.median(windows, axis=1, keepdims=True))
    from_mean = _lengths(windows - windows.mean(axis=1, keepdims=True))
    at_most = from_median.max(axis=1) + from_median.sum(axis=1) / (machines - 1 - left_out)
    # The mean without i, j and those left out lies at most this far from the mean of all; without i and those left out
    # the median moves one place at most for each.
    shift = (1 + left_out) * from_mean.max(axis=1) / (machines - 2 - left_out)
    middle = (machines - 2 - left_out) // 2
    low = np.partition(from_mean, middle, axis=1)[:, middle]
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
