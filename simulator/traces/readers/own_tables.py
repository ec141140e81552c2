"""Our own table of jobs, as CSV, JSON lines and Parquet, read and written.

A row has ``job_id,submit_time,duration,gpus``, any other field of a JobRecord (``status`` in any word that is
understood) and what a job asks of placement: the keys of a job file, each degree of parallelism a column;
``constraints`` and a ``model`` that is described stand there as YAML or JSON in one cell, or as values in JSON lines.
Instead of ``duration`` a file may have ``start_time`` and ``end_time``: so what a simulation wrote as its jobs is a
trace again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from io import StringIO
from math import inf
from typing import Any, TypeVar, get_args

from ground.errors import InvalidJob, TraceFormatError, did_you_mean
from ground.files import ByteStream
from ground.formats import FileFormat
from ground.records import json_data
from ground.rows import BadRow, CsvRows, header_of, json_objects
from scheduler.affinity import Model
from scheduler.job import DEGREES, FAMILIES, MEGATRON_ORDER, Avoid, DataSet, Parallelism
from scheduler.type_names import ANY, read_type_names
from simulator.job_record import JobRecord
from simulator.traces.cells import Clock, TraceRows, number, optional, record, status, text, whole
from simulator.traces.trace_loading import SYNONYMS, Numbered, offered, plain

# -- asking_cells --
# What a job asks of placement, in the cells of a row: the keys of a job file, each degree of parallelism a column.
#
# ``constraints`` and a ``model`` that is described stand there as YAML or JSON in one cell, or as values in JSON lines.


COLUMNS: Mapping[str, type] = {
    "model": str,
    **dict.fromkeys(DEGREES, int),
    **dict.fromkeys(("order", "tp_level"), str),
    "alpha": float,
    "microbatches": int,
    **dict.fromkeys(("avoid", "gpu_types", "constraints", "data_sets"), str),
}
"""Names, and the types of what stands in them."""

T = TypeVar("T")


def asked(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JobRecord that placement looks at.

    :raises BadRow: a cell is not what its column holds.
    """
    return {
        "parallelism": _parallelism(cells),
        "tp_level": text(cells, "tp_level") or None,
        "model": _model(cells),
        "alpha": _alpha(cells),
        "microbatches": _microbatches(cells),
        "avoid": _avoid(cells),
        "data_sets": _data_sets(cells),
        **_gpu_types(cells),
        **_constraints(cells),
    }


def asking_cells(record: JobRecord) -> dict[str, object]:
    """Return cells that read back as what a job asks; there is none where it asks nothing."""
    alike = {name: getattr(record, name) for name in ("model", "tp_level", "alpha", "microbatches", "avoid")}
    cells: dict[str, object] = {name: value for name, value in alike.items() if value not in (None, "")}
    if record.parallelism is not None:
        # A degree that is left out is 1, and etp is tp; one has to be there for a parallelism to be.
        degrees = {name: record.parallelism.degree(name) for name in FAMILIES}
        cells |= {name: degree for name, degree in degrees.items() if degree > 1 or name == "tp"}
        if record.parallelism.etp is not None:
            cells["etp"] = record.parallelism.etp
        if record.parallelism.order != MEGATRON_ORDER:
            cells["order"] = record.parallelism.order
    if record.gpu_types is not None or record.mix_types:
        cells["gpu_types"] = ANY if record.gpu_types is None else json.dumps(record.gpu_types, ensure_ascii=False)
    hard = [{"family": hold.family, "within": hold.level} for hold in record.holds]
    soft = [{"family": count.family, "level": count.level, "weight": count.weight} for count in record.counts]
    if hard or soft:
        cells["constraints"] = json.dumps([*hard, *soft])
    if record.data_sets:
        cells["data_sets"] = " ".join(f"{name}:{size!r}" if size < inf else name for name, size in record.data_sets)
    if isinstance(record.model, Model):
        cells["model"] = json.dumps(json_data(Model, record.model, without_defaults=True))
    return cells


def _as_text(cells: Mapping[str, Any], column: str) -> str:
    given = cells.get(column)
    return json.dumps(given) if isinstance(given, list | dict) else text(cells, column)


def _model(cells: Mapping[str, Any]) -> str | Model:
    """Return the shape in a cell, which begins with a brace (or a bracket, by mistake); anything else is a name."""
    written = _as_text(cells, "model")
    if not written.lstrip().startswith(("{", "[")):
        return written
    # not at the top: it takes pydantic, which most traces, and the help, can do without
    from scheduler.job_files.job_file import read_model

    return _part(read_model, written, "model")


