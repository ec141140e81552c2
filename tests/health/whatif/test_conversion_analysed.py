"""Converted traces go through the analysis: what they hold gives the same answer, what they lack gives none."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from arnold.commands.run import run
from arnold.commands.stragglers import TRACE
from ground.files import read_source
from health.whatif import Analysis, analyse, prepare, read_metadata, read_trace
from health.whatif.analysis_result import TracedWorker

META = "dp_size: 3\npp_size: 2\ntp_size: 1\n"


def analysed(folder: Path) -> Analysis:
    """The analysis of a converted trace."""
    sizes = read_metadata(read_source(folder / "meta.yaml"))
    return analyse(prepare(read_trace(folder / "trace.parquet", sizes=sizes)))


def arnold(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    code = run(list(words))
    return code, capsys.readouterr().out


def timer_log(folder: Path, *, slow: int | None) -> Path:
    """A log of six ranks and four iterations: a microbatch takes 10 ms forward, 20 ms backward, twice that if slow."""
    lines = ["setting number of microbatches to constant 8"]
    for iteration in range(1, 5):
        lines += [f" iteration {iteration}/ 100 | elapsed time per iteration (ms): 400.0 |", "times across ranks (ms):"]
        for timer, usual in (("forward-compute", 80.0), ("backward-compute", 160.0)):
            lines.append(f"  {timer}:")
            lines += [f"     rank {rank:2d}: {usual * (2 if rank == slow else 1):.2f}" for rank in range(6)]
        for timer in ("all-grads-sync", "optimizer-clip-main-grad", "optimizer"):
            lines.append(f"  {timer}:")
            lines += [f"     rank {rank:2d}: 5.00" for rank in range(6)]
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    (folder / "job.yaml").write_text(META)
    return folder / "train.log"


def test_a_slow_rank_is_found_in_timers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 4 is dp 1 / stage 1 of 3 x 2 ranks; twice as slow, it explains the loss, as the transfers are not in it."""
    path = timer_log(tmp_path, slow=4)
    out = tmp_path / "out"
    code, _ = arnold(
        "health", "op-trace", str(path), "--meta", str(tmp_path / "job.yaml"), "--save", str(out), capsys=capsys
    )
    assert code == 0
    found = analysed(out)
    assert found.cause == "worker"
    assert found.slowest is not None
    assert found.slowest.workers == (TracedWorker(1, 1),)
    # The first forward, eight turns of the slow rank at 60 ms, the last backward, 10 ms of collectives; ideal: the mean
    # over ranks: 35 ms a turn.
    assert found.slowdown == pytest.approx((10 + 8 * 60 + 20 + 10) / (9 * 35 + 10), rel=1e-9)


def test_even_timers_have_nothing_to_attribute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All ranks alike: no slowdown, no cause."""
    path = timer_log(tmp_path, slow=None)
    out = tmp_path / "out"
    arnold("health", "op-trace", str(path), "--meta", str(tmp_path / "job.yaml"), "--save", str(out), capsys=capsys)
    found = analysed(out)
    assert found.cause == "none"
    assert found.slowdown == pytest.approx(1.0)


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text for people, the same as one JSON document, and the statement beside the trace."""
    path = timer_log(tmp_path, slow=None)
    words = ["health", "op-trace", str(path), "--meta", str(tmp_path / "job.yaml"), "--save", str(tmp_path / "out")]
    code, text = arnold(*words, capsys=capsys)
    assert code == 0
    assert "Not recovered" in text
    assert "single microbatches" in text
    code, printed = arnold(*words, "--json", capsys=capsys)
    document = json.loads(printed)
    assert code == 0
    assert document["source"] == "megatron-timers"
    assert (document["workers"], document["steps"]) == (6, 4)
    written = {str(one) for one in (tmp_path / "out").iterdir()}
    assert written == {*TRACE.files(str(tmp_path / "out"))}, "none of these may be read, and the command knows them"
    statement = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert statement["missing"] == document["missing"]
    assert statement["recovered"] == document["recovered"]


