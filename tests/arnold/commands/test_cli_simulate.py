"""`arnold simulate`: its JSON, its files, its errors."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from arnold.commands.run import run
from simulator.checkpoints import held_alone
from tests.facts import says

Simulate = Callable[..., Any]

CLUSTER = "node,pod,rack,gpus\n" + "".join(f"n{i},p{i // 4},r{i // 2},8\n" for i in range(8))
JOBS = "job_id,submit_time,duration,gpus,nodes\na,0,10,64,8\nb,1,5,8,1\nc,2,4,16,2\nd,2,0.5,1,1\n"
# First in, first out on 8 nodes: a has all until 10; then b, c and d start together.
STARTS = {"a": 0.0, "b": 10.0, "c": 10.0, "d": 10.0}
KEYS = [
    "policy",
    "jobs",
    "completed",
    "dropped",
    "makespan_seconds",
    "wait_seconds",
    "jct_seconds",
    "utilization",
    "fragmentation",
    "ettr",
    "spread",
    "policy_seconds",
    "wall_seconds",
    "events",
    "allocation",
    "goodput",
    "ettr_worst_hour",
    "throughput_lost",
    "trace_wait_seconds",
    "cost",
    "assumptions",
    "power",
    "data",
    "startup",
]


@pytest.fixture
def simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Simulate:
    """Runs the command on a small cluster and trace, or on what is given; place has no effect unless it is asked to."""
    (tmp_path / "cluster.csv").write_text(CLUSTER)

    def call(*arguments: str, trace: str = JOBS, cluster: str = "cluster.csv") -> Any:
        (tmp_path / "jobs.csv").write_text(trace)
        files = ["--cluster", str(tmp_path / cluster), "--trace", str(tmp_path / "jobs.csv")]
        cost = [] if "--cost-model" in arguments else ["--cost-model", "none"]
        code = run(["simulate", *files, *cost, *arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, json=json.loads(out) if "--json" in arguments else None)

    return call


def test_the_json_is_that_of_the_architecture(simulate: Simulate) -> None:
    """Its keys in order, and numbers that can be worked out by hand."""
    said = simulate("--json").json
    assert list(said) == KEYS
    waits, jcts = [0, 9, 8, 8], [10, 14, 12, 8.5]
    assert (said["policy"], said["jobs"], said["completed"], said["dropped"]) == ("fifo", 4, 4, {})
    assert said["wait_seconds"]["mean"] == np.mean(waits)
    assert said["wait_seconds"]["p95"] == pytest.approx(np.percentile(waits, 95))
    assert said["jct_seconds"]["max"] == max(jcts)
    assert said["makespan_seconds"] == 15
    # 64 GPUs for 10 s, 8 for 5 s, 16 for 4 s, 1 for 0.5 s, of 64 GPUs for 15 s.
    assert said["utilization"] == pytest.approx((640 + 40 + 64 + 0.5) / (64 * 15))
    assert (said["ettr"], said["events"]) == (1.0, 8)
    # Nothing was lost, nobody was slow, no node away: all that was held was work, in every hour.
    assert said["goodput"] == said["utilization"] == pytest.approx(said["allocation"])
    assert (said["ettr_worst_hour"], said["throughput_lost"]) == (1.0, 0.0)
    assert said["cost"] == "none"
    assert says(said["assumptions"], "no effect", "step")
    # The gang of 8 nodes touches both pods, that of 2 nodes one: on average 1.5.
    assert said["spread"] == {"dp": 1.5, "pp": 1.0}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_one_row_per_job(simulate: Simulate, tmp_path: Path, suffix: str) -> None:
    """In the trace's own order and on its own clock."""
    path = tmp_path / f"rows.{suffix}"
    assert simulate("--jobs-out", str(path), "--json").code == 0
    if suffix == "csv":
        rows: list[dict[str, Any]] = list(csv.DictReader(path.read_text().splitlines()))
    elif suffix == "jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = pq.read_table(path).to_pylist()
    assert list(rows[0])[:6] == ["job_id", "submit_time", "start_time", "end_time", "gpus", "nodes"]
    assert {row["job_id"]: float(row["start_time"]) for row in rows} == STARTS
    assert [int(row["nodes"]) for row in rows] == [8, 1, 2, 1]
    assert float(rows[3]["end_time"]) == 10.5


