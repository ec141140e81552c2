"""Which machine of a job stands out, by which of its parts, and whether it does so for long enough.

Rows are what was measured apart: GPUs and ports where samples name them, else machines; of parts the mean of a machine
is one row more.  Each metric by itself: common clock, times at which the job works, medians of windows.  A row should
be what the median of all rows is, times what it was to that median before, so that what differs for good is no
difference.  It stands out where it is off by several times the spread of all rows (median absolute deviation), now and
before, and noticeably.  A row without a past is compared with the others as they are, by a stricter rule.  One that
stands out in 90 % of the windows of four minutes raises an alert.

The idea and the four minutes are Minder's (arXiv 2411.01791); its distances between windows found fewer faults, with
more false alarms, on machines and on GPUs.

Alerts are taken back where healthy machines do not do the same: those that work would be accused.  Of one moment
nothing follows, no alert and no flag, as a machine is judged by what it does for minutes; it is shown how far each
metric goes, and which machine stands out just then.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from ground.errors import InvalidInput
from ground.quantities import number, plural
from ground.records import AtLeastOne, NotNegative, Share, check_fields
from health.peers import metrics
from health.peers.streams import FloatArray, IntArray, MetricRecording, SampleGrid, Samples, align
from health.peers.verdict import Doubt, Examined, PeersVerdict, Stretch
from topology.cluster import BoolArray

LEAST_MACHINES = 4  # Fewer have no peers worth the name: of three, two that differ leave open which of them is odd
FEW = 2  # So many machines may stand out in one metric of any job, ...
FEW_SHARE = 0.05  # ... and of a large one this share of them: a job of 1,500 does not lose more than some tens at once
MAD = 1.4826  # Standard deviation over median absolute deviation, of a normal distribution
# The score that the farthest of so many rows reaches at one time in one of 50 jobs, if all differ by Gaussian offsets
# (quantiles of up to 200,000 draws): few rows say little of their spread, of many the farthest is far
_ROWS = (4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 256, 1_500, 12_000)
_SCORES = (11.1, 13.0, 7.8, 6.5, 5.8, 5.4, 4.9, 4.5, 4.3, 4.1, 4.1, 4.5, 4.7)
NEW = 7.0  # What is new is so many times the spread: many times and metrics are looked at (tuned on seeds of its own)
# Without a past, which tells a role from a fault, so many spreads, of few rows or of more than MANY: some differ for
# good by far more than most; and half more than the usual score
COLD_FEW, COLD_MANY, COLD_USUAL = 12.0, 16.0, 1.5
LEVEL_SHARE = 0.05  # A difference below this share of a metric's level is not noticeable, ...
COLD_SHARE = 0.15  # ... or this one without a past
NEW_SHARE = 0.5  # From this part of its distance on, what a row differs by is new, and not its role
# The past tells a role where it is as long as this part of the time that an alert needs, of more CPU usage all of it:
# rank 0 also logs and writes checkpoints.  All of it for each metric would miss what begins in the first four minutes
PAST = 0.5
# A job that does so many times less than at other times loads, writes a checkpoint or pauses, which tells nothing.  A
# slow machine lets those that wait for it fall to a half at most
OTHER_PHASE = 3.0
WORKS = 0.95  # Share of times below the level that a job reaches when it works
LEAST_SLOWDOWN = 1.1  # A step time of less than so many times the peers' is not worth a flag
LEAST_ERRORS = 3  # Samples of a window with errors: a bit is corrected now and then
MOST_LAG = 30  # Most steps by which a machine is looked for behind its peers, and ...
LAG_SHARE = 8  # ... one such part of the time it stood out, so that what began or ended meanwhile cannot explain it
EXPLAINED = 0.5  # A shift that leaves at most this part of the distance explains it
# Seconds to which longer times without any sample are cut: days between two runs cost nothing, and join nothing
LONGEST_GAP = 3_600.0
MANY = 64  # Of more rows a single one is no matter
CHUNK_NUMBERS = 8_000_000  # Numbers of windows whose medians are taken at once: what bounds the memory


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """What decides.  Four minutes are the paper's; the rest is measured (docs: peers.md)."""

    window: AtLeastOne = 8  # samples in a window
    threshold: NotNegative = NEW  # score from which a row stands out
    # seconds that a machine has to stand out; the paper's 4 minutes.  0 = none, for trials
    continuity: NotNegative = 240.0
    # the same where the metric is the time of a training step.  It is the loss itself, not a sign of it, and costs the
    # machine a slowdown factor, not its place
    step_time_continuity: NotNegative = 60.0
    # share of the windows in that time in which it has to stand out.  In the paper all of them
    hold: Share = 0.9
    # seconds between samples on the common clock; None = as sampled
    step: Annotated[float, Interval(gt=0, lt=inf)] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def few(machines: int) -> int:
    """Return how many of these machines may stand out; of more, the machines are no peers."""
    return max(FEW, int(FEW_SHARE * machines))


