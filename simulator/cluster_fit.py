"""Whether a trace and a cluster belong together, said before anything runs.

A job that no state of the cluster can hold would wait for ever, and under first-in-first-out all behind it too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ground.errors import InvalidTopology, TraceFormatError
from simulator.pools import Disagreement, NoSuchNodes, Pool
from simulator.traces import JobTrace

NAMED = 3  # Jobs that the message names


def check_against(trace: JobTrace, pool: Pool, *, nodes: int, lenient: bool = False) -> JobTrace:
    """Return the trace, once it is sure that every job of it fits into the pool when no other is there.

    :param nodes: of the cluster that the pool is of.
    :param lenient: leave out jobs that do not fit, and count them by reason.
    :raises TraceFormatError: some do not fit and reading is strict, or none is left; names the first.
    :raises InvalidTopology: the cluster has no node that a job could ever use, or no level, and there is a gang.
    """
    if not pool.total.any():
        raise InvalidTopology(
            f"none of the {nodes:,} nodes of the cluster can be used: they are all faulty or busy",
            fix="give a cluster with nodes that have free GPUs and are not faulty",
        )
    too_large: dict[str, Disagreement] = {}
    others: dict[str, Disagreement] = {}
    no_level: InvalidTopology | None = None
    for record in trace.records:
        try:
            pool.need(record)
        except NoSuchNodes as error:
            too_large[record.job_id] = error
        except Disagreement as error:
            others[record.job_id] = error
        except InvalidTopology as error:
            no_level = error
    if too_large and (not lenient or len(too_large) == len(trace)):
        complaint = _complaint([one.sentence for one in too_large.values()])
        raise TraceFormatError(complaint, where=trace.source, fix=_FIX)
    if no_level is not None:
        raise no_level
    if others and not lenient:
        job, first = next(iter(others.items()))
        fix = f"{first.fix}, or leave such jobs out with --lenient"
        raise TraceFormatError(f"job {job} could never run: {first}", where=trace.source, fix=fix) from first
    misfits = {job: one.reason for job, one in {**too_large, **others}.items()}
    if len(misfits) == len(trace):
        raise TraceFormatError(
            "none of its jobs could ever run on this cluster",
            where=trace.source,
            fix="give a cluster that can hold them, or another trace",
        )
    return trace.without(misfits) if misfits else trace


_FIX = "give a larger cluster, leave large jobs out with --max-gpus, or drop those that do not fit with --lenient"


def _complaint(reasons: Sequence[str]) -> str:
    count = len(reasons)
    jobs = "a job of the trace does" if count == 1 else f"{count:,} jobs of the trace do"
    rest = f"; and {count - NAMED:,} more" if count > NAMED else ""
    return f"{jobs} not fit into the cluster: {'; '.join(reasons[:NAMED])}{rest}"
