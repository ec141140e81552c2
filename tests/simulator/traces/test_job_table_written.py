"""Jobs written as our own CSV."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from math import inf
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from arnold.exports import JOB_COLUMNS, job_rows, table_bytes
from scheduler.affinity import NAMED_MODELS
from scheduler.job import FAMILIES, Count, DataSet, Hold, Parallelism
from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord
from simulator.sim_job import Need, SimJob
from simulator.traces import read_trace
from simulator.traces.readers.own_tables import write_jobs
from tests.case_counts import examples

WORDS = st.text(st.sampled_from("ab-7,\"' é"), max_size=5).map(str.strip)
TIMES = st.one_of(st.integers(0, 10**9).map(float), st.floats(0.0, 1e9))
AMOUNTS = st.none() | st.floats(0.0, 1e15)
SMALL = st.integers(1, 3)
# Expert groups are cut out of data-parallel ones: as large as these, or none; their tensor parallelism is tp or 1.
# Context groups ask for pp as the slowest dimension.
DEGREES = st.builds(
    lambda tp, cp, dp, pp, experts, split, order: Parallelism(
        tp=tp, cp=cp, ep=dp if experts else 1, dp=dp, pp=pp, etp=tp if split else 1, order="-".join((*order, "pp"))
    ),
    *[SMALL] * 4,
    st.booleans(),
    st.booleans(),
    st.permutations(FAMILIES[:-1]),
)
FAMILY = st.sampled_from(FAMILIES)
LEVEL = st.text(st.sampled_from("ab-7,\"' é"), min_size=1, max_size=5)
# Whatever a cluster may call them: commas, quotes, brackets and spaces too, and names that look like other values.
TYPES = st.text(min_size=1, max_size=6).filter(str.isprintable) | st.sampled_from(
    [*"\"',[]{}#:", "any", "[any]", "1", "~"]
)
# A share of a GPU is counted in hundredths.
GPUS = st.integers(1, 99).map(lambda share: share / 100) | st.integers(1, 10_000).map(float)
WANTED_TYPES = st.sampled_from([{}, {"mix_types": True}]) | st.fixed_dictionaries(
    {"gpu_types": st.lists(TYPES, min_size=1, max_size=3, unique=True).map(tuple)}
)
DATA = st.dictionaries(st.sampled_from(["web", "code-2", "é"]), st.just(inf) | st.floats(1e-6, 1e18), max_size=2).map(
    lambda sizes: tuple(DataSet(*one) for one in sizes.items())
)


@st.composite
def jobs(draw: st.DrawFn) -> list[JobRecord]:
    """Jobs in order of submission, as a trace keeps them."""
    times = sorted(draw(st.lists(TIMES, min_size=1, max_size=5, unique=True)))
    degrees = [draw(st.none() | DEGREES) for _ in times]
    return [
        JobRecord(
            job_id=f"{draw(WORDS)}#{number}",
            submit=time,
            duration=draw(st.floats(0.001, 1e8)),
            gpus=draw(GPUS) if parallelism is None else float(parallelism.gpus),
            user=draw(WORDS),
            queue=draw(WORDS),
            group=draw(WORDS),
            cpus=draw(AMOUNTS),
            memory=draw(AMOUNTS),
            status=draw(st.sampled_from(["completed", "failed", "cancelled", "unknown"])),
            priority=draw(st.integers(-5, 5)),
            preemptible=draw(st.booleans()),
            announced=draw(st.none() | st.just(time)),
            estimate=draw(AMOUNTS),
            waited=draw(AMOUNTS),
            parallelism=parallelism,
            tp_level=draw(st.none() | LEVEL.map(str.strip).filter(bool)),
            model=draw(WORDS | st.sampled_from(list(NAMED_MODELS.values()))),
            alpha=draw(st.none() | st.floats(0.0, 1.0)),
            microbatches=draw(st.none() | SMALL),
            data_sets=draw(DATA),
            avoid=draw(st.none() | st.sampled_from(["strict", "price", "ignore"])),
            **draw(WANTED_TYPES),
            holds=tuple(draw(st.lists(st.builds(Hold, FAMILY, LEVEL), max_size=2, unique=True))),
            counts=tuple(draw(st.lists(st.builds(Count, FAMILY, LEVEL, st.floats(0.0, 1e6)), max_size=2))),
        )
        for number, (time, parallelism) in enumerate(zip(times, degrees, strict=True))
    ]


@given(records=jobs())
def test_what_is_written_reads_back(records: list[JobRecord]) -> None:
    """Every field of every job, to the last digit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.csv"
        file.write_text(write_jobs(records), encoding="utf-8")
        assert list(read_trace(file).records) == records


@given(records=jobs(), suffix=st.sampled_from(["csv", "jsonl", "parquet"]))
@examples(100)
def test_rows_of_a_replay_ask_what_the_trace_asked(records: list[JobRecord], suffix: str) -> None:
    """All that queue and placement are asked, in every format of ``--jobs-out``: the file is a trace again."""
    need, takes = Need(1, 100, 100), Prediction(1.0, 1.0, 1.0)
    jobs = [SimJob(key=i, record=one, need=need, prediction=takes) for i, one in enumerate(records)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"jobs.{suffix}"
        file.write_bytes(table_bytes(file.name, list(job_rows(jobs, ())), JOB_COLUMNS))
        read = read_trace(file).records
    assert list(read) == [replace(one, waited=None) for one in records]


def test_columns_that_say_nothing_are_left_out() -> None:
    """Four columns must be there; of the others those that a job has something to say in, empty for the rest."""
    plain = JobRecord("a", 0.0, 60.0, 8.0)
    assert write_jobs([plain]) == "job_id,submit_time,duration,gpus\na,0,60,8\n"
    cut = JobRecord("b", 1.5, 60.0, 16.0, parallelism=Parallelism(tp=8, dp=2))
    assert write_jobs([plain, cut]) == "job_id,submit_time,duration,gpus,tp,dp\na,0,60,8,,\nb,1.5,60,16,8,2\n"