def _gpu_types(cells: Mapping[str, Any]) -> dict[str, Any]:
    written = _as_text(cells, "gpu_types")
    if not written:
        return {}
    names = _part(read_type_names, written, "gpu_types")
    return {"gpu_types": names, "mix_types": names is None}


def _constraints(cells: Mapping[str, Any]) -> dict[str, Any]:
    written = _as_text(cells, "constraints")
    if not written:
        return {}
    from scheduler.job_files.job_file import read_constraints

    return _part(read_constraints, written, "constraints")._asdict()


def _part(read: Callable[[str], T], written: str, column: str) -> T:
    try:
        return read(written)
    except InvalidJob as error:
        raise BadRow(column, f"{column}: {error.message}", fix=error.fix) from None


def _parallelism(cells: Mapping[str, Any]) -> Parallelism | None:
    degrees: dict[str, Any] = {name: whole(cells[name], name) for name in DEGREES if cells.get(name) not in ("", None)}
    order = text(cells, "order")
    if order and not degrees:
        fix = f"give degrees too ({', '.join(DEGREES)}), or leave order empty"
        raise BadRow("parallelism", f"order is {order[:60]!r}, and there are no degrees to order", fix=fix)
    if not degrees:
        return None
    try:
        return Parallelism(**degrees, order=order or MEGATRON_ORDER)
    except InvalidJob as error:
        raise BadRow("parallelism", error.message, fix=error.fix) from None


def _alpha(cells: Mapping[str, Any]) -> float | None:
    alpha = optional(cells.get("alpha"), "alpha")
    if alpha is not None and not 0.0 <= alpha <= 1.0:
        raise BadRow("alpha", f"alpha is {alpha:g}", fix="give alpha between 0 and 1, or leave it empty")
    return alpha


def _microbatches(cells: Mapping[str, Any]) -> int | None:
    given = cells.get("microbatches")
    count = None if given in ("", None) else whole(given, "microbatches")
    if count is not None and count < 1:
        raise BadRow("microbatches", f"microbatches is {count}", fix="give at least 1, or leave it empty")
    return count


def _avoid(cells: Mapping[str, Any]) -> str | None:
    word, known = text(cells, "avoid"), get_args(Avoid)
    if word and word not in known:
        fix = f"{did_you_mean(word[:60], known)}write one of {', '.join(known)}, or leave it empty"
        raise BadRow("avoid", f"avoid is {word[:60]!r}", fix=fix)
    return word or None


def _data_sets(cells: Mapping[str, Any]) -> tuple[DataSet, ...]:
    """Return what a job reads: names with spaces between them, each with the samples of it that are read, or all."""
    found: dict[str, float] = {}
    for word in text(cells, "data_sets").split():
        name, colon, size = word.rpartition(":") if ":" in word else (word, "", "")
        found[name] = number(size, f"data_sets, {name[:60]},") if colon else inf
        if not name or found[name] <= 0:
            fix = "give imagenet, or imagenet:10000 with the samples that it reads"
            raise BadRow("data_sets", f"data_sets has {word[:60]!r}", fix=fix)
    return tuple(DataSet(*one) for one in found.items())


# -- job_table_readers --
# Our own columns as CSV, JSON lines and Parquet: their readers, and jobs written as CSV.
#
# They are called as the fields of :class:`~simulator.job_record.JobRecord`, but for ``submit_time`` (``submit`` is
# understood) and what a job asks of placement (``simulator.traces.readers.own_tables``).  Instead of ``duration`` a
# file may have ``start_time`` and ``end_time``: so what a simulation wrote as its jobs is a trace again.


REQUIRED = ("job_id", "submit_time", "duration", "gpus")
TIMES = ("start_time", "end_time")
_REST = "nodes,user,queue,group,cpus,memory,status,priority,preemptible,announced,estimate,waited"
OPTIONAL = (*_REST.split(","), *COLUMNS, *TIMES)
SAME = {"submit": "submit_time", "duration_seconds": "duration"}
"""Other names of columns; the second is what a simulation writes."""

PARQUET = b"PAR1"  # First bytes of a Parquet file
CALLED_OTHERWISE = 0.7  # How much columns of other names count: less than the formats that have these names
MISSPELT = 0.85  # Likeness from which an unknown column is taken for a misspelt one
YES = frozenset({"true", "yes", "1"})
NO = frozenset({"false", "no", "0", ""})


def likeness(columns: Collection[str]) -> float:
    """Return the share of the required columns that are there; those that are called otherwise count less."""
    names = {SAME.get(name, name) for name in columns}
    if names.issuperset(TIMES):
        names.add("duration")
    others = names | {SYNONYMS.get(plain(name), name) for name in names}
    shares = [sum(name in found for name in REQUIRED) / len(REQUIRED) for found in (names, others)]
    return max(shares[0], CALLED_OTHERWISE * shares[1])


