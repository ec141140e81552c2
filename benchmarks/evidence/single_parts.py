"""Single GPUs and ports of realistic jobs: what is found, what is accused, and what simple methods make of the same.

Thresholds were chosen on seeds 1 and 3; figures are of others.
"""

import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from time import process_time

import numpy as np

from benchmarks.peers.fleet import FAULTS, Case, Fault, cases, healthy, recording
from benchmarks.report import promises, section
from benchmarks.report import table as markdown
from health.peers import metrics
from health.peers.comparison import ComparisonSettings, detect
from health.peers.streams import FloatArray, MetricRecording, SampleGrid, align
from health.peers.verdict import judge

MINUTES = 4  # For which a row must stand out, with all methods
Accused = Mapping[str, float]  # Machine -> when it was accused, seconds
Detector = Callable[[MetricRecording], Accused]


def arnold(given: MetricRecording) -> Accused:
    """What ``arnold health peers`` flags, each machine at its first alert."""
    verdict = judge(given, list(detect(given, ComparisonSettings())))
    flagged = {flag.node for flag in verdict.flags}
    alerts = [(alert.machine, alert.alert or 0.0) for metric in verdict.metrics for alert in metric.alerts]
    return {machine: min(at for who, at in alerts if who == machine) for machine in flagged}


def mad(given: MetricRecording) -> Accused:
    """A robust z of 8 against the peers and half of it new against the own first half hour, four minutes on end."""
    accused: dict[str, float] = {}
    for name, samples in given.metrics.items():
        coded = metrics.is_code(name)
        grid = align(samples)
        values = (grid.values != 0.0).astype(float) if coded else grid.values
        off = values - np.median(values, axis=0)
        spread = np.maximum(1.4826 * np.median(np.abs(off), axis=0), 0.02 * np.abs(values).mean() + 1e-9)
        past = np.median(off[:, : int(1800 / grid.step)], axis=1, keepdims=True)
        out = (np.abs(off) >= 8.0 * spread) & (np.abs(off - past) >= 0.5 * np.abs(off)) & ~grid.silent
        _accuse(accused, given, grid, out)
    return accused


def isolation_forest(given: MetricRecording) -> Accused:
    """Scikit-learn's forest on what rows of one kind differ by from their middle, four minutes a point."""
    from sklearn.ensemble import IsolationForest

    accused: dict[str, float] = {}
    kinds: dict[tuple[str, ...], list[SampleGrid]] = {}
    for samples in given.metrics.values():
        grid = align(samples, step=15.0)
        kinds.setdefault(grid.machines, []).append(grid)
    for rows, grids in kinds.items():
        columns = min(grid.values.shape[1] for grid in grids)
        length = 60 * MINUTES // 15
        count = columns // length
        points = np.stack([_points(grid.values[:, :columns], length) for grid in grids], axis=-1)
        flat = points.reshape(-1, len(grids))
        if count < 2:
            continue
        forest = IsolationForest(n_estimators=100, max_samples=min(256, len(flat)), random_state=0, n_jobs=1).fit(flat)
        out = (-forest.score_samples(flat)).reshape(len(rows), count) >= FOREST
        hits = out[:, 1:] & out[:, :-1]
        for row in np.flatnonzero(hits.any(axis=1)):
            machine = given.machine_of(rows[row])
            at = grids[0].time((int(np.argmax(hits[row])) + 2) * length - 1)
            accused[machine] = min(at, accused.get(machine, at))
    return accused


FOREST = 0.78  # Score of a point that is odd; of 0.7 to 0.85 on seed 1 the best


