"""Runs in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits
from scheduler.queue.policy import QueuePolicy
from simulator.engine import Engine
from simulator.history import AttemptLog, run_history
from simulator.job_record import JobRecord
from simulator.pools import GpuPool, NodePool
from simulator.results import RunSummary, run_summary
from topology.cluster import Cluster


def placed(cluster: Cluster) -> NodePool:
    """A cluster on which production placement decides."""
    return NodePool(cluster, algorithm=Exact(), limits=Limits(workers=1))


def counted_run(cluster: Cluster, records: Sequence[JobRecord], policy: QueuePolicy, **hooks: Any) -> Engine:
    """A finished run in which GPUs are counted."""
    return finished(Engine(records, GpuPool(cluster), policy, **hooks))


def placed_run(cluster: Cluster, records: Sequence[JobRecord], policy: QueuePolicy, **hooks: Any) -> Engine:
    """A finished run in which jobs are placed."""
    return finished(Engine(records, placed(cluster), policy, **hooks))


def go_on(engine: Engine, instants: int) -> None:
    """Go on by so many instants, or to the end."""
    while instants and not engine.over:
        engine.step()
        instants -= 1


def log_attempts(engine: Engine) -> AttemptLog:
    """The log that is kept, from now on, of a run that has not begun."""
    engine.cluster.recovery = log = AttemptLog(engine.cluster.recovery)
    engine.kept = (*engine.kept, log)
    return log


def finished(engine: Engine) -> Engine:
    """The engine after its run, whose recovery is a log of its attempts."""
    log_attempts(engine)
    engine.run()
    return engine


def summary_of(engine: Engine) -> RunSummary:
    """A finished run in a few numbers."""
    assert isinstance(engine.cluster.recovery, AttemptLog)
    return run_summary(run_history(engine, engine.cluster.recovery, None))
