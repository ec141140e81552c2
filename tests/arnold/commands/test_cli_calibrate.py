"""`arnold calibrate`: from step times to a file that placement, replays and questions of capacity take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.calibrate_answer import CalibrateDocument
from ground.files import read_source, write_file
from ground.records import json_data, read_json
from health.whatif.synthetic import make_trace, trace_file
from scheduler.affinity import Record
from scheduler.job_files.records_file import load_records
from tests.facts import says
from tests.health.whatif.recipes import Recipe

Arnold = Callable[..., Any]

TIMES = {(1, 1): 2.0, (2, 1): 2.02, (1, 2): 2.06, (2, 2): 2.08}
"""Seconds of a step by S and R: j_dp = 1 %, j_pp = 3 %, alpha 0.25."""

JOB = "name: ours\nparallelism: {tp: 8, dp: 6, pp: 2}\n"
HEADER = "step_seconds,S,R\n"


def rows(*pairs: tuple[int, int], each: int = 8) -> str:
    """The steps of placements, eight of each and a little apart."""
    return HEADER + "".join(f"{TIMES[pair] + 1e-6 * i},{pair[0]},{pair[1]}\n" for pair in pairs for i in range(each))


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """Step times of four placements."""
    path = tmp_path / "steps.csv"
    path.write_text(rows(*TIMES))
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job that says neither alpha nor model."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Four minipods of five nodes."""
    path = tmp_path / "cluster.csv"
    path.write_text("node,minipod,gpus\n" + "".join(f"n{i:02},m{i // 5},8\n" for i in range(20)))
    return path


def test_the_document_says_gains_and_how_sure_they_are(arnold: Arnold, steps: Path) -> None:
    """Exact numbers from steps without noise to speak of; the document is what its schema says."""
    ran = arnold("calibrate", steps, "--json")
    assert ran.code == 0
    found = ran.json
    assert json_data(CalibrateDocument, read_json(CalibrateDocument, found)) == found
    assert [found[name]["value"] for name in ("dp_gain", "pp_gain", "alpha")] == pytest.approx([1, 3, 0.25], abs=1e-3)
    for name, true in (("dp_gain", 1.0), ("pp_gain", 3.0), ("alpha", 0.25)):
        assert found[name]["low"] <= found[name]["high"] == pytest.approx(true, abs=1e-2)
    assert found["step_seconds"] == pytest.approx(2.0, abs=1e-4)
    assert found["misfit"] == pytest.approx(0.0, abs=1e-3)
    assert [(one["dp"], one["pp"], one["steps"]) for one in found["placements"]] == [
        (*pair, 8) for pair in sorted(TIMES)
    ]
    assert json.loads(arnold("schema", "calibrate").out)["title"] == "CalibrateDocument"


def test_words_for_people(arnold: Arnold, steps: Path, tmp_path: Path) -> None:
    """The verdict first, then what was measured, and what is taken for granted; the same on the page."""
    out = " ".join(arnold("calibrate", steps, "--html", tmp_path / "page.html").out.split())
    assert "What was measured" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert says(out, "DP groups j_dp = 1.00% (")
    assert "PP groups j_pp = 3.00% (" in out
    assert "alpha 0.25 (" in out
    assert says(out, "95% intervals")


