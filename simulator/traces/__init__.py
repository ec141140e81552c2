"""Public job traces in their own formats, read as JobRecords."""

from simulator.traces.column_names import parse_columns
from simulator.traces.job_trace import JobTrace
from simulator.traces.trace_loading import read_trace
from simulator.traces.trace_transforms import max_gpus, merge, parse_window, resampled, scale_load, window

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
