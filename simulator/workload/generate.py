"""A seeded LLM workload with parallelism, fitted to what is published of Kalos.

Beyond the fit (:mod:`simulator.workload.job_kinds`) a few things are assumed, for studies of prediction and queues:

- *users have habits*: of users of a kind, one runs rather short jobs and another long ones.  A job's user is drawn from
  the quantile of its run time, blurred (``HABIT``), so that run times keep exactly their distribution.  Users with like
  habits share a group;
- *estimates*: users ask for the next usual limit above a generous guess;
- CPUs and memory go by the GPU, as in the published rows of Kalos (960 CPUs and 1,000 GB a node, 64 GPUs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np

from ground.errors import InvalidInput, TooLarge
from ground.quantities import DAY
from simulator.job_record import JobRecord
from simulator.workload.job_kinds import KALOS, STATUSES, JobKind, grids, kinds_of
from topology.cluster import FloatArray

KindName = Literal["evaluation", "other", "pretraining"]
KINDS: tuple[KindName, ...] = ("evaluation", "other", "pretraining")

PEAK = 15.0  # Hour of the day with most submissions: the afternoon
USERS = 24  # Users of a kind
GROUPS = 6  # Groups of users of a kind
HABIT = 0.7  # Correlation of a job's run time with the habit of its user, both as normal scores
LIMITS = np.array([600, 1800, 3600, 4 * 3600, 12 * 3600, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY])
"""Limits that users ask for, in seconds."""
GENEROSITY = 1.0  # Standard deviation of the logarithm of how much more than needed a user guesses (never less)
MAX_JOBS = 10_000_000

CPUS_PER_GPU = 15.0
MEMORY_PER_GPU = 125e9


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload to be made."""

    days: float = KALOS.days  # for how long jobs are submitted
    per_day: float = KALOS.jobs / KALOS.days  # jobs submitted a day, on average; by default as many as in Kalos
    gpus: int | None = None  # GPUs of the cluster, for load
    # GPU time asked for, as a share of what the cluster has; it sets the rate in place of per_day
    load: float | None = None
    seed: int = 0  # same seed, same jobs
    rhythm: float = 0.0  # how much the rate of submission swings over the day, 0 to below 1
    max_gpus: int = KALOS.gpus_max  # larger jobs are not made; the smaller sizes of their kind take their place
    kinds: tuple[KindName, ...] = KINDS  # the kinds of jobs that are made
    preemptible: tuple[KindName, ...] = ()  # the kinds of jobs that may be stopped and queued again
    announce_gpus: int | None = None  # jobs from this size on are announced before they are submitted; None = none is
    announce_seconds: float = 4 * 3600.0  # how long before


def generate(spec: WorkloadSpec) -> tuple[JobRecord, ...]:
    """Return the jobs, in order of submission, on a clock that starts at 0.

    :raises InvalidInput: a number of the specification is out of range, or no kind has jobs that small.
    :raises TooLarge: more than :data:`MAX_JOBS` would be made.
    """
    check(spec)
    kinds = _wanted(spec)
    seeds = np.random.SeedSequence(spec.seed).spawn(2 + len(kinds))
    when, which, *each = (np.random.default_rng(seed) for seed in seeds)
    per_day = _per_day(spec, kinds)
    if per_day * spec.days > MAX_JOBS:
        raise TooLarge(
            f"about {per_day * spec.days:,.0f} jobs are wanted; up to {MAX_JOBS:,} are made",
            where="days",
            fix="lower days, per_day or load, or leave evaluation out of kinds",
        )
    times = arrivals(when, per_day=per_day, days=spec.days, rhythm=spec.rhythm)
    share = np.array([kind.share for kind in kinds])
    kind_of = which.choice(len(kinds), size=len(times), p=share / share.sum())
    records: list[JobRecord | None] = [None] * len(times)
    for index, (kind, generator) in enumerate(zip(kinds, each, strict=True)):
        places = np.flatnonzero(kind_of == index)
        submits = dict(zip(places.tolist(), times[places].tolist(), strict=True))
        for place, record in zip(submits, _jobs(kind, submits, generator, spec), strict=True):
            records[place] = record
    return tuple(record for record in records if record is not None)


def check(spec: WorkloadSpec) -> None:
    """Make sure that a workload can be made; InvalidInput says which number is out of range."""
    known = [kind.name for kind in kinds_of(KALOS)]
    wrong = [name for name in (*spec.kinds, *spec.preemptible) if name not in known]
    if wrong or not spec.kinds:
        raise InvalidInput(
            f"there is no kind of job called {wrong[0]!r}" if wrong else "no kind of job is wanted",
            where="kinds",
            fix=f"choose among {', '.join(known)}",
        )
    for name, fits, fix in (
        ("days", 0 < spec.days <= 36_500, "give days above 0"),
        ("per_day", 0 < spec.per_day <= 1e7, "give jobs a day above 0"),
        ("rhythm", 0 <= spec.rhythm < 1, "give a number from 0 to below 1"),
        ("load", spec.load is None or 0 < spec.load <= 10, "give a share of the cluster above 0, as 0.8"),
        ("gpus", (spec.gpus is None) == (spec.load is None), "give gpus and load together, or neither"),
        ("gpus", spec.gpus is None or spec.gpus > 0, "give the GPUs of the cluster"),
        ("max_gpus", spec.max_gpus >= 1, "give at least 1"),
        ("announce_seconds", spec.announce_seconds >= 0, "give seconds from 0 up"),
    ):
        if not fits:
            raise InvalidInput(f"{name} is {getattr(spec, name)}", where=name, fix=fix)


