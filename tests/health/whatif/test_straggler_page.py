"""The page and the Chrome trace of an analysis say what the analysis says, whole and the same each time."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arnold.commands.run import run
from arnold.pages.straggler_page import heat_map, shade, slowest_step, straggler_page
from ground.files import write_file
from health.whatif.analysis_result import Analysis, Operation, PerStep, Share, Timeline, Timelines, TracedWorker
from health.whatif.blame import SlowWorker
from health.whatif.replay import chrome_trace, steps_to_export
from health.whatif.synthetic import make_trace, trace_file
from health.whatif.trace import metadata_file
from tests.facts import says
from tests.health.whatif.recipes import Recipe
from tests.markup import tags
from topology.flags import NodeFlag

DP, PP, STEPS = 3, 2, (7, 9)

OPERATIONS = (
    Operation("forward-compute", 0, 0, 0, "compute"),
    Operation("forward-send", 0, -1, -1, "forward-send"),
    Operation("forward-recv", 1, -1, -1, "forward-recv"),
    Operation("forward-compute", 1, 0, 0, "compute"),
    Operation("backward-compute", 1, 0, 0, "compute"),
    Operation("grads-reduce-scatter", 1, 0, -1, "dp-comm"),
    Operation("optimizer", 1, -1, -1, "compute"),
)
"""One microbatch through two stages, the backward pass of stage 0 left out."""


def analysis(**changes: Any) -> Analysis:
    """Worker dp 1 / stage 0 is slow: three data-parallel ranks, two stages, two steps of which the second is worse."""
    worker = np.full((DP, PP), 1.0)
    worker[1, 0] = 1.5
    step = np.array([1.4, 1.6])
    whole = Analysis(
        dp=DP, pp=PP, tp=4, vpp=1, dp_ranks=(0, 1, 2), steps=STEPS, slowdown=1.5, waste=1 / 3, step_seconds=3.0,
        ideal_step_seconds=2.0, traced_step_seconds=3.0, replay_error=0.0,
        by_optype={"backward-compute": 1.01, "forward-compute": 1.25, "optimizer": 0.999},
        worker_slowdown=worker, worker_slowdown_exact=True, dp_slowdown=worker.max(axis=1),
        stage_slowdown=worker.max(axis=0), m_w=0.97, m_s=-0.001,
        slowest=Share((TracedWorker(1, 0),), 2.03, 2.97, 0.97, 0.97, published=True),
        links=None, last_stage=Share((TracedWorker(0, 1),), 3.0, 2.0, -0.001, 0.0, published=True),
        step_slowdown=step, per_step=PerStep(2 * step, 2 * step, {}, np.ones((DP, 2)), np.ones((PP, 2))),
        cause="worker", why="M_W is 0.970",
    )  # fmt: skip
    return replace(whole, **changes)


def timeline(factor: float = 1.0) -> Timeline:
    """Operations of a second each, one after the other, later ranks a tenth slower each."""
    count = len(OPERATIONS)
    start = np.arange(count, dtype=float)[:, None, None] * np.ones((count, DP, len(STEPS)))
    slow = factor * (1 + 0.1 * np.arange(DP))[None, :, None]
    return Timeline(OPERATIONS, STEPS, start * slow, (start + 1) * slow)


def timelines() -> Timelines:
    """As traced, the same as replayed, and half as long without stragglers."""
    return Timelines(timeline(), timeline(), timeline(0.5))


def page(verdict: tuple[str, ...] = ("This job runs 1.50x slower", "dp 1 / stage 0."), **settings: Any) -> str:
    """A whole page."""
    made = settings.pop("analysis", analysis())
    return straggler_page(made, timelines(), title="job 7", verdict=verdict, **settings)


def test_a_step_is_longer_than_its_operations() -> None:
    """A profile knows of 3 s: no other length is called a step's."""
    told = page(whole=3.0)
    assert "the operations of a step of 3 s" in told
    assert "The operations of step" in told
    assert ">a step<" not in told
    assert ">a step<" in page()


def tips(html: str, kind: str) -> list[str]:
    """Tooltips of all marks of a class."""
    return [str(attrs["data-tip"]) for _, attrs in tags(html) if attrs.get("class") == kind]


