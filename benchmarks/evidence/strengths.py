"""Which strength a slow worker needs to be found: recall against its factor, in each step and in one of ten."""

from dataclasses import replace
from itertools import product

import numpy as np

from benchmarks.report import section
from benchmarks.report import table as markdown
from health.whatif import analyse, prepare, slow_workers
from health.whatif.optypes import BACKWARD, FORWARD
from health.whatif.synthetic import Recipe, make_trace

FACTORS = (1.0, 1.03, 1.05, 1.1, 1.2, 1.5, 2.0)
NOISE = (0.01, 0.03)  # Standard deviation of every duration
STEPS, RARE = 20, 10  # Steps of a trace; a rare fault is in one of so many
BAR = 20  # Characters of a recall of 1


def table(*, seeds: int = 1, **_: object) -> str:
    """Recall by factor: the worker is flagged, or the loss is put down to it in words."""
    rows = []
    for noise, every, factor in product(NOISE, (1, RARE), FACTORS):
        flagged, blamed, others = found(factor, every, noise, seeds)
        often = "each step" if every == 1 else f"one of {every}"
        bar = "█" * round(flagged / seeds * BAR)
        rows.append(
            (f"{noise:.0%}", often, f"{factor:g}", f"{flagged / seeds:.2f}", bar, f"{blamed / seeds:.2f}", others)
        )
    header = ["noise", "slow in", "factor", "flagged", "", "blamed in words", "others flagged"]
    what = f"{seeds} jobs of 8 x 4 workers, {STEPS} steps, one slow worker; replayed"
    return "\n".join(["# A slow worker by its strength\n", section(what, markdown(header, rows))])


def found(factor: float, every: int, noise: float, runs: int) -> tuple[int, int, int]:
    """How often the slow worker is flagged, how often it is blamed, and how often another one is flagged."""
    flagged = blamed = others = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        rank, stage = int(random.integers(8)), int(random.integers(4))
        replayed = prepare(make_trace(Recipe(dp=8, pp=4, steps=STEPS, noise=noise, seed=seed)))
        seconds = replayed.durations.traced.copy()
        for place, operation in enumerate(replayed.trace.operations):
            if operation.stage == stage and operation.optype in (FORWARD, BACKWARD):
                seconds[place, rank, ::every] *= factor
        replayed = replayed._replace(durations=replace(replayed.durations, traced=seconds))
        analysis = analyse(replayed)
        named = {(worker.dp, worker.stage) for worker in slow_workers(replayed, analysis)}
        flagged += (rank, stage) in named
        blamed += analysis.cause == "worker" and (rank, stage) in analysis.places(analysis.slowest)
        others += bool(named - {(rank, stage)})
    return flagged, blamed, others
