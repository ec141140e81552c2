"""`arnold health collectives`."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arnold.console.output import save_flags
from arnold.documents.collectives_answer import CollectivesDocument
from benchmarks.simulated_collectives import BenchJob, Fault, simulate
from ground.errors import InvalidInput
from ground.records import read_json
from tests.facts import says
from tests.health.collectives.progress_lines import write_progress
from topology.flag_sources import read_flags
from topology.flags import FAULTY, NodeFlag

Arnold = Callable[..., Any]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of which rank 2, on node n0002, never launches again after 41 s."""
    job = BenchJob(dp=4, tp=1, pp=1, gpus_per_node=1)
    recording = simulate(job, 61.0, seed=1, fault=Fault("not-launched", 2, 41.0))
    path = tmp_path_factory.mktemp("traces") / "progress.jsonl"
    path.write_text("".join(line + "\n" for line in write_progress(recording)))
    return path


def test_text_begins_with_a_verdict(arnold: Arnold, trace: Path) -> None:
    """Words first, then groups and flags: of a rank that never came a small price, as its program may have failed."""
    ran = arnold("health", "collectives", trace)
    assert ran.code == 0
    words = " ".join(ran.out.split())
    assert says(words, "stands still", "first in dp-")
    assert "to blame is rank 2 on n0002" in words
    assert "began here" in ran.out
    assert "n0002 degraded 1.05" in words


def test_json_is_the_documented_one(arnold: Arnold, trace: Path) -> None:
    """One document, valid by its own schema, with the culprit and its flag."""
    ran = arnold("health", "collectives", trace, "--json")
    document = read_json(CollectivesDocument, json.loads(ran.out))
    assert (document.status, document.cause, document.format) == ("failure", "not-launched", "progress")
    assert [(c.rank, c.node, c.certainty) for c in document.culprits] == [(2, "n0002", "certain")]
    assert document.groups[0].absent == ("rank 2",)
    schema = arnold("schema", "health", "collectives").json
    assert set(schema["properties"]) == set(ran.json)


def test_flags_go_into_place(arnold: Arnold, trace: Path, tmp_path: Path) -> None:
    """The file of flags is what `arnold place --flags` reads: the node is avoided."""
    flags, cluster, job = tmp_path / "flags.json", tmp_path / "cluster.csv", tmp_path / "job.yaml"
    assert arnold("health", "collectives", trace, "--flags-out", flags).code == 0
    rows = json.loads(flags.read_text())["flags"]
    # The simulated clock starts in January 2027; the flag must hold whenever the test runs.
    rows[0].update(since="2020-01-01T00:00:00Z", until="2100-01-01T00:00:00Z")
    flags.write_text(json.dumps({"flags": rows}))
    cluster.write_text("node,minipod\n" + "".join(f"n000{i},m\n" for i in range(4)))
    job.write_text("name: j\nparallelism: {tp: 8, dp: 3, pp: 1}\n")
    placed = arnold("place", "--cluster", cluster, "--job", job, "--flags", flags, "--json").json
    assert sorted(cell["node"] for cell in placed["assignment"]) == ["n0000", "n0001", "n0003"]
    assert placed["avoided"] == ["n0002"]


def test_nodes_file_translates(arnold: Arnold, trace: Path, tmp_path: Path) -> None:
    """--nodes names the node of the rank."""
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("rank,node\n2,gpu-17\n")
    document = arnold("health", "collectives", trace, "--node-map", nodes, "--json").json
    assert [flag["node"] for flag in document["flags"]] == ["gpu-17"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x80\x04.", "is a pickle"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"hello", "in no format that is known"),
        (b'{"type": "state", "comm": ', "truncated"),
        (b'{"type": "format", "name": "arnold-progress", "version": 1}\n', "holds no progress"),
        (b'{"type": "rank", "rank": NaN, "comm": 1}\n', "'rank' is nan"),
        (b'{"type": "state", "comm": "a", "rank": ' + b"[" * 100_000 + b"\n", "nested too deep"),
    ],
)
def test_bad_input(arnold: Arnold, tmp_path: Path, content: bytes, words: str) -> None:
    """Exit 2, the file, what is wrong and what to do; never a traceback."""
    path = tmp_path / "trace"
    path.write_bytes(content)
    ran = arnold("health", "collectives", path, "--json")
    error = ran.json["error"]
    assert ran.code == 2
    assert words in error["message"]
    assert error["where"].startswith(str(path))
    assert error["fix"]


def test_missing_file_and_two_stdins(arnold: Arnold) -> None:
    """As every command."""
    assert "no such file" in arnold("health", "collectives", "nowhere").err
    assert "once only" in arnold("health", "collectives", "-", "-").err


def test_the_converter_can_be_had(arnold: Arnold) -> None:
    """The script for the machines that write pickles comes with the command."""
    out = arnold("health", "collectives", "--converter").out
    compile(out, "flight_recorder_to_json.py", "exec")
    assert "PlainUnpickler" in out


def test_a_pipe_is_read_whole(arnold: Arnold, trace: Path, tmp_path: Path) -> None:
    """What recognises pickles takes nothing away from what can be read once, as in `collectives <(zcat ...)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(trace.read_bytes()))
    writer.start()
    ran = arnold("health", "collectives", pipe, "--json")
    writer.join()
    assert (ran.code, ran.json["status"]) == (0, "failure")


def test_a_flag_file_takes_a_share_of_the_job_out_at_most(tmp_path: Path) -> None:
    """13 of 16 nodes of a job are refused and no file is written, four are not, nor any where nobody counts."""
    flags = [NodeFlag(f"n{i}", "faulty", FAULTY) for i in range(13)]
    file = tmp_path / "flags.json"
    with pytest.raises(InvalidInput, match="13 of 16 nodes"):
        save_flags(flags, str(file), of=16)
    assert not file.exists()
    save_flags(flags[:4], str(file), of=16)
    save_flags(flags, str(file))
    assert len(read_flags(file)) == 13
