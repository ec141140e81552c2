"""A line of the text that exporters write for Prometheus: ``name{label="value",...} 12.5``, then perhaps a time in ms.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import re
from typing import NamedTuple

from topology.tables.bad_rows import BadRow

_LINE = re.compile(r"\s*([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')


class ExporterLine(NamedTuple):
    """One value of one series."""

    name: str
    labels: dict[str, str]
    value: float  # may be NaN or infinite
    time: float | None  # seconds since 1970; None = that of the scrape


def exporter_line(line: str) -> ExporterLine:
    """Return the value of a line that is no comment; raise :class:`~topology.tables.bad_rows.BadRow` for another."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise BadRow("is not a line of Prometheus text")
    name, inner, number, time = match[1], match[2] or "", match[3], match[4]
    labels, here = {}, 0
    while here < len(inner.rstrip()):
        label = _LABEL.match(inner, here)
        if label is None:
            raise BadRow('the labels are not a list of name="value"')
        labels[label[1]], here = label[2], label.end()
    try:
        value = float(number)
    except ValueError:
        raise BadRow(f"the value is {number!r:.40}, not a number") from None
    return ExporterLine(name, labels, value, int(time[:18]) / 1e3 if time else None)
