"""Metrics of machines from files: Parquet and CSV tables, Prometheus range queries as JSON.

A file is known by its content, not by its name.  Nothing is ever unpickled.
"""

from health.peers.readers.load import load_recording
from health.peers.readers.table import Columns

__all__ = ["Columns", "load_recording"]
