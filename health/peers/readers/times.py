"""The time of samples: seconds, milliseconds since 1970, or dates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from health.peers.streams import FloatArray
from topology.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH = 1e8
"""Seconds above this are taken for seconds since 1970 (this one is in 1973)."""

MILLISECONDS = 1e11
"""Numbers above this are taken for milliseconds since 1970 (as seconds it is the year 5138)."""


def seconds(
    column: pa.ChunkedArray, title: str, *, line: Callable[[int], str], lenient: bool
) -> tuple[FloatArray, bool]:
    """Seconds of a column, NaN where there is none, and whether they count from 1970.

    :raises InvalidInput: no times.
    """
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        ticks = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        return ticks.cast(pa.float64(), safe=False).to_numpy() / 1e6, True
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = column.to_pylist()
        time = np.array([_parse(text) for text in texts])
        odd = np.flatnonzero(np.isnan(time))
        if odd.size and not lenient:
            k = int(odd[0])
            raise InvalidInput(
                f"{title} is {(texts[k] or '')[:40]!r}, neither seconds nor a date",
                where=line(k),
                fix="give seconds, or dates such as 2026-11-21T12:00:00Z",
            )
    else:
        try:
            time = column.cast(pa.float64(), safe=False).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidInput(
                f"{title} is a column of {column.type}, not of times", where=line(0), fix="give seconds or timestamps"
            ) from None
    time = np.where(np.isfinite(time), time, np.nan)
    if not np.isfinite(time).any():
        return time, False
    middle = float(np.nanmedian(time))
    if middle > MILLISECONDS:
        return time / 1e3, True
    return time, middle > EPOCH


def _parse(text: str | None) -> float:
    """Seconds of one text; NaN = neither a number nor a date."""
    if not text:
        return np.nan
    try:
        return float(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