@pytest.mark.parametrize(
    "policy",
    ["fifo", "fifo-backfill", "shortest-first", "priority-age", "priority-preempt", "arnold", "arnold-no-reserve"],
)
def test_every_policy_and_room_ends_all_jobs(simulate: Simulate, policy: str) -> None:
    """Placed, and counted."""
    for algorithm in ("exact", "best-fit", "none"):
        said = simulate("--policy", policy, "--algorithm", algorithm, "--json").json
        assert (said["policy"], said["completed"]) == (policy, 4)
        assert (said["fragmentation"] is None) == (algorithm == "none")


def test_spread_costs_what_was_measured_unless_another_cost_is_asked_for(tmp_path: Path, simulate: Simulate) -> None:
    """Gang a over both pods, S = 2: 10 s take 0.77 % more, which is alpha 0.3 of 2.57 %, the default record's."""
    simulate()  # writes the files
    files = ["--cluster", str(tmp_path / "cluster.csv"), "--trace", str(tmp_path / "jobs.csv")]
    ends = {}
    for words in ([], ["--cost-model", "anchored"], ["--cost-model", "none"], ["--algorithm", "none"]):
        assert run(["simulate", *files, *words, "--jobs-out", str(tmp_path / "rows.csv")]) == 0
        rows = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
        ends[" ".join(words)] = float(next(row["end_time"] for row in rows if row["job_id"] == "a"))
    dear = pytest.approx(10 * (1 + 0.3 * 0.018 / 0.7))
    assert ends == {"": dear, "--cost-model anchored": dear, "--cost-model none": 10.0, "--algorithm none": 10.0}


def test_text_for_people(simulate: Simulate) -> None:
    """Without --json: a few lines."""
    ran = simulate()
    assert ran.code == 0
    assert says(ran.out, "4 of 4 jobs", "fifo", "8 nodes", "15 s")


def test_transforms_of_the_trace(simulate: Simulate, tmp_path: Path) -> None:
    """Window, size, load, and a second trace; what is left out is counted."""
    assert simulate("--window", "1:3", "--json").json["jobs"] == 3
    assert simulate("--window", "1..3", "--json").json["jobs"] == 3
    assert simulate("--window", "..1970-01-01T00:00:02", "--json").json["jobs"] == 2
    assert simulate("--window", "+2s..", "--json").json["jobs"] == 2
    assert simulate("--max-gpus", "8", "--json").json["dropped"] == {"more GPUs than --max-gpus": 2}
    assert simulate("--scale-load", "2", "--json").json["makespan_seconds"] == 15
    other = tmp_path / "more.csv"
    other.write_text("job_id,submit_time,duration,gpus,nodes\nz,0,1,1,1\n")
    assert simulate("--merge", str(other), "--json").json["jobs"] == 5


def test_a_job_larger_than_the_cluster_is_said_before_the_run_or_counted(simulate: Simulate) -> None:
    """Never waited for."""
    trace = JOBS + "huge,3,1,128,16\n"
    refused = simulate("--json", trace=trace)
    assert (refused.code, refused.json["error"]["kind"]) == (2, "TraceFormatError")
    assert "huge" in refused.json["error"]["message"]
    assert refused.json["error"]["fix"]
    lenient = simulate("--json", "--lenient", trace=trace).json
    assert (lenient["completed"], lenient["dropped"]) == (4, {"larger than the cluster": 1})


def test_a_job_that_needs_the_spares_too_is_said_before_the_run(simulate: Simulate) -> None:
    """It would never start; on what is left, 53 of 56 GPUs lie on 7 whole nodes."""
    failures = ("--failures", "rsc-1", "--spares", "1", "--json")
    refused = simulate(*failures, trace="job_id,submit_time,duration,gpus\na,0,1,64\n")
    assert "the cluster has 7 such nodes" in refused.json["error"]["message"]
    said = simulate(*failures, trace="job_id,submit_time,duration,gpus\na,0,1,53\nb,0,1,56\n").json
    assert (said["completed"], said["makespan_seconds"]) == (2, 2)


def test_a_job_that_only_whole_nodes_can_hold_runs(simulate: Simulate) -> None:
    """60 GPUs on 8 nodes of 8 divide evenly over 10 or more: they take all 8; where GPUs are counted, 60 of 64."""
    trace = "job_id,submit_time,duration,gpus\na,0,10,60\nb,0,10,4\n"
    assert simulate("--json", trace=trace).json["makespan_seconds"] == 20
    assert simulate("--algorithm", "none", "--json", trace=trace).json["makespan_seconds"] == 10
    # What a trace says of nodes is nothing to a pool; that it has too few GPUs is said.
    spread = "job_id,submit_time,duration,gpus,nodes\na,0,10,64,2\n"
    assert simulate("--algorithm", "none", "--json", trace=spread).code == 0
    too_large = simulate("--algorithm", "none", "--json", trace="job_id,submit_time,duration,gpus\na,0,10,65\n")
    assert "65 GPUs; the cluster has 64" in too_large.json["error"]["message"]


