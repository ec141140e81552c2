"""Our own table of jobs, as CSV, JSON lines and Parquet, read and written.

A row has ``job_id,submit_time,duration,gpus``, any other field of a JobRecord (``status`` in any word that is
understood) and what a job asks of placement: the keys of a job file, each degree of parallelism a column;
``constraints`` and a ``model`` that is described stand there as YAML or JSON in one cell, or as values in JSON lines.
Instead of ``duration`` a file may have ``start_time`` and ``end_time``: so what a simulation wrote as its jobs is a
trace again.
"""

import csv
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from io import StringIO
from math import inf
from typing import Any, TypeVar, get_args

from ground.errors import InvalidJob, TraceFormatError, did_you_mean
from ground.files import ByteStream
from ground.formats import FileFormat, Marked
from ground.records import json_data
from ground.rows import BadRow, CsvRows, header_of, json_objects
from scheduler.affinity import Model
from scheduler.job import DEGREES, FAMILIES, MEGATRON_ORDER, Avoid, DataSet, Parallelism
from scheduler.type_names import ANY, read_type_names
from simulator.job_record import JobRecord
from simulator.traces.cells import Clock, TraceRows, number, optional, record, status, text, whole
from simulator.traces.trace_loading import SYNONYMS, Numbered, offered, plain

COLUMNS: Mapping[str, type] = {
    "group": str,
    **dict.fromkeys(("cpus", "memory"), float),
    "preemptible": bool,
    **dict.fromkeys(("announced", "estimate"), float),
    "model": str,
    **dict.fromkeys(DEGREES, int),
    **dict.fromkeys(("order", "tp_level"), str),
    "alpha": float,
    "microbatches": int,
    **dict.fromkeys(("avoid", "gpu_types", "constraints", "data_sets"), str),
}
"""Columns of what a job asks of queue and placement, and the types of what stands in them."""

REQUIRED = ("job_id", "submit_time", "duration", "gpus")
TIMES = ("start_time", "end_time")
OPTIONAL = ("nodes", "user", "queue", "status", "priority", "waited", *COLUMNS, *TIMES)
SAME = {"submit": "submit_time", "duration_seconds": "duration"}
"""Other names of columns; the second is what a simulation writes."""

CALLED_OTHERWISE = 0.7  # How much columns of other names count: less than the formats that have these names
MISSPELT = 0.85  # Likeness from which an unknown column is taken for a misspelt one
YES = frozenset({"true", "yes", "1"})
NO = frozenset({"false", "no", "0", ""})

T = TypeVar("T")


def likeness(columns: Collection[str]) -> float:
    """Return the share of the required columns that are there; those that are called otherwise count less."""
    names = {SAME.get(name, name) for name in columns}
    if names.issuperset(TIMES):
        names.add("duration")
    others = names | {SYNONYMS.get(plain(name), name) for name in names}
    shares = [sum(name in there for name in REQUIRED) / len(REQUIRED) for there in (names, others)]
    return max(shares[0], CALLED_OTHERWISE * shares[1])


def canonical(columns: Collection[str], *, where: str, bad_rows: TraceRows, by_option: bool = False) -> list[str]:
    """Return the columns by their first names, once it is sure that all that must be there are.

    :param by_option: whether ``--column`` can rename them.
    :raises TraceFormatError: one is missing, or written twice, or looks like one that is misspelt.
    """
    names = [SAME.get(name, name) for name in columns]
    ours = (*REQUIRED, *OPTIONAL)
    timed = set(TIMES) <= set(names)
    missing = [name for name in REQUIRED if name not in names and not (name == "duration" and timed)]
    if missing:
        unknown = [other for other in names if other not in ours]
        name, there = missing[0], offered([*missing, *(() if timed else TIMES)], unknown, by_option=by_option)
        meant = did_you_mean(name, unknown)
        fix = f"{meant}Rename it to {name!r}" if meant else f"add the column {name!r}, or say --format"
        lacking = f"the column {name!r} is missing; a trace has {','.join(REQUIRED)}"
        raise TraceFormatError(lacking, where=where, fix=there or fix)
    others = [name for name in names if name not in ours]
    for name in others:
        absent = [other for other in ours if other not in names]
        if close := get_close_matches(name.lower(), absent, n=1, cutoff=MISSPELT):
            fix = f"did you mean {close[0]!r}? Rename it, or leave it out"
            raise TraceFormatError(f"the column {name!r} looks like {close[0]!r}", where=where, fix=fix)
    for other, name in SAME.items():
        if other in columns and name in columns:
            raise TraceFormatError(f"has both {other} and {name}", where=where, fix="keep one of the two")
    if others:
        bad_rows.note(
            f"Columns that were not read: {', '.join(sorted(other or 'one without a name' for other in others))}."
        )
    return names


