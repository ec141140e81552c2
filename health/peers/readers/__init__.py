"""Metrics of machines from files: Parquet and CSV tables, Prometheus range queries as JSON.

A file is known by its content, not by its name.  Nothing is ever unpickled.
"""

from health.peers.readers.recording_file import load_recording
from health.peers.readers.sample_table import SampleColumns

__all__ = ["SampleColumns", "load_recording"]
