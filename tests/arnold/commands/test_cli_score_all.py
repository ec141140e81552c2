"""`arnold score` of jobs that run: by name, and all of them, with grids that they say or a file says by pattern."""

from __future__ import annotations

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
    assert ran["step_lost"] == {
        name: pytest.approx(1 - 1 / (1 + cost)) for name, cost in (("share", 0.04), ("low", 0.02), ("high", 0.06))
    }


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--nodes", "other"], ("grid", "--job", "--grids")),
        (["--nodes", "trian"], ("'trian'", "train", "--nodes")),
        (["--all", "--nodes", "train"], ("--all", "--nodes")),
        ([], ("--all", "--nodes")),
    ],
)
def test_what_cannot_be_scored(arnold: Arnold, files: list[Any], options: list[str], facts: tuple[str, ...]) -> None:
    """Each exits 2 and says what to give."""
    ran = arnold("score", *files, *options)
    assert ran.code == 2
    assert says(ran.err, *facts, "To fix:")
