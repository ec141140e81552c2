"""Which machine of a job stands out, and whether it does so for long enough: the pipeline of Minder.

Metric by metric, never fused, in a given order: common clock, min-max normalisation, windows, denoising, distances,
candidates, continuity.  The first machine metric that raises an alert ends the search.

For each window: the Euclidean distances between all machines' windows, summed for each machine (Minder, section 4.4).
The candidate is the machine with the largest sum.  Its score is scale-free and means the same for 4 machines as for
1,500: its mean distance to the others, over the median of the mean distances of the others among themselves, the
candidate left out.  Score 6 = it is six times farther from its peers than they are from each other.  Of the machines
that remain the next is sought in the same way, until none reaches the threshold.  Two that are alike hide each other,
so one that does not reach it is left out as well, and counts if the next does (Rosner 1983, generalised extreme
Studentised deviate: the number of outliers is the last step that is significant, not the first that is not).

Alerts are taken back where healthy machines do not do the same: those that work would be accused.  Of one moment
nothing follows, no alert and no flag, as a machine is judged by what it does for minutes; it is shown how far each
metric goes, and which machine stands out just then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from ground.errors import InvalidInput
from ground.quantities import number, plural
from health.peers import metrics
from health.peers.denoise import Denoiser, level
from health.peers.streams import FloatArray, IntArray, MetricRecording, SampleGrid, Samples, align
from health.peers.verdict import Doubt, Examined, PeersVerdict, Stretch, is_busier_cpu
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
        np.concatenate([getattr(part, name) for part in parts]) for name in ("window", "machine", "score", "first")
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
    rounds: list[Candidates] = []  # of each round the farthest machine of each window
    most = few(windows.shape[1])
    here, rows = np.arange(len(windows)), np.broadcast_to(np.arange(windows.shape[1]), windows.shape[:2])
    hidden = np.zeros(len(windows), dtype=np.bool_)  # Whether the machine left out last did not reach the threshold
    while len(here) and windows.shape[1] >= LEAST_MACHINES and len(rounds) <= most:
        machines = windows.shape[1]
        enough = threshold or default_threshold(machines)
        floor = max(least / enough, 1e-9)
        # row of the machine that is farthest from the others, and its score; 0 = below the threshold
        top, score = np.zeros(len(windows), dtype=np.int64), np.zeros(len(windows))
        left_out = int(LEAST_MACHINES < machines <= HIDING)
        reachable = _bound(windows, floor, left_out=left_out) >= enough
        open_windows = np.flatnonzero(reachable)
        block = max(1, BLOCK_PAIRS // (machines * min(machines, ALL_PAIRS + FARTHEST)))
        for begin in range(0, len(open_windows), block):
            chosen = open_windows[begin : begin + block]
            top[chosen], score[chosen] = _score(windows[chosen], floor)
        score[score < enough] = 0.0
        # when the farthest is left out, another may reach the threshold
        out = np.flatnonzero((score > 0.0) | (reachable & bool(left_out) & ~hidden))
        here, windows, rows, top, score = here[out], windows[out], rows[out], top[out], score[out]
        rounds.append(Candidates(here, rows[np.arange(len(out)), top], score, (score > 0.0) & (not rounds)))
        hidden = score == 0.0
        others = np.ones(rows.shape, dtype=np.bool_)
        others[np.arange(len(out)), top] = False
        windows = windows[others].reshape(len(out), rows.shape[1] - 1, windows.shape[2])
        rows = rows[others].reshape(len(out), rows.shape[1] - 1)
    # Of two machines the one left out first is the farther from those that remain, so its score beside the same peers
    # is at least that of the other.
    best = np.zeros(1 + max((int(farthest.window.max(initial=0)) for farthest in rounds), default=0))
    parts = []
    for farthest in reversed(rounds):
        best[farthest.window] = np.maximum(best[farthest.window], farthest.score)
        parts.append(replace(farthest, score=best[farthest.window]).only(best[farthest.window] > 0.0))
    every = together(parts[::-1])
    count = np.bincount(every.window, minlength=1)
    return every.only((count[every.window] <= most) | every.first)


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
        evenly = np.linspace(0, machines - 1, ALL_PAIRS).round().astype(np.int64)
        from_middle = _lengths(windows - np.median(windows, axis=1, keepdims=True))
        far = np.argpartition(from_middle, machines - FARTHEST, axis=1)[:, -FARTHEST:]
        rows = np.concatenate((far, np.broadcast_to(evenly, (count, ALL_PAIRS))), axis=1)
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


NEW_SHARE = 0.5  # From this part of its distance on, what a machine differs by is new, and not its role


def new_beside(past: tuple[float, float] | None, *, own: float, peers: float) -> bool:
    """Return whether at least :data:`NEW_SHARE` of what a machine differs by is new; without a past it is not.

    What is not new is that it stands to its peers as it stood before, whatever both did meanwhile.

    :param past: what it and its peers had before; ``None`` = not known.
    """
    if past is None:
        return False
    before, peers_before = past
    usual = before * peers / peers_before if peers_before > 0.0 else before
    return abs(own - usual) >= NEW_SHARE * abs(own - peers)


def doubted(
    examined: Examined,
    recording: MetricRecording,
    *,
    threshold: float | None = None,
    changed: Collection[str] = (),
) -> Examined:
    """Return the same, with alerts that are to be doubted taken back.

    Where healthy machines do not do the same, there are no peers, and a verdict would accuse a machine that works.
    Step times are left alone: they are measured where a machine works, and count only where it is slower.

    :param threshold: the score of candidates; ``None`` = that of so many machines.
    :param changed: machines that were seen to change before the recording began.
    """
    if metrics.is_step_time(examined.metric) or not examined.alerts:
        return examined
    metric = examined.metric
    telling = [samples for name, samples in recording.metrics.items() if metrics.tells_idleness(name) or name == metric]
    doubts: dict[Stretch, Doubt | None] = {}
    for alert in examined.alerts:
        if alert.own > alert.peers and metrics.is_work(metric):
            doubts[alert] = "busier"
        else:
            doubts[alert] = "idle-peers" if any(_idle(samples, alert) for samples in telling) else None
    if len({stretch.machine for stretch, doubt in doubts.items() if doubt is None}) > few(examined.machines):
        doubts = {stretch: doubt or "many" for stretch, doubt in doubts.items()}
    least = (threshold or default_threshold(examined.machines)) / NEW_SHARE
    of_role = {
        stretch for stretch in doubts if stretch.machine not in changed and _may_be_its_role(stretch, metric, least)
    }
    doubts = {stretch: doubt or ("role" if stretch in of_role else None) for stretch, doubt in doubts.items()}
    judged = [
        replace(stretch, alert=None, doubt=doubt) if (doubt := doubts.get(stretch)) is not None else stretch
        for stretch in examined.stretches
    ]
    return replace(examined, stretches=tuple(judged))


def _may_be_its_role(stretch: Stretch, metric: str, least: float) -> bool:
    """Return whether a machine may always have differed as much: it did before, or has since the recording began.

    Healthy machines differ for good, a few of many by far more than most.  Without a past half of the distance is taken
    for that, so it must be as far again; more CPU usage is never believed then, as that of rank 0, which also logs and
    writes checkpoints.

    :param least: the score from which on it is believed without a past.
    """
    if stretch.past is None or stretch.past_peers is None:
        return stretch.score < least or is_busier_cpu(stretch, metric)
    return not new_beside((stretch.past, stretch.past_peers), own=stretch.own, peers=stretch.peers)


def _idle(samples: Samples, stretch: Stretch) -> bool:
    """Return whether the other machines do not work by this metric while one stands out."""
    level = metrics.idle_level(samples.metric)
    if level is None:
        return False
    own = samples.machines.index(stretch.machine) if stretch.machine in samples.machines else -1
    value = samples.value[(samples.time >= stretch.start) & (samples.time <= stretch.end) & (samples.machine != own)]
    return len(value) > 0 and float(np.median(value)) <= level


CHUNK_NUMBERS = 16_000_000  # Numbers of windows that are denoised at once: what bounds the memory
# A step time that is less than so many times the peers' is not worth a flag; a faster one does no harm
LEAST_SLOWDOWN = 1.1
# Most steps by which a machine is looked for behind its peers; of a clock further off its rest beyond whole training
# steps shows
MOST_LAG = 30
# ... and at most one such part of the time it stood out, so that what began or ended meanwhile cannot explain it
LAG_SHARE = 8
EXPLAINED = 0.5  # A shift that leaves at most this part of the distance explains it
# Seconds to which longer times without any sample are cut: days between two runs cost nothing, and join nothing
LONGEST_GAP = 3_600.0
LEVEL_SHARE = 0.05  # A difference below this share of a metric's mean level is not noticeable, whatever the metric
# The past tells a machine's role where it is as long as this part of the windows that an alert needs, two minutes of
# four.  All of it would miss what begins in the first four minutes of a recording, and half loses nothing (benchmarks
# peers): what accused the healthy was a past of another phase, not a short one
PAST = 0.5
# Peers that do so many times as much as at another time, or as little, are in another phase of the job: loading, a
# checkpoint, a pause.  A slow machine lets those that wait for it fall to a half at most
OTHER_PHASE = 3.0


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """What decides.  The defaults are the paper's where it says, and otherwise measured (docs: peers.md)."""

    window: int = 8  # samples in a window; 8 at the paper's one sample a second
    # score from which the machine that stands out most is a candidate; None = by the number of machines,
    # health.peers.comparison.default_threshold
    threshold: float | None = None
    # seconds that a machine has to stay the candidate; the paper's 4 minutes.  0 = none, for trials
    continuity: float = 240.0
    # the same where the metric is the time of a training step.  It is the loss itself, not a sign of it, and costs the
    # machine a slowdown factor, not its place
    step_time_continuity: float = 60.0
    # share of the windows in that time in which it has to be the candidate.  In the paper all of them; with many
    # machines some other one has a moment now and then
    hold: float = 0.9
    order: Sequence[str] = metrics.PAPER_ORDER  # metrics in the order in which they are asked; others come after
    step: float | None = None  # seconds between samples on the common clock; None = as sampled
    denoiser: Denoiser = level


