"""The same input gives the same bytes, however busy the machine is."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from arnold.demonstration import demo_instance
from scheduler import work_clock
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.placement.types import ALGORITHMS, Limits
from tests.case_counts import ALL_CASES
from tests.conftest import Arnold, busy_loops
from topology.cluster import Cluster
from topology.writers import TOPOLOGY_WRITERS


def smaller_demo(rows: int) -> tuple[Cluster, Job]:
    """Return README's cluster and its job with so many DP ranks instead of 150."""
    cluster, job = demo_instance(0)
    return cluster, job.replace(name="smaller", parallelism=replace(job.parallelism, dp=rows))


@pytest.fixture
def first_example(tmp_path: Path) -> list[object]:
    """README's first command: 1,200 nodes of a 9,600-GPU job, in `make test` 120, for which most methods of the search
    have their turn.
    """
    cluster, job = demo_instance(0) if ALL_CASES else smaller_demo(15)
    (tmp_path / "cluster.csv").write_text(TOPOLOGY_WRITERS.load("csv").write(cluster).text)
    (tmp_path / "job.yaml").write_text(
        f"{{gpus_per_node: 8, parallelism: {{tp: 8, pp: {job.parallelism.pp}, dp: {job.parallelism.dp}}}, "
        f"alpha: {job.alpha}, level: minipod, microbatches: 64}}\n"
    )
    return ["place", "--cluster", tmp_path / "cluster.csv", "--job", tmp_path / "job.yaml"]


@pytest.mark.many_cases
def test_busy_machines_change_no_byte(arnold: Arnold, first_example: list[object], tmp_path: Path) -> None:
    """Of 20 runs, two in `make test`, half beside busy loops: all host files are one, if `stopped_at` is not said.

    The search takes seconds of its sixty: hardly any machine is so busy that the clock has to decide.
    """
    files, late, runs = set[str](), 0, 20 if ALL_CASES else 2
    for number in range(runs):
        hosts = tmp_path / f"{number}.hostfile"
        with busy_loops() if number % 2 else nullcontext():
            done = arnold(*first_example, "--time-limit", 60, "--output", hosts, "--json")
        assert done.code == 0, done.err
        document = json.loads(done.out)
        if document["stopped_at"] is None:
            files.add(hosts.read_text())
        else:
            late += 1
            assert any("clock" in note for note in document["notes"])
    assert late <= runs // 2
    assert len(files) == 1


def test_the_demo_s_placement_ends_by_itself() -> None:
    """README's job of 1,200 nodes, whose racks are left open: what may be tried is tried in a second or two of 60."""
    cluster, job = demo_instance(0)
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=60.0, workers=1, clock="work"))
    assert outcome.status == "optimal"
    assert outcome.stopped_at is None


def test_however_the_wall_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on the wall that leaps at random, and threads: the nodes are the same while its end is not reached."""
    cluster, job = smaller_demo(15)
    answers = set[bytes]()
    for workers in (1, 2):
        leap, now = Random(workers), [0.0]

        def wall(leap: Random = leap, now: list[float] = now) -> float:
            # some thousand looks at it stay far from its end at ten seconds
            now[0] += leap.random() / 10_000.0
            return now[0]

        monkeypatch.setattr(work_clock, "perf_counter", wall)
        outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=10.0, workers=workers))
        assert outcome.stopped_at is None
        assert outcome.proposal.nodes is not None
        answers.add(outcome.proposal.nodes.tobytes())
    assert len(answers) == 1


def test_stopped_by_the_clock_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the clock on the wall is at its end after a hundred looks, the answer says so, proved or not."""
    cluster, job = demo_instance(0)
    looks = iter(range(10**9))
    monkeypatch.setattr(work_clock, "perf_counter", lambda: next(looks) / 10.0)
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=10.0))
    assert outcome.stopped_at == 10.0
    assert any("clock" in note for note in outcome.notes)
