"""A study: the same rows wherever they are made, none made twice, none lost; and what they say together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from arnold.commands.run import run
from arnold.pages.study_page import study_page
from ground.errors import InvalidInput, UnknownName
from scheduler.study.executors import Here, Processes
from simulator.confidence import Band
from simulator.replay_settings import ReplaySettings
from simulator.study import (
    METRICS,
    Bands,
    Inputs,
    Journal,
    OnDask,
    StudyGrid,
    StudyPoint,
    check_names,
    compare,
    read_comparison,
    read_rows,
    run_point,
    study_fingerprint,
    sweep,
    write_rows,
)
from simulator.traces import JobTrace, resampled
from tests.simulator.clusters import racks
from tests.simulator.replays import random_records
from topology.flags import NodeFlag

HOUR = 3600.0
TRACE = JobTrace(tuple(random_records(1, 60)), source="jobs.csv")
FLAGS = (
    NodeFlag("n1", "straggler", 1.7, since=datetime.fromtimestamp(50, UTC), until=datetime.fromtimestamp(400, UTC)),
    NodeFlag("n2", "faulty", since=datetime.fromtimestamp(100, UTC), until=datetime.fromtimestamp(300, UTC)),
)
INPUTS = Inputs(TRACE, {"eight": racks(8)}, ReplaySettings(cost="none"), resample=300.0)
FLAGGED = Inputs(TRACE, {"eight": racks(8)}, ReplaySettings(cost="none", flags=FLAGS, epoch=0.0), resample=300.0)
GRID = StudyGrid(["fifo", "fifo-backfill"], ["gpu-packing"], ["eight"], seeds=range(3))


def swept(out: Path | None, executor: Any = None, *, grid: StudyGrid = GRID, inputs: Inputs = INPUTS) -> Any:
    """A study to its end."""
    place = None if out is None else str(out)
    return sweep(inputs, grid.points, executor or Here(), title="jobs.csv", version="1", out=place)


class Backwards:
    """Runs the last item first and counts; breaks down after so many."""

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self.ran: list[StudyPoint] = []

    def run(self, work: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]) -> Iterator[Any]:
        """Results from the last to the first."""
        for item in reversed(items):
            if len(self.ran) == self.most:
                raise KeyboardInterrupt
            self.ran.append(item)
            yield work(shared, item)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The rows of the study."""
    return list(swept(None).rows)


def test_processes_and_order_change_no_byte(tmp_path: Path) -> None:
    """One after the other, backwards, and in two processes: the same file, byte for byte, flags included."""
    swept(tmp_path / "here.parquet", inputs=FLAGGED)
    swept(tmp_path / "back.parquet", Backwards(), inputs=FLAGGED)
    swept(tmp_path / "two.parquet", Processes(2), inputs=FLAGGED)
    once = (tmp_path / "here.parquet").read_bytes()
    assert (tmp_path / "back.parquet").read_bytes() == once
    assert (tmp_path / "two.parquet").read_bytes() == once
    assert len(read_rows(str(tmp_path / "here.parquet"))[0]) == 6


@pytest.mark.filterwarnings("default")
def test_dask_changes_no_byte_either(tmp_path: Path) -> None:
    """On a Dask cluster of this machine the file is the same."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra dask)")
    swept(tmp_path / "here.parquet", inputs=FLAGGED)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as local:
        swept(tmp_path / "dask.parquet", OnDask(local.scheduler_address), inputs=FLAGGED)
    assert (tmp_path / "dask.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


def test_without_the_library_dask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra."""
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(InvalidInput, match="not installed") as error:
        OnDask("tcp://localhost:1")
    assert "[dask]" in str(error.value.fix)


def test_a_broken_study_goes_on_where_it_was(tmp_path: Path) -> None:
    """Broken off after 4 of 6 runs, it makes the other 2, and the file is as if nothing had happened."""
    out = tmp_path / "study.parquet"
    with pytest.raises(KeyboardInterrupt):
        swept(out, Backwards(4))
    assert not out.exists()
    again = Backwards()
    assert swept(out, again).made == 2
    assert again.ran == list(reversed(GRID.points[:2]))
    swept(tmp_path / "whole.parquet")
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["study.parquet", "whole.parquet"]


def test_a_line_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """The journal of a study that died while it wrote: the half line is forgotten, and what follows it can be read."""
    out = tmp_path / "study.parquet"
    with pytest.raises(KeyboardInterrupt):
        swept(out, Backwards(2))
    journal = tmp_path / "study.parquet.unfinished"
    journal.write_bytes(journal.read_bytes()[:-40])
    with pytest.raises(KeyboardInterrupt):
        swept(out, Backwards(1))
    last = Backwards()
    assert swept(out, last).made == 4


