"""Public job traces in their own formats, read as JobRecords."""

from simulator.traces.fit import check_against
from simulator.traces.load import read_trace
from simulator.traces.moments import parse_window
from simulator.traces.trace import Trace
from simulator.traces.transforms import max_gpus, merge, scale_load, window

__all__ = ["Trace", "check_against", "max_gpus", "merge", "parse_window", "read_trace", "scale_load", "window"]
