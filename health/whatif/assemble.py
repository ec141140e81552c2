"""From rows to dense arrays.

Every data-parallel rank runs the same operations in every step, or the graph could not be built once.  A row belongs to
a cell: an operation (stage, type, number), a rank and a step.  A whole trace fills every cell once.  With ``lenient``
what does not fit is left out: rows that are wrong in themselves, then ranks without one of the stages, then ranks of
which most steps are incomplete, then steps that are still incomplete.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ground.errors import TooLarge, TraceFormatError
from health.whatif.analysis_result import Operation
from health.whatif.op_columns import OpColumns, check_sizes, faults_of_rows, infer_sizes, read_columns
from health.whatif.optypes import BACKWARD, FORWARD, OPTYPES, stream_of
from health.whatif.trace import JobSizes, Trace

Ints = NDArray[np.int64]

# Most possible (stage, type, number): numbers far beyond those of the rows are a fault of the file
MAX_KEYS = 50_000_000
HALF = 0.5  # Ranks and operations that are there in at most this share of the steps are out of place


def read_trace(
    path: str | Path, *, sizes: JobSizes | None = None, lenient: bool = False, partial: bool = False
) -> Trace:
    """Read a trace from a Parquet file; ``-`` is standard input.

    :param sizes: of the metadata; ``None`` = those that the rows show.
    :param lenient: leave out what does not fit, and count it.
    :param partial: data-parallel ranks may be absent: the trace says so itself.
    :raises TraceFormatError: the trace breaks a rule; if lenient, nothing is left or the metadata are of another job.
    """
    columns = read_columns(path)
    dropped: Counter[str] = Counter()
    for fault in faults_of_rows(columns) if not lenient else ():
        if len(fault.rows):
            raise TraceFormatError(fault.message, where=f"{columns.source}:row {fault.rows[0]}", fix=fault.fix)
    if lenient:
        columns = _without_faulty_rows(columns, dropped)
    sizes = sizes or infer_sizes(columns)
    ranks = check_sizes(columns, sizes)
    columns = _ranks_with_all_stages(columns, sizes, dropped, lenient=lenient)
    return _Assembly(columns, sizes, 0 if partial else ranks, dropped, lenient=lenient).trace()


def _without_faulty_rows(columns: OpColumns, dropped: Counter[str]) -> OpColumns:
    bad = np.zeros(len(columns), dtype=np.bool_)
    for fault in faults_of_rows(columns):
        rows = fault.rows[~bad[fault.rows]]
        dropped[fault.reason] += len(rows)
        bad[rows] = True
    if bad.all():
        raise TraceFormatError("has no usable row", where=columns.source, fix="read it without --lenient to see why")
    return columns.without(bad) if bad.any() else columns


def _ranks_with_all_stages(columns: OpColumns, sizes: JobSizes, dropped: Counter[str], *, lenient: bool) -> OpColumns:
    """Return the rows of ranks of which every stage was traced; without ``lenient`` that is all of them."""
    ranks, rank = _places(columns.whole["dp_rank"])
    traced = np.zeros((len(ranks), sizes.pp), dtype=np.bool_)
    traced[rank, columns.whole["stage"]] = True
    whole: NDArray[np.bool_] = np.all(traced, axis=1)
    if whole.all():
        return columns
    if not lenient or not whole.any():
        absent = np.argwhere(~traced)[0]
        raise TraceFormatError(
            f"worker dp {int(ranks[absent[0]])} / stage {int(absent[1])} is absent: it has no row",
            where=columns.source,
            fix="trace every stage of every rank"
            + (", or use --lenient to judge the ranks that are whole" if whole.any() else ""),
        )
    out = ~whole[rank]
    dropped["rank without a stage"] += int(out.sum())
    return columns.without(out)


class _Assembly:
    """Rows on their way into cells: of each row the places in ``keys``, ``ranks`` and ``steps``."""

    def __init__(
        self, columns: OpColumns, sizes: JobSizes, ranks: int, dropped: Counter[str], *, lenient: bool
    ) -> None:
        self.columns, self.sizes, self.dropped, self.lenient = columns, sizes, dropped, lenient
        whole = columns.whole
        self.numbers = int(whole["seq_id"].max()) + 1
        possible = sizes.pp * len(OPTYPES) * self.numbers
        if possible > max(MAX_KEYS, 4 * len(columns)):
            row = int(np.argmax(whole["seq_id"]))
            raise TooLarge(
                f"seq_id is {self.numbers - 1:,}: more operations than can be",
                where=f"{columns.source}:row {row}",
                fix="count operations from 0 in every step",
            )
        key = (whole["stage"].astype(np.int64) * len(OPTYPES) + columns.optype) * self.numbers + whole["seq_id"]
        self.keys, self.operation = _places(key)
        self.steps, self.step = _places(whole["step"])
        self.ranks, self.rank = _places(whole["dp_rank"])
        self.expected_ranks = ranks

    def trace(self) -> Trace:
        """Return the dense trace."""
        if self.lenient:
            self._drop_ranks_and_steps()
        elif len(self.ranks) < self.expected_ranks:
            absent = int(np.setdiff1d(np.arange(self.expected_ranks), self.ranks)[0])
            raise TraceFormatError(
                f"data-parallel rank {absent} is absent, and the job has {self.expected_ranks}",
                where=self.columns.source,
                fix="trace every rank, or use --lenient to judge those that are there",
            )
        shape = (len(self.keys), len(self.ranks), len(self.steps))
        cell = (self.operation * shape[1] + self.rank) * shape[2] + self.step
        if len(cell) != int(np.prod(shape)) or not _is_permutation(cell):
            raise self._not_whole(cell, shape)

        def dense(values: NDArray[Any]) -> NDArray[Any]:
            filled = np.empty(shape, dtype=values.dtype)
            filled.reshape(-1)[cell] = values
            return filled

        start, row = dense(self.columns.start), dense(np.arange(len(cell), dtype=np.int32))
        if (began := start.min(axis=(0, 1))).any():
            start -= began
        return Trace(
            source=self.columns.source,
            sizes=self.sizes,
            dp_ranks=tuple(int(rank) for rank in self.ranks),
            steps=tuple(int(step) for step in self.steps),
            operations=self._operations(row),
            sequence=self.keys % self.numbers,
            row=row,
            start=start,
            duration=dense(self.columns.duration),
            dropped={reason: count for reason, count in self.dropped.items() if count},
        )

    def _operations(self, row: NDArray[np.int32]) -> tuple[Operation, ...]:
        """Return what each operation is, which must not differ from rank to rank or step to step."""
        columns = self.columns
        for key in ("mc", "mb_id"):
            values = columns.whole[key]
            first = values[row[:, 0, 0]]
            differs = columns.passes & (values != first[self.operation])
            if differs.any():
                at = int(np.argmax(differs))
                raise TraceFormatError(
                    f"{key} is {int(values[at])}, and {int(first[self.operation[at]])} in the first rank and step: "
                    "the operations stand in another order",
                    where=f"{columns.source}:row {at}",
                    fix="analyse steps of one schedule only",
                )
        made = []
        for key, at in zip(self.keys, row[:, 0, 0], strict=True):
            stage, optype, _ = self._parts(key)
            chunk = int(columns.whole["mc"][at])
            if optype in (FORWARD, BACKWARD) and self.sizes.vpp == 1:
                chunk = max(chunk, 0)
            made.append(Operation(optype, stage, chunk, int(columns.whole["mb_id"][at]), stream_of(optype)))
        return tuple(made)

    def _not_whole(self, cell: Ints, shape: tuple[int, int, int]) -> TraceFormatError:
        """Return the error for cells that are empty or filled twice."""
        order = np.argsort(cell, kind="stable")
        twice = np.flatnonzero(np.diff(cell[order]) == 0)
        rare = ~(np.bincount(self.operation, minlength=shape[0]) > HALF * shape[1] * shape[2])[self.operation]
        if len(twice):
            row = int(order[twice[0] + 1])
            problem = f"{self._cell(cell[row], shape)} is there twice (first in row {int(order[twice[0]])})"
            fix = "keep one row for each operation, or use --lenient to leave the step out"
        elif rare.any():
            row = int(np.argmax(rare))
            problem = f"{self._cell(cell[row], shape)}: most other ranks or steps have no such operation"
            fix = "analyse steps of one schedule only, or use --lenient to leave this one out"
        else:
            ordered = cell[order]
            gap = int(np.argmax(ordered != np.arange(len(ordered))))
            missing = gap if ordered[gap] != gap else len(ordered)
            row = int(order[min(max(gap - 1, 0), len(order) - 1)])
            problem = f"{self._cell(missing, shape)} is missing: the step is cut off or a rank was not traced"
            fix = "leave the step out, or use --lenient to have it left out"
        return TraceFormatError(problem, where=f"{self.columns.source}:row {row}", fix=fix)

    def _cell(self, cell: int, shape: tuple[int, int, int]) -> str:
        place, rank, step = np.unravel_index(cell, shape)
        stage, optype, number = self._parts(self.keys[place])
        return f"{optype} {number} of step {self.steps[step]}, dp rank {self.ranks[rank]}, stage {stage}"

    def _parts(self, key: Any) -> tuple[int, str, int]:
        """Return stage, type and number of an operation, which :attr:`keys` hold as one number."""
        stage, optype = divmod(int(key) // self.numbers, len(OPTYPES))
        return stage, OPTYPES[optype], int(key) % self.numbers

    def _drop_ranks_and_steps(self) -> None:
        """Leave out what keeps the rest from being whole."""
        pairs = (len(self.ranks), len(self.steps))
        cell = (self.operation * pairs[0] + self.rank) * pairs[1] + self.step
        order = np.argsort(cell, kind="stable")
        twice = order[1:][np.diff(cell[order]) == 0]
        pair = self.rank * pairs[1] + self.step
        busy = np.bincount(pair, minlength=pairs[0] * pairs[1]) > 0
        usual = np.bincount(self.operation, minlength=len(self.keys)) > HALF * int(busy.sum())
        wrong = np.bincount(pair[usual[self.operation]], minlength=pairs[0] * pairs[1]) != int(usual.sum())
        wrong[pair[twice]] = True
        wrong[pair[~usual[self.operation]]] = True
        table = wrong.reshape(pairs)
        hopeless = table.mean(axis=1) > HALF
        good = ~table[~hopeless].any(axis=0)
        for none_left, problem in ((hopeless, "no rank has enough whole steps"), (~good, "no step is whole")):
            if none_left.all():
                fix = "read it without --lenient to see what is wrong first"
                raise TraceFormatError(problem, where=self.columns.source, fix=fix)
        out_of_rank, out_of_step = hopeless[self.rank], ~good[self.step]
        self.dropped["rank incomplete in most steps"] += int(out_of_rank.sum())
        self.dropped["step incomplete"] += int((out_of_step & ~out_of_rank).sum())
        keep = ~(out_of_rank | out_of_step)
        self.columns = self.columns.without(~keep)
        self.keys, self.operation = _places(self.keys[self.operation[keep]])
        self.steps, self.step = _places(self.steps[self.step[keep]])
        self.ranks, self.rank = _places(self.ranks[self.rank[keep]])


def _places(values: NDArray[np.signedinteger]) -> tuple[Ints, Ints]:
    """Return the distinct values, ascending, and the place of each value among them."""
    low, high = int(values.min()), int(values.max())
    if high - low > max(MAX_KEYS, 4 * len(values)):
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), inverse.astype(np.int64)
    there = np.zeros(high - low + 1, dtype=np.bool_)
    there[values - low] = True
    place = np.cumsum(there, dtype=np.int64) - 1
    return np.flatnonzero(there) + low, place[values - low]


def _is_permutation(cell: Ints) -> bool:
    filled = np.zeros(len(cell), dtype=np.bool_)
    filled[cell] = True
    return bool(filled.all())