def detect(
    recording: MetricRecording,
    settings: ComparisonSettings,
    *,
    everything: bool = False,
    changed: Collection[str] = (),
) -> Iterator[Examined]:
    """Yield what is seen in each metric, until one raises an alert; slow steps do not end the search for their cause,
    and more CPU usage does not end that for a sign that the machine is at fault.

    :param everything: go on after an alert.
    :param changed: machines that were seen to change before the recording began: what they differ by is no role.
    """
    machines, phases = recording.machines, JobPhases(recording)
    if len(machines) < LEAST_MACHINES:
        count = plural(len(machines), "machine")
        problem = f"has {count}; peers can only be compared when there are {LEAST_MACHINES} or more"
        raise InvalidInput(problem, where=recording.source, fix="give the metrics of all machines of the job")
    for name in metrics.in_order(recording.metrics, settings.order):
        samples = recording.metrics[name]
        if metrics.is_code(name):
            samples = replace(samples, value=(samples.value != 0.0).astype(np.float64))
        grid = align(samples, step=settings.step, machines=machines, longest_gap=LONGEST_GAP)
        examined = doubted(examine(grid, settings, phases), recording, threshold=settings.threshold, changed=changed)
        yield examined
        causes = [
            alert for alert in examined.alerts if not metrics.is_step_time(name) and not is_busier_cpu(alert, name)
        ]
        if causes and not everything:
            return


