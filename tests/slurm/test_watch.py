"""What of the jobs of a live Slurm is worth another look at it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm import watch
from slurm.live import SlurmJob
from slurm.watch import LookBudget, SlurmWatch
from tests.slurm.made_slurm import NODES, decided, job, looked, running

ALLOCATED = dict.fromkeys(NODES, "ALLOCATED")


def watched(*jobs: SlurmJob, states: dict[str, str] | None = None) -> SlurmWatch:
    """What is watched after a look."""
    live = looked(*jobs, states=states)
    orders = {one.number: ("n01", "n03", "n05", "n07") for one in jobs if one.required}
    return SlurmWatch(live, decided(live, orders))


def rows(*jobs: SlurmJob) -> list[dict[str, str]]:
    """Jobs as some columns show them."""
    return [{name: str(getattr(one, name)) for name in watch.COLUMNS} for one in jobs]


WAITS, LARGE, SMALL = job(1), running(2, "n[01-06]"), running(3, "n[07-08]")
FULL = watched(WAITS, LARGE, SMALL, states=ALLOCATED)


@pytest.mark.parametrize(
    ("jobs", "worth"),
    [
        ((WAITS, LARGE, SMALL), False),
        ((replace(WAITS, priority=7, begin=None), LARGE, SMALL), False),  # its place in the queue is no news
        ((WAITS, LARGE), False),  # two of the four nodes that it needs
        ((WAITS, SMALL), True),
        ((WAITS, replace(LARGE, state="COMPLETING"), SMALL), False),  # they are not free yet
        ((WAITS, running(4, "n[01-04]"), SMALL), False),  # another has four of the six
        ((WAITS, LARGE, SMALL, job(4)), True),
        ((WAITS, LARGE, SMALL, job(4, comment="")), False),  # no request
        ((WAITS, LARGE, SMALL, job(4, state="RUNNING", nodes="n07")), False),
        ((replace(WAITS, comment="arnold: tp=2,dp=2"), LARGE, SMALL), True),
        ((replace(WAITS, reason="launch failed requeued held", priority=0), LARGE, SMALL), True),
        ((LARGE, SMALL), False),  # it is gone
    ],
)
def test_what_may_lead_to_a_plan(jobs: tuple[SlurmJob, ...], worth: bool) -> None:
    """All eight nodes are in use: a request that is new or another one, or room for four nodes."""
    assert FULL.worth_a_look(rows(*jobs)) is worth


def test_nodes_that_are_out_of_work_are_no_room() -> None:
    """However many jobs end on them."""
    states = {name: "ALLOCATED+DRAIN" if name < "n04" else "ALLOCATED" for name in NODES}
    seen = watched(WAITS, LARGE, SMALL, states=states)
    assert not seen.worth_a_look(rows(WAITS, SMALL))  # n04 to n06
    assert seen.worth_a_look(rows(WAITS))  # and n07, n08


def test_a_plan_that_starts_or_loses_a_node() -> None:
    """To a job that started meanwhile."""
    planned = job(1, required="n[01,03,05,07]", reason="Resources")
    seen = watched(planned)
    assert seen.decision.states == {"1": "planned"}
    assert not seen.worth_a_look(rows(planned))
    assert seen.worth_a_look(rows(planned, running(2, "n03")))
    assert seen.worth_a_look(rows(replace(planned, state="RUNNING", nodes="n[01,03,05,07]")))


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SPECIAL_EXIT"])
def test_a_job_that_neither_waits_nor_has_nodes(state: str) -> None:
    """Slurm keeps it for its user to look at: it is in nobody's way."""
    kept = job(5, state=state, comment="", priority=0)
    seen = watched(WAITS, LARGE, SMALL, kept, states=ALLOCATED)
    assert not seen.unclear
    assert not seen.worth_a_look(rows(WAITS, LARGE, SMALL, kept))


