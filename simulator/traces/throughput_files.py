"""How fast jobs run on each type of GPU: Gavel's JSON, or a CSV, for the jobs of a trace.

The JSON is that of ``simulation_throughputs.json`` in github.com/stanford-futuredata/gavel: type of GPU ->
``('model', GPUs)`` -> ``null`` -> steps a second; a type that ends in ``_unconsolidated`` is where each GPU is on a
server of its own.  What pairs of jobs reach on one GPU is not read.  The CSV has the columns ``model``, ``gpus``,
``gpu_type``, ``throughput``, and if known ``unconsolidated``, in any unit: of a job only ratios count.

The run time of a job is that on the *reference*: the type of the first row, in JSON ``v100`` if it is there.
"""

from __future__ import annotations

import re
from dataclasses import replace

from scheduler.job import Speed
from simulator.job_record import JobRecord
from simulator.throughputs import Rates, Throughputs
from simulator.traces.job_fields import number, whole
from simulator.traces.job_trace import JobTrace
from simulator.traces.published_speeds import GAVEL_SPEEDS
from topology.cluster import Cluster
from topology.documents import load_document
from topology.errors import InvalidInput, TraceFormatError, did_you_mean
from topology.files import Source
from topology.tables.bad_rows import BadRow, BadRows
from topology.tables.text_rows import CsvRows

APART = "_unconsolidated"  # End of the types of Gavel's JSON where each GPU is on a server of its own
_JOB = re.compile(r"\('(?P<model>.*)', (?P<gpus>\d{1,7})\)")
COLUMNS = ("model", "gpus", "gpu_type", "throughput")
MAY_BE = "unconsolidated"


def with_speeds(trace: JobTrace, given: Throughputs, cluster: Cluster, *, lenient: bool = False) -> JobTrace:
    """Return the jobs with their speeds, admitted on the types of the cluster where they run.

    :param lenient: leave out jobs without throughputs there, and count them.
    :raises TraceFormatError: one has none, and reading is strict, or none has any.
    """
    names = {name.lower(): name for name in cluster.nodes_of_type}
    records, without = [], dict[str, str]()
    for record in trace.records:
        found = {names[one.lower()]: rate for one, rate in given.rates_of(record).items() if one.lower() in names}
        running = {name: rate for name, rate in found.items() if rate[0] > 0.0 and _admits(record, name)}
        if not running:
            without[record.job_id] = "no throughput"
            records.append(record)
            continue
        known = {name.lower(): rate for name, (rate, _) in given.rates_of(record).items()}
        unit = known.get(given.reference.lower(), 0.0) or max(rate for rate, _ in running.values())
        apart = tuple(Speed(name, other / unit) for name, (_, other) in running.items() if other)
        speeds = tuple(Speed(name, rate / unit) for name, (rate, _) in running.items())
        records.append(replace(record, gpu_types=tuple(running), speed=speeds, speed_apart=apart))
    if without and (not lenient or len(without) == len(trace)):
        first = next(one for one in trace.records if one.job_id in without)
        meant = did_you_mean(str(first.model), {model for model, _ in given.rates} - {first.model})
        there = ", ".join(names.values()) or "no type that is said"
        wrong = f"job {first.job_id}: no throughput of {str(first.model)[:60]!r} on {there} is known"
        raise TraceFormatError(
            f"{wrong}; so of {len(without):,} jobs",
            where=trace.source,
            fix=f"{meant}add rows for it to {given.source}, or leave such jobs out with --lenient",
        )
    return trace.replace(records=tuple(records)).without(without)


def _admits(record: JobRecord, name: str) -> bool:
    return record.gpu_types is None or name in record.gpu_types


GAVEL = Throughputs(GAVEL_SPEEDS, "V100")
"""Gavel's figures, measured on K80, P100 and V100 GPUs."""


def read_throughputs(source: Source) -> Throughputs:
    """Read a file of throughputs.

    :raises InvalidInput: neither Gavel's JSON nor the CSV, a number below 0, a row twice; says the line.
    """
    rates = _of_json(source) if source.text.lstrip().startswith("{") else _of_csv(source)
    types = list(dict.fromkeys(name for of_type in rates.values() for name in of_type))
    if not types:
        raise InvalidInput("has no throughputs", where=source.name, fix=f"give rows of {','.join(COLUMNS)}")
    return Throughputs(rates, next((name for name in types if name == "v100"), types[0]), source.name)


def _of_csv(source: Source) -> Rates:
    bad, rates = BadRows(lenient=None), Rates()
    rows = CsvRows(source, bad)
    if missing := [name for name in COLUMNS if name not in rows.header]:
        fix = f"{did_you_mean(missing[0], rows.header)}write the header {','.join(COLUMNS)}"
        where = source.at(rows.header_line)
        raise InvalidInput(f"the column {missing[0]!r} of throughputs is missing", where=where, fix=fix)
    for name in rows.header:
        if name not in (*COLUMNS, MAY_BE) and (meant := did_you_mean(name, [MAY_BE])):
            where = source.at(rows.header_line)
            raise InvalidInput(f"the column {name!r} is not known", where=where, fix=f"{meant}rename it")

    def add(cells: list[str]) -> None:
        row = dict(zip(rows.header, cells, strict=True))
        gpus = whole(row["gpus"], "gpus")
        if gpus < 1 or not row["gpu_type"]:
            raise BadRow("no GPUs", f"gpus is {gpus}, gpu_type {row['gpu_type']!r}", fix="give both")
        of_type = rates.setdefault((row["model"], gpus), {})
        if row["gpu_type"] in of_type:
            raise BadRow(
                "twice", f"{row['model']} on {gpus} {row['gpu_type']} is there twice", fix="keep one of the two"
            )
        apart = row.get(MAY_BE)
        of_type[row["gpu_type"]] = _rate(row["throughput"]), _rate(apart) if apart else None

    for _ in bad.keep(rows, add, source):
        pass
    return rates


def _rate(cell: object) -> float:
    rate = number(cell, "the throughput")
    if rate < 0.0:
        raise BadRow("below 0", f"the throughput is {rate:g}", fix="give a number above 0, or 0 where it does not run")
    return rate


def _of_json(source: Source) -> Rates:
    document, rates = load_document(source), Rates()
    fix = "give simulation_throughputs.json of Gavel: type of GPU -> ('model', GPUs) -> null -> steps a second"

    def at(*path: str) -> float:
        jobs = document.data[path[0]]
        alone = jobs[path[1]].get("null") if isinstance(jobs[path[1]], dict) else None
        try:
            return _rate(alone)
        except BadRow as error:
            raise InvalidInput(error.message, where=document.where(*path, "null"), fix=fix) from None

    apart = dict[tuple[str, int, str], float]()
    for gpu_type, jobs in document.data.items():
        if not isinstance(jobs, dict):
            raise InvalidInput(f"{gpu_type[:60]!r} has no kinds of jobs", where=document.where(gpu_type), fix=fix)
        for job in jobs:
            if (named := _JOB.fullmatch(job)) is None:
                raise InvalidInput(f"{job[:60]!r} is no kind of job", where=document.where(gpu_type, job), fix=fix)
            kind = named["model"], int(named["gpus"])
            if gpu_type.endswith(APART):
                apart[*kind, gpu_type.removesuffix(APART)] = at(gpu_type, job)
            else:
                rates.setdefault(kind, {})[gpu_type] = at(gpu_type, job), None
    for (model, gpus, gpu_type), rate in apart.items():
        if gpus > 1 and gpu_type in rates.get((model, gpus), {}):
            rates[model, gpus][gpu_type] = rates[model, gpus][gpu_type][0], rate
    return rates
