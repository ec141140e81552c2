"""What-if analysis of one job's trace: how much faster would it run without stragglers, and whose fault is the rest?

After "Understanding Stragglers in Large Model Training Using What-if Analysis" (arXiv 2505.05713, OSDI '25): the job's
operations become a graph, the graph is replayed with traced and with ideal durations, and the ratio of the two step
times is what stragglers cost.

    trace = read_trace("trace.parquet", sizes=read_metadata(read_source("meta.yaml")))
    replayed = prepare(trace)
    analysis = analyse(replayed)
    workers = slow_workers(replayed, analysis)
"""

from scheduler.health.whatif.analysis import analyse
from scheduler.health.whatif.assemble import read_trace
from scheduler.health.whatif.blame import SlowWorker, flags_of, slow_workers
from scheduler.health.whatif.metadata import JobSizes, read_metadata
from scheduler.health.whatif.nodes import read_nodes
from scheduler.health.whatif.prepare import Replayed, prepare
from scheduler.health.whatif.result import Analysis, Cause, Operation, Timeline, Timelines
from scheduler.health.whatif.timeline import timelines_of
from scheduler.health.whatif.trace import Trace
from scheduler.health.whatif.words import help_for, notes_on, verdict

__all__ = [
    "Analysis",
    "Cause",
    "JobSizes",
    "Operation",
    "Replayed",
    "SlowWorker",
    "Timeline",
    "Timelines",
    "Trace",
    "analyse",
    "flags_of",
    "help_for",
    "notes_on",
    "prepare",
    "read_metadata",
    "read_nodes",
    "read_trace",
    "slow_workers",
    "timelines_of",
    "verdict",
]
