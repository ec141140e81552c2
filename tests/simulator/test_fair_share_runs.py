"""Fair shares over time: none starves, and long runs come to the weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.fair_share import FairShare
from scheduler.queue.priority import PriorityAge
from simulator.job_record import JobRecord
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.runs import counted_run, placed_run

NODES = 4


def flood(queue: str, jobs: int, *, runs: int, every: float = 0.0) -> Sequence[JobRecord]:
    """Jobs of one node, one after the other."""
    return [JobRecord(f"{queue}-{i}", i * every, runs, 8, nodes=1, queue=queue) for i in range(jobs)]


@given(at=st.integers(1, 9), runs=st.integers(2, 9), others=st.integers(1, 3))
@examples(30)
def test_a_gang_of_the_smallest_share_is_not_passed_by_small_ones(at: int, runs: int, others: int) -> None:
    """Four jobs of one node come each second until 10; then a gang for all nodes comes, of a namespace without any.

    It is passed by none that came later; and by an older one only where its namespace had none either: one at a time.
    """
    records = [one for i in range(others) for one in flood(f"small-{i}", 40, runs=runs, every=0.25)]
    records.append(JobRecord("gang", at, 5, 8 * NODES, nodes=NODES, queue="large"))
    records.sort(key=lambda one: one.submit)
    jobs = placed_run(racks(NODES), records, FairShare()).jobs
    (gang,) = (job for job in jobs if job.namespace == "large")
    small = [job for job in jobs if job is not gang]
    passing = [job for job in small if gang.submitted <= job.started < gang.started]
    assert all(job.submitted <= gang.submitted for job in passing)
    assert max(Counter((job.namespace, job.started) for job in passing).values(), default=0) <= 1
    assert any(job.started > gang.started for job in small)


def test_a_flood_does_not_keep_another_namespace_waiting() -> None:
    """A hundred jobs of one namespace are there when another's ten come, at 1: as soon as the first four have ended
    that has less, so it has 2 of the 4 nodes from then on, and its last two start in the fifth round, at 50.  By age
    it comes when all of the flood has started: 25 rounds of 10 s.
    """
    late = [JobRecord(f"late-{i}", 1, 10, 8, nodes=1, queue="late") for i in range(10)]
    records = [*flood("flood", 100, runs=10), *late]
    starts = {}
    for policy in (FairShare(), PriorityAge()):
        jobs = counted_run(racks(NODES), records, policy).jobs
        starts[policy.name] = max(job.started for job in jobs if job.namespace == "late")
    assert starts == {"fair-share": 50.0, "priority-age": 270.0}


def test_long_runs_come_to_the_weights() -> None:
    """Three namespaces with more work than there is room: of eight nodes they have 1, 2 and 5, as their weights say."""
    weights = {"a": 1.0, "b": 2.0, "c": 5.0}
    records = [one for name in weights for one in flood(name, 200, runs=10)]
    jobs = counted_run(racks(8), records, FairShare(), weights=weights).jobs
    running = [job.namespace for job in jobs if job.started <= 100 < job.end]
    assert {name: running.count(name) for name in weights} == {"a": 1, "b": 2, "c": 5}
