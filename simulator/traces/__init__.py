"""Public job traces in their own formats, read as JobRecords."""

from simulator.traces.job_trace import JobTrace, max_gpus, merge, parse_window, resampled, scale_load, window
from simulator.traces.trace_loading import parse_columns, read_trace

__all__ = [
    "JobTrace",
    "max_gpus",
    "merge",
    "parse_columns",
    "parse_window",
    "read_trace",
    "resampled",
    "scale_load",
    "window",
]