def job_of(cells: Mapping[str, Any], clock: Clock) -> JobRecord:
    """Return the job of a row of named cells, which are text or, from Parquet and JSON, values.

    :raises BadRow: no job can be that.
    """
    job_id, submit = text(cells, "job_id"), clock.seconds(cells.get("submit_time"), "submit_time")
    started, ended = (clock.optional(cells.get(column), column) for column in TIMES)
    for time, event in ((started, "starts"), (ended, "ends")):
        if time is not None and time < submit:
            problem = f"job {job_id} {event} at {time:.15g} and is submitted at {submit:.15g}"
            fix = "give times in their order: submit_time, start_time, end_time"
            raise BadRow("submitted too late", problem, fix=fix)
    if cells.get("duration") not in ("", None):
        duration = clock.length(cells["duration"], "duration")
    elif started is None or ended is None:
        raise BadRow("has not ended", f"job {job_id} has not ended", fix="give its duration")
    else:
        duration = ended - started
    announced = clock.optional(cells.get("announced"), "announced")
    if announced is not None and announced > submit:
        problem = f"job {job_id} is announced at {announced:.15g}, after its submission at {submit:.15g}"
        raise BadRow("announced too late", problem, fix="announce a job at or before its submission")
    amounts = {
        "waited": clock.optional_length(cells.get("waited"), "waited") if started is None else None,
        "cpus": optional(cells.get("cpus"), "cpus"),
        "memory": optional(cells.get("memory"), "memory"),
        "estimate": clock.optional_length(cells.get("estimate"), "estimate"),
    }
    for column, amount in amounts.items():
        if amount is not None and amount < 0:
            fix = f"give {column} from 0 up, or leave it empty"
            raise BadRow("negative amount", f"{column} is {amount:g}", fix=fix)
    if started is not None:
        amounts["waited"] = started - submit
    preemptible = text(cells, "preemptible").lower()
    if preemptible not in YES | NO:
        problem = f"preemptible is {preemptible[:60]!r}"
        raise BadRow("not true or false", problem, fix="write true or false")
    nodes = cells.get("nodes")
    return record(
        job_id=job_id,
        submit=submit,
        duration=duration,
        gpus=number(cells.get("gpus"), "gpus"),
        nodes=None if nodes in ("", None) else whole(nodes, "nodes"),
        user=text(cells, "user"),
        queue=text(cells, "queue"),
        group=text(cells, "group"),
        status=status(text(cells, "status")),
        priority=whole(cells.get("priority") or 0, "priority"),
        preemptible=preemptible in YES,
        announced=announced,
        **amounts,
        **placement_fields(cells),
    )