def canonical(columns: Collection[str], *, where: str, bad_rows: TraceRows, by_option: bool = False) -> list[str]:
    """Return the columns by their first names, once it is sure that all that must be there are.

    :param by_option: whether ``--column`` can rename them.
    :raises TraceFormatError: one is missing, or written twice, or looks like one that is misspelt.
    """
    names = [SAME.get(name, name) for name in columns]
    known = (*REQUIRED, *OPTIONAL)
    timed = set(TIMES) <= set(names)
    missing = [name for name in REQUIRED if name not in names and not (name == "duration" and timed)]
    if missing:
        unknown = [other for other in names if other not in known]
        name, there = missing[0], offered([*missing, *(() if timed else TIMES)], unknown, by_option=by_option)
        meant = did_you_mean(name, unknown)
        fix = f"{meant}Rename it to {name!r}" if meant else f"add the column {name!r}, or say --format"
        lacking = f"the column {name!r} is missing; a trace has {','.join(REQUIRED)}"
        raise TraceFormatError(lacking, where=where, fix=there or fix)
    others = [name for name in names if name not in known]
    for name in others:
        absent = [other for other in known if other not in names]
        if close := get_close_matches(name.lower(), absent, n=1, cutoff=MISSPELT):
            raise TraceFormatError(
                f"the column {name!r} looks like {close[0]!r}",
                where=where,
                fix=f"did you mean {close[0]!r}? Rename it, or leave it out",
            )
    for other, name in SAME.items():
        if other in columns and name in columns:
            raise TraceFormatError(f"has both {other} and {name}", where=where, fix="keep one of the two")
    if others:
        bad_rows.note(f"Columns that were not read: {', '.join(sorted(others))}.")
    return names


class JobRows:
    """Makes jobs of rows of named cells.  Cells are text or, from Parquet and JSON, values."""

    def __init__(self, bad_rows: TraceRows) -> None:
        self._clock = Clock(bad_rows)

    def job(self, cells: Mapping[str, Any]) -> JobRecord:
        """Return the job of one row; BadRow says what no job can be."""
        job_id = text(cells, "job_id")
        submit = self._clock.seconds(cells.get("submit_time"), "submit_time")
        nodes = cells.get("nodes")
        return record(
            job_id=job_id,
            submit=submit,
            duration=self._duration(cells, job_id, submit),
            gpus=number(cells.get("gpus"), "gpus"),
            waited=self._waited(cells, submit),
            nodes=None if nodes in ("", None) else whole(nodes, "nodes"),
            user=text(cells, "user"),
            queue=text(cells, "queue"),
            group=text(cells, "group"),
            cpus=_amount(cells, "cpus"),
            memory=_amount(cells, "memory"),
            status=status(text(cells, "status")),
            priority=whole(cells.get("priority") or 0, "priority"),
            preemptible=_flag(cells, "preemptible"),
            announced=self._announced(cells, job_id, submit),
            estimate=self._length(cells, "estimate"),
            **asked(cells),
        )

    def _duration(self, cells: Mapping[str, Any], job_id: str, submit: float) -> float:
        started = self._clock.optional(cells.get("start_time"), "start_time")
        ended = self._clock.optional(cells.get("end_time"), "end_time")
        for time, event in ((started, "starts"), (ended, "ends")):
            if time is not None and time < submit:
                raise BadRow(
                    "submitted too late",
                    f"job {job_id} {event} at {time:.15g} and is submitted at {submit:.15g}",
                    fix="give times in their order: submit_time, start_time, end_time",
                )
        if cells.get("duration") not in ("", None):
            return self._clock.length(cells["duration"], "duration")
        if started is None or ended is None:
            raise BadRow("has not ended", f"job {job_id} has not ended", fix="give its duration")
        return ended - started

    def _waited(self, cells: Mapping[str, Any], submit: float) -> float | None:
        start = self._clock.optional(cells.get("start_time"), "start_time")
        return self._length(cells, "waited") if start is None else start - submit

    def _length(self, cells: Mapping[str, Any], column: str) -> float | None:
        return _from_0(self._clock.optional_length(cells.get(column), column), column)

    def _announced(self, cells: Mapping[str, Any], job_id: str, submit: float) -> float | None:
        if cells.get("announced") in ("", None):
            return None
        announced = self._clock.seconds(cells["announced"], "announced")
        if announced > submit:
            raise BadRow(
                "announced too late",
                f"job {job_id} is announced at {announced:.15g}, after its submission at {submit:.15g}",
                fix="announce a job at or before its submission",
            )
        return announced


