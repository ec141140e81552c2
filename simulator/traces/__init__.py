"""Public job traces in their own formats, read as JobRecords."""

from simulator.traces.load import read_trace
from simulator.traces.trace import Trace

__all__ = ["Trace", "read_trace"]