def placement_fields(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JobRecord that placement looks at.

    :raises BadRow: a cell is not what its column holds.
    """
    degrees: dict[str, Any] = {name: whole(cells[name], name) for name in DEGREES if cells.get(name) not in ("", None)}
    order = text(cells, "order")
    if order and not degrees:
        fix = f"give degrees too ({', '.join(DEGREES)}), or leave order empty"
        raise BadRow("parallelism", f"order is {order[:60]!r}, and there are no degrees to order", fix=fix)
    try:
        parallelism = Parallelism(**degrees, order=order or MEGATRON_ORDER) if degrees else None
    except InvalidJob as error:
        raise BadRow("parallelism", error.message, fix=error.fix) from None
    alpha = optional(cells.get("alpha"), "alpha")
    if alpha is not None and not 0.0 <= alpha <= 1.0:
        raise BadRow("alpha", f"alpha is {alpha:g}", fix="give alpha between 0 and 1, or leave it empty")
    count = cells.get("microbatches")
    microbatches = None if count in ("", None) else whole(count, "microbatches")
    if microbatches is not None and microbatches < 1:
        fix = "give at least 1, or leave it empty"
        raise BadRow("microbatches", f"microbatches is {microbatches}", fix=fix)
    avoid, words = text(cells, "avoid"), get_args(Avoid)
    if avoid and avoid not in words:
        fix = f"{did_you_mean(avoid[:60], words)}write one of {', '.join(words)}, or leave it empty"
        raise BadRow("avoid", f"avoid is {avoid[:60]!r}", fix=fix)
    # names with spaces between them, each with the samples of it that are read, or all
    data_sets: dict[str, float] = {}
    for word in text(cells, "data_sets").split():
        name, colon, size = word.rpartition(":") if ":" in word else (word, "", "")
        data_sets[name] = number(size, f"data_sets, {name[:60]},") if colon else inf
        if not name or data_sets[name] <= 0:
            fix = "give imagenet, or imagenet:10000 with the samples that it reads"
            raise BadRow("data_sets", f"data_sets has {word[:60]!r}", fix=fix)
    fields: dict[str, Any] = {
        "parallelism": parallelism,
        "tp_level": text(cells, "tp_level") or None,
        "alpha": alpha,
        "microbatches": microbatches,
        "avoid": avoid or None,
        "data_sets": tuple(DataSet(name, size) for name, size in data_sets.items()),
    }
    return fields | _parts(cells)


def _parts(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields whose cells hold YAML or JSON: model, types of GPU, constraints.

    :raises BadRow: it is not what a job file has there.
    """

    def part(column: str, read: Callable[[str], T]) -> T:
        try:
            return read(written[column])
        except InvalidJob as error:
            raise BadRow(column, f"{column}: {error.message}", fix=error.fix) from None

    written = {}
    for column in ("model", "gpu_types", "constraints"):
        value = cells.get(column)
        written[column] = json.dumps(value) if isinstance(value, list | dict) else text(cells, column)
    fields: dict[str, Any] = {"model": written["model"]}
    if written["gpu_types"]:
        names = part("gpu_types", read_type_names)
        fields |= {"gpu_types": names, "mix_types": names is None}
    # a shape begins with a brace (or a bracket, by mistake); anything else is a name
    shaped = written["model"].lstrip().startswith(("{", "["))
    if shaped or written["constraints"]:
        # not at the top: it takes pydantic, which most traces, and the help, can do without
        from scheduler.job_files.job_file import read_constraints, read_model

        if shaped:
            fields["model"] = part("model", read_model)
        if written["constraints"]:
            fields |= part("constraints", read_constraints)._asdict()
    return fields


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
        return bad_rows.keep(rows, partial(job_of, clock=Clock(bad_rows)), source)


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
        except (ValueError, RecursionError):
            return 0.0
        return likeness(first) if isinstance(first, dict) else 0.0

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file.

        :raises TraceFormatError: the first object lacks a key: then it is the wrong file.
        """

        def rows() -> Iterator[tuple[int, dict[str, Any]]]:
            # keys may differ from line to line
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

        return bad_rows.keep(rows(), partial(job_of, clock=Clock(bad_rows)), source)


class JobParquet(Marked):
    """Reader of our own Parquet.  What stands for the line in an error is the row, from 1."""

    format = FileFormat(
        "parquet",
        source=f"Parquet with the columns `{','.join(REQUIRED)}`",
        export="a table of your own, or `arnold simulate --jobs-out jobs.parquet`",
        read="all of our own columns",
        left_out="other columns, which a note names",
    )
    mark = re.compile(r"\APAR1")

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their rows, in the order of the file."""
        from ground.columns import parquet_rows

        rows = parquet_rows(source, lambda names: canonical(names, where=source.name, bad_rows=bad_rows))
        return bad_rows.keep(rows, partial(job_of, clock=Clock(bad_rows)), source)


def asking_cells(record: JobRecord) -> dict[str, object]:
    """Return cells that read back as what a job asks; there is none where it asks nothing."""
    alike = {field.name: (getattr(record, field.name), field.default) for field in fields(JobRecord)}
    cells = {name: value for name, (value, default) in alike.items() if name in COLUMNS and value != default}
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


def write_jobs(records: Sequence[JobRecord]) -> str:
    """Return jobs as the CSV that ``--format csv`` reads; columns of which no job says anything are left out."""

    def shortest(value: object) -> str:
        """Return the shortest text that reads back as the same value; whole numbers without a fraction."""
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    rows = []
    for job in records:
        # what a job says beyond what holds where a cell is empty
        values = {field.name: getattr(job, field.name) for field in fields(JobRecord)}
        cells = {field.name: values[field.name] for field in fields(JobRecord) if values[field.name] != field.default}
        cells["submit_time"] = cells.pop("submit")
        cells |= asking_cells(job)
        for name in ("parallelism", "holds", "counts", "mix_types"):
            cells.pop(name, None)
        rows.append({name: shortest(value) for name, value in cells.items()})
    columns = [name for name in (*REQUIRED, *OPTIONAL) if name in REQUIRED or any(name in row for row in rows)]
    table = StringIO()
    writer = csv.DictWriter(table, fieldnames=columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return table.getvalue()