def _amount(cells: Mapping[str, Any], column: str) -> float | None:
    return _from_0(optional(cells.get(column), column), column)


def _from_0(value: float | None, column: str) -> float | None:
    if value is not None and value < 0:
        raise BadRow("negative amount", f"{column} is {value:g}", fix=f"give {column} from 0 up, or leave it empty")
    return value


def _flag(cells: Mapping[str, Any], column: str) -> bool:
    word = text(cells, column).lower()
    if word not in YES | NO:
        raise BadRow("not true or false", f"{column} is {word[:60]!r}", fix="write true or false")
    return word in YES


class JobCsv:
    """Reader of our own CSV."""

    format = FileFormat(
        "csv",
        source=f"a CSV with the columns `{','.join(REQUIRED)}`",
        export="a table of your own, `arnold simulate --jobs-out`, or any CSV with `--column NAME=THEIRS`",
        read="all of our own columns",
        left_out="other columns, which a note names",
        marks=REQUIRED,
    )

    def likeness(self, head: bytes) -> float:
        """Return the share of the required columns that the header has."""
        return likeness(header_of(head))

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        table = CsvRows(source, bad_rows)
        names = canonical(table.header, where=source.at(table.header_line), bad_rows=bad_rows, by_option=True)
        rows = ((line, dict(zip(names, cells, strict=True))) for line, cells in table)
        return bad_rows.keep(rows, JobRows(bad_rows).job, source)


class JobJsonLines:
    """Reader of our own JSON lines."""

    format = FileFormat(
        "jsonl",
        source=f"JSON lines with the keys `{','.join(REQUIRED)}`",
        export="a table of your own",
        read="all of our own columns",
        left_out="other keys, which a note names",
        marks=tuple(f'"{name}"' for name in REQUIRED),
    )

    def likeness(self, head: bytes) -> float:
        """Return the share of the required keys that the object in the first line has."""
        try:
            # Only keys matter here; of whole numbers Python reads no more than 4,300 digits.
            first = json.loads(head.decode("utf-8-sig").lstrip().split("\n", 1)[0], parse_int=float)
        except ValueError:
            return 0.0
        return likeness(first) if isinstance(first, dict) else 0.0

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        return bad_rows.keep(_first_names(source, bad_rows), JobRows(bad_rows).job, source)


def _first_names(source: ByteStream, bad_rows: TraceRows) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield objects with the first names of their keys, which may differ from line to line.

    :raises TraceFormatError: the first object lacks a key: then it is the wrong file.
    """
    checked: dict[tuple[str, ...], list[str]] = {}
    for line, values in json_objects(source, bad_rows):
        keys = tuple(values)
        try:
            if keys not in checked:
                checked[keys] = canonical(keys, where=source.at(line), bad_rows=bad_rows)
        except TraceFormatError as error:
            if not checked:
                raise
            bad_rows.refuse(BadRow("keys missing", error.message, fix=error.fix), source.at(line))
            continue
        yield line, dict(zip(checked[keys], values.values(), strict=True))


class JobParquet:
    """Reader of our own Parquet.  What stands for the line in an error is the row, from 1."""

    format = FileFormat(
        "parquet",
        source=f"Parquet with the columns `{','.join(REQUIRED)}`",
        export="a table of your own, or `arnold simulate --jobs-out jobs.parquet`",
        read="all of our own columns",
        left_out="other columns, which a note names",
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the file begins as Parquet does."""
        return float(head.startswith(PARQUET))

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their rows, in the order of the file."""
        from ground.columns import parquet_rows

        rows = parquet_rows(source, lambda names: canonical(names, where=source.name, bad_rows=bad_rows))
        return bad_rows.keep(rows, JobRows(bad_rows).job, source)


def write_jobs(records: Sequence[JobRecord]) -> str:
    """Return jobs as the CSV that ``--format csv`` reads; columns of which no job says anything are left out."""
    rows = [_cells(record) for record in records]
    columns = [name for name in (*REQUIRED, *OPTIONAL) if name in REQUIRED or any(name in row for row in rows)]
    table = StringIO()
    writer = csv.DictWriter(table, fieldnames=columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return table.getvalue()


def _cells(record: JobRecord) -> dict[str, str]:
    """Return what a job says beyond what holds where a cell is empty."""
    said = {field.name: value for field in fields(JobRecord) if (value := getattr(record, field.name)) != field.default}
    said["submit_time"] = said.pop("submit")
    said |= asking_cells(record)
    for name in ("parallelism", "holds", "counts", "mix_types"):
        said.pop(name, None)
    return {name: _plain(value) for name, value in said.items()}


def _plain(value: object) -> str:
    """Return the shortest text that reads back as the same value; whole numbers without a fraction."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
