"""`arnold simulate --policy a,b --algorithm x,y`: every pair in one run, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.facts import says

Arnold = Callable[..., Any]

CLUSTER = "node,pod,rack\n" + "".join(f"n{i},p{i // 4},r{i // 2}\n" for i in range(8))
JOBS = "job_id,submit_time,duration,gpus,nodes\na,0,10,48,6\nb,1,5,64,8\nc,2,4,16,2\n"
PAIRS = [(policy, rule) for policy in ("fifo", "fifo-backfill") for rule in ("best-fit", "gpu-packing")]


@pytest.fixture
def files(tmp_path: Path) -> Sequence[object]:
    """Eight nodes and three jobs, of which the last may pass the second, and words that replay them."""
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return ["simulate", "--cluster", tmp_path / "cluster.csv", "--trace", tmp_path / "jobs.csv", "--cost-model", "none"]


def test_every_pair_is_replayed(arnold: Arnold, files: Sequence[object]) -> None:
    """Four rows; with FIFO c waits for b, which waits for a: 15 s of 16; with backfill it starts as it comes."""
    compared = ["--policy", "fifo,fifo-backfill", "--algorithm", "best-fit,gpu-packing"]
    found = arnold(*files, *compared, "--json").json
    assert [(group["policy"], group["algorithm"]) for group in found["groups"]] == PAIRS
    waits = {(one["policy"], one["algorithm"]): one["metrics"]["wait_mean"]["mean"] for one in found["groups"]}
    for (policy, _), wait in waits.items():
        # a 0 s; b from 1 to 10; c from 2 to 15 behind b, or at once beside a
        assert wait == pytest.approx((9 + (13 if policy == "fifo" else 0)) / 3)
    single = arnold(*files, "--policy", "fifo", "--algorithm", "best-fit", "--json").json
    assert single["policy"] == "fifo"
    assert single["wait_seconds"]["mean"] == pytest.approx(waits["fifo", "best-fit"])


def test_the_real_waits_stand_beside(arnold: Arnold, files: Sequence[object], tmp_path: Path) -> None:
    """A trace that says how long its jobs waited, here 20 and 40 s, is compared with the replays."""
    (tmp_path / "jobs.csv").write_text("job_id,submit_time,duration,gpus,waited\na,0,10,8,20\nb,1,5,8,40\n")
    out = arnold(*files, "--policy", "fifo,fifo-backfill", "--algorithm", "none").out
    assert says(out, "the trace itself", "mean wait 30 s")


def test_what_is_left_out_is_told(arnold: Arnold, files: Sequence[object], tmp_path: Path) -> None:
    """With --lenient, rows that are no jobs by their reason, and jobs that no state of the cluster holds; a note where
    standard output is JSON.
    """
    (tmp_path / "jobs.csv").write_text(JOBS + "no,1,5,0,\nlarge,1,5,128,16\n")
    words = [*files, "--policy", "fifo,fifo-backfill", "--algorithm", "best-fit", "--lenient"]
    said = ["Left out: 1 (no GPUs).", "Left out where the cluster could never hold it: 1 job."]
    assert [line for line in arnold(*words).out.splitlines() if line.startswith("Left out")] == said
    ran = arnold(*words, "--json")
    assert set(said) <= set(ran.err.splitlines())


def test_names_stand_in_full_on_a_narrow_terminal(
    arnold: Arnold, files: Sequence[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 80 columns each line begins with its policy, algorithm and load."""
    monkeypatch.setenv("COLUMNS", "80")
    out = arnold(*files, "--policy", "fifo,fifo-backfill", "--algorithm", "best-fit,gpu-packing").out
    assert all(any(line.startswith(f"{policy}, {rule} ") for line in out.splitlines()) for policy, rule in PAIRS)
    out = arnold(*files, "--algorithm", "best-fit", "--scale-load", "0.5,1").out
    assert {"0.5", "1"} <= {line.split()[1] for line in out.splitlines() if line.startswith("fifo ")}


def test_the_page_is_that_of_a_study(arnold: Arnold, files: Sequence[object], tmp_path: Path) -> None:
    """--html shows all of them."""
    page = tmp_path / "page.html"
    assert arnold(*files, "--policy", "fifo,fifo-backfill", "--algorithm", "none", "--html", page).code == 0
    assert "fifo-backfill" in page.read_text()


