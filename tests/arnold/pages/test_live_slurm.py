"""What the live page is told of a Slurm: jobs as gangs, its own words, and when it does not answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from arnold.pages.live_page import LiveLook
from arnold.pages.live_slurm import SlurmSource, look_of
from scheduler.queue.fifo_and_backfill import PriorityBackfill
from slurm.ask import SlurmRefused
from slurm.live import Eyes, LiveSlurm
from tests.slurm.made_slurm import GRID, NOW, decided, job, looked, running


def look(live: LiveSlurm) -> LiveLook:
    """The look of a page."""
    return look_of(live, {}, decided(live))


def test_jobs_that_run_wait_and_are_refused() -> None:
    """Eight nodes of two GPUs: a job runs on three, one of which drains; one that asks for four has none, as six are
    left and one of them is down, but it is planned in a moment; one of a wrong grid says why.
    """
    live = looked(
        running(1, "n0[1-3]"),
        job(2, count=8, comment="arnold: tp=2,dp=4,pp=2"),
        job(3, comment="arnold: tp=2,dp=3"),
        job(4, comment="", reason="Priority", name="</script>"),
        states={"n03": "MIXED+DRAIN", "n08": "DOWN", "n07": "COMPLETING"},
    )
    seen = look(live)
    gangs = {gang.name: gang for gang in seen.gangs}
    assert {name: (gang.placed, gang.phase) for name, gang in gangs.items()} == {
        "1 train": (True, "RUNNING"),
        "2 train": (False, "PENDING (asked)"),
        "3 train": (False, "PENDING (refused)"),
        "4 </script>": (False, "PENDING"),
    }
    assert "8 nodes" in gangs["2 train"].message
    assert "3 nodes" in gangs["3 train"].message
    assert gangs["4 </script>"].message == "Priority"
    assert (gangs["1 train"].gpus, gangs["2 train"].gpus) == (6, 16)
    assert gangs["2 train"].since == NOW - 60
    cluster = seen.cluster
    assert cluster is not None
    free = dict(zip(cluster.names, cluster.free_gpus.tolist(), strict=True))
    # n07 ends a job: it is in use by nobody that is known, and n08 is down with nothing on it
    assert free == {"n01": 0, "n02": 0, "n03": 0, "n04": 2, "n05": 2, "n06": 2, "n07": 0, "n08": 2}
    assert {cluster.names[i]: flag.kind for i, flag in cluster.flags.items()} == {"n03": "faulty", "n08": "faulty"}
    assert seen.holders == dict.fromkeys(("n01", "n02", "n03"), "1 train")


def test_a_plan_has_its_nodes_and_its_worth() -> None:
    """A job that serve has planned holds its nodes before it starts, with the spread that its comment says."""
    worth = "DP spread 1, PP spread 2, objective 1.3, optimal"
    planned = job(5, required="n0[1,3,5,7]", comment=f"arnold: {GRID}; {worth}", begin=NOW)
    live = looked(planned)
    orders = {"5": ("n01", "n03", "n05", "n07")}
    seen = look_of(live, orders, decided(live, orders))
    (gang,) = seen.gangs
    assert (gang.placed, gang.spread, gang.objective, gang.proof) == (True, (1, 2), 1.3, "optimal")
    assert set(seen.holders) == {"n01", "n03", "n05", "n07"}
    assert seen.cluster is not None
    assert seen.cluster.free_gpus.sum() == 16  # nothing runs yet


def test_reservations() -> None:
    """One that lasts, as Slurm has it."""
    text = (
        f"ReservationName=maint StartTime={NOW - 10:.0f} EndTime={NOW + 600:.0f} Duration=00:10:10 Nodes=n0[1-2] "
        "NodeCnt=2 CoreCnt=4 Users=root State=ACTIVE Flags=\n"
    )
    (held,) = look(looked(reservations=text)).reservations
    assert (held.name, held.phase, held.nodes, held.begin, held.end) == ("maint", "active", 2, NOW - 10, NOW + 600)


def test_a_slurm_that_does_not_answer_is_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was seen stays, with its time, and why nothing newer is known; also where the orders are gone."""
    looks = iter([looked(running(1, "n01")), SlurmRefused("no answer within 60 s", where="scontrol")])

    def answer(_: Eyes) -> LiveSlurm:
        now = next(looks)
        if isinstance(now, Exception):
            raise now
        return now

    monkeypatch.setattr(Eyes, "look", answer)
    monkeypatch.setattr("arnold.pages.live_slurm.LEAST_REST", 0.0)
    monkeypatch.setattr("arnold.pages.live_slurm.MOST_REST", 0.0)
    source = SlurmSource(tmp_path, PriorityBackfill())

    async def run() -> None:
        following = asyncio.create_task(source.follow())
        while source.seen is None or not source.lost:
            await asyncio.sleep(0.01)
        following.cancel()

    asyncio.run(asyncio.wait_for(run(), 60.0))
    assert source.lost == "scontrol: no answer within 60 s"
    assert [gang.name for gang in source.look().gangs] == ["1 train"]
    with pytest.raises(Exception, match="orders"):
        SlurmSource(tmp_path / "gone", PriorityBackfill())._ask()