def arrivals(generator: np.random.Generator, *, per_day: float, days: float, rhythm: float = 0.0) -> FloatArray:
    """Return times of submission in seconds from 0, ascending.

    The rate is ``per_day * (1 + rhythm * cos(2 pi (t - peak) / day))``, rhythm below 1; times of a process with the
    largest rate are thinned to it (Lewis and Shedler, 1979).
    """
    most = per_day * (1 + rhythm)
    times = np.sort(generator.random(generator.poisson(most * days)) * days * DAY)
    rate = 1 + rhythm * np.cos(2 * np.pi * (times / DAY - PEAK / 24))
    kept: FloatArray = times[generator.random(len(times)) * (1 + rhythm) < rate]
    return kept


def _wanted(spec: WorkloadSpec) -> list[JobKind]:
    """Return the kinds asked for, without sizes that are too large."""
    kinds = []
    for kind in kinds_of(KALOS):
        sizes = {gpus: share for gpus, share in kind.sizes.items() if gpus <= spec.max_gpus}
        if kind.name in spec.kinds and sizes:
            total = sum(sizes.values())
            kinds.append(replace(kind, sizes={gpus: share / total for gpus, share in sizes.items()}))
    if not kinds:
        raise InvalidInput(
            f"no job of {' or '.join(spec.kinds)} has at most {spec.max_gpus} GPUs",
            where="max_gpus",
            fix="raise max_gpus, or ask for other kinds",
        )
    return kinds


def _per_day(spec: WorkloadSpec, kinds: Sequence[JobKind]) -> float:
    """Return jobs a day: as asked for, or such that they ask for the wanted share of the cluster."""
    if spec.load is None or spec.gpus is None:
        return spec.per_day
    gpu_time = sum(kind.share * kind.gpu_time_mean for kind in kinds) / sum(kind.share for kind in kinds)
    return spec.load * spec.gpus * DAY / gpu_time


def _jobs(
    kind: JobKind, submits: dict[int, float], generator: np.random.Generator, spec: WorkloadSpec
) -> list[JobRecord]:
    """Return the jobs of one kind, by their places among the jobs of all kinds and their times of submission."""
    count = len(submits)
    sizes = generator.choice(list(kind.sizes), size=count, p=list(kind.sizes.values()))
    ends = generator.choice(len(STATUSES), size=count, p=[kind.status[status] for status in STATUSES])
    score = generator.standard_normal(count)
    median = np.array([kind.seconds[status].median for status in STATUSES])
    sigma = np.array([kind.seconds[status].sigma for status in STATUSES])
    seconds = np.clip(np.round(median[ends] * np.exp(sigma[ends] * score)), 1.0, KALOS.seconds_max)
    users, groups = _people(score, generator)
    guess = seconds * np.exp(np.abs(generator.standard_normal(count)) * GENEROSITY)
    estimates = LIMITS[np.minimum(np.searchsorted(LIMITS, guess), len(LIMITS) - 1)]
    chosen = generator.random(count)
    records = []
    for i, ((place, time), gpus) in enumerate(zip(submits.items(), sizes.tolist(), strict=True)):
        choices = grids(gpus) if kind.name != "evaluation" else []
        model, parallelism = choices[int(chosen[i] * len(choices))] if choices else ("", None)
        announced = None
        if spec.announce_gpus is not None and gpus >= spec.announce_gpus:
            announced = max(0.0, time - spec.announce_seconds)
        records.append(
            JobRecord(
                job_id=f"{kind.name}-{place + 1}",
                submit=time,
                duration=float(seconds[i]),
                gpus=float(gpus),
                user=f"{kind.name}-u{users[i]:02d}",
                queue=kind.name,
                group=f"{kind.name}-g{groups[i]}",
                cpus=CPUS_PER_GPU * gpus,
                memory=MEMORY_PER_GPU * gpus,
                status=STATUSES[ends[i]],
                priority=kind.priority,
                preemptible=kind.name in spec.preemptible,
                announced=announced,
                estimate=float(estimates[i]),
                parallelism=parallelism,
                model=model,
            )
        )
    return records


def _people(score: FloatArray, generator: np.random.Generator) -> tuple[list[int], list[int]]:
    """Return user and group of each job, by the blurred quantile of its run time; names in no order of habits."""
    blurred = HABIT * score + np.sqrt(1 - HABIT**2) * generator.standard_normal(len(score))
    cuts = [NormalDist().inv_cdf(i / USERS) for i in range(1, USERS)]
    habit = np.searchsorted(cuts, blurred)
    users, groups = generator.permutation(USERS)[habit], generator.permutation(GROUPS)[habit * GROUPS // USERS]
    return users.tolist(), groups.tolist()
