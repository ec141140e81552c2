"""Metrics of machines from files: Parquet and CSV tables, Prometheus range queries as JSON.

A file is known by its content, not by its name.  Nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Collection

from health.peers.readers.range_query import read_prometheus
from health.peers.readers.sample_table import SampleColumns, read_csv, read_parquet
from health.peers.streams import MetricRecording
from topology.errors import InvalidInput
from topology.files import decode_source, read_bytes, unpacked

__all__ = ["SampleColumns", "load_recording"]

MAX_BYTES = 2 * 1024**3  # Largest file: 15 minutes of seven metrics of 1,500 machines are about 0.5 GB as CSV


def load_recording(
    path: str, *, columns: SampleColumns | None = None, machines: Collection[str] | None = None, lenient: bool = False
) -> MetricRecording:
    """Read the metrics of machines.

    :param path: a file, plain or gzip; ``-`` is standard input.
    :param columns: how the columns of a table are called.
    :param machines: only these; ``None`` = all.
    :param lenient: leave out rows that cannot be used, and say how many, instead of refusing the file.
    :raises InvalidInput: not such a file, or something in it cannot be, with the row.
    :raises TooLarge: more than :data:`MAX_BYTES`.
    """
    name, data = read_bytes(path, max_bytes=MAX_BYTES, if_larger="cut it into shorter pieces of time")
    data = unpacked(name, data, max_bytes=MAX_BYTES)
    if not data.strip():
        raise InvalidInput("is empty", where=name, fix="give a file with content")
    chosen = columns or SampleColumns()
    if data.startswith(b"PAR1"):
        recording = read_parquet(name, data, chosen, lenient=lenient)
    elif data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        recording = read_prometheus(decode_source(name, data), lenient=lenient)
    elif data.lstrip()[:7] in (b"# HELP ", b"# TYPE "):
        raise InvalidInput(
            "is one scrape of an exporter: how a metric was at one moment",
            where=name,
            fix="ask Prometheus, which scrapes it, for a range: /api/v1/query_range",
        )
    elif b"\0" in data[:4096] or data.startswith(b"\x80"):
        raise InvalidInput(
            "is binary and not Parquet",
            where=name,
            fix="give Parquet, CSV or Prometheus JSON; pickles and other binary formats are not read",
        )
    else:
        recording = read_csv(name, data, chosen, lenient=lenient)
    return recording if machines is None else recording.only(machines)