def test_a_cause_that_timers_cannot_tell_is_not_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ranks that are slow by turns look like uneven sequences once microbatches are means: the cause stays unknown."""
    path = timer_log(tmp_path, slow=None)
    lines = path.read_text().splitlines()
    iteration = 0
    for i, line in enumerate(lines):
        iteration += line.startswith(" iteration")
        if line.startswith("     rank") and not line.endswith(" 5.00"):
            name, value = line.rsplit(" ", 1)
            rank = int(name.split()[1].rstrip(":"))
            lines[i] = f"{name} {float(value) * (1.6 if (rank + iteration) % 3 == 0 else 1.0):.2f}"
    path.write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    arnold("health", "op-trace", str(path), "--meta", str(tmp_path / "job.yaml"), "--save", str(out), capsys=capsys)
    assert analysed(out).cause == "sequence-length"
    _, printed = arnold(
        "stragglers", str(out / "trace.parquet"), "--meta", str(out / "meta.yaml"), "--json", capsys=capsys
    )
    document = json.loads(printed)
    assert document["cause"] == "unknown"
    assert "cannot tell that" in document["why"]
    assert any("single microbatches" in note for note in document["notes"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.json"], "there is no such file"),
        (["train.log", "--from", "kineto"], "is not a Chrome trace"),
        (["train.log", "train.log"], "a job has one log of timers"),
        (["empty.log"], "is empty"),
    ],
)
def test_bad_input_is_an_error_in_json(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 and one JSON document with message and remedy."""
    timer_log(tmp_path, slow=None)
    (tmp_path / "empty.log").touch()
    monkeypatch.chdir(tmp_path)
    code, printed = arnold("health", "op-trace", *words, "--meta", "job.yaml", "--save", "out", "--json", capsys=capsys)
    error = json.loads(printed)["error"]
    assert code == 2
    assert message in error["message"]
    assert error["fix"]


DATA = os.environ.get("ARNOLD_DATA")


def kineto_files(rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """Rows of an op trace as the profiler would have written them, had every operation been a named range."""
    ranks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        ranks[row["rank"]].append(row)
    steps = sorted({row["step"] for row in rows})
    paths = []
    for rank, own in ranks.items():
        events: list[dict[str, Any]] = []
        for place, step in enumerate(steps):
            begin = 1e9 * place
            members = sorted(
                (row for row in own if row["step"] == step), key=lambda row: (row["start_ts"], row["seq_id"])
            )
            for number, row in enumerate(members):
                host, correlation = begin + 10.0 * number, len(events)
                compute = row["optype"] in ("forward-compute", "backward-compute", "gc", "optimizer")
                launch = {"correlation": correlation}
                name = f"{row['optype']} mb_id={row['mb_id']}" if row["mb_id"] >= 0 else row["optype"]
                events += [
                    {"ph": "X", "cat": "user_annotation", "name": name, "ts": host, "dur": 8.0},
                    {"ph": "X", "cat": "cuda_runtime", "name": "launch", "ts": host + 1, "dur": 1.0, "args": launch},
                    {"ph": "X", "cat": "kernel", "name": "gemm" if compute else "ncclDevKernel_X",
                     "ts": begin + row["start_ts"] * 1e6, "dur": row["duration"] * 1e6, "args": launch},
                ]  # fmt: skip
            events.append(
                {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin, "dur": 9e8}
            )
        path = folder / f"rank-{rank}.json"
        path.write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": events}))
        paths.append(str(path))
    return paths


@pytest.mark.skipif(DATA is None, reason="ARNOLD_DATA is not set: the public traces are not here")
def test_a_public_trace_survives_the_way_through_kineto(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two steps of ST, written as profiler files and converted back, give the numbers of the rows they came from."""
    source = Path(str(DATA)) / "straggler"
    whole = pq.read_table(source / "trace-ST.parquet")
    table = whole.filter(pc.field("step").isin([264, 278]))
    (tmp_path / "meta.yaml").write_bytes((source / "meta-ST.yaml").read_bytes())
    pq.write_table(table, tmp_path / "trace.parquet")
    words = ["--meta", str(source / "meta-ST.yaml"), "--save", str(tmp_path / "out")]
    code, _ = arnold("health", "op-trace", *kineto_files(table.to_pylist(), tmp_path), *words, capsys=capsys)
    direct, converted = analysed(tmp_path), analysed(tmp_path / "out")
    assert code == 0
    assert converted.cause == direct.cause == "last-stage"
    # The rows have single precision, 2.4e-7 s at the end of a step; the converted ones double.
    assert converted.slowdown == pytest.approx(direct.slowdown, rel=1e-5)
    assert converted.m_s == pytest.approx(direct.m_s, rel=1e-4)
    np.testing.assert_allclose(converted.worker_slowdown, direct.worker_slowdown, rtol=1e-5)
