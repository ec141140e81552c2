"""Nodes that fail, return, become slow; jobs that lose work, restart and run at another pace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from scheduler.queue.fifo_and_backfill import Fifo
from simulator.cost.models import no_cost
from simulator.engine import Diverged, Engine, Overload
from simulator.hooks import Incident, Setback, Why
from simulator.job_record import JobRecord
from simulator.replay import CommPace
from simulator.results import run_ettr
from simulator.sim_job import SimJob
from tests.facts import saying
from tests.simulator.clusters import racks
from tests.simulator.incidents import Scripted
from tests.simulator.runs import finished, placed, placed_run


class EverySecond:
    """Checkpoints each second, of no cost; a restart takes 3 s."""

    def saved(self, job: SimJob, *, done: float) -> float:
        """Whole seconds."""
        return float(int(done))

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:
        """Whole seconds are kept."""
        return Setback(kept=float(int(done)), delay=3.0)


def test_a_job_on_a_node_that_fails_starts_elsewhere_with_what_it_had_saved() -> None:
    """10 s of work on node 0; down at 4.5 with 4 s saved; 3 s to restart and 6 s of work elsewhere: ends at 13.5."""
    incidents = Scripted([Incident(4.5, "down", 0)])
    engine = placed_run(racks(2), [JobRecord("a", 0, 10, 8)], Fifo(), incidents=incidents, recovery=EverySecond())
    job = engine.jobs[0]
    assert (job.places, job.runs, job.end) == ((1,), [(0, 4.5)], 13.5)
    assert run_ettr(engine.jobs) == pytest.approx(10 / 13.5)


def test_a_job_waits_for_the_repair_when_no_other_node_is_left() -> None:
    """One node, down from 4 to 20; nothing is kept: 10 s from 20 on."""
    incidents = Scripted([Incident(4, "down", 0), Incident(20, "up", 0)])
    engine = placed_run(racks(1), [JobRecord("a", 0, 10, 8)], Fifo(), incidents=incidents)
    assert (engine.jobs[0].started, engine.jobs[0].end) == (20, 30)


def test_at_one_instant_a_job_ends_before_its_node_fails() -> None:
    """Releases come first: the job that ends at 10 is not interrupted at 10."""
    engine = placed_run(racks(1), [JobRecord("a", 0, 10, 8)], Fifo(), incidents=Scripted([Incident(10, "down", 0)]))
    assert (engine.jobs[0].end, engine.jobs[0].runs) == (10, [])


def test_a_slow_node_slows_its_job_from_then_on_and_a_healthy_one_no_more() -> None:
    """12 s of work; from 4 to 10 it takes 1.5 s a second: 4 + 4 done at 10, 4 left: ends at 14, not at 12."""
    room = placed(racks(1))
    incidents = Scripted([Incident(4, "slow", 0, 1.5), Incident(10, "slow", 0, 1.0)])
    records = [JobRecord("a", 0, 12, 8)]
    engine = finished(Engine(records, room, Fifo(), incidents=incidents, pace=CommPace(no_cost(), room)))
    assert engine.jobs[0].end == pytest.approx(14)


class Crowded:
    """A job runs half as fast while another does."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    def _paces(self) -> dict[int, float]:
        return dict.fromkeys(self.keys, float(len(self.keys)))

    def started(self, job: SimJob) -> Mapping[int, float]:
        """Everybody is slower."""
        self.keys.append(job.key)
        return self._paces()

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Everybody is faster."""
        self.keys.remove(job.key)
        return self._paces()

    def slowed(self, node: int, slowdown: float) -> Mapping[int, float]:
        """Nothing."""
        return {}

    def state(self) -> Any:
        """Nothing."""

    def restore(self, state: Any, running: Iterable[SimJob]) -> None:
        """Nothing."""


def test_jobs_that_share_links_change_pace_when_one_starts_or_ends() -> None:
    """6 s of work alone from 0; at 2 another of 3 s comes: both at half speed until it ends at 8; 1 s is left: 9."""
    records = [JobRecord("a", 0, 6, 8), JobRecord("b", 2, 3, 8)]
    engine = finished(Engine(records, placed(racks(2)), Fifo(), pace=Crowded()))
    assert [job.end for job in engine.jobs] == pytest.approx([9, 8])


def test_a_run_in_which_nothing_ever_ends_is_ended() -> None:
    """The only node fails each second, and the job of 10 s keeps nothing: said after so many events."""
    incidents = Scripted([Incident(0.5 + i / 2, ("down", "up")[i % 2], 0) for i in range(5_000)])
    engine = Engine([JobRecord("a", 0, 10, 8)], placed(racks(1)), Fifo(), incidents=incidents)
    with pytest.raises(Diverged, match=saying("1,000 events")):
        engine.run(overload=Overload(events=1_000))


def test_a_backlog_of_a_lifetime_is_ended() -> None:
    """20,000 jobs of a year each on one node of 8 GPUs: 2,500 years."""
    records = [JobRecord(f"j{i}", i, 365.25 * 86_400, 1) for i in range(20_000)]
    engine = Engine(records, placed(racks(1)), Fifo())
    with pytest.raises(Diverged, match="jobs wait with work for"):
        engine.run()
