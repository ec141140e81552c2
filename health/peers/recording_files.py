"""Metrics of machines from files: tables in Parquet and CSV, answers of Prometheus as JSON, the text of an exporter.

A file is known by its content, not by its name.  Nothing is ever unpickled.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from ground.errors import InvalidInput
from ground.files import Content, read_bytes, unpacked
from ground.formats import Format, FormatGroup, recognise
from ground.plugins import noted
from health.peers.metrics import counts_up
from health.peers.sample_sources import SampleColumns
from health.peers.streams import MetricRecording, in_our_units, joined, rate_of

MAX_BYTES = 2 * 1024**3  # Largest file: 15 minutes of seven metrics of 1,500 machines are about 0.5 GB as CSV


class MetricReader(Format, Protocol):
    """Reads one format of metrics of machines; an entry point in the group ``arnold.metric_readers``."""

    def read(self, content: Content, *, columns: SampleColumns, lenient: bool, several: bool) -> MetricRecording:
        """Return the metrics in a file of this format.

        :param columns: how the columns of a table are called.
        :param lenient: leave out rows that cannot be used, and note how many, instead of refusing the file.
        :param several: there are other files: one without names of machines is of the machine that it is called by.
        :raises InvalidInput: the file is not of this format, damaged, or has no sample.
        """


def _binary(head: str) -> tuple[str, str] | None:
    """Return what is wrong with a file that is no text, though no Parquet."""
    if "\0" in head[:4096] or head.startswith("\N{REPLACEMENT CHARACTER}"):
        fix = "give Parquet, CSV or Prometheus JSON; pickles and other binary formats are not read"
        return "is binary and not Parquet", fix
    return None


METRIC_READERS: FormatGroup[MetricReader] = FormatGroup("arnold.metric_readers", kind="metrics")
"""All formats that can be read."""


def load_recordings(
    paths: Sequence[str],
    *,
    columns: SampleColumns,
    format: str | None = None,
    machines: Collection[str] | None = None,
    lenient: bool = False,
) -> MetricRecording:
    """Read the metrics of machines from files of a metric each, of a machine each, or of all, as one recording.

    Counters are what they gain a second in it: their level says when a machine was started.
    """
    several = len(paths) > 1
    recordings = [
        load_recording(path, columns=columns, format=format, lenient=lenient, several=several) for path in paths
    ]
    recording = in_our_units(joined(recordings) if several else recordings[0])
    counted = {name: rate_of(samples) for name, samples in recording.metrics.items() if counts_up(name)}
    rates = {name: rate for name, rate in counted.items() if rate is not None}
    if rates:
        note = f"counters, compared by what they gain a second: {', '.join(rates)}"
        recording = replace(recording, metrics={**recording.metrics, **rates}, notes=(*recording.notes, note))
    return recording if machines is None else recording.only(machines)


def load_recording(
    path: str,
    *,
    columns: SampleColumns | None = None,
    format: str | None = None,
    machines: Collection[str] | None = None,
    lenient: bool = False,
    several: bool = False,
) -> MetricRecording:
    """Read the metrics of machines.

    :param path: a file, plain or gzip; ``-`` is standard input.
    :param format: name of the format; ``None`` = recognised by content.
    :param machines: only these; ``None`` = all.
    :param lenient: leave out rows that cannot be used, and say how many, instead of refusing the file.
    :param several: there are other files: one without names of machines is of the machine that it is called by.
    """
    name, data = read_bytes(path, max_bytes=MAX_BYTES, if_larger="cut it into shorter pieces of time")
    content = Content(name, unpacked(name, data, max_bytes=MAX_BYTES))
    if not content.data.strip():
        raise InvalidInput("is empty", where=name, fix="give a file with content")
    reader = METRIC_READERS.load(format) if format else recognise(METRIC_READERS, content, stranger=_binary)
    with noted(f"reading {name}"):
        recording = reader.read(content, columns=columns or SampleColumns(), lenient=lenient, several=several)
    return recording if machines is None else recording.only(machines)
