"""What-if analysis of one job's trace: how much faster would it run without stragglers, and whose fault is the rest?

After "Understanding Stragglers in Large Model Training Using What-if Analysis" (arXiv 2505.05713, OSDI '25): the job's
operations become a graph, the graph is replayed with traced and with ideal durations, and the ratio of the two step
times is what stragglers cost.

    trace = read_trace("trace.parquet", sizes=read_metadata(read_source("meta.yaml")))
    replayed = prepare(trace)
    analysis = analyse(replayed)
    workers = slow_workers(replayed, analysis)
"""

from health.whatif.analysis import analyse
from health.whatif.assemble import read_trace
from health.whatif.blame import SlowWorker, flags_of, slow_workers
from health.whatif.metadata import JobSizes, read_metadata
from health.whatif.nodes import read_nodes
from health.whatif.prepare import Replayed, prepare
from health.whatif.result import Analysis, Cause, Operation, Timeline, Timelines
from health.whatif.timeline import timelines_of
from health.whatif.trace import Trace
from health.whatif.words import help_for, notes_on, verdict

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