def words(html: str) -> str:
    """Text without tags."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)))


def test_the_verdict_comes_first() -> None:
    """The headline is the first sentence, the rest follow it, before any number."""
    html = page()
    heading = re.search(r"<h1>(.*?)</h1>", html)
    assert heading is not None
    assert heading[1] == "This job runs 1.50x slower"
    assert html.index("dp 1 / stage 0.") < html.index('class="facts"')


def test_the_page_is_whole_and_needs_no_network() -> None:
    """Well-formed, nothing is fetched from anywhere, and the policy forbids it."""
    html = page()
    assert tags(html)
    assert "default-src 'none'" in unescape(html)
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", html)


def test_same_input_same_text() -> None:
    """Nothing of the page depends on when it is made."""
    assert page() == page()


def test_every_worker_has_a_cell_with_its_slowdown() -> None:
    """Three ranks by two stages; the slow one says 1.50x and has the last colour of the scale."""
    html = page()
    assert len(tips(html, "w")) == DP * PP
    assert "dp 1, stage 0\nS_w 1.50x" in tips(html, "w")
    hot = next(attrs for _, attrs in tags(html) if str(attrs.get("data-tip", "")).startswith("dp 1, stage 0"))
    assert hot["style"] == f"fill:{shade(1.0)}"


def test_ranks_keep_their_numbers() -> None:
    """Where ranks were left out of the analysis, the map names those that are there."""
    assert "dp 5, stage 0\nS_w 1.50x" in tips(page(analysis=analysis(dp_ranks=(0, 5, 6))), "w")


def test_the_slowest_step_stands_beside_its_ideal() -> None:
    """Step 9 is the worse: the slow rank, a usual one, and the ideal, which ends after half the time."""
    html = page()
    assert says(html, "step 9", "dp 1, the slowest")
    assert says(html, "step 9", "dp 2, a usual one")
    assert "without stragglers" in html
    assert slowest_step(analysis()) == 1
    assert "grads-reduce-scatter\nstage 1, 1.1 s" in tips(html, "coll")
    assert "forward-compute, microbatch 0\nstage 1, 500 ms" not in tips(html, "fw")
    assert "forward-compute, microbatch 0\nstage 1, 550 ms" in tips(html, "fw")


def test_one_pipeline_is_enough_where_ranks_do_not_differ() -> None:
    """With all ranks alike there is no usual one beside the slowest."""
    html = page(analysis=analysis(dp_slowdown=np.ones(DP)))
    assert "a usual one" not in html
    assert "the slowest</text>" not in html


def test_types_stand_by_what_they_cost() -> None:
    """Forward costs 1 - 1/1.25 = 20 %, the longest bar; below zero a bar has no length and zero has no minus."""
    html = page()
    table = html[html.index('class="optypes"') :]
    assert table.index("forward-compute") < table.index("backward-compute") < table.index("optimizer")
    assert "20.0%" in table
    assert 'class="fill worst" style="width:100.0%"' in table
    assert 'style="width:0.0%"' in table
    assert "-0.0" not in words(html[html.index("<body>") :])


def test_every_step_has_a_column() -> None:
    """Two steps, by their numbers in the trace."""
    assert tips(page(), "col") == ["step 7\n1.40x", "step 9\n1.60x"]


def test_the_onset_is_marked_in_the_chart_of_steps() -> None:
    """An upright line before step 9, and whose; no line where nobody broke inside the trace."""
    worker = SlowWorker(dp=1, stage=0, factor=2.5, steps=0.5, slowdown=1.5, node=None, since_step=9)
    html = page(workers=[worker])
    chart = html[html.index('class="chart steps"') :]
    assert 'class="onset"' in chart
    assert "dp 1 / stage 0" in chart[: chart.index("</svg>")]
    assert "slow from this step on" in words(html)
    assert 'class="onset"' not in page(workers=[replace(worker, since_step=None)])


def test_slow_workers_and_flags_are_listed() -> None:
    """A worker shows with its own factor and node; without a node nobody is flagged, and the page says why."""
    worker = SlowWorker(dp=1, stage=0, factor=2.5, steps=1.0, slowdown=1.5, node=None, since_step=None)
    unknown = words(page(workers=[worker]))
    assert says(unknown, "dp 1, stage 0 2.50x", "100% 1.50x not known")
    assert says(unknown, "No node is flagged", "not known")
    flag = NodeFlag("n0042", "straggler", slowdown=2.5, evidence="dp 1, stage 0 <slow>")
    html = page(workers=[worker], nodes={(1, 0): "n0042"}, flags=[flag])
    assert says(words(html), "n0042", "straggler", "dp 1, stage 0 <slow>")
    assert "No node is flagged" not in html
    assert "dp 1, stage 0\nS_w 1.50x\non n0042" in tips(html, "w")


def test_without_slow_workers_nobody_is_flagged() -> None:
    """A job slowed by its last stage flags nobody."""
    assert "No node is flagged." in words(page(analysis=analysis(cause="last-stage")))


def test_names_are_never_taken_for_markup() -> None:
    """A title, a verdict and a note with tags in them are text."""
    html = page(verdict=("<b>slow</b>",), notes=["<script>alert(1)</script>"])
    assert "&lt;b&gt;slow" in html
    assert "<script>alert" not in html


def test_a_wide_job_is_cut_into_strips() -> None:
    """300 ranks do not fit at the least width: several strips, every worker still there, numbers left out."""
    drawing = heat_map(np.ones((300, 8)), range(300), {})
    assert drawing.count('class="w"') == 2400
    assert 'class="value"' not in drawing
    lines = {float(y) for y in re.findall(r'class="w" x="[\d.]+" y="([\d.]+)"', drawing)}
    assert len(lines) > 8


def events(data: bytes) -> list[dict[str, Any]]:
    """The events of a Chrome trace."""
    found: list[dict[str, Any]] = json.loads(data)["traceEvents"]
    return found


def test_a_worker_is_a_process_and_a_stream_a_thread() -> None:
    """Three versions of six workers; every operation of every rank and step is there in each."""
    made = events(chrome_trace(timelines(), (0, 1, 2)))
    names = [event["args"]["name"] for event in made if event["name"] == "process_name"]
    assert len(names) == 3 * DP * PP
    assert names[:3] == ["dp 0 stage 0, traced", "dp 0 stage 0, simulated", "dp 0 stage 0, ideal"]
    complete = [event for event in made if event["ph"] == "X"]
    assert len(complete) == 3 * len(OPERATIONS) * DP * len(STEPS)
    threads = {event["args"]["name"] for event in made if event["name"] == "thread_name"}
    assert {"compute", "dp-comm", "forward-send"} <= threads


def test_times_are_microseconds_and_steps_start_together() -> None:
    """The second step starts at one moment in all versions: after the longest of the first, which is the traced one."""
    made = [event for event in events(chrome_trace(timelines(), (0, 1, 2))) if event["ph"] == "X"]
    first = [event for event in made if event["name"] == "forward-compute 0" and event["args"]["step"] == 7]
    assert min(event["ts"] for event in first) == 0.0
    assert {event["dur"] for event in first if event["cat"] == "ideal"} == {500_000.0, 550_000.0, 600_000.0}
    starts = {event["cat"]: event["ts"] for event in reversed(made) if event["args"]["step"] == 9}
    assert set(starts) == {"traced", "simulated", "ideal"}
    begin = {
        version: min(event["ts"] for event in made if event["cat"] == version and event["args"]["step"] == 9)
        for version in starts
    }
    # Seven operations of 1.2 s on the slowest rank are 8.4 s; 2 % more keeps the steps apart.
    assert {round(value) for value in begin.values()} == {8_568_000}


def test_operations_of_a_thread_do_not_overlap() -> None:
    """Rounded times that overlap by a hair are cut, or Perfetto would drop the second."""
    traced = timeline()
    traced.end[3] += 1e-5  # the first compute operation of stage 1 now ends after the second has begun
    made = events(chrome_trace(Timelines(traced, timeline(), timeline()), (0, 1, 2)))
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in made:
        if event["ph"] == "X":
            lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for lane in lanes.values():
        lane.sort()
        assert all(before[1] <= after[0] + 1e-2 for before, after in pairwise(lane))


def test_the_packed_file_is_the_same() -> None:
    """Gzip without a time stamp: same input, same bytes."""
    packed = chrome_trace(timelines(), (0, 1, 2), packed=True)
    assert gzip.decompress(packed) == chrome_trace(timelines(), (0, 1, 2))
    assert packed == chrome_trace(timelines(), (0, 1, 2), packed=True)


def test_of_a_large_trace_the_slowest_steps_are_kept() -> None:
    """Room for one step of 3 versions x 7 operations x 3 ranks: step 9, the slower, remains; never less than one."""
    assert steps_to_export(analysis(), len(OPERATIONS), most_events=63) == [1]
    assert steps_to_export(analysis(), len(OPERATIONS), most_events=2) == [1]
    assert steps_to_export(analysis(), len(OPERATIONS)) == [0, 1]


def test_the_command_writes_page_and_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run writes both; page and JSON give one verdict, and the packed file opens."""
    trace = make_trace(Recipe(dp=3, pp=2, microbatches=4, steps=3, slow={(1, 0): 1.5}))
    write_file(tmp_path / "trace.parquet", trace_file(trace))
    write_file(tmp_path / "meta.yaml", metadata_file(trace.sizes))
    paths = {name: tmp_path / name for name in ("trace.parquet", "meta.yaml", "page.html", "steps.json.gz")}
    inputs = [str(paths["trace.parquet"]), "--meta", str(paths["meta.yaml"])]
    outputs = ["--html", str(paths["page.html"]), "--chrome-trace", str(paths["steps.json.gz"])]
    code = run(["stragglers", *inputs, *outputs, "--json"])
    document = json.loads(capsys.readouterr().out)
    html = paths["page.html"].read_text()
    assert code == 0
    assert document["verdict"][1:] in words(html)
    assert "trace.parquet" in html
    assert str(tmp_path) not in html
    complete = [event for event in events(gzip.decompress(paths["steps.json.gz"].read_bytes())) if event["ph"] == "X"]
    assert len(complete) == 3 * len(trace.operations) * 3 * 3


@pytest.mark.parametrize("option", ["--html", "--chrome-trace"])
def test_a_place_that_cannot_be_written_to_is_an_error(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, with the folder named."""
    write_file(tmp_path / "trace.parquet", trace_file(make_trace(Recipe(dp=2, pp=1, microbatches=1, steps=1))))
    code = run(["stragglers", str(tmp_path / "trace.parquet"), option, str(tmp_path / "nowhere" / "file"), "--json"])
    assert code == 2
    assert "nowhere" in json.loads(capsys.readouterr().out)["error"]["where"]
