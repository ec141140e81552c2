"""Waits by size of job: a row of numbers and a range on a logarithmic axis for each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arnold.pages.row_chart import ChartRow, row_chart
from simulator.engine.sim_job import SimJob
from simulator.results.distribution import NAMES, Distribution, distribution, waits_by_size
from topology.quantities import duration, percent, plural

LEAST = 1.0
"""Seconds at the left end of the axis; shorter waits stand there."""


class WaitRow(NamedTuple):
    """Waits of one class of size.

    :param waited: share of jobs that waited at all.
    """

    name: str
    jobs: int
    waited: float
    wait: Distribution


def wait_rows(jobs: Sequence[SimJob]) -> list[WaitRow]:
    """Return a row for each class that has jobs that started."""
    return [
        WaitRow(name, len(waits), float((waits > 0).mean()), found)
        for name, waits in zip(NAMES, waits_by_size(jobs), strict=True)
        if (found := distribution(waits)) is not None
    ]


def wait_chart(rows: Sequence[WaitRow]) -> str:
    """Return a drawing: from the median to the 95th percentile a bar, a dot at the mean, a line to the largest."""
    return row_chart(
        [_drawn(row) for row in rows], name="waits", title="Wait by size of job", kind="seconds", log_from=LEAST
    )


def _drawn(row: WaitRow) -> ChartRow:
    wait = row.wait
    tip = (
        f"{row.name}\n{plural(row.jobs, 'job')}, {percent(row.waited)} of them waited\nmean {duration(wait.mean)}, "
        f"median {duration(wait.p50)}\n95% up to {duration(wait.p95)}, longest {duration(wait.max)}"
    )
    tone = f"s{NAMES.index(row.name)}"
    return ChartRow(row.name, tone, wait.mean, (wait.p50, wait.max), tip, bar=(wait.p50, wait.p95))
