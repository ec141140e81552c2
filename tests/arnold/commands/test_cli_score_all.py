"""`arnold score` of jobs that run: by name, and all of them, with grids that they say or a file says by pattern."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.score_answer import ScoresDocument
from ground.records import json_data, read_json
from scheduler.job import DEFAULT_SPREAD_COST
from tests.facts import says

Arnold = Callable[..., Any]

AT = "2026-11-29T01:30:00Z"
JOBS = """\
jobs:
- {name: train, nodes: [n0, n4, n5, n1], parallelism: {tp: 8, dp: 2, pp: 2}, owner: ann}
- {name: sweep-1, nodes: "n[2-3]"}
- {name: half, nodes: n6, gpus: 4}
- {name: other, nodes: n7}
"""
GRIDS = 'grids:\n- {name: "sweep-*", parallelism: {tp: 8}}\n- {name: half, parallelism: {tp: 4}}\n'


@pytest.fixture
def files(tmp_path: Path) -> list[str | Path]:
    """Eight nodes in two racks of four, and four jobs on them."""
    rows = [f"n{i},r{i // 4},8" for i in range(8)]
    (tmp_path / "eight.csv").write_text("\n".join(["node,rack,gpus", *rows, ""]))
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "grids.yaml").write_text(GRIDS)
    return ["--cluster", tmp_path / "eight.csv", "--running", tmp_path / "jobs.yaml", "--at", AT]


def test_all_jobs_with_a_grid_are_scored(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """Train lies 2 x 2 across racks, where one rack would do: its step is 1.0257 times as long, so 2.5 % are
    lost, 0.8 of 32 GPUs; sweep-1 has one DP group in one rack; half shares its node, and of other no grid is known.
    """
    asked = ("score", *files, "--all", "--grids", tmp_path / "grids.yaml", "--alpha", "0.5")
    ran = arnold(*asked, "--json").json
    scored = {job["name"]: job for job in ran["jobs"]}
    assert list(scored) == ["train", "sweep-1"]
    train = scored["train"]
    objectives = [train[name]["objective"] for name in ("same_nodes", "free_nodes", "restart", "empty_cluster")]
    # two nodes of each rack: stages in racks 1.5; no other node is free
    assert (train["objective"], objectives) == (2.0, [1.5, None, 1.5, 1.0])
    assert train["step_lost"] == {"share": pytest.approx(1 - 1 / (1 + DEFAULT_SPREAD_COST)), "low": None, "high": None}
    assert ran["gpus_lost"] == pytest.approx(32 * (1 - 1 / (1 + DEFAULT_SPREAD_COST)))
    assert (scored["sweep-1"]["objective"], scored["sweep-1"]["ranked"]) == (1.0, False)
    assert [job["name"] for job in ran["not_scored"]] == ["half", "other"]
    assert json_data(ScoresDocument, read_json(ScoresDocument, ran)) == ran
    page = tmp_path / "page.html"
    shown = arnold(*asked, "--html", page)
    assert says(shown.out, "train", "2.0", "1.5")
    assert says(page.read_text(), "train", "2.0", "1.5")


def test_a_running_job_is_scored_by_its_name(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """Its own grid counts, a job file in its stead; measured gains give what is lost a range."""
    records = tmp_path / "records.yaml"
    bands = "dp_band: [1.0, 3.0], pp_band: [1.0, 3.0]"
    records.write_text(f"records: [{{name: ours, dp_gain: 2.0, pp_gain: 2.0, {bands}}}]")
    ran = arnold("score", *files, "--nodes", "train", "--records", records, "--json").json
    assert (ran["objective"], ran["job"]["name"]) == (2.0, "train")
    plain = arnold("score", *files, "train", "--records", records, "--json").json
    assert {**plain, "solve_seconds": 0, "run_seconds": 0} == {**ran, "solve_seconds": 0, "run_seconds": 0}
    assert ran["step_lost"] == {
        name: pytest.approx(1 - 1 / (1 + cost)) for name, cost in (("share", 0.04), ("low", 0.02), ("high", 0.06))
    }


def test_a_slow_node_is_a_loss_of_the_job_that_has_it(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """Train's own n5 is slow by 1.25 since it started, and the empty cluster has others."""
    flags = tmp_path / "flags.yaml"
    flags.write_text("- {node: n5, slowdown: 1.25}\n- {node: n4, kind: faulty}\n")
    train = arnold("score", *files, "--all", "--alpha", "0.5", "--flags", flags, "--json").json["jobs"][0]
    # by the spreads of above, times what the slowest node costs; one that was found faulty since slows nobody
    best = 1 + 0.0  # four sound nodes of one rack
    now = (1 + DEFAULT_SPREAD_COST) * 1.25
    assert train["step_time"] == pytest.approx(now)
    assert train["step_lost"]["share"] == pytest.approx(1 - best / now)