def test_a_gang_of_usual_nodes_may_lie_on_a_larger_one_where_these_are_too_few(
    simulate: Simulate, tmp_path: Path
) -> None:
    """16 GPUs on three nodes of 4 and one of 8: all of the three, and half of the larger."""
    (tmp_path / "uneven.csv").write_text("node,rack,gpus\na,r,4\nb,r,4\nc,r,4\nd,r,8\n")
    trace = "job_id,submit_time,duration,gpus\nx,0,10,16\ny,0,10,4\n"
    said = simulate("--json", trace=trace, cluster="uneven.csv").json
    assert (said["completed"], said["makespan_seconds"], said["utilization"]) == (2, 10, 1.0)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["--policy", "fiffo"], "UnknownName"),
        (["--algorithm", "exat"], "UnknownName"),
        (["--cost-model", "freee"], "UnknownName"),
        (["--predictor", "oracel"], "UnknownName"),
        (["--cost-model", "spread", "--algorithm", "none"], "InvalidInput"),
        (["--window", "5"], "InvalidInput"),
        (["--window", "b:a"], "InvalidInput"),
        (["--scale-load", "nan"], "InvalidInput"),
        (["--scale-load", "0"], "InvalidInput"),
        (["--jobs-out", "rows.xlsx"], "InvalidInput"),
        (["--level", "row"], "UnknownName"),
        (["--seed", "-1"], "UsageError"),
    ],
)
def test_bad_options_are_explained(simulate: Simulate, arguments: list[str], kind: str) -> None:
    """Before anything runs, with what to do."""
    ran = simulate("--json", *arguments)
    assert (ran.code, ran.json["error"]["kind"]) == (2, kind)
    assert ran.json["error"]["fix"]


def test_zones_are_nodes_and_not_to_be_had_where_gpus_are_only_counted(simulate: Simulate) -> None:
    """Said, where a job was announced; a policy without zones needs none."""
    trace = "job_id,submit_time,duration,gpus,announced\na,5,1,64,0\n"
    ran = simulate("--policy", "arnold", "--algorithm", "none", "--json", trace=trace)
    assert (ran.code, ran.json["error"]["where"]) == (2, "--policy arnold")
    assert simulate("--policy", "arnold-no-reserve", "--algorithm", "none", "--json", trace=trace).code == 0
    assert simulate("--policy", "arnold", "--json", trace=trace).code == 0


def test_a_cluster_without_a_free_node_is_explained(simulate: Simulate, tmp_path: Path) -> None:
    """All busy."""
    (tmp_path / "busy.csv").write_text("node,rack,gpus,free_gpus\nn0,r0,8,0\n")
    ran = simulate("--json", cluster="busy.csv")
    assert (ran.code, ran.json["error"]["kind"]) == (2, "InvalidTopology")
    assert ran.json["error"]["where"] == str(tmp_path / "busy.csv")


def test_state_lies_over_the_cluster(simulate: Simulate, tmp_path: Path) -> None:
    """Busy and faulty nodes besides, as in `arnold place`: what needs all eight nodes cannot run on the others."""
    (tmp_path / "busy.txt").write_text("n[0-1]\n")
    (tmp_path / "flags.yaml").write_text("- {node: n2, kind: faulty, source: test}\n")
    state = ("--busy", str(tmp_path / "busy.txt"), "--flags", str(tmp_path / "flags.yaml"))
    rows = tmp_path / "rows.csv"
    said = simulate("--json", "--lenient", *state, "--jobs-out", str(rows)).json
    assert said["dropped"] == {"larger than the cluster": 1}
    places = {node for row in csv.DictReader(rows.read_text().splitlines()) for node in row["placed_on"].split()}
    assert places
    assert not places & {"n0", "n1", "n2"}


def test_nodes_in_use_stay_so_and_that_is_said(simulate: Simulate, tmp_path: Path) -> None:
    """Of eight nodes of 8 GPUs two are in use by others, 16 of 64 GPUs; a cluster with none in use needs no word."""
    (tmp_path / "busy.txt").write_text("n[0-1]\n")
    said = "in use by others, which keep them to the end: 16 of 64 GPUs"
    assert said in simulate("--lenient", "--busy", str(tmp_path / "busy.txt")).err
    assert "in use by others" not in simulate().err


