"""Workloads that researchers publish: Philly's own log, Batsim, Gavel, Pollux, Tiresias, Alibaba; facts by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ground.errors import InvalidInput, TraceFormatError
from simulator.job_record import JobRecord
from simulator.throughputs import GAVEL as GAVEL_MEASURED
from simulator.throughputs import POLLUX_SECONDS
from simulator.traces import JobTrace, read_trace
from tests.facts import saying, says
from tests.simulator.traces.trace_samples import BATSIM, GAVEL, PAI2025, PHILLY_LOG, POLLUX, SPOT2026, TIRESIAS


def read(folder: Path, text: str) -> JobTrace:
    """Read a text leniently; its format is recognised."""
    (folder / "trace").write_text(text, encoding="utf-8")
    return read_trace(folder / "trace", lenient=True)


def test_philly_log(tmp_path: Path) -> None:
    """Two attempts of 60 and 3,600 s, the last on two machines; it waited 30 s; two jobs never ran or go on."""
    trace = read(tmp_path, PHILLY_LOG)
    submit = datetime(2017, 10, 7, 1, 11, 30, tzinfo=UTC).timestamp()
    expected = JobRecord(
        "application_1", submit, 3660.0, 8.0, 2, "ce2f4c", "ee9e8c", status="completed", waited=30.0
    )  # fmt: skip
    assert (trace.format, trace.records) == ("philly-log", (expected,))
    assert trace.dropped == {"never ran": 1, "has not ended": 1}


def test_philly_log_without_some_times(tmp_path: Path) -> None:
    """An attempt without a start is passed over, and told."""
    log = json.loads(PHILLY_LOG)[:1]
    log[0]["attempts"][0]["start_time"] = None
    trace = read(tmp_path, json.dumps(log))
    assert (trace.records[0].duration, trace.records[0].waited) == (3600.0, None)
    assert says(trace.notes, "1 attempts")


def test_an_error_in_the_log_names_its_line(tmp_path: Path) -> None:
    """That on which the entry of the job begins."""
    (tmp_path / "trace").write_text(PHILLY_LOG)
    with pytest.raises(TraceFormatError, match=saying("application_2", "no attempts")) as error:
        read_trace(tmp_path / "trace")
    assert error.value.where == f"{tmp_path / 'trace'}:8"
    (tmp_path / "trace").write_text(PHILLY_LOG.replace('"vc": "6214e9",', '"vc": "6214e9"'))
    with pytest.raises(InvalidInput, match="is not JSON") as broken:
        read_trace(tmp_path / "trace")
    assert broken.value.where == f"{tmp_path / 'trace'}:10"


def test_batsim(tmp_path: Path) -> None:
    """A delay, one that a walltime ends, 3 * (10 + 0.5) s, work by its walltime; without one it is not known."""
    trace = read(tmp_path, BATSIM)
    assert trace.format == "batsim"
    assert trace.records == (
        JobRecord("short", 0.0, 10.0, 2.0, status="completed", estimate=100.0),
        JobRecord("thrice", 1.0, 31.5, 1.0, status="completed"),
        JobRecord("work", 3.0, 50.0, 4.0, estimate=50.0),
        JobRecord("cut", 5.5, 6.0, 4.0, status="failed", estimate=6.0),
    )
    assert trace.dropped == {"unknown duration": 1}
    assert any(note.startswith("1 jobs compute or transfer") for note in trace.notes)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"several"}', '"none"}', "there is no profile 'none'"),
        ('["ten", "half"]', '["ten", "several"]', "profiles contain each other"),
        ('["ten", "half"]', '"ten"', "seq of the profile 'several' is no list"),
        ('"delay": 10}', '"delay": "10 s"}', "delay is '10 s', not a number"),
        ('"subtime": 0,', '"subtime": -1,', "subtime is -1"),
    ],
)
def test_batsim_that_cannot_be(old: str, new: str, message: str, tmp_path: Path) -> None:
    """Each with the line of its job."""
    (tmp_path / "trace").write_text(BATSIM.replace(old, new))
    with pytest.raises(TraceFormatError, match=message) as error:
        read_trace(tmp_path / "trace")
    assert error.value.where.startswith(f"{tmp_path / 'trace'}:")


def test_gavel_and_shockwave(tmp_path: Path) -> None:
    """7, 10 and 12 fields; steps over the measured 29.95 and 163.1 a second, or the run time that stands there."""
    trace = read(tmp_path, GAVEL)
    assert trace.format == "gavel"
    assert trace.records == (
        JobRecord("gavel-1", 12.5, pytest.approx(2995 / 29.95), 1.0, model="ResNet-18 (batch size 32)"),
        JobRecord("gavel-2", 100.0, pytest.approx(16310 / 163.1), 2.0, model="LM (batch size 10)"),
        JobRecord("gavel-3", 200.0, 1418.0, 4.0, model="LM (batch size 10)"),
    )
    assert says(trace.notes, "2 jobs", "no run time")


def test_speeds_that_were_not_measured(tmp_path: Path) -> None:
    """More GPUs than were measured run as fast as the most that were; an unknown type is told."""
    assert GAVEL_MEASURED.rates_of("A3C", 8)["V100"][0] == 7.176
    assert GAVEL_MEASURED.rates_of("LM (batch size 5)", 6)["V100"][0] == 126.7
    (tmp_path / "trace").write_text(GAVEL.replace("ResNet-18", "ResNet-19"))
    with pytest.raises(TraceFormatError, match=saying("'ResNet-19 (batch size 32)'", "not known")):
        read_trace(tmp_path / "trace")


def test_pollux(tmp_path: Path) -> None:
    """Replicas are GPUs, run times those measured; an application that was not is left out."""
    trace = read(tmp_path, POLLUX)
    assert trace.format == "pollux"
    assert [(job.job_id, job.gpus, job.model, job.duration) for job in trace.records] == [
        ("ncf-0", 1.0, "ncf", 1444.0),
        ("bert-1", 16.0, "bert", 1335.0),
    ]
    assert trace.dropped == {"unknown duration": 1}
    # 6 applications; a table that was parsed short would lack some.
    assert sorted(POLLUX_SECONDS) == ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"]
    assert sum(map(len, POLLUX_SECONDS.values())) == 53


def test_tiresias(tmp_path: Path) -> None:
    """Read as it is published."""
    trace = read(tmp_path, TIRESIAS)
    assert (trace.format, trace.records) == (
        "tiresias",
        (JobRecord("0", 0.0, 164.0, 1.0, model="vgg19"), JobRecord("1", 30.0, 147.0, 8.0, model="vgg11")),
    )


def test_alibaba_2026(tmp_path: Path) -> None:
    """GPUs of a worker times workers, three halves as two; HP goes first, spot jobs may be stopped."""
    trace = read(tmp_path, SPOT2026)
    assert trace.records == (
        JobRecord("239255", 0.0, 2764799.0, 1.0, queue="HP", group="13", cpus=20.0, priority=1),
        JobRecord("5", 7.0, 10.0, 2.0, queue="Spot", group="57", cpus=45.0, preemptible=True),
        JobRecord("437260", 9589663.0, 41060.0, 128.0, queue="Spot", group="57", cpus=240.0, preemptible=True),
    )


def test_alibaba_2025(tmp_path: Path) -> None:
    """One of five instances began and ended within the trace and has a GPU; it waited 30 s."""
    trace = read(tmp_path, PAI2025)
    expected = JobRecord(
        "i1", 100.0, 1000.0, 1.0, 1, queue="HN", group="app_0", cpus=12.0, memory=120 * 2.0**30, waited=30.0
    )
    assert trace.records == (expected,)
    assert trace.dropped == {"began before the trace": 2, "no GPUs": 1, "has not ended": 1}
