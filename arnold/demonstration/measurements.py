"""What tools of a job would have measured: step times, metrics of its machines, Megatron's timers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from scheduler.job import Parallelism

GAINS = (0.0077, 0.018)
"""Of the step, what crossing two domains costs DP and PP groups: what calibration.md of the docs calls true."""

STEPS = 40  # of each of its runs
STEP = 3.2  # seconds of a step that crosses nothing
NOISE = 0.008  # of a step, relative

SECONDS, FAULT = 600, 240  # of the recording of metrics, and when one machine's CPU usage drops in it
TIMED = Parallelism(tp=1, pp=2, dp=3)  # the job whose timers are logged
SLOW_RANK = 4  # of it, which computes 1.6 times as long: DP rank 1 of stage 1


def step_times(seed: int) -> str:
    """Return step times of four runs, with either spread 1 or 2, as `arnold calibrate` reads them."""
    rng = np.random.default_rng(seed)
    rows = [
        f"{STEP * (1 + GAINS[0] * (dp - 1) + GAINS[1] * (pp - 1)) * rng.normal(1.0, NOISE):.4f},{dp},{pp}"
        for dp in (2, 1)
        for pp in (2, 1)
        for _ in range(STEPS)
    ]
    return "\n".join(["step_seconds,S,R", *rows, ""])


def machine_metrics(machines: Sequence[str], culprit: str, seed: int) -> bytes:
    """Return a Parquet file with the CPU usage of machines, one of which drops after four minutes."""
    from ground.columns import parquet_bytes

    rng = np.random.default_rng(seed)
    rhythm = 30.0 + 6.0 * np.sin(np.arange(SECONDS) * 2.0 * np.pi / 10.0)  # steps of ten seconds
    usage = rhythm + rng.normal(0.0, 1.0, (len(machines), SECONDS))
    usage[machines.index(culprit), FAULT:] *= 0.2
    rows = [
        {"time": float(second), "machine": machine, "metric": "cpu_usage", "value": round(float(value), 2)}
        for machine, values in zip(machines, usage, strict=True)
        for second, value in enumerate(values)
    ]
    return parquet_bytes(rows, {"time": float, "machine": str, "metric": str, "value": float})


def timer_log() -> str:
    """Return what Megatron-LM prints with `--timing-log-level 2 --timing-log-option all`, for four steps."""
    ranks = TIMED.pp * TIMED.dp
    lines = [
        f"using world size: {ranks}, data-parallel size: {TIMED.dp}, context-parallel size: 1, "
        f"tensor-model-parallel size: {TIMED.tp}, pipeline-model-parallel size: {TIMED.pp}",
        "setting number of microbatches to constant 8",
    ]
    for step in range(7, 11):
        lines += [
            f" iteration {step:8d}/     100 | consumed samples: {64 * step} | elapsed time per iteration (ms): 400.0 |",
            "times across ranks (ms):",
            *_timers(),
        ]
    return "\n".join([*lines, ""])


def _timers() -> Iterator[str]:
    """Yield the timers of a step, a line for each rank."""
    first = range(TIMED.dp)
    times: Mapping[str, Mapping[int, float]] = {
        "forward-compute": _compute(80.0),
        "backward-compute": _compute(160.0),
        "forward-recv": dict.fromkeys(range(TIMED.dp, 2 * TIMED.dp), 10.0),
        "forward-send": dict.fromkeys(first, 1.0),
        "backward-recv": dict.fromkeys(first, 20.0),
        "backward-send": dict.fromkeys(range(TIMED.dp, 2 * TIMED.dp), 1.0),
        "all-grads-sync": dict.fromkeys(range(2 * TIMED.dp), 6.0),
        "optimizer-clip-main-grad": dict.fromkeys(range(2 * TIMED.dp), 3.0),
        "optimizer": dict.fromkeys(range(2 * TIMED.dp), 12.0),
    }
    for name, of_rank in times.items():
        yield f"  {name}:"
        yield from (f"     rank {rank:2d}: {value:.2f}" for rank, value in of_rank.items())


def _compute(milliseconds: float) -> dict[int, float]:
    return {rank: milliseconds * (1.6 if rank == SLOW_RANK else 1.0) for rank in range(2 * TIMED.dp)}
