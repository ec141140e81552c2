"""Runs of the study of GPU generations: Gavel's workload on as many GPUs of each type, under one queue policy.

The workload is that of Gavel's public simulator (``generate_job`` of scheduler/utils.py at c4fa4009): sizes 1, 2, 4 and
8 at 70, 10, 15 and 5 %; run times of 10^U(1.5, 3) minutes for 80 % of the jobs and of 10^U(3, 4) for the others, on the
reference; a kind of job at random; arrivals of a Poisson process.  Nodes of four GPUs are ours, in turns of each type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from statistics import fmean

import numpy as np

from ground.errors import InvalidInput
from simulator.capacity.generations_answer import NODE_GPUS, family_of
from simulator.job_record import JobRecord
from simulator.replay import prepare
from simulator.replay_settings import ReplaySettings
from simulator.throughputs import Throughputs
from simulator.traces import JobTrace
from topology.build import build_cluster
from topology.cluster import Cluster, Node

SIZES = {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}
"""GPUs of a job -> share of the jobs."""

SPANS = {(1.5, 3.0): 0.8, (3.0, 4.0): 0.2}
"""Ends of the decimal logarithm of run times in minutes -> share of the jobs."""


@dataclass(frozen=True, slots=True)
class GenerationsRun:
    """What came out of one run."""

    jct: float  # mean seconds from submission to end
    makespan: float  # seconds from the first submission to the last end
    stops: int  # jobs that were stopped at the end of a round
    on: Mapping[tuple[str, str], float]  # family of models and type of GPU -> GPU seconds; empty without rounds


def mixed_cluster(types: tuple[str, ...], gpus: int) -> Cluster:
    """Return a cluster with so many GPUs of each type, a multiple of four, under one switch."""
    nodes = [(number, name) for number in range(gpus // NODE_GPUS) for name in types]
    rows = (Node(f"{name}-{number:02d}", ("site",), NODE_GPUS, NODE_GPUS, gpu_type=name) for number, name in nodes)
    return build_cluster(("site",), rows)


def kinds(throughputs: Throughputs, types: tuple[str, ...]) -> dict[int, list[str]]:
    """Return the models of which jobs are made, by GPUs: those that run so large on the reference.

    :raises InvalidInput: no kind of job has a size of the workload.
    """
    found: dict[int, list[str]] = {gpus: [] for gpus in SIZES}
    for model, gpus in throughputs.rates:
        known = {name for name, rate in throughputs.together(model, gpus).items() if rate > 0.0}
        if gpus in found and throughputs.reference in known and known.intersection(types):
            found[gpus].append(model)
    if not any(found.values()):
        wrong = f"no model runs on {', '.join(map(str, SIZES))} GPUs of type {throughputs.reference}"
        fix = "add a row with one of these sizes and a throughput above 0"
        raise InvalidInput(wrong, where=throughputs.source, fix=fix)
    return {gpus: models for gpus, models in found.items() if models}


def job_hours(throughputs: Throughputs, types: tuple[str, ...]) -> float:
    """Return the GPU-hours of a mean job where it is on each type as often as there are GPUs of it."""
    hours = sum(share * (10**b - 10**a) / ((b - a) * log(10.0)) / 60.0 for (a, b), share in SPANS.items())
    sizes, work = kinds(throughputs, types), 0.0
    for gpus, models in sizes.items():
        speeds = [throughputs.together(model, gpus) for model in models]
        slower = [speed[throughputs.reference] / fmean(speed.get(name, 0.0) for name in types) for speed in speeds]
        work += SIZES[gpus] * gpus * fmean(slower)
    return hours * work / sum(SIZES[gpus] for gpus in sizes)


def workload(
    throughputs: Throughputs, types: tuple[str, ...], *, count: int, per_hour: float | None, seed: int
) -> JobTrace:
    """Return the jobs; same seed, same jobs whatever the rate.

    :param per_hour: jobs submitted in an hour; ``None`` = all at the beginning.
    """
    draw = np.random.default_rng(seed)
    models = kinds(throughputs, types)
    chances = np.array([SIZES[gpus] for gpus in models])
    spans = list(SPANS)
    records, time = [], 0.0
    for number in range(count):
        time += draw.exponential(1.0)
        gpus = int(draw.choice(list(models), p=chances / chances.sum()))
        low, high = spans[int(draw.random() >= SPANS[spans[0]])]
        seconds = 60.0 * 10.0 ** draw.uniform(low, high)
        model = models[gpus][int(draw.integers(len(models[gpus])))]
        submit = 0.0 if per_hour is None else time * 3600.0 / per_hour
        records.append(JobRecord(f"job-{number + 1}", submit, seconds, gpus, model=model))
    return JobTrace(tuple(records), source="the workload of the study")


def generations_run(
    trace: JobTrace, cluster: Cluster, throughputs: Throughputs, *, policy: str, seed: int, resume: float
) -> GenerationsRun:
    """Replay the workload under a policy."""
    settings = ReplaySettings(policy=policy, cost="none", throughputs=throughputs, resume_seconds=resume, seed=seed)
    engine = prepare(trace, cluster, settings).engine
    engine.run()
    on = dict[tuple[str, str], float]()
    for job in engine.jobs:
        for name, seconds in job.had.items():
            kind = family_of(job.record.model), name
            on[kind] = on.get(kind, 0.0) + seconds * job.record.gpus
    return GenerationsRun(
        jct=fmean(job.end - job.submitted for job in engine.jobs),
        makespan=max(job.end for job in engine.jobs) - trace.records[0].submit,
        stops=sum(len(job.runs) for job in engine.jobs),
        on=on,
    )
