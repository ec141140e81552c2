"""Real files of the folder that ``ARNOLD_DATA`` names: facts by csv and json alone, and two files of one workload."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from simulator.traces import read_trace


@pytest.fixture(scope="module")
def real() -> Path:
    """The folder of small real files."""
    folder = os.environ.get("ARNOLD_DATA")
    if not folder or not (Path(folder) / "real").is_dir():
        pytest.skip("ARNOLD_DATA is not set: the public traces are not part of the project")
    return Path(folder) / "real"


def test_pods_of_2023(real: Path) -> None:
    """Jobs, GPUs and GPU seconds of the pods with a GPU that were scheduled."""
    with (real / "openb2023/openb_pod_list_default.csv").open() as file:
        pods = [row for row in csv.DictReader(file) if row["scheduled_time"] and int(row["num_gpu"])]
    gpus = [int(pod["gpu_milli"]) / 1000 if pod["num_gpu"] == "1" else int(pod["num_gpu"]) for pod in pods]
    seconds = [int(pod["deletion_time"]) - int(pod["scheduled_time"]) for pod in pods]
    trace = read_trace(real / "openb2023/openb_pod_list_default.csv", lenient=True)
    assert len(trace) == len(pods) == 6_203
    assert sum(one.gpus for one in trace.records) == pytest.approx(sum(gpus))
    worked = sum(one.gpus * one.duration for one in trace.records)
    assert worked == pytest.approx(sum(a * b for a, b in zip(gpus, seconds, strict=True)))


def test_one_workload_in_two_formats(real: Path) -> None:
    """Batsim's JSON, and the SWF that evalys has of it: the same resources and run times."""
    workload = json.loads((real / "batsim/test_batsim_paper_workload_seed1.json").read_text())
    batsim = read_trace(real / "batsim/test_batsim_paper_workload_seed1.json")
    swf = read_trace(real / "swf_evalys/easy_mediumWL_smallPF.swf")
    assert len(batsim) == len(swf) == len(workload["jobs"])
    ours, theirs = (sorted((one.submit, one.gpus, one.duration) for one in trace.records) for trace in (batsim, swf))
    assert [(gpus, round(seconds, 2)) for _, gpus, seconds in ours] == [(b, round(c, 2)) for _, b, c in theirs]


def test_tiresias_and_gavel(real: Path) -> None:
    """Sums of columns, and of fields between tabs."""
    with (real / "tiresias/60_job.csv").open() as file:
        rows = list(csv.DictReader(file))
    trace = read_trace(real / "tiresias/60_job.csv")
    assert [(one.submit, one.gpus, one.duration) for one in trace.records] == [
        (float(row["submit_time"]), float(row["num_gpu"]), float(row["duration"])) for row in rows
    ]
    lines = [line.split("\t") for line in (real / "gavel/0e4a51.trace").read_text().splitlines()]
    gavel = read_trace(real / "gavel/0e4a51.trace")
    assert sum(one.gpus for one in gavel.records) == sum(int(fields[6]) for fields in lines)
    assert sorted(one.submit for one in gavel.records) == sorted(float(fields[5]) for fields in lines)