def test_the_file_is_taken_by_placement_replays_and_capacity(
    arnold: Arnold, steps: Path, job: Path, cluster: Path, tmp_path: Path
) -> None:
    """Alpha 0.25 and why in place and explain; a replay of a job over four minipods, S = 4, takes 3.23 % longer."""
    measured = tmp_path / "measured.json"
    assert arnold("calibrate", steps, "--name", "our 70B", "--output", measured).code == 0
    asked = ["--cluster", cluster, "--job", job, "--records", measured]
    assert arnold("place", *asked, "--json").json["alpha"] == pytest.approx(0.25, abs=1e-3)
    for command in ("place", "explain"):
        assert says(
            " ".join(arnold(command, *asked).out.split()), "alpha 0.25", "measured", "our 70B", "DP alignment +1 %"
        )
    trace = tmp_path / "jobs.csv"
    trace.write_text("job_id,submit_time,duration,gpus,nodes\na,0,1000,160,20\n")
    replayed = ["--cluster", cluster, "--trace", trace, "--records", measured, "--json"]
    whole = 1000 * (1 + 0.01 * 3.2265)
    assert arnold("simulate", *replayed).json["makespan_seconds"] == pytest.approx(whole, abs=0.1)
    minipods = [
        "--cluster-nodes",
        64,
        "--size",
        8,
        "--grid",
        "8x2x4",
        "--seeds",
        1,
        "--oversubscription",
        2,
        "--algorithm",
        "gpu-packing",
    ]
    asked = arnold("capacity", "minipods", *minipods, "--records", measured, "--json").json
    assert asked["alpha"] == pytest.approx(0.25, abs=1e-3)
    assert any("as measured: our 70B" in line for line in asked["assumptions"])


def test_with_a_model_the_file_is_of_its_kind(arnold: Arnold, steps: Path, tmp_path: Path) -> None:
    """The record has the job's model and degrees, and its name."""
    job, measured = tmp_path / "job.yaml", tmp_path / "measured.json"
    job.write_text(JOB + "model: llm-20b\n")
    assert arnold("calibrate", steps, "--job", job, "--output", measured).code == 0
    (record,) = load_records(read_source(measured))
    assert isinstance(record, Record)
    assert (record.name, record.model.hidden, record.parallelism.pp) == ("ours", 5120, 2)
    assert record.dp_band is not None


def test_op_traces_and_saved_placements(arnold: Arnold, job: Path, cluster: Path, tmp_path: Path) -> None:
    """Two traces of six steps; S and R are read from the placements, or counted anew on a cluster."""
    for name, recipe in (
        ("aligned", Recipe(dp=2, pp=2, steps=6)),
        ("apart", Recipe(dp=2, pp=2, steps=6, last_stage=1.2)),
    ):
        write_file(tmp_path / f"{name}.parquet", trace_file(make_trace(recipe)))
        alpha = 0.0 if name == "aligned" else 1.0
        arnold("place", "--cluster", cluster, "--job", job, "--alpha", alpha, "--output", tmp_path / f"{name}.json")
    spreads = [json.loads((tmp_path / f"{name}.json").read_text())["spread"] for name in ("aligned", "apart")]
    runs = tmp_path / "runs.csv"
    for column in ("", ",cluster.csv"):
        header = "trace,placement" + (",cluster" if column else "")
        lines = [f"{name}.parquet,{name}.json{column}" for name in ("aligned", "apart")]
        runs.write_text("\n".join([header, *lines]) + "\n")
        found = arnold("calibrate", runs, "--json").json
        pairs = sorted((one["dp"], one["pp"]) for one in spreads)
        assert [(one["dp"], one["pp"]) for one in found["placements"]] == pairs
        assert [one["steps"] for one in found["placements"]] == [6, 6]


