"""A small cluster and job on disk, algorithms that misbehave on purpose, and a way to run the command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scheduler.job import Job
from scheduler.placement.admission import admissible
from scheduler.placement.types import Limits, Proposal
from topology.cluster import Cluster


@dataclass(frozen=True)
class Fake:
    """An algorithm made of a function."""

    name: str
    answer: Callable[[Cluster, Job], Proposal]
    summary: str = "made for a test"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Whatever the function says."""
        return self.answer(cluster, job)


def first_fit(cluster: Cluster, job: Job, **claims: Any) -> Proposal:
    """The first admissible nodes, row by row."""
    nodes = np.flatnonzero(admissible(cluster, job))[: job.grid.cells].astype(np.int32)
    return Proposal(nodes.reshape(job.grid.rows, job.grid.columns), **claims)


def twice(cluster: Cluster, job: Job) -> Proposal:
    """Every cell on node 0."""
    return Proposal(np.zeros((job.grid.rows, job.grid.columns), dtype=np.int32))


def crash(cluster: Cluster, job: Job) -> Proposal:
    """A bug."""
    raise ZeroDivisionError("oops")


def interrupted(cluster: Cluster, job: Job) -> Proposal:
    """The user presses Ctrl-C."""
    raise KeyboardInterrupt


FAKES = {
    "first": first_fit,
    "boaster": lambda cluster, job: first_fit(cluster, job, lower_bound=99.0),
    "bounded": lambda cluster, job: first_fit(cluster, job, lower_bound=1.2),
    "stopped": lambda cluster, job: first_fit(cluster, job, complete=False),
    "twice": twice,
    "late": lambda cluster, job: Proposal(None, complete=False),
    "helpless": lambda cluster, job: Proposal(None),
    "sure": lambda cluster, job: Proposal(None, infeasible="the rule of this algorithm admits no placement"),
    "crash": crash,
    "interrupted": interrupted,
}


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the fakes besides the real algorithms."""
    points = [SimpleNamespace(name=name, load=lambda name=name: lambda: Fake(name, FAKES[name])) for name in FAKES]
    monkeypatch.setattr(
        "ground.plugins._entry_points",
        lambda group: points if group == "arnold.placement" else [],
    )


HEADER = "node,minipod,rack,gpus,free_gpus,slowdown"


def write_cluster(path: Path, rows: Sequence[str]) -> Path:
    """A cluster file in our CSV."""
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """Two minipods of four nodes, two racks each; n3 is busy, n4 slow, n7 faulty: 6 usable nodes, 5 healthy."""
    states = {3: "0,", 4: "8,1.5", 7: "8,faulty"}
    rows = [f"n{i},mp{i // 4},r{i // 2},8,{states.get(i, '8,')}" for i in range(8)]
    return write_cluster(tmp_path / "cluster.csv", rows)


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    """Two rows by two columns, alpha 0.25."""
    path = tmp_path / "job.yaml"
    path.write_text("name: small\nparallelism: {tp: 8, dp: 2, pp: 2}\nalpha: 0.25\n")
    return path