def usual_score(rows: int) -> float:
    """Return the score that the farthest of so many healthy rows reaches in one of 50 jobs."""
    return float(np.interp(np.log(rows), np.log(_ROWS), _SCORES))


def detect(
    recording: MetricRecording, settings: ComparisonSettings, *, changed: Collection[str] = ()
) -> Iterator[Examined]:
    """Yield what is seen in each metric, step times first.

    :param changed: machines that were seen to change before the recording began: what they differ by is no role.
    """
    working, machines_of = WorkingTimes(recording), dict[str, list[str]]()
    for name, samples in recording.metrics.items():  # exporters may call a machine each by another name
        senders = (samples.machines[k] for k in np.unique(samples.machine))
        machines_of[name] = sorted({recording.machine_of(row) for row in senders})
    if (most := max(map(len, machines_of.values()))) < LEAST_MACHINES:
        count = plural(most, "machine")
        problem = f"has {count}; peers can only be compared when there are {LEAST_MACHINES} or more"
        raise InvalidInput(problem, where=recording.source, fix="give the metrics of all machines of the job")
    for name in metrics.in_order(name for name in recording.metrics if not metrics.is_mask(name)):
        samples, machines = recording.metrics[name], machines_of[name]
        if metrics.is_code(name):
            samples = replace(samples, value=(samples.value != 0.0).astype(np.float64))
        of_parts = {recording.machine_of(row) for row in samples.machines if row in recording.parts}
        rows = [row for row in samples.machines if row in recording.parts or row not in of_parts]
        views = [(recording.by_machine(samples), machines)]
        if of_parts:
            views.append((samples, rows + [machine for machine in machines if machine not in {*rows} | of_parts]))
        seen = [
            examine(
                align(view, step=settings.step, machines=of, longest_gap=LONGEST_GAP),
                settings,
                working,
                parts=recording.parts,
                changed=changed,
            )
            for view, of in views
        ]
        stretches = [stretch for one in seen for stretch in one.stretches]
        never = tuple(machine for machine in recording.machines if machine not in {*machines})
        whole = replace(seen[0], stretches=tuple(sorted(stretches, key=_longest_first)), silent=seen[0].silent + never)
        yield doubted(whole, recording)
    if recording.parts:
        yield doubted(missing_parts(recording, settings), recording)


def _longest_first(stretch: Stretch) -> tuple[float, float, str, str]:
    return stretch.start - stretch.end, -stretch.score, stretch.machine, stretch.part


def missing_parts(recording: MetricRecording, settings: ComparisonSettings) -> Examined:
    """Return which parts send nothing any more while most of their kind on their machine do, as a GPU that fell off."""
    last: dict[str, float] = {}  # of each part the time of its last sample of anything but errors
    for name, samples in recording.metrics.items():
        if not metrics.counts_errors(name):
            ends = np.full(len(samples.machines), -np.inf)
            np.maximum.at(ends, samples.machine, samples.time)
            for row, end in zip(samples.machines, ends.tolist(), strict=True):
                if row in recording.parts:
                    last[row] = max(end, last.get(row, end))
    kinds: dict[tuple[str, str], dict[str, float]] = {}
    for row, end in last.items():
        machine, part = recording.parts[row]
        kinds.setdefault((machine, part.partition(" ")[0]), {})[part] = end
    stretches = []
    for (machine, _), parts in kinds.items():
        end = max(parts.values())
        silent = {part: seen for part, seen in parts.items() if end - seen >= settings.continuity}
        if 2 * len(silent) < len(parts):
            stretches += [
                Stretch(
                    machine, seen, end, seen + settings.continuity, 0.0, 0.0, 1.0, None, None, True, None, None, part
                )
                for part, seen in silent.items()
            ]
    stretches.sort(key=_longest_first)
    return Examined(metrics.MISSING, len(recording.machines), 0.0, settings.continuity, tuple(stretches), ())


