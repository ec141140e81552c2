"""Runs in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits
from scheduler.queue.types import QueuePolicy
from simulator.engine.counted import CountedRoom
from simulator.engine.loop import Engine
from simulator.engine.placed import PlacedRoom
from simulator.engine.run import run
from simulator.job_record import JobRecord
from simulator.results.attempt_log import AttemptLog, log_attempts
from simulator.results.run_history import run_history
from simulator.results.run_summary import RunSummary, run_summary
from topology.cluster import Cluster


def placed(cluster: Cluster) -> PlacedRoom:
    """A cluster on which production placement decides."""
    return PlacedRoom(cluster, algorithm=Exact(), limits=Limits(workers=1))


def counted_run(cluster: Cluster, records: Sequence[JobRecord], policy: QueuePolicy, **hooks: Any) -> Engine:
    """A finished run in which GPUs are counted."""
    return finished(Engine(records, CountedRoom(cluster), policy, **hooks))


def placed_run(cluster: Cluster, records: Sequence[JobRecord], policy: QueuePolicy, **hooks: Any) -> Engine:
    """A finished run in which jobs are placed."""
    return finished(Engine(records, placed(cluster), policy, **hooks))


def finished(engine: Engine) -> Engine:
    """The engine after its run, whose recovery is a log of its attempts."""
    log_attempts(engine)
    engine.begin()
    run(engine)
    return engine


def summary_of(engine: Engine) -> RunSummary:
    """A finished run in a few numbers."""
    assert isinstance(engine.recovery, AttemptLog)
    return run_summary(run_history(engine, engine.recovery, None))
