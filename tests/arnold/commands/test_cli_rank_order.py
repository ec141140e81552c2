"""`arnold place --rank-order slurm`: ranks in the order of names, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.placement.node_order import natural

Arnold = Callable[..., Any]

# Two minipods whose names alternate: a stage of two nodes lies in one, if its ranks need not follow the names.
CLUSTER = "node,minipod\nn1,a\nn2,b\nn3,a\nn4,b\n"
JOB = "name: j\nparallelism: {tp: 8, pp: 2, dp: 2}\nlevel: minipod\nalpha: 0.7\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A cluster and a job."""
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    (tmp_path / "job.yaml").write_text(JOB)
    return ["--cluster", str(tmp_path / "cluster.csv"), "--job", str(tmp_path / "job.yaml")]


def test_ranks_in_the_order_of_names(arnold: Arnold, files: list[str]) -> None:
    """Both stages cross: 0.7 * 2 + 0.3 * 1 where 0.7 * 1 + 0.3 * 2 could be had, and that is said."""
    placed = json.loads(arnold("place", *files, "--rank-order", "slurm", "--json").out)
    nodes = [cell["node"] for cell in placed["assignment"]]
    assert nodes == sorted(nodes, key=natural)
    assert placed["status"] == "optimal"
    assert placed["objective"] == pytest.approx(1.7)
    assert any("1.3 in place of 1.7" in note for note in placed["notes"])
    free = json.loads(arnold("place", *files, "--json").out)
    assert free["objective"] == pytest.approx(1.3)


@pytest.mark.parametrize("more", [["--certificate", "proof.json"], ["--job", "other.yaml"]])
def test_what_does_not_go_with_it(arnold: Arnold, files: list[str], more: list[str], tmp_path: Path) -> None:
    """No certificate shows the order of names, and several jobs have their ranks as is best."""
    (tmp_path / "other.yaml").write_text(JOB.replace("name: j", "name: k"))
    given = [str(tmp_path / word) if "." in word else word for word in more]
    ran = arnold("place", *files, *given, "--rank-order", "slurm")
    assert (ran.code, "To fix:" in ran.err, "order" in ran.err) == (2, True, True)
