"""Power on the command line: op traces, a power file in a replay, its schema, mistakes with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from health.whatif.synthetic import make_trace, trace_file
from tests.facts import says
from tests.health.whatif.recipes import Recipe

Arnold = Callable[..., Any]

CLUSTER = "node,pod,rack,@power\n" + "".join(f"n{i},p{i // 4},r{i // 2},feed{i % 2}\n" for i in range(8))
JOBS = "job_id,submit_time,duration,gpus,nodes\na,0,300,32,4\nb,10,300,16,2\nc,20,100,16,2\n"
POWER = "watts: {compute: 10000, communicate: 5000, idle: 1000}\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Any]:
    """Options for a small cluster with two feeds, and three jobs that fill it."""
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return ["--cluster", tmp_path / "cluster.csv", "--trace", tmp_path / "jobs.csv", "--cost-model", "none"]


def test_a_replay_tells_its_power(arnold: Arnold, tmp_path: Path, files: list[Any]) -> None:
    """Eight nodes at most: 80 kW at their peak, of the feed that swings most half; with caps of three nodes c waits."""
    power = tmp_path / "power.yaml"
    power.write_text(POWER)
    done = arnold("simulate", *files, "--power", power, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert [one["moment"] for one in document["power"]] == ["most GPUs held"] * 2 + ["largest change"] * 2
    assert document["power"][0]["domain"] == "site"
    assert document["power"][1]["domain"] in ("feed0", "feed1")
    assert document["power"][0]["figures"]["peak_megawatts"] <= 0.080
    assert document["wait_seconds"]["max"] == 0.0
    assert "largest change" in arnold("simulate", *files, "--power", power, "--html", tmp_path / "page.html").out
    assert "<h2>Power around two moments" in (tmp_path / "page.html").read_text()
    power.write_text(POWER + "jobs: {a: {step_seconds: 5}, bb: {step_seconds: 5}}\n")
    assert says(arnold("simulate", *files, "--power", power).err, str(power), "'bb'")
    power.write_text(POWER + "cap_watts: 31000\n")
    capped = json.loads(arnold("simulate", *files, "--power", power, "--json").out)
    assert capped["wait_seconds"]["max"] == pytest.approx(280.0)


def test_mistakes_of_a_power_file(arnold: Arnold, tmp_path: Path, files: list[Any]) -> None:
    """Exit code 2, with file and line and what to do, in a replay as in the question of capacity."""
    power = tmp_path / "power.yaml"
    asks = (["simulate", *files], ["capacity", "power", "--cluster", tmp_path / "cluster.csv", "--grid", "8x1x2"])
    mistakes = {
        "watts:\n  compute: -1\n": (2, "compute"),
        "compute_share: 1.5\n": (1, "compute_share"),
        "cap_watts: 5\ncaps: {feed9: 5}\n": (2, "feed9"),
        "cap_watts: 5\nlevel: '@cooling'\n": (2, "@cooling"),
        "level: '@cooling'\n": (1, "@cooling"),
    }
    for text, (line, word) in mistakes.items():
        power.write_text(text)
        for ask in asks:
            done = arnold(*ask, "--power", power)
            assert done.code == 2
            assert f"power.yaml:{line}" in done.err
            assert word in done.err
            assert "To fix:" in done.err
    refused = arnold("simulate", *files[:4], "--algorithm", "none", "--power", power)
    assert refused.code == 2


def test_steps_of_a_trace(arnold: Arnold, tmp_path: Path) -> None:
    """Step and compute share come from an op trace, and the answer says so; what is no trace is refused."""
    trace = tmp_path / "trace.parquet"
    trace.write_bytes(trace_file(make_trace(Recipe(steps=3))))
    ask = ["capacity", "power", "--made", "2x8", "--grid", "8x2x4", "--seconds", 20, "--draws", 10, "--json"]
    done = arnold(*ask, "--op-trace", trace)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert any("op traces" in line for line in document["assumptions"])
    assert document["jobs"] == ["4 x 8x2"]
    trace.write_text("nothing of the kind")
    assert arnold(*ask, "--op-trace", trace).code == 2


def test_a_job_without_room(arnold: Arnold) -> None:
    """It is named, with exit code 3: the question makes sense, and the cluster is too small for it."""
    done = arnold("capacity", "power", "--made", "2x8", "--grid", "8x2x4", "--grid", "8x8x9")
    assert done.code == 3
    assert "8x8x9 finds no room" in done.err


def test_the_schema_of_a_power_file(arnold: Arnold) -> None:
    """Every key is described."""
    schema = json.loads(arnold("schema", "power").out)
    assert "floor_share" in schema["properties"]
    assert all("description" in one or "$ref" in one for one in schema["properties"].values())