def test_each_place_that_it_could_have_has_its_step(arnold: Arnold, tmp_path: Path) -> None:
    """Two racks of two, a node of the job's rack twice as slow: a rack without it costs no more spread and half the
    step, and where the job spans racks to avoid it the step counts both.
    """
    rows = ["n0,r0,8,8,", "n1,r0,8,8,2.0", "n2,r1,8,8,", "n3,r1,8,0,"]
    (tmp_path / "four.csv").write_text("\n".join(["node,rack,gpus,free_gpus,slowdown", *rows, ""]))
    (tmp_path / "job.yaml").write_text("{name: j, parallelism: {tp: 8, dp: 2}, alpha: 1, level: rack}")
    (tmp_path / "hosts").write_text("n0\nn1\n")
    asked = ("score", "--cluster", tmp_path / "four.csv", "--job", tmp_path / "job.yaml", "--nodes", tmp_path / "hosts")
    ran = arnold(*asked, "--json").json
    spread = 1 + DEFAULT_SPREAD_COST  # n0 and n2 lie in two racks: objective 2
    # on n0 and n1 the pace is the slow one's; anew on n0 and n2, on the empty cluster in rack r1
    steps = [ran[name]["step_time"] for name in ("same_nodes", "free_nodes", "restart", "empty_cluster")]
    assert (ran["step_time"], steps) == (2.0, [2.0, pytest.approx(spread), pytest.approx(spread), 1.0])
    shown = arnold(*asked)
    assert says(shown.out, f"{100 * (spread / 2 - 1):+.1f} %", "-50.0 %")


def test_nodes_of_a_size_that_the_job_leaves_open(arnold: Arnold, tmp_path: Path) -> None:
    """Eight GPUs are one node of B, or two of A in a rack each: objective 1.5, where on B they have 1.0.

    A is half as fast, and the step is 1 + c / 2 as long by the spread: anew it takes half of that less.
    """
    rows = ["a1,r1,4,A", "a2,r2,4,A", "b1,r3,8,B", "b2,r3,8,B"]
    (tmp_path / "two.csv").write_text("\n".join(["node,rack,gpus,gpu_type", *rows, ""]))
    job = "{name: j, parallelism: {tp: 4, dp: 2}, alpha: 0.5, level: rack, speed: {B: 2}}"
    (tmp_path / "job.yaml").write_text(job)
    placed = ("--cluster", tmp_path / "two.csv", "--job", tmp_path / "job.yaml")
    saved = arnold("place", *placed, "--output", tmp_path / "placement.json", "--json").json
    for hosts, objective, gpus in (("a1\na2\n", 1.5, 4), ("b2\n", saved["objective"], 8)):
        (tmp_path / "hosts").write_text(hosts)
        scored = arnold("score", *placed, "--nodes", tmp_path / "hosts", "--json").json
        assert (scored["objective"], scored["job"]["gpus_per_node"], scored["broken"]) == (objective, gpus, None)
        assert scored["restart"]["objective"] == 1.0
    again = arnold("score", *placed, "--nodes", tmp_path / "placement.json", "--json").json
    assert (again["objective"], again["step_time"]) == (1.0, 1.0)
    (tmp_path / "hosts").write_text("a1\na2\n")
    scored = arnold("score", *placed, "--nodes", tmp_path / "hosts", "--json").json
    step = 1 + DEFAULT_SPREAD_COST / 2
    assert (scored["step_time"], scored["restart"]["step_time"]) == (pytest.approx(step), 0.5)
    assert scored["step_lost"]["share"] == pytest.approx(1 - 0.5 / step)
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, nodes: 'a[1-2]'}, {name: b, nodes: b1}]")
    (tmp_path / "grids.yaml").write_text("grids: [{name: '*', parallelism: {tp: 4}, level: rack, alpha: 0.5}]")
    running = ("--running", tmp_path / "jobs.yaml", "--grids", tmp_path / "grids.yaml")
    everyone = arnold("score", "--cluster", tmp_path / "two.csv", *running, "--all", "--json").json
    assert {job["name"]: job["objective"] for job in everyone["jobs"]} == {"a": 1.5, "b": 1.0}


