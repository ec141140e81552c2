"""Predicted starts beside replays."""

from __future__ import annotations

from benchmarks import starts
from simulator.job_record import JobRecord


def test_without_jobs_to_come_true_run_times_say_the_start() -> None:
    """Six times ten jobs of 100 s come at once, of which two run together: those that are asked about start when it is
    said, as jobs that are all equal pass nobody.
    """
    records = [JobRecord(f"{i}", 500.0 * (i // 10), 100.0, 50) for i in range(60)]
    asked = starts.predictions(records, "true run times", past=(), most=5)
    assert asked
    assert all(question.p10 == question.p50 == question.p90 == question.start for question in asked)
