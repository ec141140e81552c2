"""What a row of a trace may say: each rule with its words, so that strict and lenient reading apply the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from health.whatif.metadata import JobSizes
from health.whatif.op_columns import ABSENT, UNKNOWN, OpColumns
from health.whatif.optypes import OPTYPES
from topology.errors import TraceFormatError, did_you_mean

Rows = NDArray[np.int64]
NO_ROWS: Rows = np.array([], dtype=np.int64)


class Fault(NamedTuple):
    """Rows that break a rule."""

    reason: str  # the rule in a few words, for the count of what was dropped
    rows: Rows  # numbers of the rows, ascending
    message: str  # about the first of them
    fix: str


def faults_of_rows(columns: OpColumns) -> Iterator[Fault]:
    """Yield rows that are wrong in themselves."""
    if columns.strange:
        names = ", ".join(repr(name) for name in columns.strange[:3])
        fix = f"{did_you_mean(columns.strange[0], OPTYPES)}use {', '.join(OPTYPES)}"
        rows = np.flatnonzero(columns.optype == UNKNOWN)
        yield Fault("unknown operation type", rows, f"unknown operation type: {names}", fix)
    for key, values in columns.whole.items():
        rows = np.flatnonzero(values == ABSENT) if int(values.min()) <= ABSENT else NO_ROWS
        yield Fault(f"{key} missing", rows, f"{key} is missing", "write a number in every row; -1 where there is none")
    for key in ("dp_rank", "stage", "seq_id"):
        values = columns.whole[key]
        rows = np.flatnonzero(values < 0) if int(values.min()) < 0 else NO_ROWS
        yield Fault(f"{key} below 0", rows, f"{key} is {_at(values, rows)}", "count from 0")
    for key, seconds in (("start_ts", columns.start), ("duration", columns.duration)):
        rows = np.flatnonzero(~np.isfinite(seconds))
        yield Fault(f"{key} not finite", rows, f"{key} is {_at(seconds, rows)}", "leave the whole step out")
    rows = np.flatnonzero(columns.duration < 0)
    message = f"duration is {_at(columns.duration, rows)} s: an operation ends before it begins"
    yield Fault("negative duration", rows, message, "take both times from one clock, or leave the whole step out")
    rows = np.flatnonzero(columns.passes & (columns.whole["mb_id"] < 0))
    yield Fault("compute without microbatch", rows, "a forward or backward pass has no microbatch", "write its mb_id")


def check_sizes(columns: OpColumns, sizes: JobSizes) -> int:
    """Compare the rows with the metadata.

    :returns: number of data-parallel ranks that the job has by the metadata.
    :raises TraceFormatError: a rank, stage or chunk lies outside the sizes, or a stage or chunk does not occur.
    """
    ranks = sizes.dp
    highest = int(columns.whole["dp_rank"].max())
    if highest >= ranks and sizes.dsp > 1 and highest < ranks * sizes.dsp:
        ranks *= sizes.dsp
    named = f" in {sizes.source}" if sizes.source else ""
    for key, limit, name in (
        ("dp_rank", ranks, "dp_size"),
        ("stage", sizes.pp, "pp_size"),
        ("mc", sizes.vpp, "vpp_size"),
    ):
        values = columns.whole[key]
        if int(values.max()) >= limit:
            row = int(np.argmax(values >= limit))
            raise TraceFormatError(
                f"{key} is {int(values[row])}, and {name} is {limit}{named}",
                where=f"{columns.source}:row {row}",
                fix="give the metadata of this trace",
            )
    there = np.bincount(columns.whole["stage"][columns.whole["stage"] >= 0], minlength=sizes.pp) > 0
    if not there.all():
        raise TraceFormatError(
            f"stage {int(np.argmin(there))} does not occur, and pp_size is {sizes.pp}{named}",
            where=columns.source,
            fix="trace one rank of every stage, or give the metadata of this trace",
        )
    chunks = int(columns.whole["mc"].max()) + 1
    if chunks not in (0, sizes.vpp):
        raise TraceFormatError(
            f"model chunk {chunks} does not occur, and vpp_size is {sizes.vpp}{named}",
            where=columns.source,
            fix="trace every chunk, or give the metadata of this trace",
        )
    return ranks


def infer_sizes(columns: OpColumns) -> JobSizes:
    """Return the sizes that the rows show, where no metadata say them."""
    dp, pp, vpp = (max(int(columns.whole[key].max()) + 1, 1) for key in ("dp_rank", "stage", "mc"))
    tp = columns.ranks if dp * pp > 1 else 1
    return JobSizes(dp=dp, pp=pp, vpp=vpp, tp=tp, world=dp * pp * tp)


def _at(values: NDArray[Any], rows: Rows) -> str:
    return str(values[rows[0]]) if len(rows) else ""
