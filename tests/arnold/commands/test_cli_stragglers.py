"""`arnold stragglers`: words, JSON, flags that `arnold place` obeys."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.documents.straggler_answers import StragglersDocument
from ground.files import write_file
from ground.records import json_data, read_json
from health.whatif.synthetic import make_trace, trace_file
from health.whatif.trace import metadata_file
from tests.facts import says
from tests.health.whatif.recipes import Recipe

Arnold = Callable[..., Any]

SLOW = Recipe(dp=2, pp=2, tp=8, microbatches=6, steps=6, slow={(1, 0): 1.6}, seed=4)
"""Worker dp 1 / stage 0 computes 1.6 times as long."""


@pytest.fixture
def files(tmp_path: Path) -> Callable[[Recipe], list[str]]:
    """Write a trace and its metadata; returns the arguments that name them."""

    def write(recipe: Recipe) -> list[str]:
        made = make_trace(recipe)
        write_file(tmp_path / "trace.parquet", trace_file(made))
        write_file(tmp_path / "meta.yaml", metadata_file(made.sizes))
        return [str(tmp_path / "trace.parquet"), "--meta", str(tmp_path / "meta.yaml")]

    return write


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Nodes n0 to n3 of the small cluster."""
    path = tmp_path / "nodes.csv"
    path.write_text("dp,stage,node\n0,0,n0\n0,1,n1\n1,0,n2\n1,1,n5\n")
    return path


def test_verdict_comes_first(arnold: Arnold, files: Any, nodes: Path) -> None:
    """Text begins with the verdict, then the job; the flag has the node's own factor."""
    ran = arnold("stragglers", *files(SLOW), "--node-map", nodes)
    assert ran.code == 0
    lines = [line for line in ran.out.splitlines() if line]
    assert lines[0].startswith("this job runs 1.")
    assert "one worker, dp 1 / stage 0, explains" in lines[0]
    assert "dp 2 x pp 2 x tp 8; 6 steps" in lines[1]
    assert "n2" in ran.out
    assert "1.60" in ran.out


def test_json_contract(arnold: Arnold, files: Any, nodes: Path) -> None:
    """The keys of the contract, in the shapes that it promises, and a document that its own model reads back."""
    document = arnold("stragglers", *files(SLOW), "--node-map", nodes, "--json").json
    assert document["waste"] == pytest.approx(1 - 1 / document["slowdown"])
    assert document["slowdown"] == pytest.approx(document["step_seconds"] / document["ideal_step_seconds"])
    assert (len(document["worker_slowdown"]), len(document["worker_slowdown"][0])) == (2, 2)
    assert {"forward-compute", "backward-compute", "forward-pp-comm", "backward-pp-comm"} <= document[
        "by_optype"
    ].keys()
    assert document["cause"] == "worker"
    assert document["m_w"] > 0.5
    assert [flag["node"] for flag in document["flags"]] == ["n2"]
    assert document["flags"][0]["slowdown"] == pytest.approx(1.6, rel=0.02)
    assert json_data(StragglersDocument, read_json(StragglersDocument, document)) == document


@pytest.mark.parametrize("form", ["list", "document"])
def test_place_obeys_the_flags(
    arnold: Arnold, files: Any, tmp_path: Path, cluster_file: Path, job_file: Path, *, form: str
) -> None:
    """The node that a trace accuses is used without flags and avoided with them: as a list, and as the whole JSON."""
    place = ["place", "--cluster", cluster_file, "--job", job_file, "--json"]
    accused = arnold(*place).json["assignment"][0]["node"]
    nodes, flags = tmp_path / "nodes.csv", tmp_path / "flags.json"
    nodes.write_text(f"dp,stage,node\n1,0,{accused}\n")
    ran = arnold("stragglers", *files(SLOW), "--node-map", nodes, "--flags-out", flags, "--json")
    if form == "document":
        flags.write_text(ran.out)
    again = arnold(*place, "--flags", flags).json
    assert accused not in {cell["node"] for cell in again["assignment"]}
    assert accused in again["avoided"]


def test_a_placement_says_where_workers_ran(
    arnold: Arnold, files: Any, tmp_path: Path, cluster_file: Path, job_file: Path
) -> None:
    """`--nodes` takes what `arnold place` printed for the job: the flagged node is that of cell (1, 0)."""
    saved = tmp_path / "placement.json"
    arnold("place", "--cluster", cluster_file, "--job", job_file, "--output", saved)
    cells = {(cell["dp"], cell["pp"]): cell["node"] for cell in json.loads(saved.read_text())["assignment"]}
    document = arnold("stragglers", *files(SLOW), "--node-map", saved, "--json").json
    assert [flag["node"] for flag in document["flags"]] == [cells[1, 0]]


