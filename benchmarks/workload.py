"""The made LLM workload beside the published figures of Kalos."""

from collections.abc import Sequence

import numpy as np

from benchmarks.report import section, table
from ground.quantities import number
from simulator.job_record import JobRecord
from simulator.workload import KALOS, STATUSES, Published, WorkloadSpec, generate


def summary(records: Sequence[JobRecord], *, name: str = "generated") -> Published:
    """Return figures of jobs with GPUs; shares by kind are those of the queues ``evaluation`` and ``pretraining``."""
    gpus = np.array([record.gpus for record in records])
    seconds = np.array([record.duration for record in records])
    submit = np.array([record.submit for record in records])
    gpu_time = gpus * seconds
    status, queue = (np.array([getattr(record, name) for record in records]) for name in ("status", "queue"))

    def shares(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[float, float]:
        return float(mask.mean()), float(gpu_time[mask].sum() / gpu_time.sum())

    by_status = {end: shares(status == end) for end in STATUSES}
    return Published(
        name=name,
        jobs=len(records),
        days=float(np.ptp(submit)) / 86_400,
        gpus_mean=float(gpus.mean()),
        gpus_median=float(np.median(gpus)),
        gpus_max=int(gpus.max()),
        seconds_mean=float(seconds.mean()),
        seconds_median=float(np.median(seconds)),
        seconds_max=float(seconds.max()),
        job_share={end: jobs for end, (jobs, _) in by_status.items()},
        gpu_time_share={end: time for end, (_, time) in by_status.items()},
        gpu_time_mean=float(gpu_time.mean()),
        evaluation_share=shares(queue == "evaluation"),
        pretraining_share=shares(queue == "pretraining"),
    )


def measure(seeds: int, *, days: float = KALOS.days) -> list[Published]:
    """Summaries of workloads as long as the published trace, one for each seed."""
    return [summary(generate(WorkloadSpec(days=days, seed=seed))) for seed in range(1, seeds + 1)]


def report(made: Sequence[Published]) -> str:
    """Each figure: published, mean over seeds, and how far seeds lie apart."""
    rows = []
    published = _figures(KALOS)
    all_made = [_figures(one) for one in made]
    for name, value in published.items():
        values = np.array([figures[name] for figures in all_made])
        spread = values.std(ddof=1) if len(values) > 1 else 0.0
        rows.append((name, number(value), number(values.mean()), number(spread), f"{values.mean() / value - 1:+.1%}"))
    return section(
        f"A made workload of {KALOS.days:.0f} days beside Kalos, {len(made)} seeds",
        table(("figure", "published", "made", "standard deviation", "difference"), rows),
        "A difference below two standard deviations over the root of the number of seeds is chance. GPU time is that "
        "of a few hundred pretraining jobs: a single trace of this length has it to 10 % or so, as the published one "
        "is a single draw too.",
    )


def _figures(one: Published) -> dict[str, float]:
    return {
        "jobs": one.jobs,
        "mean GPUs": one.gpus_mean,
        "median GPUs": one.gpus_median,
        "most GPUs": one.gpus_max,
        "mean run time, s": one.seconds_mean,
        "median run time, s": one.seconds_median,
        "longest run time, s": one.seconds_max,
        "mean GPU time, GPU s": one.gpu_time_mean,
        **{f"jobs {status}": share for status, share in one.job_share.items()},
        **{f"GPU time {status}": share for status, share in one.gpu_time_share.items()},
        "jobs of evaluation": one.evaluation_share[0],
        "GPU time of evaluation": one.evaluation_share[1],
        "jobs of pretraining": one.pretraining_share[0],
        "GPU time of pretraining": one.pretraining_share[1],
    }