class WorkingTimes:
    """When a job works, by the medians of its machines in the metrics that tell that a GPU idles."""

    def __init__(self, recording: MetricRecording) -> None:
        self._recording = recording

    def at(self, grid: SampleGrid) -> BoolArray:
        """Return of each column of a grid whether the job works; true = unknown."""
        works = _same_phase(np.median(grid.values, axis=0), metrics.metric_of(grid.metric).noticeable)
        for times, working in self._told:
            works &= np.interp(grid.times, times, working) > 0.99
        return works

    @cached_property
    def _told(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return times and whether the job works at each, 1 or 0, of each such metric."""
        recording = self._recording
        names = [name for name in recording.metrics if metrics.tells_idleness(name)]
        grids = [align(recording.by_machine(recording.metrics[name]), longest_gap=LONGEST_GAP) for name in names]
        return [(grid.times, _same_phase(np.median(grid.values, axis=0), 0.0).astype(np.float64)) for grid in grids]


def _same_phase(levels: FloatArray, noticeable: float) -> BoolArray:
    """Return of each level whether it is near that of a job that works, or noticeably not far from it."""
    working = float(np.quantile(levels, WORKS))
    same: BoolArray = (np.abs(working - levels) <= noticeable) | (OTHER_PHASE * levels >= working)
    return same


def examine(
    grid: SampleGrid,
    settings: ComparisonSettings,
    working: WorkingTimes,
    *,
    parts: Mapping[str, tuple[str, str]],
    changed: Collection[str] = (),
) -> Examined:
    """Return which rows stood out in one metric, and for how long.

    :param parts: of each row that is a part its machine and its own name.
    :param changed: machines that were seen to change before, so that what they differ by is no role.
    """
    timed = metrics.is_step_time(grid.metric)
    seconds = settings.step_time_continuity if timed else settings.continuity
    needed = max(1, round(seconds / grid.step))
    if seconds and not timed:
        # A sample is in ``window`` windows, and no machine is to be excluded for a single one.
        needed = max(needed, settings.window + 1)
    ending = grid.silent[:, -1] if grid.silent.size else np.ones(len(grid.machines), dtype=np.bool_)
    columns = np.flatnonzero(working.at(grid))
    stretches: list[Stretch] = []
    if len(columns) >= settings.window and len(grid.machines) >= LEAST_MACHINES:
        machine_of = [parts.get(row, (row, "")) for row in grid.machines]
        machines = [machine for machine, _ in machine_of]
        windows = Windows(grid, columns, settings, needed=needed, machines=machines, changed=changed)
        stretches = [windows.stretch(run, *machine_of[run[0]]) for run in windows.runs()]
    return Examined(
        metric=grid.metric,
        machines=len(grid.machines) - int(grid.silent.all(axis=1).sum()),
        step=grid.step,
        needed=needed * grid.step,
        stretches=tuple(sorted(stretches, key=_longest_first)),
        silent=tuple(name for name, gone in zip(grid.machines, ending, strict=True) if gone),
    )


Run = tuple[int, int, int]  # A row, and the first and last window of a stretch


class Windows:
    """The medians of one metric's windows, and which rows stand out in each; arrays have shape (rows, windows)."""

    def __init__(
        self,
        grid: SampleGrid,
        columns: IntArray,
        settings: ComparisonSettings,
        *,
        needed: int,
        machines: Sequence[str],
        changed: Collection[str],
    ) -> None:
        self._grid, self._columns, self._settings, self._needed = grid, columns, settings, needed
        self._values = grid.values[:, columns]
        name, window, known = grid.metric, settings.window, metrics.metric_of(grid.metric)
        errors = metrics.counts_errors(name)
        counted = errors and not metrics.is_code(name)
        self.levels = _of_windows(self._values, window, counted=counted)
        self.heard = ~_of_windows(grid.silent[:, columns], window)
        self.middle = _middle(self.levels, self.heard)
        off = np.where(self.heard, self.levels - self.middle, 0.0)
        spread, usual = MAD * _middle(np.abs(off), self.heard), usual_score(len(off))
        level = np.maximum(np.abs(self.middle), float(np.abs(self.levels).mean()))
        share = LEAST_SLOWDOWN - 1.0 if metrics.is_step_time(name) else LEVEL_SHARE
        least = np.full_like(level, LEAST_ERRORS) if counted else np.maximum(known.noticeable, share * level)
        apart = np.abs(off) >= np.maximum(usual * spread, least)
        # what counts before it is known whether it is new
        cold = usual if errors else max(COLD_FEW if len(off) <= MANY else COLD_MANY, COLD_USUAL * usual)
        far = least if errors else np.maximum(2.0 * known.noticeable, COLD_SHARE * level)
        self.out = np.abs(off) >= np.maximum(cold * spread, far)
        harmful = self.heard & (metrics.harm(name) * off >= 0.0)
        if name == "cpu_usage":  # more of it is never believed without a whole past, as that of rank 0
            harmful &= (np.arange(len(level)) >= window + needed - 1) | (off < 0.0)
        count = self.heard.sum(axis=0)
        harmful &= (count >= LEAST_MACHINES) & (2 * count > len(off))
        self.out &= harmful
        if not errors:  # what several machines differ by from the beginning is a role
            begins = [k for k in range(len(machines)) if k == 0 or machines[k] != machines[k - 1]]
            self.out &= np.logical_or.reduceat(self.out, begins, axis=0).sum(axis=0) <= 1
        self.score = np.abs(off) / np.maximum(spread, np.maximum(least, 1e-300) / usual)
        # from which window on; of each row what it had before, and what its peers had
        self._pasts: list[tuple[int, FloatArray, FloatArray]] = []
        limit = settings.threshold
        shortest = 1 if errors else ceil(PAST * needed)
        begin, end = window + shortest - 1, self.levels.shape[1]
        while begin < end:
            # the longer the past, the less another window changes it
            part = slice(begin, begin := min(end, begin + max(1, needed // 2, begin // 4)))
            # neighbours share most of their samples
            before = slice((part.start - window) % max(1, window // 2), part.start - window + 1, max(1, window // 2))
            past, peers = self._past(before, max(1, shortest // max(1, window // 2)))
            self._pasts.append((part.start, past, peers))
            new = self.levels[:, part] - _usual(past, peers, self.middle[part], errors=errors)
            told = self.heard[:, part] & np.isfinite(new)
            new = np.where(told, new - _middle(new, told), 0.0)
            moved = np.abs(self.levels[:, before] - _usual(past, peers, self.middle[before], errors=errors))
            then_spread = MAD * float(np.median(moved[np.isfinite(moved)])) if np.isfinite(moved).any() else 0.0
            by = np.abs(new) / np.maximum(
                np.maximum(MAD * _middle(np.abs(new), told), then_spread), np.maximum(least[part], 1e-300) / limit
            )
            # what is as its peers are again is well, whatever it did before
            away = np.abs(off[:, part])
            out = (by >= limit) & (np.abs(new) >= NEW_SHARE * away) & (2.0 * away >= least[part]) & harmful[:, part]
            self.out[:, part] = np.where(told, out, self.out[:, part])
            self.score[:, part] = np.where(told, by, self.score[:, part])
        self.apart = (apart & harmful) | self.out
        self.out |= self.apart & np.array([machine in changed for machine in machines])[:, None]

    def _past(self, before: slice, shortest: int) -> tuple[FloatArray, FloatArray]:
        """Return what each row and the middle row had usually, but for when the row stood out or was silent; NaN = it
        was seen too shortly.
        """
        past = np.median(self.levels[:, before], axis=1)
        peers = np.full(len(past), float(np.median(self.middle[before])))
        kept = self.heard[:, before] & ~self.out[:, before]
        rows = np.flatnonzero(~kept.all(axis=1))
        if len(rows):
            theirs = kept[rows].T
            enough, middle = theirs.sum(axis=0) >= shortest, np.broadcast_to(self.middle[before, None], theirs.shape)
            past[rows] = np.where(enough, _medians(self.levels[rows, before].T, theirs), np.nan)
            peers[rows] = np.where(enough, _medians(middle, theirs), np.nan)
        return past, peers

    def runs(self) -> Iterator[Run]:
        """Yield where a row stands out but for as few windows as an alert allows, first where it is one."""
        slack = int((1.0 - self._settings.hold) * self._needed + 1e-9)
        for row in np.flatnonzero(self.apart.any(axis=1)).tolist():
            rest = self.apart[row].copy()
            for mask in (self.out[row], rest):
                window = np.flatnonzero(mask)
                for run in np.split(window, np.flatnonzero(np.diff(window) > slack + 1) + 1) if len(window) else ():
                    first, last = int(run[0]), int(run[-1])
                    if mask is rest or self._held(mask[first : last + 1]) is not None:
                        yield row, first, last
                        rest[first : last + 1] = False

    def stretch(self, run: Run, machine: str, part: str) -> Stretch:
        """Return a run as a stretch, with an alert if enough windows in time hold it."""
        row, first, last = run
        window, grid, columns = self._settings.window, self._grid, self._columns
        alert, apart = (self._held(mask[row, first : last + 1]) for mask in (self.out, self.apart))
        pasts = ((own[row], peers[row]) for begin, own, peers in reversed(self._pasts) if begin <= first)
        past, past_peers = next(pasts, (np.nan, np.nan))
        # half of its first and last window only in part are what they show
        begin, end = first + window // 2, max(last + window - 1 - window // 2, first + window // 2)
        late = lag(self._values, row, begin, end) if alert is not None or apart is not None else None
        during = self._values[:, begin : end + 1]
        # of many rows a single one does not change the median noticeably
        peers = np.delete(during, row, axis=0) if len(during) <= MANY else self.middle[first : last + 1]
        return Stretch(
            machine=machine,
            start=grid.time(int(columns[first])),
            end=grid.time(int(columns[last + window - 1])),
            alert=None if alert is None or late is not None else grid.time(int(columns[first + alert + window - 1])),
            score=float(np.median(self.score[row, first : last + 1])),
            own=float(np.median(during[row])),
            peers=float(np.median(peers)),
            past=None if np.isnan(past) else float(past),
            past_peers=None if np.isnan(past) else float(past_peers),
            lasting=last == self.out.shape[1] - 1,
            late=None if late is None else late * grid.step,
            doubt="role" if alert is None and apart is not None else None,
            part=part,
        )

    def _held(self, hits: BoolArray) -> int | None:
        """Return the first window, counted from the run's, that ends so many of which enough are hits."""
        needed = self._needed
        counts = np.cumsum(np.concatenate(([0], hits)))
        enough = np.flatnonzero(counts[needed:] - counts[:-needed] >= ceil(self._settings.hold * needed - 1e-9))
        return int(enough[0]) + needed - 1 if len(enough) else None


def _usual(past: FloatArray, peers: FloatArray, middle: FloatArray, *, errors: bool) -> FloatArray:
    """Return what each row should have: its share of what the middle row has; of errors as many as before."""
    more = past[:, None] + (middle - peers[:, None])
    if errors:
        return more
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(peers[:, None] > 0.0, (past / peers)[:, None] * middle, more)


def _of_windows(values: NDArray[Any], window: int, *, counted: bool = False) -> NDArray[Any]:
    """Return the median of each window; of errors how many samples have any, of truths whether any holds."""
    if values.dtype == np.bool_ or counted:
        sums = np.cumsum(np.pad(values > 0, ((0, 0), (1, 0))), axis=1, dtype=np.int32)
        within = sums[:, window:] - sums[:, :-window]
        return within.astype(np.float64) if counted else within > 0
    rows = max(1, CHUNK_NUMBERS // (values.shape[1] * window))
    parts = (values[k : k + rows] for k in range(0, len(values), rows))
    windows = (np.lib.stride_tricks.sliding_window_view(part, window, axis=1) for part in parts)
    half = [(window - 1) // 2, window // 2]
    return np.concatenate([np.partition(part, half, axis=2)[:, :, half].mean(axis=2) for part in windows])


def _middle(values: FloatArray, heard: BoolArray) -> FloatArray:
    """Return the median over the rows that are heard, 0 where none is; shape (windows,)."""
    middle: FloatArray = np.median(values, axis=0)
    partly = np.flatnonzero(~heard.all(axis=0))
    if len(partly):
        middle[partly] = _medians(values[:, partly], heard[:, partly])
    return middle


def _medians(values: FloatArray, kept: BoolArray) -> FloatArray:
    """Return the median of what is kept of each column, 0 where nothing is; shape (columns,)."""
    count, column = kept.sum(axis=0), np.arange(values.shape[1])
    ordered = np.sort(np.where(kept, values, np.inf), axis=0)
    low, high = ordered[np.maximum(count - 1, 0) // 2, column], ordered[count // 2, column]
    return np.where(count > 0, (low + high) / 2, 0.0)


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


def doubted(examined: Examined, recording: MetricRecording) -> Examined:
    """Return the same, with alerts that are to be doubted taken back.

    Where healthy machines do not do the same, there are no peers, and a verdict would accuse a machine that works.
    Step times are measured where a machine works, and count whatever the GPUs of others do.
    """
    metric, alerts = examined.metric, examined.alerts
    doubts: dict[Stretch, Doubt | None] = dict.fromkeys(alerts)
    if alerts and not metrics.is_step_time(metric):
        told = [name for name in recording.metrics if metrics.tells_idleness(name) or name == metric]
        telling = [recording.by_machine(recording.metrics[name]) for name in told]
        for alert in alerts:
            if alert.own > alert.peers and metrics.is_work(metric):
                doubts[alert] = "busier"
            elif any(_idle(samples, alert) for samples in telling):
                doubts[alert] = "idle-peers"
    if len({stretch.machine for stretch, doubt in doubts.items() if doubt is None}) > few(examined.machines):
        doubts = {stretch: doubt or "many" for stretch, doubt in doubts.items()}
    judged = [
        replace(stretch, alert=None, doubt=doubt) if (doubt := doubts.get(stretch)) is not None else stretch
        for stretch in examined.stretches
    ]
    return replace(examined, stretches=tuple(judged))


def _idle(samples: Samples, stretch: Stretch) -> bool:
    """Return whether the other machines do not work by this metric while one stands out."""
    level = metrics.idle_level(samples.metric)
    if level is None:
        return False
    own = samples.machines.index(stretch.machine) if stretch.machine in samples.machines else -1
    value = samples.value[(samples.time >= stretch.start) & (samples.time <= stretch.end) & (samples.machine != own)]
    return len(value) > 0 and float(np.median(value)) <= level


def counted_seconds(stretch: Stretch, *, step: float, window: int) -> float:
    """Return for how long a machine stood out as an alert counts it: one step of the samples for each window.

    :param step: seconds between samples; ``window``: samples of a window.
    """
    # its last window ends window - 1 samples after it begins, and there is one window more than steps between them
    return stretch.end - stretch.start - (window - 2) * step


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
    examined = [_examined(recording.by_machine(recording.metrics[name])) for name in names]
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
        off, usual, time = np.abs(mean - np.median(mean)), usual_score(len(mean)), float(samples.time.min())
        score = off / max(MAD * float(np.median(off)), least / usual)
        for row in sorted(np.flatnonzero(score >= usual).tolist(), key=lambda row: -score[row]):
            name, own, peers = samples.machines[there[row]], float(mean[row]), float(np.median(mean))
            moment = Stretch(name, time, time, None, float(score[row]), own, peers, None, None, True, None, None)
            stretches.append(moment)
    return Examined(samples.metric, len(there), step=0.0, needed=0.0, stretches=tuple(stretches), silent=())
