"""The public Philly trace, read from the folder that ``ARNOLD_DATA`` names."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from simulator.traces import JobTrace, read_trace


@pytest.fixture(scope="module")
def philly() -> JobTrace:
    """The whole trace, strictly."""
    folder = os.environ.get("ARNOLD_DATA")
    if not folder:
        pytest.skip("ARNOLD_DATA is not set: the public traces are not part of the project")
    return read_trace(Path(folder) / "philly" / "philly.csv.gz")


def test_counts_of_the_trace(philly: JobTrace) -> None:
    """82,247 jobs in 15 virtual clusters, 76,627 of one GPU, 978,078 GPU-hours, none of them wrong."""
    assert (philly.format, philly.dropped, len(philly)) == ("philly", {}, 82_247)
    assert len({record.queue for record in philly.records}) == 15
    assert Counter(record.gpus for record in philly.records)[1.0] == 76_627
    hours = sum(record.gpus * record.duration for record in philly.records) / 3600
    assert round(hours) == 978_078


def test_order_and_ids(philly: JobTrace) -> None:
    """Sorted by submission, ids unique."""
    submits = [record.submit for record in philly.records]
    assert submits == sorted(submits)
    assert len({record.job_id for record in philly.records}) == len(philly)