def test_grids_are_those_that_jobs_say(arnold: Arnold, files: list[Any], tmp_path: Path) -> None:
    """By Slurm's comment, where dp is what the GPUs come to, and by a placement, with its affinity and order of ranks;
    what is written beside a job and is no grid is said, and the others are scored.
    """
    running = "JobId={0} JobName=j JobState=RUNNING NodeList={1} Comment=arnold: {2}\n"
    jobs = [(1, "n[0-1,4-5]", "tp=8,pp=2"), (2, "n2", "tp=8,qp=2"), (3, "n3", "tp=8,dp=7")]
    (tmp_path / "jobs.txt").write_text("".join(running.format(*job) for job in jobs))
    (tmp_path / "busy.txt").write_text("n[0-5]\n")
    job = "{name: placed, alpha: 0.9, parallelism: {tp: 8, dp: 2, order: tp-pp-dp-cp-ep}}\n"
    (tmp_path / "job.yaml").write_text(job)
    placed = tmp_path / "placed.json"
    cluster = ["--cluster", tmp_path / "eight.csv"]
    asked = ("place", *cluster, "--busy", tmp_path / "busy.txt", "--job", tmp_path / "job.yaml", "--output", placed)
    assert arnold(*asked).code == 0
    ran = arnold("score", *cluster, "--all", "--running", tmp_path / "jobs.txt", "--running", placed, "--json").json
    scored = {job["name"]: job for job in ran["jobs"]}
    # two stages of two replicas, n0 n1 in one rack and n4 n5 in the other: pp groups, of one node of each, touch both
    assert scored["1 j"]["spread"] == {"dp": 1, "pp": 2}
    assert (scored["placed"]["spread"], scored["placed"]["ranked"]) == ({"dp": 1, "pp": 1}, True)
    reasons = {job["name"]: f"{job['where']}: {job['reason']}" for job in ran["not_scored"]}
    assert says(reasons["2 j"], "jobs.txt:2", "qp")
    assert says(reasons["3 j"], "jobs.txt:3", "7")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--nodes", "other"], ("jobs.yaml:5", "grid", "--job", "--grids")),
        (["--nodes", "trian"], ("'trian'", "train", "--nodes")),
        (["--all", "--nodes", "train"], ("--all", "--nodes")),
        (["trian"], ("'trian'", "train", "JOB")),
        (["job.yaml", "--nodes", "train"], ("job.yaml", "no such file")),
        ([], ("--all", "--nodes", "JOB")),
    ],
)
def test_what_cannot_be_scored(arnold: Arnold, files: list[Any], options: list[str], facts: tuple[str, ...]) -> None:
    """Each exits 2 and says what to give."""
    ran = arnold("score", *files, *options)
    assert ran.code == 2
    assert says(ran.err, *facts, "To fix:")


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_real_slurms(arnold: Arnold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """57 nodes in one job over all six minipods of a recorded Slurm: 0.3 x 6 + 0.7; three of 24 nodes would hold it."""
    if not (data := os.environ.get("ARNOLD_DATA")):
        pytest.skip("ARNOLD_DATA is not set: the recordings are not part of the project")
    monkeypatch.setenv("TZ", "UTC")
    folder = Path(data) / "real" / "slurm_live" / version
    grids = tmp_path / "grids.yaml"
    grids.write_text("grids: [{name: busy, alpha: 0.3, parallelism: {tp: 8}}]\n")
    of_slurm = ("--cluster", folder / "topology.txt", "--busy", folder / "nodes.txt", "--running", folder / "jobs.txt")
    ran = arnold("score", *of_slurm, "--all", "--grids", grids, "--at", "2026-11-28T16:40:00Z", "--json").json
    (busy,) = ran["jobs"]
    assert (busy["gpus"], busy["objective"], busy["empty_cluster"]["objective"]) == (456, 2.5, 1.6)
    assert (busy["empty_cluster"]["status"], busy["same_nodes"]["objective"]) == ("optimal", 2.5)
