"""What-if analysis of one job's trace: how much faster would it run without stragglers, and what slows it?

After "Understanding Stragglers in Large Model Training Using What-if Analysis" (arXiv 2505.05713, OSDI '25): the job's
operations become a graph, the graph is replayed with traced and with ideal durations, and the ratio of the two step
times is what stragglers cost.
"""

from health.whatif.analysis import analyse
from health.whatif.analysis_result import Analysis
from health.whatif.blame import SlowWorker, flags_of, help_for, notes_on, slow_workers, verdict
from health.whatif.replay import Replayed, prepare, timelines_of
from health.whatif.trace import Trace, read_metadata, read_trace
from health.whatif.worker_nodes import read_nodes

__all__ = [
    "Analysis",
    "Replayed",
    "SlowWorker",
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