def test_nodes_of_a_plan_are_room_for_nobody_else() -> None:
    """Four nodes idle until the planned job starts: of the other four, one is too few for whoever waits."""
    planned = job(1, required="n[01,03,05,07]", reason="Resources")
    three, one = running(3, "n[02,04,06]"), running(4, "n08")
    seen = watched(planned, waits := job(2), three, one, states=dict.fromkeys(NODES[1::2], "ALLOCATED"))
    assert seen.decision.states == {"1": "planned", "2": "asked"}
    assert not seen.worth_a_look(rows(planned, waits, three))
    assert seen.worth_a_look(rows(planned, waits))


def test_a_reservation_of_ours_whose_job_has_ended() -> None:
    """Only we let go of its nodes at once."""
    held = job(1, state="RUNNING", nodes="n[01-04]", reservation="arnold_1")
    seen = watched(held, SMALL)
    assert not seen.worth_a_look(rows(held, SMALL))
    assert seen.worth_a_look(rows(SMALL))


def test_idle_nodes_count_with_those_that_come_back() -> None:
    """Three idle nodes are too few; with a fourth there is room."""
    seen = watched(WAITS, running(2, "n[01-05]"), states=dict.fromkeys(NODES[:5], "ALLOCATED"))
    assert not seen.worth_a_look(rows(WAITS, running(2, "n[01-05]")))
    assert seen.worth_a_look(rows(WAITS, running(2, "n[01-04]")))


def test_nodes_that_lag_behind_their_jobs_are_not_clear() -> None:
    """A job has left the list, and its nodes are still said to be in use; or no longer."""
    lagging = dict.fromkeys(NODES[:6], "COMPLETING") | dict.fromkeys(NODES[6:], "ALLOCATED")
    assert watched(WAITS, SMALL, states=lagging).unclear
    assert not watched(WAITS, LARGE, SMALL, states=ALLOCATED).unclear
    assert not watched(SMALL, states=lagging).unclear  # nobody waits


@given(
    data=st.data(),
    states=st.lists(st.sampled_from(["IDLE", "ALLOCATED", "MIXED", "DOWN", "IDLE+DRAIN"]), min_size=8, max_size=8),
)
def test_no_plan_is_missed(data: st.DataObject, states: list[str]) -> None:
    """Whatever jobs have ended and come since a look: where the next one would plan, the watch says so."""
    busy = [name for name, state in zip(NODES, states, strict=True) if state in ("ALLOCATED", "MIXED")]
    before = [running(i, name) for i, name in enumerate(busy, 20)]
    waiting = [
        job(i, comment=f"arnold: tp=2,dp={n}", count=n)
        for i, n in enumerate(data.draw(st.lists(st.integers(1, 8), max_size=3)), 1)
    ]
    seen = SlurmWatch(live := looked(*waiting, *before, states=dict(zip(NODES, states, strict=True))), decided(live))
    if seen.decision.updates:
        return  # what came of them is looked at anyway
    left = data.draw(st.sets(st.sampled_from(before))) if before else set()
    new = [job(9, comment="arnold: tp=2,dp=1", count=1)] if data.draw(st.booleans()) else []
    jobs = [*waiting, *new, *(one for one in before if one in left)]
    held = {name for one in left for name in [one.nodes]}
    after = {
        name: "IDLE" if state in ("ALLOCATED", "MIXED") and name not in held else state
        for name, state in zip(NODES, states, strict=True)
    }
    if any(update.nodes for update in decided(looked(*jobs, states=after)).updates):
        assert seen.worth_a_look(rows(*jobs))


def test_the_budget_counts_all_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of a core: two seconds of processor time are paid for in 200, polls meanwhile count, too; what was
    not taken is not saved for later.
    """
    clock = {"now": 0.0, "spent": 0.0}
    monkeypatch.setattr(watch, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(watch, "processor_seconds", lambda: clock["spent"])
    budget = LookBudget(0.01, 300.0)

    def after(seconds: float, spent: float) -> bool:
        clock["now"] += seconds
        clock["spent"] += spent
        return budget.paid()

    assert not after(1.0, 2.0)
    assert not after(198.0, 0.5)
    assert after(52.0, 0.0)
    assert after(10_000.0, 0.0)
    assert not after(1.0, 2.0)
    assert not after(0.0, 100.0)
    assert after(301.0, 0.0)  # at most 300 s of debt