def test_more_seeds_are_added_to_what_is_there(tmp_path: Path) -> None:
    """Rows stay when a study grows, and when another part of it is asked for."""
    out = tmp_path / "study.parquet"
    swept(out)
    assert swept(out, grid=StudyGrid(["fifo"], ["gpu-packing"], ["eight"], seeds=range(5))).made == 2
    assert len(read_rows(str(out))[0]) == 8


def test_the_default_said_is_the_same_study() -> None:
    """`--cost-model anchored` is what nothing said is, so that rows of one go on in the other; `none` is another."""
    unsaid, said, none = (
        study_fingerprint(replace(INPUTS, settings=ReplaySettings(cost=cost)), version="1")
        for cost in (None, "anchored", "none")
    )
    assert unsaid == said != none


def test_rows_of_other_inputs_are_refused(tmp_path: Path) -> None:
    """Another trace under the same file name would mix two studies."""
    out = tmp_path / "study.parquet"
    swept(out)
    other = Inputs(JobTrace(tuple(random_records(2, 60))), INPUTS.clusters, resample=300.0)
    with pytest.raises(InvalidInput, match="another trace"):
        swept(out, inputs=other)


def test_rows_of_a_journal_of_other_inputs_are_not_taken(tmp_path: Path) -> None:
    """They are left where they are and do not count."""
    journal = Journal(str(tmp_path / "s.parquet"), "one")
    journal.add(run_point(INPUTS, GRID.points[0]))
    assert Journal(str(tmp_path / "s.parquet"), "other").read() == {}
    assert list(Journal(str(tmp_path / "s.parquet"), "one").read()) == [GRID.points[0]]


@pytest.mark.parametrize("content", [b"", b"PAR1 but not really", b"a,b\n1,2\n"])
def test_a_file_that_is_no_study_is_refused(tmp_path: Path, content: bytes) -> None:
    """With its name."""
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InvalidInput) as error:
        read_rows(str(tmp_path / "x.parquet"))
    assert "x.parquet" in str(error.value.where)


def test_unknown_names_are_refused_before_anything_runs() -> None:
    """A policy that does not exist is not found out in the tenth run."""
    with pytest.raises(UnknownName):
        check_names(StudyGrid(["fifo", "fifi"], ["gpu-packing"], ["eight"]))


def test_a_seed_draws_pieces_of_the_trace() -> None:
    """Whole pieces, each job with its own id, in order; the same seed the same, seed 0 the trace itself."""
    drawn = resampled(TRACE, 300.0, 4)
    assert drawn == resampled(TRACE, 300.0, 4)
    assert drawn != resampled(TRACE, 300.0, 5)
    assert resampled(TRACE, 300.0, 0) is TRACE
    submits = [record.submit for record in drawn.records]
    assert submits == sorted(submits)
    ids = [record.job_id for record in drawn.records]
    assert len(set(ids)) == len(ids)
    origin = TRACE.records[0].submit
    offsets = {round((record.submit - origin) % 300.0, 4): record.duration for record in TRACE.records[:40]}
    kept = [record for record in drawn.records if round((record.submit - origin) % 300.0, 4) in offsets]
    assert kept
    assert all(offsets[round((record.submit - origin) % 300.0, 4)] == record.duration for record in kept)


def test_a_trace_of_one_piece_cannot_be_drawn_from() -> None:
    """Its order would always be the same."""
    with pytest.raises(InvalidInput, match="pieces"):
        resampled(TRACE, 1e6, 1)


