"""`arnold simulate` on a Slurm cluster that falls into trunks: no job runs across them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from arnold.commands.run import run
from tests.facts import says

TOPOLOGY = """\
SwitchName=a Switches=a[1-2]
SwitchName=a1 Nodes=n[01-03]
SwitchName=a2 Nodes=n[04-06]
SwitchName=b Switches=b[1-2]
SwitchName=b1 Nodes=n[07-10]
SwitchName=b2 Nodes=n[11-14]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Two trunks, of 6 and 8 nodes."""
    path = tmp_path / "topology.conf"
    path.write_text(TOPOLOGY)
    return path


def trace(tmp_path: Path, *gpus: int) -> Path:
    """Jobs of an hour, submitted together."""
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_time,duration,gpus\n" + "".join(f"j{i},0,3600,{n}\n" for i, n in enumerate(gpus)))
    return path


def test_no_job_lies_in_two_trunks(tmp_path: Path, cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 4, 5 and 5 nodes on trunks of 6 and 8, each trunk takes one at a time: 14 nodes would hold all three."""
    rows = tmp_path / "rows.csv"
    code = run(["simulate", "--cluster", str(cluster), "--trace", str(trace(tmp_path, 32, 40, 40)), "--jobs-out",
                str(rows), "--json", "--cost-model", "none"])  # fmt: skip
    out = capsys.readouterr()
    assert code == 0, out.err
    assert "switches with none above them: 2 (a, b)" in out.err
    # the third starts when the first two end, an hour later
    assert json.loads(out.out)["makespan_seconds"] == 7200
    for row in csv.DictReader(rows.read_text().splitlines()):
        assert len({int(name[1:]) > 6 for name in row["placed_on"].split()}) == 1


def test_a_job_that_no_trunk_holds_could_never_run(
    tmp_path: Path, cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """9 nodes of 14, and 8 are the most in one trunk: said before the run, not waited for."""
    code = run(["simulate", "--cluster", str(cluster), "--trace", str(trace(tmp_path, 72))])
    assert code == 2
    said = capsys.readouterr().err
    assert says(said, "9 nodes with 8 free GPUs")
    assert says(said, "'b' has most, 8", "all together 14")
    assert "describe a switch above them" in said
    assert "larger than the cluster" not in said


def test_capacity_counts_in_one_trunk(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 14 free nodes a job can have 8: four PP groups of two, whatever the spread."""
    code = run(["capacity", "fragmentation", "--cluster", str(cluster), "--shape", "8x2", "--json"])
    out = capsys.readouterr()
    assert code == 0, out.err
    assert "switches with none above them: 2 (a, b)" in out.err
    (shape,) = json.loads(out.out)["shapes"]
    assert shape["most_nodes"] == 8