BAD = {
    "one row": (HEADER + "2.0,1,1\n", "there is one step time only"),
    "no row": (HEADER, "there is no step time"),
    "one placement": (rows((1, 1)), "one S and one R"),
    "NaN": (rows(*TIMES) + "nan,1,1\n", "step_seconds is 'nan'"),
    "infinite": (rows(*TIMES) + "inf,1,1\n", "step_seconds is 'inf'"),
    "negative": (rows(*TIMES) + "-1,1,1\n", "step_seconds is '-1'"),
    "too long": (rows(*TIMES) + "1e7,1,1\n", "step_seconds is '1e7'"),
    "no one job": (HEADER + "1,1,2\n0.001,2,1\n9,4,1\n9,1,4\n", "without spread the step would take no time"),
    "zero": (rows(*TIMES) + "0,1,1\n", "step_seconds is '0'"),
    "a word": (rows(*TIMES) + "fast,1,1\n", "step_seconds is 'fast'"),
    "no spread": (rows(*TIMES) + "2,0,1\n", "dp_spread is '0'"),
    "half a domain": (rows(*TIMES) + "2,1,1.5\n", "pp_spread is '1.5'"),
    "a column is missing": ("step_seconds,S\n2,1\n2,2\n", "there is no column 'pp_spread' or 'placement'"),
    "no times": ("S,R\n1,1\n", "there is no column 'step_seconds' or 'trace'"),
    "nothing in the row": ("step_seconds,trace,S,R\n,,1,1\n", "the row has no step time"),
    "two times in a row": ("step_seconds,trace,S,R\n2,run.csv,1,1\n", "the row says step_seconds and trace"),
    "two spreads in a row": ("step_seconds,placement,S,R\n2,p.json,1,1\n", "the row says placement and dp_spread"),
    "a column twice": ("step_seconds,S,dp_spread,R\n2,1,2,1\n", "two columns say dp_spread: 'S' and 'dp_spread'"),
    "different jobs": ("step_seconds,S,R,job\n2,1,1,a\n2,2,1,b\n", "the job is 'b', and above it is 'a'"),
    "a run in two places": ("step_seconds,S,R,run\n2,1,1,x\n2,2,1,x\n", "run 'x' has S 2, R 1, and above S 1, R 1"),
    "a cell is missing": (HEADER + "2,1\n", "the row has 2 cells, the header 3"),
    "no such placement": ("step_seconds,placement\n2,nowhere.json\n", "nowhere.json"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said_with_its_line(arnold: Arnold, tmp_path: Path, name: str) -> None:
    """Exit 2, what is wrong, where, and what to do."""
    text, problem = BAD[name]
    path = tmp_path / "steps.csv"
    path.write_text(text)
    ran = arnold("calibrate", path)
    assert ran.code == 2
    assert problem in ran.err
    assert "steps.csv" in ran.err or "nowhere.json" in ran.err
    assert "To fix:" in ran.err


def test_different_jobs_are_told_by_their_degrees(arnold: Arnold, cluster: Path, job: Path, tmp_path: Path) -> None:
    """Placements of two jobs, and a job file that is not the one that was placed."""
    other = tmp_path / "other.yaml"
    other.write_text("parallelism: {tp: 8, dp: 3, pp: 2}\n")
    for name, file in (("a", job), ("b", other)):
        arnold("place", "--cluster", cluster, "--job", file, "--output", tmp_path / f"{name}.json")
    runs = tmp_path / "runs.csv"
    runs.write_text("step_seconds,placement\n2,a.json\n2.1,b.json\n")
    ran = arnold("calibrate", runs)
    assert (ran.code, says(ran.err, "b.json", "the placements")) == (2, True)
    runs.write_text("step_seconds,placement,S,R\n2,a.json,,\n2.1,,7,1\n")
    assert arnold("calibrate", runs).code == 0
    ran = arnold("calibrate", runs, "--job", other)
    assert (ran.code, says(ran.err, "not the job")) == (2, True)
    for name, steps in (("c", 6), ("d", 5)):
        write_file(
            tmp_path / f"{name}.parquet", trace_file(make_trace(Recipe(dp=2, pp=2, microbatches=steps, steps=2)))
        )
    runs.write_text("trace,S,R\nc.parquet,1,1\nd.parquet,2,1\n")
    ran = arnold("calibrate", runs)
    assert (ran.code, says(ran.err, "d.parquet", "the traces")) == (2, True)


def test_what_cannot_be_told_is_said_and_not_written(arnold: Arnold, tmp_path: Path, job: Path) -> None:
    """R never varies: j_pp is null, and no file; for a job without pipeline stages there is nothing to tell."""
    path, measured = tmp_path / "steps.csv", tmp_path / "measured.json"
    path.write_text(rows((1, 1), (2, 1)))
    found = arnold("calibrate", path, "--json").json
    assert (found["pp_gain"], found["alpha"], found["misfit"]) == (None, None, None)
    assert says(found["notes"], "PP groups", "cannot be told", "R is 1")
    refused = arnold("calibrate", path, "--job", job, "--output", measured)
    assert (refused.code, measured.exists()) == (2, False)
    assert says(refused.err, "PP groups", "cannot be told")
    job.write_text("parallelism: {tp: 8, dp: 6}\n")
    assert arnold("calibrate", path, "--job", job, "--output", measured).code == 0
    assert [(one.alpha, one.pp_gain) for one in load_records(read_source(measured))] == [(1.0, 0.0)]


def test_nothing_is_told_apart_where_both_change_together(arnold: Arnold, tmp_path: Path) -> None:
    """Aligned both ways, and neither: the answer says what to measure."""
    path = tmp_path / "steps.csv"
    path.write_text(rows((1, 1), (2, 2)))
    found = arnold("calibrate", path, "--json").json
    assert (found["dp_gain"], found["pp_gain"]) == (None, None)
    assert "S and R change together" in found["verdict"]


def test_no_gain_has_no_sign(arnold: Arnold, tmp_path: Path) -> None:
    """Steps as long on both placements: 0.00%, and no loss."""
    path = tmp_path / "steps.csv"
    path.write_text(HEADER + "3,1,1\n3,1,2\n")
    ran = arnold("calibrate", path)
    assert "j_pp = 0.00%" in " ".join(ran.out.split())
    assert "shorter" not in ran.out


def test_losses_and_few_steps_are_said(arnold: Arnold, tmp_path: Path) -> None:
    """Steps that are shorter with spread, and two of each: notes; and with no gain at all no file."""
    path = tmp_path / "steps.csv"
    path.write_text(HEADER + "2.0,2,2\n2.1,1,2\n2.1,2,1\n")
    ran = arnold("calibrate", path, "--json")
    assert sum(says(note, "shorter with more spread") for note in ran.json["notes"]) == 2
    assert any("fewer than 6 step times" in note for note in ran.json["notes"])
    refused = arnold("calibrate", path, "--output", tmp_path / "measured.json")
    assert (refused.code, "no family gains" in refused.err) == (2, True)


@pytest.mark.parametrize("slip", [(1, 1), (2, 1), (1, 2)])
def test_a_slip_of_units_is_asked_about(arnold: Arnold, tmp_path: Path, slip: tuple[int, int]) -> None:
    """One group of runs in milliseconds, whichever: refused with the question, nothing written; --force takes it."""
    steps, saved = tmp_path / "steps.csv", tmp_path / "measured.json"
    times = {(1, 1): 5.0, (2, 1): 5.1, (1, 2): 5.2}
    steps.write_text(
        HEADER
        + "".join(
            f"{seconds * (1000 if pair == slip else 1)},{pair[0]},{pair[1]}\n" * 20 for pair, seconds in times.items()
        )
    )
    ran = arnold("calibrate", steps, "--output", saved)
    assert ran.code == 2
    assert "in the same unit?" in " ".join(ran.err.split())
    assert not saved.exists()
    # without the slip: 2 % and 4 %
    steps.write_text(HEADER + "".join(f"{seconds},{pair[0]},{pair[1]}\n" * 20 for pair, seconds in times.items()))
    assert arnold("calibrate", steps, "--output", saved).code == 0


def test_spread_that_really_costs_so_much(arnold: Arnold, tmp_path: Path) -> None:
    """60 % is beyond what anybody published: asked about, and taken with --force."""
    steps = tmp_path / "steps.csv"
    steps.write_text(HEADER + "".join(f"{seconds},{dp},1\n" * 20 for seconds, dp in ((1.0, 1), (1.6, 2))))
    assert arnold("calibrate", steps).code == 2
    assert "60.00%" in arnold("calibrate", steps, "--force").out