class JobPhases:
    """What the machines of a job do over time, by their medians in the metrics that say how much GPUs work."""

    def __init__(self, recording: MetricRecording) -> None:
        self._recording = recording

    def alike(self, times: FloatArray, start: float, end: float) -> BoolArray:
        """Return of each time (seconds, ascending) whether the machines worked as between two times; true = unknown."""
        same = np.ones(len(times), dtype=np.bool_)
        for at, levels in self._levels:
            now = levels[(at >= start) & (at <= end)]
            if len(now):
                same &= same_phase(np.interp(times, at, levels), float(np.median(now)))
        return same

    @cached_property
    def _levels(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return times and the median of the machines at each, of each such metric."""
        grids = [align(samples) for name, samples in self._recording.metrics.items() if metrics.is_work(name)]
        return [(grid.times, np.median(grid.values, axis=0)) for grid in grids]


def same_phase(levels: FloatArray, now: float, noticeable: float = 0.0) -> BoolArray:
    """Return of each level whether it is that of a job that does what it does at the level ``now``."""
    apart = np.abs(levels - now) > noticeable
    low, high = np.minimum(np.abs(levels), abs(now)), np.maximum(np.abs(levels), abs(now))
    alike: BoolArray = ~apart | (high <= OTHER_PHASE * low)
    return alike


def examine(grid: SampleGrid, settings: ComparisonSettings, phases: JobPhases | None = None) -> Examined:
    """Return candidates of one metric, and how long each lasted; ``None`` = the metric alone tells the job's phases."""
    timed = metrics.is_step_time(grid.metric)
    needed = settings.step_time_continuity if timed else settings.continuity
    standing_out = scores(grid, settings)
    if timed or metrics.is_code(grid.metric):
        # only those whose window's median is LEAST_SLOWDOWN times their peers' or more
        kept = np.zeros(len(standing_out.window), dtype=np.bool_)
        for k, (begin, row) in enumerate(zip(standing_out.window, standing_out.machine, strict=True)):
            part = grid.values[:, begin : begin + settings.window]
            kept[k] = np.median(part[row]) >= LEAST_SLOWDOWN * np.median(part)
        standing_out = standing_out.only(kept)
    windows = max(1, round(needed / grid.step))
    if needed and not timed:
        # A sample is in ``window`` windows, and no machine is to be excluded for a single one.
        windows = max(windows, settings.window + 1)
    slack = int((1.0 - settings.hold) * windows + 1e-9)
    stretches = [
        _stretch(grid, run, phases, window=settings.window, windows=windows, hold=settings.hold)
        for whole in _runs(standing_out, slack)
        for run in (
            [whole]
            if _is_new(grid, whole, phases, window=settings.window, windows=windows)
            else _runs(whole.only(whole.first), slack)
        )
    ]
    ending = grid.silent[:, -1] if grid.silent.size else np.ones(len(grid.machines), dtype=np.bool_)
    return Examined(
        metric=grid.metric,
        machines=len(grid.machines) - int(grid.silent.all(axis=1).sum()),
        step=grid.step,
        needed=windows * grid.step,
        stretches=tuple(sorted(stretches, key=lambda stretch: stretch.start - stretch.end)),
        silent=tuple(name for name, gone in zip(grid.machines, ending, strict=True) if gone),
    )


def scores(grid: SampleGrid, settings: ComparisonSettings) -> Candidates:
    """Return the candidates of each window."""
    count = grid.values.shape[1] - settings.window + 1
    low, high = float(grid.values.min()), float(grid.values.max())
    span = high - low
    if count < 1 or span <= 0.0:
        return together([])
    values = ((grid.values - low) / span).astype(np.float32)
    mean_level = float(np.abs(grid.values).mean())
    least = max(metrics.metric_of(grid.metric).noticeable, LEVEL_SHARE * mean_level) / span * settings.window**0.5
    windows = np.lib.stride_tricks.sliding_window_view(values, settings.window, axis=1).swapaxes(0, 1)
    silent = np.any(np.lib.stride_tricks.sliding_window_view(grid.silent, settings.window, axis=1), axis=2).T
    chunk = max(1, CHUNK_NUMBERS // windows[0].size)
    parts = []
    for begin in range(0, count, chunk):
        part = slice(begin, begin + chunk)
        in_part = _among_the_heard(settings.denoiser(windows[part]), silent[part], settings.threshold, least)
        parts.append(replace(in_part, window=in_part.window + begin))
    return together(parts)


def _among_the_heard(windows: FloatArray, silent: BoolArray, threshold: float | None, least: float) -> Candidates:
    """Return candidates among the machines that were not silent in a window, provided that they are enough to be peers.

    :param silent: shape (windows, machines).
    """
    patterns, pattern_of = np.unique(silent, axis=0, return_inverse=True) if silent.any() else (silent[:1], None)
    parts = []
    for k, pattern in enumerate(patterns):
        rows = np.flatnonzero(~pattern)
        if len(rows) < LEAST_MACHINES:
            continue
        chosen = np.arange(len(windows)) if pattern_of is None else np.flatnonzero(pattern_of.ravel() == k)
        part = windows if pattern_of is None else windows[chosen]
        among = candidates(part if len(rows) == len(pattern) else part[:, rows], threshold=threshold, least=least)
        parts.append(replace(among, window=chosen[among.window], machine=rows[among.machine]))
    return together(parts)


def _runs(standing_out: Candidates, slack: int) -> Iterator[Candidates]:
    """Yield what is found of one machine without a break; up to ``slack`` windows on end may lack it."""
    for row in np.unique(standing_out.machine):
        mine = standing_out.only(standing_out.machine == row)
        run = np.cumsum(np.diff(mine.window, prepend=mine.window[0]) > slack + 1)
        for k in range(int(run[-1]) + 1):
            yield mine.only(run == k)


def _past(
    grid: SampleGrid, run: Candidates, phases: JobPhases | None, *, window: int, windows: int
) -> tuple[float, float] | None:
    """Return the medians of a machine and of its peers before a run, while the job did what it does during the run.

    A pause tells nothing of a role at work: machines that load or wait are alike.  ``None`` = the machine was heard in
    too few such columns.  Errors, of which no machine should have any, are no role: a window suffices.
    """
    first, row = int(run.window[0]), int(run.machine[0])
    last = int(run.window[-1]) + window - 1
    peers = np.median(np.delete(grid.values[:, : last + 1], row, axis=0), axis=0)
    level = float(np.median(peers[_core(run, window)]))
    alike = ~grid.silent[row, :first] & same_phase(peers[:first], level, metrics.metric_of(grid.metric).noticeable)
    if phases is not None and alike.any():
        alike &= phases.alike(grid.times[:first], grid.time(first), grid.time(last))
    before = grid.values[:, :first][:, alike]
    # a run begins up to a window before what it shows
    if before.shape[1] < (window if metrics.counts_errors(grid.metric) else max(window, int(PAST * windows) - window)):
        return None
    return float(np.median(before[row])), float(np.median(np.delete(before, row, axis=0)))


def _core(run: Candidates, window: int) -> slice:
    """Return the columns of a run but for half of its first and last window, which only in part are what they show."""
    start = int(run.window[0]) + window // 2
    return slice(start, max(int(run.window[-1]) + window - 1 - window // 2, start) + 1)


def _is_new(grid: SampleGrid, run: Candidates, phases: JobPhases | None, *, window: int, windows: int) -> bool:
    """Return whether a machine differs from its peers otherwise than before.

    One that does not counts only where it stands out most: several that differ for good have different roles.
    """
    row, part = int(run.machine[0]), grid.values[:, _core(run, window)]
    past = _past(grid, run, phases, window=window, windows=windows)
    peers = float(np.median(np.delete(part, row, axis=0)))
    return new_beside(past, own=float(np.median(part[row])), peers=peers)


def lag(values: FloatArray, row: int, first: int, last: int) -> int | None:
    """Return steps by which a machine follows its peers, negative = precedes them; ``None`` = no shift explains it.

    A machine whose clock is wrong, or that has a rhythm of its own, stands out wherever a metric swings, though nothing
    is wrong with it.  What is at fault stands out however its samples are shifted.

    :param values: shape (machines, times).
    :param first: first time at which the machine of this row stood out; the last is ``last``.
    """
    own = values[row, first : last + 1]
    peers = np.median(np.delete(values, row, axis=0), axis=0)
    most = min(MOST_LAG, len(own) // LAG_SHARE)
    shifts = [k for k in range(-most, most + 1) if first - k >= 0 and last - k < len(peers)]
    apart = {k: float(np.abs(own - peers[first - k : last + 1 - k]).mean()) for k in shifts}
    best = min(apart, key=lambda k: (apart[k], abs(k)))
    return best if best != 0 and apart[best] <= EXPLAINED * apart[0] else None


def counted_seconds(stretch: Stretch, *, step: float, window: int) -> float:
    """Return for how long a machine stood out as an alert counts it: one step of the samples for each window.

    :param step: seconds between samples; ``window``: samples of a window.
    """
    # its last window ends window - 1 samples after it begins, and there is one window more than steps between them
    return stretch.end - stretch.start - (window - 2) * step


def _stretch(
    grid: SampleGrid, run: Candidates, phases: JobPhases | None, *, window: int, windows: int, hold: float
) -> Stretch:
    """Return one machine's windows on end as a stretch, with an alert if so many windows hold it."""
    first, last, row = int(run.window[0]), int(run.window[-1]), int(run.machine[0])
    end = last + window - 1
    inside = np.zeros(last - first + 1, dtype=np.bool_)
    inside[run.window - first] = True
    # the first window that ends so many of which enough are hits
    wanted = ceil(hold * windows - 1e-9)
    counts = np.cumsum(np.concatenate(([0], inside)))
    enough = np.flatnonzero(counts[windows:] - counts[:-windows] >= wanted)
    alert = int(enough[0]) + windows - 1 if len(enough) else None
    core = _core(run, window)
    part = grid.values[:, core]
    past, past_peers = _past(grid, run, phases, window=window, windows=windows) or (None, None)
    late = None if alert is None else lag(grid.values, row, core.start, core.stop - 1)
    return Stretch(
        machine=grid.machines[row],
        start=grid.time(first),
        end=grid.time(end),
        alert=None if alert is None or late is not None else grid.time(first + alert + window - 1),
        score=float(np.median(run.score)),
        own=float(np.median(part[row])),
        peers=float(np.median(np.delete(part, row, axis=0))),
        past=past,
        past_peers=past_peers,
        lasting=end == grid.values.shape[1] - 1,
        late=None if late is None else late * grid.step,
        doubt=None,
    )


SHORT = 1.0  # Seconds within which samples are of one moment
NOTE = "one scrape; ask Prometheus for a range: /api/v1/query_range"
MOST = 6  # Metrics whose values are told


def is_moment(recording: MetricRecording) -> bool:
    """Return whether no machine has samples of more than one moment."""
    for samples in recording.metrics.values():
        first = np.full(len(samples.machines), np.inf)
        last = np.full(len(samples.machines), -np.inf)
        np.minimum.at(first, samples.machine, samples.time)
        np.maximum.at(last, samples.machine, samples.time)
        if float((last - first).max(initial=0.0)) >= SHORT:
            return False
    return True


def at_moment(recording: MetricRecording) -> PeersVerdict:
    """Return what one moment shows, metrics in the order in which they would be judged."""
    names = metrics.in_order(recording.metrics)
    examined = [_examined(recording.metrics[name]) for name in names]
    out = [
        f"{stretch.machine} in {metrics.metric_of(metric.metric).title}"
        for metric in examined
        for stretch in metric.stretches
    ]
    errors = []  # which machines have counted errors, whatever they did before
    for name, samples in sorted(recording.metrics.items()):
        if metrics.counts_errors(name) and (samples.value > 0).any():
            pairs = zip(samples.value.tolist(), samples.machine.tolist(), strict=True)
            most = {samples.machines[k]: value for value, k in sorted(pairs) if value > 0}
            counts = [f"{machine} {number(value)}" for machine, value in list(most.items())[:MOST]]
            errors.append(f"not zero: {metrics.metric_of(name).title} of {', '.join(counts)}")
    machines = plural(len(recording.machines), "machine")
    standing = f"; just then these stand out: {', '.join(out[:MOST])}" if out else ""
    familiar = {metric.name for metric in metrics.KNOWN}
    values = []
    for name in sorted(names, key=lambda name: name not in familiar)[:MOST]:
        value = recording.metrics[name].value
        low, high = float(value.min()), float(value.max())
        span = number(low) if low == high else f"{number(low)} to {number(high)}"
        values.append(f"{metrics.metric_of(name).title} {span}")
    return PeersVerdict(
        verdict=f"one moment of {machines}, which nothing can be judged by{standing}",
        source=recording.source,
        machines=len(recording.machines),
        metrics=tuple(examined),
        flags=(),
        notes=(*recording.notes, NOTE, *errors, f"{plural(len(names), 'metric')}: {'; '.join(values)}"),
    )


def _examined(samples: Samples) -> Examined:
    count = np.bincount(samples.machine, minlength=len(samples.machines))
    there = np.flatnonzero(count)
    mean = np.bincount(samples.machine, samples.value, len(samples.machines))[there] / count[there]
    stretches = []
    if len(there) >= LEAST_MACHINES:
        least = max(metrics.metric_of(samples.metric).noticeable, LEVEL_SHARE * float(np.abs(mean).mean()), 1e-12)
        standing_out = candidates(mean[None, :, None], threshold=None, least=least)
        time = float(samples.time.min())
        for row, score in zip(standing_out.machine.tolist(), standing_out.score.tolist(), strict=True):
            name, peers = samples.machines[there[row]], float(np.median(np.delete(mean, row)))
            own = float(mean[row])
            stretches.append(
                Stretch(name, time, time, None, score, own, peers, None, None, lasting=True, late=None, doubt=None)
            )
    return Examined(samples.metric, len(there), step=0.0, needed=0.0, stretches=tuple(stretches), silent=())