def test_any_option_of_a_study_makes_one(arnold: Arnold, files: Sequence[object], tmp_path: Path) -> None:
    """One seed, a file of rows, or pieces of the trace: one group of one run, that of the replay alone."""
    (tmp_path / "jobs.csv").write_text("job_id,submit_time,duration,gpus\na,0,10,8\nb,9000,10,8\n")
    alone = arnold(*files, "--algorithm", "none", "--json").json
    for words in (["--seeds", "1"], ["--runs-out", tmp_path / "rows.parquet"], ["--resample", "1"]):
        document = arnold(*files, "--algorithm", "none", *words, "--json").json
        assert (document["runs"], len(document["groups"])) == (1, 1)
        assert document["groups"][0]["metrics"]["makespan_seconds"]["mean"] == alone["makespan_seconds"] == 9010


def test_clusters_and_seeds_are_a_study(arnold: Arnold, files: Sequence[object], tmp_path: Path) -> None:
    """Two clusters and two seeds are two groups of two runs; a message of one cluster's file says whose it is."""
    (tmp_path / "half.csv").write_text("".join(CLUSTER.splitlines(keepends=True)[:7]))
    words = ["--cluster", tmp_path / "half.csv", "--algorithm", "none", "--lenient", "--json"]
    groups = arnold(*files, *words, "--seeds", "2").json["groups"]
    assert [(group["cluster"], group["runs"]) for group in groups] == [("cluster", 2), ("half", 2)]
    assert [group["cluster"] for group in arnold(*files, *words).json["groups"]] == ["cluster", "half"]


def test_a_study_takes_what_a_replay_takes(arnold: Arnold, files: Sequence[object], tmp_path: Path) -> None:
    """Failures, spares and nodes in use."""
    busy = tmp_path / "busy.txt"
    busy.write_text("n7\n")
    words = ["--policy", "fifo,fifo-backfill", "--algorithm", "best-fit", "--busy", busy, "--lenient", "--json"]
    words += ["--failures", "500", "--spares", "1"]
    study = arnold(*files, *words).json["groups"]
    # one node is in use and one a spare: b never fits, a has all the rest until 10, and c waits from 2 on
    assert [group["metrics"]["wait_mean"]["mean"] for group in study] == [4, 4]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jobs-out", "rows.csv"], "--jobs-out: is of one run"),
        (["--checkpoint", "run.json"], "--checkpoint: is of one run"),
        (["--algorithm", "exact,exat"], "did you mean 'exact'"),
        (["--algorithm", ","], "names nothing"),
        (["--seed", "3", "--seeds", "2"], "--seed: is one seed, and --seeds asks for several"),
        (["--scale-load", "1,-1"], "no scales of load"),
        (["--algorithm", "best-fit,none", "--spares", "1", "--failures", "1"], "this run only counts GPUs"),
        (["--format", "csv,csv,csv"], "no input is left of the format 'csv'"),
        (["--format", "cvs"], "did you mean 'csv'"),
    ],
)
def test_what_cannot_be_compared(arnold: Arnold, files: Sequence[object], words: list[str], said: str) -> None:
    """What is of one run is refused, not lost, and mistakes are told of before anything runs."""
    ran = arnold(*files, "--policy", "fifo,fifo-backfill", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_one_option_names_the_formats_of_both_inputs(arnold: Arnold, files: Sequence[object]) -> None:
    """Of the trace, of the cluster, or of both; a name that both have is that of the trace first."""
    for given in ("csv", "csv,csv", "slurm-conf"):
        ran = arnold(*files, "--algorithm", "none", "--format", given)
        assert ran.code == (2 if given == "slurm-conf" else 0)
    assert "cluster.csv" in ran.err


def test_a_job_is_placed_by_one_algorithm(arnold: Arnold, files: Sequence[object], tmp_path: Path) -> None:
    """`arnold place` says which command compares."""
    ran = arnold("place", "--cluster", files[2], "--job", tmp_path / "no.yaml", "--algorithm", "exact,best-fit")
    assert ran.code == 2
    assert "arnold compare --algorithm exact,best-fit" in ran.err


@pytest.mark.parametrize(("option", "value"), [("--level", "rack"), ("--time-limit", "2"), ("--records", "own.json")])
def test_what_belongs_to_placement_needs_an_algorithm_that_places(
    arnold: Arnold, files: Sequence[object], option: str, value: str
) -> None:
    """Where all runs only count GPUs it would be passed over; beside an algorithm that places it is of that one."""
    ran = arnold(*files, "--algorithm", "none", option, value)
    assert (ran.code, ran.out) == (2, "")
    assert says(ran.err, option, "only counts GPUs", "--algorithm")
    if option != "--records":
        assert arnold(*files, "--algorithm", "none,best-fit", option, value).code == 0