def test_a_run_that_diverges_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why, has no numbers of a run that ended, and the means leave it out."""
    from simulator.engine import Diverged

    def diverge(*_: Any) -> None:
        raise Diverged("far too much")

    good = run_point(INPUTS, GRID.points[0])
    monkeypatch.setattr("simulator.engine.Engine.run", diverge)
    bad = run_point(INPUTS, GRID.points[1])
    assert bad["outcome"] == "far too much"
    assert bad["wait_mean"] is None
    group = compare([good, bad], title="t").groups[0]
    assert (group.runs, group.diverged) == (1, 1)
    assert group.metrics["wait_mean"] == Band(good["wait_mean"], None)
    assert study_page(compare([bad], title="t"))


def test_means_and_intervals_are_students() -> None:
    """Of 1, 2, 3: mean 2, standard deviation 1, t(2) = 4.303, so 4.303 / sqrt(3); over time bucket by bucket."""
    band = Band.of([1.0, 2.0, 3.0])
    assert band is not None
    assert (band.mean, band.half) == pytest.approx((2.0, 4.303 / 3**0.5), abs=1e-3)
    alone = Band.of([2.0])
    assert (alone.half, alone.ends, f"{alone:.1f}") == (None, (2.0, 2.0), "2.0")  # of one run nothing is known
    import numpy as np

    bands = Bands.of([np.array([1.0, np.nan]), np.array([3.0, np.nan])])
    assert bands.mean[0] == 2.0
    assert np.isnan(bands.mean[1])


def test_groups_are_compared_seed_by_seed(rows: list[dict[str, Any]]) -> None:
    """The difference of the second policy is the mean of the differences of its runs."""
    first, second = compare(rows, title="t").groups
    assert (first.name, second.name) == ("fifo", "fifo-backfill")
    assert first.against == {}
    differences = [rows[3 + i]["wait_mean"] - rows[i]["wait_mean"] for i in range(3)]
    assert second.against["wait_mean"] == Band.of(differences)


def test_the_page_has_a_figure_for_what_differs(rows: list[dict[str, Any]]) -> None:
    """Means with stems and queues with bands; what is the same in all runs is said in words."""
    html = study_page(compare(rows, title="jobs.csv"))
    assert html.count('class="chart range"') == len(compare(rows, title="t").differing)
    assert 'data-chart="c-waiting"' in html
    assert 'class="band l1"' in html
    assert "The same in all runs: " in html
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", html)


def test_several_loads_make_curves(rows: list[dict[str, Any]]) -> None:
    """With two scales of load a metric is a curve for each group, with its band."""
    more = [run_point(INPUTS, StudyPoint("fifo", "gpu-packing", "eight", 1.5, seed)) for seed in range(2)]
    compared = compare([*rows, *more], title="t")
    assert compared.loads == [1.0, 1.5]
    html = study_page(compared)
    assert "By scale of load." in html
    assert more[0]["wait_mean"] > rows[0]["wait_mean"]


def test_the_command_makes_file_page_and_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has both groups; the second time nothing is run; the file can stand beside a run on its page."""
    (tmp_path / "c.csv").write_text("node,pod,gpus\n" + "".join(f"n{i},p{i // 2},8\n" for i in range(4)))
    lines = [f"{r.job_id},{r.submit},{r.duration},{r.gpus}" for r in TRACE.records]
    (tmp_path / "t.csv").write_text("job_id,submit_time,duration,gpus\n" + "\n".join(lines) + "\n")
    named = ["--cluster", str(tmp_path / "c.csv"), "--trace", str(tmp_path / "t.csv")]
    out, page = tmp_path / "s.parquet", tmp_path / "s.html"
    study = ["simulate", *named, "--policy", "fifo,fifo-backfill", "--algorithm", "none", "--runs-out", str(out)]
    study += ["--html", str(page), "--json"]
    assert run([*study, "--seeds", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["runs"], document["made"]) == (4, 4)
    assert [group["policy"] for group in document["groups"]] == ["fifo", "fifo-backfill"]
    assert set(document["groups"][0]["metrics"]) <= {metric.column for metric in METRICS}
    assert run([*study, "--seeds", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["made"] == 0
    beside = ["--html", str(tmp_path / "p.html"), "--study", str(out), "--json"]
    assert run(["simulate", *named, "--algorithm", "none", *beside]) == 0
    assert 'data-chart="c-waiting"' in (tmp_path / "p.html").read_text()
    assert len(read_comparison(str(out)).groups) == 2


def test_rows_are_written_whole_or_not_at_all(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    """A folder that is not there is an error, with its name."""
    with pytest.raises(InvalidInput) as error:
        write_rows(str(tmp_path / "nowhere" / "s.parquet"), rows, inputs="", title="")
    assert "nowhere" in str(error.value.where)


@pytest.mark.parametrize("column", ["wait_mean", "waiting"])
def test_numbers_that_no_run_makes_are_refused(tmp_path: Path, rows: list[dict[str, Any]], column: str) -> None:
    """1e308 in a file: its mean would overflow; the column is named instead, and nothing else is said."""
    path, rows = tmp_path / "study.parquet", [dict(row) for row in rows]
    rows[0][column] = [1e308] if isinstance(rows[0][column], list) else 1e308
    write_rows(str(path), rows, inputs="i", title="t")
    with pytest.raises(InvalidInput, match=f"column '{column}' holds 1e\\+308"):
        read_rows(str(path))