def _points(values: FloatArray, length: int) -> FloatArray:
    """Return of each row and four minutes how far its median is from the rows' middle, in spreads of all of them."""
    cut = values[:, : values.shape[1] // length * length]
    level = np.median(cut.reshape(len(values), -1, length), axis=2)
    off = level - np.median(level, axis=0)
    points: FloatArray = off / (1.4826 * np.median(np.abs(off)) + 0.01 * np.abs(level).mean() + 1e-9)
    return points


def _accuse(accused: dict[str, float], given: MetricRecording, grid: SampleGrid, out: FloatArray) -> None:
    """Accuse the machines of rows that are out for four minutes."""
    needed = max(1, round(60 * MINUTES / grid.step))
    sums = np.cumsum(np.pad(out, ((0, 0), (1, 0))), axis=1)
    hits = sums[:, needed:] - sums[:, :-needed] == needed
    for row in np.flatnonzero(hits.any(axis=1)):
        machine = given.machine_of(grid.machines[row])
        at = grid.time(int(np.argmax(hits[row])) + needed - 1)
        accused[machine] = min(at, accused.get(machine, at))


def machines_only(detector: Detector) -> Detector:
    """The same on the means of machines."""

    def run(given: MetricRecording) -> Accused:
        return detector(
            MetricRecording({n: given.by_machine(s) for n, s in given.metrics.items()}, given.absolute, given.source)
        )

    return run


DETECTORS: Mapping[str, Detector] = {
    "`arnold health peers`": arnold,
    "the same on means of machines": machines_only(arnold),
    "MAD on GPUs and ports": mad,
    "MAD on means of machines": machines_only(mad),
    "isolation forest on GPUs and ports": isolation_forest,
}


@dataclass(slots=True)
class Result:
    """What a detector made of all cases."""

    found: dict[str, int]
    accused_healthy: int = 0  # healthy jobs with a flag
    accused_others: int = 0  # jobs with a fault in which another machine has a flag
    delays: tuple[float, ...] = ()
    seconds: float = 0.0  # of processor time

    def take(self, fault: Fault | None, accused: Accused, began: float) -> None:
        """Count one job."""
        if fault is None:
            self.accused_healthy += bool(accused)
            return
        at = accused.get(fault.machine, 0.0) - began
        if fault.machine in accused and at >= fault.onset:
            self.found[fault.kind] += 1
            self.delays = (*self.delays, at - fault.onset)
        self.accused_others += bool(accused.keys() - {fault.machine})


def measure(given: Iterable[Case], detectors: Mapping[str, Detector] = DETECTORS) -> dict[str, Result]:
    """Every detector on every job."""
    results = {name: Result(dict.fromkeys(FAULTS, 0)) for name in detectors}
    for case in given:
        for name, detector in detectors.items():
            begin = process_time()
            accused = detector(case.recording)
            results[name].seconds += process_time() - begin
            results[name].take(case.fault, accused, 1.8e9)
    return results


def figures(result: Result, faults: int) -> tuple[float, float, float]:
    """Precision, recall and F1; a healthy machine that is accused counts wherever it is."""
    found = sum(result.found.values())
    alarms = found + result.accused_healthy + result.accused_others
    precision, recall = found / alarms if alarms else 1.0, found / faults
    return precision, recall, 2.0 * precision * recall / (precision + recall) if found else 0.0


SEED, HEALTHY, EACH = 2, 60, 8
WEEK, MACHINES = 120, 1_000


def table(**_: object) -> str:
    """Faults found and healthy jobs accused, false alarms a week, time and memory for many machines."""
    return "\n".join([report(SEED, HEALTHY, EACH), week(SEED + 1, WEEK), large(MACHINES)])


def report(seed: int, healthy_jobs: int, of_each: int, detectors: Mapping[str, Detector] = DETECTORS) -> str:
    """The tables of faults found and healthy jobs accused."""
    results = measure(cases(seed, healthy_jobs=healthy_jobs, of_each=of_each), detectors)
    faults, rows = of_each * len(FAULTS), []
    for name, result in results.items():
        shown = [f"{figure:.3f}" for figure in figures(result, faults)]
        delay = f"{median(result.delays):.0f} s" if result.delays else "-"
        rows.append((name, *shown, result.accused_healthy, result.accused_others, delay, f"{result.seconds:.0f}"))
    head = ("detector", "precision", "recall", "F1", "healthy accused", "others accused", "delay", "processor s")
    kinds = [(name, *result.found.values()) for name, result in results.items()]
    ours = results["`arnold health peers`"]
    f1 = figures(ours, faults)[2]
    hot = ours.found["thermal"] + ours.found["hot"]
    return section(
        f"Single GPUs and ports: {faults} jobs with a fault, {healthy_jobs} without, seed {seed}",
        markdown(head, rows),
        f"Found of {of_each} of each kind:",
        markdown(("detector", *FAULTS), kinds),
        promises(
            ("F1 of at least .95", f"{f1:.3f}", f1 >= 0.95),
            ("at most 1 healthy job in 60 accused", f"{ours.accused_healthy}", ours.accused_healthy <= 1),
            ("all thermal and hot GPUs found", f"{hot} of {2 * of_each}", hot == 2 * of_each),
        ),
    )


def week(seed: int, jobs: int) -> str:
    """False alarms of a cluster on which so many healthy jobs run, a day of each in pieces of two hours, in a week."""
    alarms = hours = 0.0
    for case in cases(seed, healthy_jobs=jobs, of_each=0, hours=(2.0, 2.0)):
        alarms += len(arnold(case.recording))
        hours += 2.0
    rate = alarms / hours
    most = (alarms + 3.0) / hours  # 95 %, by the rule of three
    return section(
        f"False alarms a week of 40 jobs: {hours:g} hours of healthy jobs, seed {seed}",
        markdown(
            ("accused", "a week of 40 jobs", "at most (95 %)"),
            [(f"{alarms:g}", *(f"{x * 40 * 168:.0f}" for x in (rate, most)))],
        ),
    )


def large(machines: int) -> str:
    """Time and memory for an hour of so many machines with eight GPUs each."""
    rng = np.random.default_rng(7)
    given = recording(healthy(rng, machines=machines, hours=1.0), rng, source="large")
    begin = process_time()
    found = arnold(given)
    seconds, gigabytes = process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return section(
        f"{machines:,} machines with eight GPUs, an hour every 15 s, {len(given.metrics)} metrics",
        promises(
            ("judged in 30 s of processor time", f"{seconds:.1f} s", seconds <= 30.0),
            ("2 GB, the recording made here too", f"{gigabytes:.2f} GB", gigabytes <= 2.0),
            ("nobody accused", str(len(found)), not found),
        ),
    )
