"""`arnold simulate --data`: loads in the text and the JSON, and what is refused with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.arnold.commands.conftest import write_cluster

Arnold = Callable[..., Any]

DATA = """data_sets:
  web:
    samples: 13333
    encoded_bytes: 100
    prepared_bytes: 500
    demand: 10
    augmented: 400
    decoded: 120
    encoded: 40
    miss: 20
cache:
  bytes: 1e9
  level: rack
"""


@pytest.fixture
def simulate(arnold: Arnold, tmp_path: Path) -> Arnold:
    """Four jobs that read 10,000 samples each, on two racks of four nodes."""
    cluster = write_cluster(tmp_path / "cluster.csv", [f"n{i},mp{i // 4},r{i // 4},8,8," for i in range(8)])
    trace, data = tmp_path / "jobs.csv", tmp_path / "data.yaml"

    def call(*words: object, said: str = DATA, reads: str = "web:10000") -> Any:
        rows = [f"{name},0,1000,8,{reads}" for name in "abcd"]
        trace.write_text("\n".join(["job_id,submit_time,duration,gpus,data_sets", *rows]) + "\n")
        data.write_text(said)
        return arnold("simulate", "--cluster", cluster, "--trace", trace, "--data", data, *words)

    return call


def test_loads_with_and_without_sharing(simulate: Arnold) -> None:
    """The golden numbers, in both forms."""
    (loads,) = simulate("--json").json["data"]
    assert (loads["data_set"], loads["jobs"], round(loads["loads"]), round(loads["shared"])) == (
        "web",
        4,
        40_000,
        13_281,
    )
    line = next(line for line in simulate().out.splitlines() if line.startswith("web "))
    assert line.split() == ["web", "4", "40,000", "13,281", "3.01x"]


def test_jobs_are_written_with_what_they_read(simulate: Arnold, tmp_path: Path) -> None:
    """So that `--jobs-out` is a trace again."""
    assert simulate("--jobs-out", tmp_path / "out.csv").code == 0
    assert "web:10000.0" in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("old", "new", "reads", "message", "fix"),
    [
        ("samples: 13333", "samples: -1", "web", "data.yaml:3: data_sets.web.samples: ", "correct"),
        ("level: rack", "level: rak", "web", "data.yaml:13: the cluster has no level 'rak'", "did you mean 'rack'?"),
        ("level: rack", "encoded: 0.5", "web", "data.yaml:11: cache: augmented, decoded and encoded", "correct cache"),
        ("level: rack", "levle: rack", "web", "data.yaml:13: unknown key 'cache.levle'", "did you mean 'level'?"),
        ("", "", "wob", "data.yaml:1: a job of the trace reads 'wob'", "did you mean 'web'?"),
        ("", "", "web:20000", "data.yaml:3: a job of the trace reads 20,000 samples of 'web'", "correct"),
        ("", "", "", "data.yaml:1: no job of the trace names its data", "give the trace a column data_sets"),
        ("", "", "web:-5", "jobs.csv:2: data_sets has 'web:-5'", "give imagenet"),
        ("", "", "web:few", "jobs.csv:2: data_sets, web, is 'few'", "give data_sets"),
    ],
)
def test_bad_input(simulate: Arnold, old: str, new: str, reads: str, message: str, fix: str) -> None:  # noqa: PLR0917
    """Exit code 2, the file and its line, and what to do."""
    ran = simulate(said=DATA.replace(old, new) if old else DATA, reads=reads)
    assert ran.code == 2
    assert message in ran.err
    assert f"To fix: {fix}" in ran.err


def test_gpus_that_are_only_counted(simulate: Arnold) -> None:
    """No job has a place near a cache then."""
    ran = simulate("--algorithm", "none")
    assert ran.code == 2
    assert "jobs read near caches" in ran.err
