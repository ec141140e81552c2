"""Which machine of a job stands out, and whether it does so for long enough: the pipeline of Minder.

Metric by metric, never fused, in a given order: common clock, min-max normalisation, windows, denoising, distances,
candidates, continuity.  The first machine metric that raises an alert ends the search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from ground.errors import InvalidInput
from ground.quantities import plural
from health.peers.denoise import Denoiser, level
from health.peers.distance import LEAST_MACHINES, Candidates, candidates, together
from health.peers.doubts import doubted, new_beside
from health.peers.metrics import PAPER_ORDER, counts_errors, in_order, is_code, is_step_time, is_work, metric_of
from health.peers.peers_verdict import Examined, Stretch, is_busier_cpu
from health.peers.streams import FloatArray, MetricRecording, SampleGrid, align
from topology.cluster import BoolArray

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
    # health.peers.distance.default_threshold
    threshold: float | None = None
    # seconds that a machine has to stay the candidate; the paper's 4 minutes.  0 = none, for trials
    continuity: float = 240.0
    # the same where the metric is the time of a training step.  It is the loss itself, not a sign of it, and costs the
    # machine a slowdown factor, not its place
    step_time_continuity: float = 60.0
    # share of the windows in that time in which it has to be the candidate.  In the paper all of them; with many
    # machines some other one has a moment now and then
    hold: float = 0.9
    order: Sequence[str] = PAPER_ORDER  # metrics in the order in which they are asked; others come after
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
        raise InvalidInput(
            f"has {count}; peers can only be compared when there are {LEAST_MACHINES} or more",
            where=recording.source,
            fix="give the metrics of all machines of the job",
        )
    for name in in_order(recording.metrics, settings.order):
        samples = recording.metrics[name]
        if is_code(name):
            samples = replace(samples, value=(samples.value != 0.0).astype(np.float64))
        grid = align(samples, step=settings.step, machines=machines, longest_gap=LONGEST_GAP)
        examined = doubted(examine(grid, settings, phases), recording, threshold=settings.threshold, changed=changed)
        yield examined
        causes = [one for one in examined.alerts if not is_step_time(name) and not is_busier_cpu(one, name)]
        if causes and not everything:
            return


class JobPhases:
    """What the machines of a job do over time, by their medians in the metrics that say how much GPUs work."""

    def __init__(self, recording: MetricRecording) -> None:
        self._recording = recording

    def alike(self, times: FloatArray, start: float, end: float) -> BoolArray:
        """Return of each time (seconds, ascending) whether the machines worked as between two times; true = unknown."""
        found = np.ones(len(times), dtype=np.bool_)
        for at, levels in self._levels:
            now = levels[(at >= start) & (at <= end)]
            if len(now):
                found &= same_phase(np.interp(times, at, levels), float(np.median(now)))
        return found

    @cached_property
    def _levels(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return times and the median of the machines at each, of each such metric."""
        grids = [align(samples) for name, samples in self._recording.metrics.items() if is_work(name)]
        return [(grid.times, np.median(grid.values, axis=0)) for grid in grids]


def same_phase(levels: FloatArray, now: float, noticeable: float = 0.0) -> BoolArray:
    """Return of each level whether it is that of a job that does what it does at the level ``now``."""
    apart = np.abs(levels - now) > noticeable
    low, high = np.minimum(np.abs(levels), abs(now)), np.maximum(np.abs(levels), abs(now))
    alike: BoolArray = ~apart | (high <= OTHER_PHASE * low)
    return alike


def examine(grid: SampleGrid, settings: ComparisonSettings, phases: JobPhases | None = None) -> Examined:
    """Return candidates of one metric, and how long each lasted; ``None`` = the metric alone tells the job's phases."""
    timed = is_step_time(grid.metric)
    needed = settings.step_time_continuity if timed else settings.continuity
    found = scores(grid, settings)
    if timed or is_code(grid.metric):
        found = _higher_only(found, grid, settings.window)
    windows = max(1, round(needed / grid.step))
    if needed and not timed:
        # A sample is in ``window`` windows, and no machine is to be excluded for a single one.
        windows = max(windows, settings.window + 1)
    slack = int((1.0 - settings.hold) * windows + 1e-9)
    stretches = [
        _stretch(grid, run, phases, window=settings.window, windows=windows, hold=settings.hold)
        for whole in _runs(found, slack)
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
        stretches=tuple(sorted(stretches, key=lambda one: one.start - one.end)),
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
    least = max(metric_of(grid.metric).noticeable, LEVEL_SHARE * mean_level) / span * settings.window**0.5
    windows = np.lib.stride_tricks.sliding_window_view(values, settings.window, axis=1).swapaxes(0, 1)
    silent = np.any(np.lib.stride_tricks.sliding_window_view(grid.silent, settings.window, axis=1), axis=2).T
    chunk = max(1, CHUNK_NUMBERS // windows[0].size)
    parts = []
    for begin in range(0, count, chunk):
        part = slice(begin, begin + chunk)
        found = _among_the_heard(settings.denoiser(windows[part]), silent[part], settings.threshold, least)
        parts.append(replace(found, window=found.window + begin))
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


def _higher_only(found: Candidates, grid: SampleGrid, window: int) -> Candidates:
    """Return candidates whose window's median is :data:`LEAST_SLOWDOWN` times their peers' or more."""
    kept = np.zeros(len(found.window), dtype=np.bool_)
    for k, (begin, row) in enumerate(zip(found.window, found.machine, strict=True)):
        part = grid.values[:, begin : begin + window]
        kept[k] = np.median(part[row]) >= LEAST_SLOWDOWN * np.median(part)
    return found.only(kept)


def _runs(found: Candidates, slack: int) -> Iterator[Candidates]:
    """Yield what is found of one machine without a break; up to ``slack`` windows on end may lack it."""
    for row in np.unique(found.machine):
        mine = found.only(found.machine == row)
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
    alike = ~grid.silent[row, :first] & same_phase(peers[:first], level, metric_of(grid.metric).noticeable)
    if phases is not None and alike.any():
        alike &= phases.alike(grid.times[:first], grid.time(first), grid.time(last))
    before = grid.values[:, :first][:, alike]
    # a run begins up to a window before what it shows
    if before.shape[1] < (window if counts_errors(grid.metric) else max(window, int(PAST * windows) - window)):
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


def _alert(hit: BoolArray, windows: int, wanted: int) -> int | None:
    """Return the first window that ends ``windows`` of which ``wanted`` are hits; ``None`` = there is none."""
    counts = np.cumsum(np.concatenate(([0], hit)))
    enough = np.flatnonzero(counts[windows:] - counts[:-windows] >= wanted)
    return int(enough[0]) + windows - 1 if len(enough) else None


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
    alert = _alert(inside, windows, ceil(hold * windows - 1e-9))
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
