"""Faults injected into simulated collectives: how many are seen and named, how soon, and whether any other rank is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.report import promises, section, table
from benchmarks.simulated_collectives import FAULTS, BenchJob, Fault, FaultKind, simulate
from benchmarks.simulated_collectives.run import EPOCH
from health.collectives.diagnosis import diagnose
from health.collectives.trigger_settings import TriggerSettings

SHAPES = ((4, 2, 2), (8, 1, 2), (2, 2, 2), (4, 1, 4), (8, 2, 1))
"""Data, tensor and pipeline parallelism of the jobs, in turn."""

FABRICS = (("ring", 2), ("ring", 1), ("tree", 2))
"""Algorithm and channels; with two, the second runs against the order of the first."""

PUBLISHED_SEEN, PUBLISHED_SEEN_SECONDS = 0.9, 15.0
PUBLISHED_NAMED, PUBLISHED_NAMED_SECONDS = 0.6, 20.0

QUIET, AFTER = 40.0, 40.0  # Seconds of the job before the fault, at least, and after

ISSUE: tuple[FaultKind, ...] = FAULTS[:6]


@dataclass(frozen=True, slots=True)
class Trial:
    """One run with a fault, or without."""

    kind: FaultKind | None
    fabric: tuple[str, int]
    seen: float | None  # Seconds from the fault to the first alarm; `None` = none
    named: float | None  # Seconds from the fault until the rank stood in a final answer; `None` = it does not
    certainty: str | None  # How sure the final answer is; `None` = no rank is named
    suspects: int  # How many it names
    right: bool
    seconds: float


def measure(seeds: int, *, window: float, period: float = 10.0) -> list[Trial]:
    """Every fault on every fabric, with as many seeds; and as many runs without a fault."""
    settings = TriggerSettings(period=period, window=window)
    return [trial for fabric in FABRICS for kind in (None, *FAULTS) for trial in _trials(kind, fabric, seeds, settings)]


def report(runs: Sequence[tuple[float, Sequence[Trial]]]) -> str:
    """A table for each window, and the published figures beside ours.

    :param runs: window -> its trials.
    """
    return "\n".join(_report(window, trials) for window, trials in runs)


def _report(window: float, trials: Sequence[Trial]) -> str:
    faults = [trial for trial in trials if trial.kind in ISSUE]
    healthy = [trial for trial in trials if trial.kind is None]
    wrong = sum(trial.certainty == "certain" and not trial.right for trial in trials)
    alarms = sum(trial.seen is not None for trial in healthy)
    seen = _share(faults, [trial.seen for trial in faults], PUBLISHED_SEEN_SECONDS)
    one = _share(faults, [trial.named if _alone(trial) else None for trial in faults], PUBLISHED_NAMED_SECONDS)
    two = _share(faults, [trial.named if trial.suspects <= 2 else None for trial in faults], PUBLISHED_NAMED_SECONDS)
    header = [
        "fault",
        "fabric",
        "runs",
        f"seen in {PUBLISHED_SEEN_SECONDS:g} s",
        "p50 s",
        "max s",
        f"named in {PUBLISHED_NAMED_SECONDS:g} s",
        "p50 s",
        "certain",
        "one of two",
        "not named",
    ]
    rows = [_row(kind, fabric, trials) for kind in FAULTS for fabric in FABRICS]
    rows += [_none(fabric, healthy) for fabric in FABRICS]
    goals = [
        (
            f"published: {PUBLISHED_SEEN:.0%} of faults seen within {PUBLISHED_SEEN_SECONDS:g} s",
            f"{seen:.0%}",
            seen >= PUBLISHED_SEEN,
        ),
        (
            f"published: {PUBLISHED_NAMED:.0%} localised within {PUBLISHED_NAMED_SECONDS:g} s (ours: named alone)",
            f"{one:.0%}, {two:.0%} with one of two",
            one >= PUBLISHED_NAMED,
        ),
        ("no alarm without a fault", f"{alarms} of {len(healthy)} runs", alarms == 0),
        ("nobody else named with certainty", f"{wrong} of {len(trials)} runs", wrong == 0),
    ]
    return section(
        f"Collectives: injected faults, a look each 10 s over {window:g} s",
        table(header, rows),
        promises(*goals),
        "*Seen*: runs with an alarm within that time, and seconds from the fault to the alarm of all that have one. "
        "*Named*: the rank alone is named within that time, and seconds until then; *certain*: at any time, and with "
        "certainty; *one of two*: named beside one other; *not named*: among more, or not at all. Runs without a fault "
        "last as long as the others.",
        "The published figures are of faults in production, ours of simulated ones: the data differ. The first two "
        "lines count the six faults from sender-stuck to crossed-order. A diagnosis took "
        f"{median(trial.seconds for trial in trials):.2f} s (median).",
    )


def _row(kind: FaultKind, fabric: tuple[str, int], trials: Sequence[Trial]) -> list[str]:
    mine = [trial for trial in trials if trial.kind == kind and trial.fabric == fabric]
    times = [trial.seen for trial in mine if trial.seen is not None]
    alone = [trial for trial in mine if _alone(trial)]
    named = [trial.named for trial in alone if trial.named is not None]
    pairs = sum(trial.right and trial.suspects == 2 for trial in mine)
    return [
        kind,
        f"{fabric[0]} x{fabric[1]}",
        str(len(mine)),
        str(sum(time <= PUBLISHED_SEEN_SECONDS for time in times)),
        f"{median(times):.1f}" if times else "-",
        f"{max(times):.1f}" if times else "-",
        str(sum(time <= PUBLISHED_NAMED_SECONDS for time in named)),
        f"{median(named):.1f}" if named else "-",
        str(sum(trial.certainty == "certain" for trial in alone)),
        str(pairs),
        str(len(mine) - len(alone) - pairs),
    ]


def _none(fabric: tuple[str, int], healthy: Sequence[Trial]) -> list[str]:
    """The runs without a fault: alarms, and runs in which a rank is named."""
    mine = [trial for trial in healthy if trial.fabric == fabric]
    alarms, named = sum(trial.seen is not None for trial in mine), sum(trial.suspects > 0 for trial in mine)
    return ["none", f"{fabric[0]} x{fabric[1]}", str(len(mine)), f"{alarms} alarms", *"--", f"{named} named", *"----"]


def _alone(trial: Trial) -> bool:
    return trial.right and trial.suspects == 1


def _share(trials: Sequence[Trial], times: Sequence[float | None], limit: float) -> float:
    return sum(time is not None and time <= limit for time in times) / len(trials)


def _trials(kind: FaultKind | None, fabric: tuple[str, int], seeds: int, settings: TriggerSettings) -> Iterator[Trial]:
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        dp, tp, pp = SHAPES[seed % len(SHAPES)]
        job = BenchJob(
            dp=dp, tp=tp, pp=pp, algorithm="tree" if fabric[0] == "tree" else "ring", rings=fabric[1], gpus_per_node=tp
        )
        rank, time = int(random.integers(job.ranks)), QUIET + 10.0 * float(random.random())
        fault = Fault(kind, rank, time) if kind is not None else None
        recording = simulate(job, QUIET + AFTER, seed=seed, fault=fault)
        start = perf_counter()
        found = diagnose(recording, settings)
        seconds = perf_counter() - start
        right = rank in [culprit.member for culprit in found.culprits]
        yield Trial(
            kind,
            fabric,
            found.alarm - EPOCH - time if found.alarm is not None else None,
            found.localised - EPOCH - time if right and found.localised is not None else None,
            found.certainty,
            len(found.culprits),
            right,
            seconds,
        )