def test_the_end_of_the_trace_dates_the_onset(arnold: Arnold, files: Any, nodes: Path) -> None:
    """`--ended` puts the onset on the clock; a time without a zone is an error that says how to write one."""
    recipe = Recipe(dp=2, pp=2, tp=8, slow={(1, 0): 1.6}, slow_from=5)
    arguments = ["stragglers", *files(recipe), "--node-map", nodes, "--json", "--ended"]
    (flag,) = arnold(*arguments, "2026-11-17T14:00:00Z").json["flags"]
    # five slow steps of about 5 s
    assert "2026-11-17T13:59:00Z" < flag["since"] < "2026-11-17T13:59:55Z"
    assert "since step 5" in flag["evidence"]
    assert arnold(*arguments, "14:00").json["error"]["where"] == "--ended"


def test_a_slow_link_is_printed_with_both_nodes(arnold: Arnold, files: Any, nodes: Path) -> None:
    """Text and JSON name the two nodes of a slow link, and nobody is flagged."""
    arguments = ["stragglers", *files(Recipe(dp=2, pp=2, tp=8, slow_links={(1, 0): 80.0})), "--node-map", nodes]
    document = arnold(*arguments, "--json").json
    assert document["cause"] == "link"
    assert document["flags"] == []
    (link,) = document["links"]["links"]
    assert (link["dp"], link["stages"], link["nodes"]) == (1, [0, 1], ["n2", "n5"])
    assert "n2 - n5" in arnold(*arguments).out


def test_an_innocent_job_writes_no_flags(arnold: Arnold, files: Any, nodes: Path, tmp_path: Path) -> None:
    """A job slowed by its last stage writes an empty list, and says what would help instead."""
    flags = tmp_path / "flags.json"
    recipe = Recipe(dp=2, pp=2, tp=8, last_stage=1.7)
    ran = arnold("stragglers", *files(recipe), "--node-map", nodes, "--flags-out", flags)
    assert json.loads(flags.read_text()) == {"flags": []}
    assert "give it fewer layers" in ran.out
    assert "none is flagged" in ran.out


def test_without_metadata_the_rows_say_the_sizes(arnold: Arnold, files: Any) -> None:
    """Without --meta the sizes, TP among them, are read off the rows, and a note says what that cannot show."""
    document = arnold("stragglers", files(SLOW)[0], "--json").json
    assert document["job"] == {"dp": 2, "pp": 2, "tp": 8, "vpp": 1, "dp_ranks": [0, 1]}
    assert any("--meta" in note for note in document["notes"])


def test_lenient_says_what_it_left_out(arnold: Arnold, files: Any, tmp_path: Path) -> None:
    """A wrong row is an error; with --lenient its step is left out and counted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arguments = files(SLOW)
    table = pq.read_table(arguments[0])
    durations = table["duration"].to_pylist()
    durations[7] = -1.0
    place = table.schema.get_field_index("duration")
    pq.write_table(table.set_column(place, "duration", pa.array(durations)), arguments[0])
    ran = arnold("stragglers", *arguments, "--json")
    assert ran.code == 2
    assert ran.json["error"]["kind"] == "TraceFormatError"
    assert ran.json["error"]["where"].endswith("trace.parquet:row 7")
    assert ran.json["error"]["fix"]
    document = arnold("stragglers", *arguments, "--lenient", "--json").json
    assert document["dropped"]["negative duration"] == 1
    assert len(document["steps"]) == 5
    assert any("Left out" in note for note in document["notes"])


def test_usage(arnold: Arnold, files: Any) -> None:
    """Flags need nodes, and standard input is read once."""
    arguments = files(SLOW)
    ran = arnold("stragglers", *arguments, "--flags-out", "flags.json", "--json")
    assert (ran.code, ran.json["error"]["where"]) == (2, "--flags-out")
    ran = arnold("stragglers", "-", "--meta", "-", "--json")
    assert (ran.code, ran.json["error"]["kind"]) == (2, "InvalidInput")


def test_schema(arnold: Arnold) -> None:
    """`arnold schema stragglers` describes every key."""
    schema = json.loads(arnold("schema", "stragglers").out)
    assert all("description" in field or "$ref" in field or "anyOf" in field for field in schema["properties"].values())
    assert {"slowdown", "waste", "m_w", "m_s", "cause", "flags"} <= set(schema["required"])


def test_published_trace(arnold: Arnold, tmp_path: Path) -> None:
    """AR from the command line: the verdict, and the flag of the node that ran worker 0 / 0."""
    folder = os.environ.get("ARNOLD_DATA")
    if not folder:
        pytest.skip("ARNOLD_DATA is not set: the published traces are not part of the project")
    data = Path(folder) / "straggler"
    nodes = tmp_path / "nodes.csv"
    rows = [f"{rank},{stage},n{rank}{stage}" for rank in range(4) for stage in range(4)]
    nodes.write_text("\n".join(["dp,stage,node", *rows]))
    arguments = [data / "trace-AR.parquet", "--meta", data / "meta-AR.yaml", "--node-map", nodes, "--json"]
    document = arnold("stragglers", *arguments).json
    assert says(document["verdict"], "1.97x slower", "one worker", "dp 0 / stage 0")
    assert [flag["node"] for flag in document["flags"]] == ["n00"]
