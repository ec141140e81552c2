"""How fast jobs run on each type of GPU: Gavel's JSON, or a CSV, for the jobs of a trace.

The JSON is that of ``simulation_throughputs.json`` in github.com/stanford-futuredata/gavel: type of GPU ->
``('model', GPUs)`` -> ``null`` -> steps a second; a type that ends in ``_unconsolidated`` is where each GPU is on a
server of its own.  What pairs of jobs reach on one GPU is not read.  The CSV has the columns ``model``, ``gpus``,
``gpu_type``, ``throughput``, and if known ``unconsolidated``, in any unit: of a job only ratios count.

The run time of a job is that on the *reference*: the type of the first row, in JSON ``v100`` if it is there.
"""

import re
from dataclasses import replace

from ground.documents import load_document
from ground.errors import InvalidInput, TraceFormatError, did_you_mean
from ground.files import Source
from ground.rows import BadRow, BadRows, CsvRows
from scheduler.job import Speed
from simulator.throughputs import Rates, Throughputs
from simulator.traces.cells import number, whole
from simulator.traces.job_trace import JobTrace
from topology.cluster import Cluster

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
        rates = {name.lower(): rate for name, rate in given.rates_of(str(record.model), record.gpus).items()}
        there = {names[name]: rate for name, rate in rates.items() if name in names}
        admitted = names.values() if record.gpu_types is None else record.gpu_types
        running = {name: rate for name, rate in there.items() if rate[0] > 0.0 and name in admitted}
        if not running:
            without[record.job_id] = "no throughput"
            records.append(record)
            continue
        unit = rates.get(given.reference.lower(), (0.0, None))[0] or max(rate for rate, _ in running.values())
        apart = tuple(Speed(name, other / unit) for name, (_, other) in running.items() if other)
        speeds = tuple(Speed(name, rate / unit) for name, (rate, _) in running.items())
        records.append(replace(record, gpu_types=tuple(running), speed=speeds, speed_apart=apart))
    if without and (not lenient or len(without) == len(trace)):
        first = next(record for record in trace.records if record.job_id in without)
        meant = did_you_mean(str(first.model), {model for model, _ in given.rates} - {first.model})
        types = ", ".join(names.values()) or "no type that is said"
        problem = f"job {first.job_id}: no throughput of {str(first.model)[:60]!r} on {types} is known"
        fix = f"{meant}add rows for it to {given.source}, or leave such jobs out with --lenient"
        raise TraceFormatError(f"{problem}; so of {len(without):,} jobs", where=trace.source, fix=fix)
    return replace(trace, records=tuple(records)).without(without)


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
    rows.need(*COLUMNS, format="of throughputs")
    for name in rows.header:
        if name not in (*COLUMNS, MAY_BE) and (meant := did_you_mean(name, [MAY_BE])):
            where = source.at(rows.header_line)
            raise InvalidInput(f"the column {name!r} is not known", where=where, fix=f"{meant}rename it")

    def add(cells: list[str]) -> None:
        row = dict(zip(rows.header, cells, strict=True))
        model, gpus, gpu_type = row["model"], whole(row["gpus"], "gpus"), row["gpu_type"]
        if gpus < 1 or not gpu_type:
            raise BadRow("no GPUs", f"gpus is {gpus}, gpu_type {gpu_type!r}", fix="give both")
        of_type, apart = rates.setdefault((model, gpus), {}), row.get(MAY_BE)
        if gpu_type in of_type:
            raise BadRow("twice", f"{model} on {gpus} {gpu_type} is there twice", fix="keep one of the two")
        of_type[gpu_type] = _rate(row["throughput"]), _rate(apart) if apart else None

    for _ in bad.keep(rows, add, source):
        pass
    return rates


def _of_json(source: Source) -> Rates:
    document, rates = load_document(source), Rates()
    fix = "give simulation_throughputs.json of Gavel: type of GPU -> ('model', GPUs) -> null -> steps a second"
    # what is known of a type where GPUs are apart comes after the type
    for gpu_type in sorted(document.data, key=lambda name: name.endswith(APART)):
        jobs, name = document.data[gpu_type], gpu_type.removesuffix(APART)
        if not isinstance(jobs, dict):
            raise InvalidInput(f"{gpu_type[:60]!r} has no kinds of jobs", where=document.where(gpu_type), fix=fix)
        for job, pairs in jobs.items():
            if (named := _JOB.fullmatch(job)) is None:
                raise InvalidInput(f"{job[:60]!r} is no kind of job", where=document.where(gpu_type, job), fix=fix)
            try:
                rate = _rate(pairs.get("null") if isinstance(pairs, dict) else None)
            except BadRow as error:
                raise InvalidInput(error.message, where=document.where(gpu_type, job, "null"), fix=fix) from None
            kind = named["model"], int(named["gpus"])
            if name == gpu_type:
                rates.setdefault(kind, {})[name] = rate, None
            elif kind[1] > 1 and name in rates.get(kind, {}):
                rates[kind][name] = rates[kind][name][0], rate
    return rates


def _rate(cell: object) -> float:
    rate = number(cell, "the throughput")
    if rate < 0.0:
        raise BadRow("below 0", f"the throughput is {rate:g}", fix="give a number above 0, or 0 where it does not run")
    return rate