def test_what_was_assumed_is_said_beside_json_too(simulate: Simulate) -> None:
    """On stderr: stdout has the document alone."""
    trace = "job_id,submit_time,duration,gpus,color\na,5,1,64,red\nb,4,1,64,blue\n"
    ran = simulate("--json", trace=trace)
    assert ran.json["completed"] == 2
    assert "were not in order" in ran.err
    assert "not read: color" in ran.err


def test_an_alpha_that_nothing_says_is_noted(simulate: Simulate) -> None:
    """Of the jobs on several nodes, a and c, none has alpha or model; given one, only the other is counted."""
    note = "alpha 0.3 by default for {} of more than a node: the trace gives neither alpha nor model"
    assert note.format("2 jobs") in simulate("--algorithm", "exact").err.splitlines()
    told = JOBS.replace("nodes\n", "nodes,alpha\n").replace("64,8\n", "64,8,0.5\n").replace("8,1\n", "8,1,\n")
    told = told.replace("16,2\n", "16,2,\n").replace("1,1\n", "1,1,\n")
    assert note.format("1 job") in simulate("--algorithm", "exact", trace=told).err.splitlines()
    assert "alpha" not in simulate("--algorithm", "none").err


def test_results_that_cannot_be_written_are_said_before_the_run(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder of that name, or a folder in the place of the file; nothing is replayed for it."""
    monkeypatch.setattr("simulator.replay.prepare", lambda *_, **__: pytest.fail("it was replayed"))
    assert (
        simulate("--json", "--jobs-out", str(tmp_path / "nowhere" / "rows.csv")).json["error"]["kind"] == "InvalidInput"
    )
    (tmp_path / "page.html").mkdir()
    assert "directory" in simulate("--json", "--html", str(tmp_path / "page.html")).json["error"]["message"]


def test_a_finished_run_leaves_no_checkpoint_and_a_foreign_one_is_refused(simulate: Simulate, tmp_path: Path) -> None:
    """Also what is no checkpoint at all."""
    path = tmp_path / "run.json"
    assert simulate("--checkpoint", str(path), "--json").code == 0
    assert not path.exists()
    path.write_text('{"format": "something"}')
    assert simulate("--checkpoint", str(path), "--json").json["error"]["where"] == str(path)
    path.write_bytes(b"\x80\x04not json")
    assert simulate("--checkpoint", str(path), "--json").code == 2


def test_an_interrupted_run_leaves_a_checkpoint_and_goes_on(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted, then another policy is refused, then the same run goes on and writes what a whole run writes.

    The engine looks for interrupts every 64 instants, and each of the 120 jobs is submitted at an instant of its own.
    """
    monkeypatch.setattr("simulator.engine.INSTANTS", 64)
    trace = "job_id,submit_time,duration,gpus\n" + "".join(f"j{i},{i},3.5,{1 + i % 40}\n" for i in range(120))
    whole, resumed, path = tmp_path / "whole.csv", tmp_path / "resumed.csv", tmp_path / "run.json"
    assert simulate("--jobs-out", str(whole), "--json", trace=trace).code == 0
    with monkeypatch.context() as patched:
        patched.setattr("arnold.commands.simulate.asked_to_stop", _at_once)
        ran = simulate("--jobs-out", str(resumed), "--checkpoint", str(path), trace=trace)
    assert (ran.code, resumed.exists(), path.exists()) == (130, False, True)
    assert says(ran.err, str(path), "the same command")
    other = simulate("--policy", "shortest-first", "--checkpoint", str(path), "--json", trace=trace)
    assert "another trace, cluster or settings" in other.json["error"]["message"]
    again = simulate("--jobs-out", str(resumed), "--checkpoint", str(path), "--json", trace=trace)
    assert again.code == 0
    assert "Going on from" in again.err
    assert resumed.read_bytes() == whole.read_bytes()
    assert not path.exists()


def test_two_runs_on_one_checkpoint(simulate: Simulate, tmp_path: Path) -> None:
    """The second is refused, and names the first; a lock that a crash left behind holds nobody up."""
    path, lock = tmp_path / "run.json", tmp_path / "run.json.lock"
    with held_alone(str(path)):
        ran = simulate("--checkpoint", str(path), "--json")
        assert ran.code == 2
        assert says(ran.json["error"]["message"], "another run", f"process {os.getpid()}")
        assert ran.json["error"]["where"] == str(path)
    assert not lock.exists()
    lock.write_text("4711")
    assert simulate("--checkpoint", str(path), "--json").code == 0
    assert not lock.exists()


class _at_once:  # noqa: N801
    """The user presses Ctrl-C right away."""

    def __enter__(self) -> Callable[[], bool]:
        return lambda: True

    def __exit__(self, *_: object) -> None:
        return None
