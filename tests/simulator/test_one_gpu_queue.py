"""One-GPU jobs under strict first in, first out: the one case with an answer that anybody can compute."""

from __future__ import annotations

import csv
import gzip
import os
from datetime import UTC, datetime
from heapq import heappop, heappush
from math import inf
from pathlib import Path

import numpy as np
import pytest

from scheduler.queue.fifo_and_backfill import Fifo
from simulator.engine import Engine
from simulator.job_record import JobRecord
from simulator.pools import GpuPool
from tests.case_counts import ALL_CASES, every_fourth
from tests.simulator.clusters import racks


def waits_of_a_plain_queue(jobs: list[tuple[float, float]], servers: int) -> list[float]:
    """Waits of first in, first out on so many servers: each job takes the server that is free first."""
    free_at = [float("-inf")] * servers
    waits = []
    for submit, duration in jobs:
        start = max(submit, heappop(free_at))
        heappush(free_at, start + duration)
        waits.append(start - submit)
    return waits


@pytest.mark.many_cases
@pytest.mark.parametrize("gpus", every_fourth([64, 160]))
def test_philly_jobs_of_one_gpu_equal_a_plain_queue(gpus: int) -> None:
    """All 76,627 of them, the first 20,000 in `make test`, on so few GPUs that most have to wait: to a microsecond."""
    if "ARNOLD_DATA" not in os.environ:
        pytest.skip("ARNOLD_DATA is not set: the public traces are not here")
    with gzip.open(Path(os.environ["ARNOLD_DATA"]) / "philly" / "philly.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["num_gpus"] == "1"]
    jobs = sorted(
        (datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp(), float(row["duration"]))
        for row in rows
    )
    assert len(jobs) == 76_627
    jobs = jobs if ALL_CASES else jobs[:20_000]
    records = [JobRecord(str(i), submit, duration, 1) for i, (submit, duration) in enumerate(jobs)]
    engine = Engine(records, GpuPool(racks(gpus // 8)), Fifo())
    engine.run()
    waits = [job.first_start - job.submitted for job in engine.jobs]
    assert max(waits) > 0
    np.testing.assert_allclose(waits, waits_of_a_plain_queue(jobs, gpus), rtol=0, atol=1e-6)


def test_a_step_goes_to_the_time_of_the_next_event() -> None:
    """Jobs of the whole cluster come at 0 and 3 and run 10 s and 5 s: they end at 10 and at 15, and nothing is left."""
    engine = Engine([JobRecord("a", 0.0, 10.0, 8), JobRecord("b", 3.0, 5.0, 8)], GpuPool(racks(1)), Fifo())
    seen = []
    while not engine.over:
        seen.append(engine.peek())
        engine.step()
        assert engine.clock.now == seen[-1]
    assert [*seen, engine.peek()] == [0.0, 3.0, 10.0, 15.0, inf]
