"""What `arnold slurm serve` decides of one look at Slurm, state by state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm import decide
from slurm.decide import WAIT, SlurmQueue
from tests.facts import says
from tests.slurm.made_slurm import BLOCKS, GRID, NODES, NOW, TOPOLOGY, decided, job, looked, running

ORDER = ("n01", "n03", "n05", "n07")
HELD = "ReservationName=arnold_1 StartTime=1799999000 EndTime=1900000000 Nodes=n0[1,3,5,7] Users=ann State=ACTIVE\n"
IN_IT = {"reservation": "arnold_1", "begin": NOW}


def test_a_job_that_asks_is_planned_and_begins() -> None:
    """Four nodes of one minipod: one update with nodes, begin and what the plan is worth."""
    decision = decided(looked(job()))
    (update,) = decision.updates
    assert (update.jobs, decision.states) == (("1",), {"1": "planned"})
    assert set(update.nodes) in ({*ORDER}, {*NODES} - {*ORDER})
    assert update.fields["StartTime"] == f"uts{NOW:.0f}"
    # a job of four nodes in one minipod: both spreads are 1, and so Eq. 2 is
    assert update.fields["Comment"] == f"arnold: {GRID}; DP spread 1, PP spread 1, objective 1.0, optimal"
    assert update.words()[:2] == ["update", "JobId=1"]
    assert "ReservationName" not in update.fields


def test_a_large_job_has_its_nodes_reserved() -> None:
    """From as many nodes as is said on; one that brings a reservation of its own has no second."""
    (update,) = decided(looked(job()), reserved_from=4).updates
    assert (update.reservation, update.fields["ReservationName"], update.owner) == ("arnold_1", "arnold_1", "ann")
    mine = "ReservationName=mine StartTime=1799999000 EndTime=1900000000 Nodes=n[01-04] Users=ann State=ACTIVE\n"
    (update,) = decided(looked(job(reservation="mine"), reservations=mine), reserved_from=4).updates
    assert (update.reservation, {*update.nodes}) == ("", {"n01", "n02", "n03", "n04"})


def test_slurms_priority_decides_who_is_first() -> None:
    """Eight nodes hold two of three jobs; the third keeps its place, and nobody's plan has a node of another's."""
    decision = decided(looked(job(1, priority=1), job(2, priority=3), job(3, priority=2)))
    assert decision.states == {"1": "asked", "2": "planned", "3": "planned"}
    nodes = [node for update in decision.updates for node in update.nodes]
    assert sorted(nodes) == NODES
    assert "4 nodes, and 0 are free" in decision.reasons["1"]


def test_a_short_job_passes_where_it_delays_nobody() -> None:
    """Of eight nodes six are in use for 300 s.  The first wants eight: of the two that are idle a job of 200 s may take
    one, and one of 900 s may not.
    """
    busy = running(9, "n[03-08]", ends=NOW + 300)
    large = job(1, count=8, comment="arnold: tp=2,dp=4,pp=2")
    small = [job(i, count=1, seconds=seconds, comment="arnold: tp=2") for i, seconds in ((2, 900.0), (3, 200.0))]
    decision = decided(looked(busy, large, *small))
    assert decision.states == {"1": "asked", "2": "asked", "3": "planned"}
    assert "job 1 is before it" in decision.reasons["2"]


def test_a_wait_is_prolonged_when_its_end_is_near() -> None:
    """Two minutes before the first begin all that wait are prolonged in one call; before that none is."""
    full = running(9, "n[01-08]")
    decision = decided(looked(full, job(1, begin=NOW + 119), job(2, begin=NOW + 300), job(3, comment="")))
    (update,) = decision.updates
    assert (update.jobs, update.fields) == (("1", "2"), {"StartTime": f"uts{NOW + WAIT:.0f}"})
    assert decided(looked(full, job(1, begin=NOW + 121))).updates == ()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"comment": "arnold: $(reboot)"}, "no grid"),
        ({"comment": "arnold: tp=2,dp=nan"}, "nan"),
        ({"comment": "arnold: tp=2,dp=2,dp=2"}, "twice"),
        ({"comment": "arnold: tp=2,dp=99999999999999"}, ""),
        ({"comment": "arnold:"}, "no grid"),
        ({"count": 3}, "takes 4 nodes, and it asks for 3"),
        ({"count": None}, "takes 4 nodes"),
        ({"number": "1_2"}, "array"),
        ({"partition": "all,other"}, "several partitions"),
        ({"features": "slow"}, "no node has the feature 'slow'"),
    ],
)
def test_what_cannot_be_planned_begins_as_a_plain_job(changes: dict[str, object], why: str) -> None:
    """At once, with the reason in its comment; once it is there, nothing more is said."""
    asked = job(**{"number": "1", **changes})
    decision = decided(looked(asked))
    (update,) = decision.updates
    assert update.fields["StartTime"] == f"uts{NOW:.0f}"
    assert update.fields["Comment"].startswith("arnold: refused: ")
    assert why in update.fields["Comment"]
    assert update.fields["Comment"].isprintable()
    assert len(update.fields["Comment"]) <= 1_024
    again = decided(looked(job(**{"number": "1", **changes, "comment": update.fields["Comment"]})))
    assert (again.updates, again.states) == ((), {update.jobs[0]: "refused"})


@pytest.mark.parametrize("number", ["7_[0-3]", "7_[0-99%2]", "7_[1,3,5,7,9,11,13,15,17,19,21,...]"])
def test_an_array_is_let_go_as_a_whole(number: str) -> None:
    """How many tasks may run at once is no part of a number that scontrol takes, and squeue cuts a long list."""
    (update,) = decided(looked(job(number))).updates
    assert update.words()[1] == "JobId=7"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"comment": "of arnold: tp=2"}, None),
        ({"comment": ""}, None),
        ({"state": "RUNNING", "nodes": "n[01-04]"}, "running"),
        ({"required": "n[01-04]"}, "user's nodes"),
        ({"reason": "JobHeldUser", "priority": 0}, "held"),
        ({"reason": "launch failed requeued held", "priority": 0}, "held"),
        ({"begin": None, "reason": "Resources"}, "begins by itself"),
        ({"begin": NOW - 1, "reason": "Priority"}, "begins by itself"),
        ({"reason": "Dependency"}, "begins after others"),
        ({"reason": "DependencyNeverSatisfied"}, "begins after others"),
        ({"comment": f"arnold: {GRID},begin={NOW + 300:.0f}"}, "begins later"),
    ],
)
def test_jobs_that_are_left_alone(changes: dict[str, object], state: str | None) -> None:
    """Jobs of others, those that run, and what their users decided."""
    decision = decided(looked(job(**changes)))
    assert decision.updates == ()
    assert decision.states.get("1") == state


@pytest.mark.parametrize("topology", [TOPOLOGY, BLOCKS])
def test_a_job_that_is_held_keeps_no_nodes(topology: str) -> None:
    """A Prolog failed, say, when it was planned: its nodes are others' until it is released."""
    required = {} if topology == BLOCKS else {"required": "n0[1,3,5,7]"}
    failed = job(**IN_IT, **required, reason="launch failed requeued held", priority=0)
    decision = decided(looked(failed, job(2), reservations=HELD, topology=topology), {"1": ORDER})
    first, other = decision.updates
    assert (first.jobs, first.fields["ReservationName"], first.fields["ReqNodeList"]) == (("1",), "", "")
    assert (decision.states, other.jobs) == ({"1": "held", "2": "planned"}, ("2",))


def test_a_list_of_nodes_that_slurm_would_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job begins as a plain one instead, with the length of the list (n[01,03,05,07]) in the reason."""
    monkeypatch.setattr(decide, "MOST_NAMES", 14)
    assert decided(looked(job())).updates[0].nodes
    monkeypatch.setattr(decide, "MOST_NAMES", 13)
    (update,) = decided(looked(job())).updates
    assert "ReqNodeList" not in update.fields
    assert "its has 14" in update.fields["Comment"]


def test_a_begin_of_the_users_own_is_kept() -> None:
    """One in an hour is written down, as ours would replace it; when it has come, the job is planned."""
    (update,) = decided(looked(job(begin=NOW + 3600))).updates
    comment = f"arnold: {GRID},begin={NOW + 3600:.0f}"
    assert update.fields == {"Comment": comment, "StartTime": f"uts{NOW + 3600 + WAIT:.0f}"}
    later = comment.replace(f"{NOW + 3600:.0f}", f"{NOW:.0f}")
    assert decided(looked(job(comment=later))).states == {"1": "planned"}


def test_a_plan_stands_while_its_nodes_do() -> None:
    """Also when Slurm itself plans it there, and its own reservation holds them; nobody else gets them."""
    planned = job(**IN_IT, required="n0[1,3,5,7]", reason="Priority", planned="n0[1,3,5,7]")
    look = looked(planned, job(2), reservations=HELD, states=dict.fromkeys(ORDER, "IDLE+RESERVED+PLANNED"))
    decision = decided(look, {"1": ORDER})
    assert decision.states == {"1": "planned", "2": "planned"}
    (update,) = decision.updates
    assert {*update.nodes} == {*NODES} - {*ORDER}
    assert decision.unheld == ()


def test_on_blocks_a_plan_is_a_reservation() -> None:
    """Its nodes alone are in it, and the job requires none; it stands while they do, and is taken back with them."""
    (update,) = decided(looked(job(), topology=BLOCKS)).updates
    assert (update.reservation, "ReqNodeList" in update.fields) == ("arnold_1", False)
    assert update.fields["ReservationName"] == "arnold_1"
    live = looked(job(**IN_IT, reason="Priority"), reservations=HELD, topology=BLOCKS)
    assert decided(live, {"1": ORDER}).states == {"1": "planned"}
    down = looked(job(**IN_IT, reason="Resources"), reservations=HELD, topology=BLOCKS, states={"n03": "DOWN*"})
    (update,) = decided(down, {"1": ORDER}).updates
    assert (update.fields["ReservationName"], "n03" in update.why) == ("", True)


@pytest.mark.parametrize(("reason", "since", "released"), [("BadConstraints", 1, True), ("Resources", WAIT + 1, False)])
def test_what_slurm_never_starts_begins_as_a_plain_job(reason: str, since: float, released: bool) -> None:
    """It says so and holds the job, or leaves it waiting on nodes that are its own; in ten minutes it may be slow."""
    held = HELD.replace("1799999000", f"{NOW - since:.0f}")
    live = looked(job(**IN_IT, reason=reason), reservations=held, topology=BLOCKS)
    decision = decided(live, {"1": ORDER})
    (update,) = decision.updates
    assert (decision.states, update.released) == ({"1": "refused"}, released)
    assert (update.fields["ReservationName"], update.fields["StartTime"]) == ("", f"uts{NOW:.0f}")
    assert "--segment=1" in update.fields["Comment"]
    early = looked(job(**IN_IT, reason="Resources"), reservations=held.replace(f"{NOW - since:.0f}", f"{NOW - 60:.0f}"))
    assert decided(early, {"1": ORDER}).states == {"1": "planned"}


@pytest.mark.parametrize("topology", [TOPOLOGY, BLOCKS])
@pytest.mark.parametrize("reason", ["DependencyNeverSatisfied", "Licenses", "QOSMaxJobsPerUserLimit", "AssocGrpGRES"])
def test_a_job_that_slurm_starts_on_no_nodes_keeps_none(reason: str, topology: str) -> None:
    """It waits for a limit, say, which Slurm tells of jobs that could start: its nodes are others' for ten minutes."""
    required = {} if topology == BLOCKS else {"required": "n0[1,3,5,7]"}
    waiting = job(**IN_IT, **required, reason=reason)
    decision = decided(looked(waiting, job(2), reservations=HELD, topology=topology), {"1": ORDER})
    first, other = decision.updates
    assert (first.jobs, first.fields["ReservationName"], first.fields["ReqNodeList"]) == (("1",), "", "")
    assert reason in decision.reasons["1"]
    assert other.jobs == ("2",)
    after = job(reason="BeginTime", comment=first.fields["Comment"], begin=float(first.fields["StartTime"][3:]))
    assert decided(looked(after)).states == {"1": "begins later"}
    assert decided(replace(looked(after), now=NOW + WAIT + 1)).states == {"1": "planned"}


@pytest.mark.parametrize("changes", [{"comment": "arnold: none"}, {"count": 2}, {"partition": "all,small"}])
def test_a_planned_job_that_is_changed_into_none_of_ours_keeps_no_nodes(changes: dict[str, Any]) -> None:
    """Its user has written another grid, or wants fewer nodes: it begins as a plain job, on any."""
    planned = job(**IN_IT, required="n0[1,3,5,7]", reason="Resources")
    (update,) = decided(looked(replace(planned, **changes), reservations=HELD), {"1": ORDER}).updates
    assert "refused" in update.fields["Comment"]
    assert (update.fields["ReqNodeList"], update.fields["ReservationName"]) == ("", "")


@pytest.mark.parametrize("lost", ["taken", "down", "reserved", "not in the partition"])
def test_a_plan_is_made_anew_when_a_node_is_lost(lost: str) -> None:
    """The nodes are taken back and it waits again, in one update; its order stays until there is another."""
    planned = job(required="n0[1,3,5,7]", reason="Resources", begin=NOW)
    others = [running(9, "n03")] if lost == "taken" else []
    reservations = "ReservationName=x StartTime=1799999000 EndTime=1900000000 Nodes=n03 Users=bob State=ACTIVE\n"
    look = looked(
        planned,
        *others,
        states={"n03": "DOWN*"} if lost == "down" else {},
        **({"reservations": reservations} if lost == "reserved" else {}),
        **(
            {"partitions": "PartitionName=all Default=YES Nodes=n[01,04-08] State=UP\n"}
            if lost.startswith("not")
            else {}
        ),
    )
    decision = decided(look, {"1": ORDER})
    (update,) = decision.updates
    assert update.fields == {"ReqNodeList": "", "StartTime": f"uts{NOW + WAIT:.0f}"}
    assert "n03" in update.why
    assert decision.forgotten == ()


def test_what_nobody_needs_any_more_is_cleared_away() -> None:
    """Orders of jobs that are gone, and reservations of ours that no job names; those of others never."""
    rows = [
        f"ReservationName={name} StartTime=1799999000 EndTime=1900000000 Nodes=n01 Users=ann State=ACTIVE"
        for name in ("arnold_1", "arnold_2", "maintenance")
    ]
    look = looked(running(1, "n01", reservation="arnold_1"), reservations="\n".join(rows) + "\n")
    decision = decided(look, {"1": ("n01",), "7": ("n02",)})
    assert (decision.forgotten, decision.unheld) == (("7",), ("arnold_2",))


def test_nodes_of_a_reservation_that_is_over_are_free_at_once() -> None:
    """It is deleted before the next plan is written; one of somebody else's still holds its nodes."""
    row = "ReservationName={} StartTime=1799999000 EndTime=1900000000 Nodes=n[01-08] Users=ann State=ACTIVE\n"
    states = dict.fromkeys(NODES, "IDLE+RESERVED")
    decision = decided(looked(job(2), reservations=row.format("arnold_1"), states=states))
    assert (decision.unheld, decision.states) == (("arnold_1",), {"2": "planned"})
    other = decided(looked(job(2), reservations=row.format("ours"), states=states))
    assert (other.unheld, other.states) == ((), {"2": "asked"})


def test_a_node_that_a_job_took_since_is_not_planned() -> None:
    """Nodes are asked for first: what a job has counts before what a node says."""
    decision = decided(looked(running(9, "n0[1,2]"), job(count=8, comment="arnold: tp=2,dp=4,pp=2")))
    assert decision.states == {"1": "asked"}
    assert "8 nodes, and 6 are free" in decision.reasons["1"]


def test_each_job_is_told_of_its_own_nodes() -> None:
    """Of eight nodes one job excludes five and one six, one may have all, and one is in a partition of four."""
    partitions = "".join(
        f"PartitionName={name} MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=n[01-{last}] State=UP\n"
        for name, last in (("all", "08"), ("small", "04"))
    )
    jobs = [job(1, excluded="n[01-05]"), job(2), job(3, partition="small"), job(4, excluded="n[01-06]")]
    queue = SlurmQueue(looked(*jobs, partitions=partitions), {})
    assert [int(queue.state.usable(one).sum()) for one in queue.waiting().values()] == [3, 8, 4, 2]


def test_a_job_too_large_for_the_cluster_is_in_nobodys_way() -> None:
    """Sixteen nodes of eight: it is told so, and those behind it are planned."""
    large = job(1, count=16, comment="arnold: tp=2,dp=16")
    decision = decided(looked(large, job(2)))
    assert decision.states == {"1": "asked", "2": "planned"}
    assert "could have 8 if all were free" in decision.reasons["1"]


GPUS = dict(zip(NODES, ["gpu:a100:2"] * 5 + ["gpu:h100:2"] * 2 + ["gpu:a100:1,gpu:h100:1"], strict=True))


@pytest.mark.parametrize(("gpus", "nodes"), [("gpu:h100:2", {"n06", "n07"}), ("gres/gpu:h100:2", {"n06", "n07"})])
def test_a_job_that_asks_for_a_type_of_gpu(gpus: str, nodes: set[str]) -> None:
    """It is planned on nodes of that type, where Slurm starts it; another type would lie closer together."""
    (update,) = decided(looked(job(count=2, gpus=gpus, comment="arnold: tp=2,dp=2"), gres=GPUS)).updates
    assert {*update.nodes} == nodes
    decision = decided(looked(job(count=3, gpus=gpus, comment="arnold: tp=2,dp=3"), gres=GPUS))
    assert decision.states == {"1": "asked"}
    assert says(decision.reasons["1"], "could have 2", "6 with another type")


def test_a_job_whose_partition_is_closed_is_told_so() -> None:
    """None of the eight nodes could be had if all were free: four are in its partition, and that is down."""
    partitions = (
        "PartitionName=all Default=YES Nodes=n[01-08] State=UP\nPartitionName=small Nodes=n[01-04] State=DOWN\n"
    )
    decision = decided(looked(job(partition="small"), partitions=partitions))
    assert decision.states == {"1": "asked"}
    assert says(decision.reasons["1"], "could have 0", "4 in the partition small", "DOWN")


def test_the_reservation_of_suspects_is_not_a_plans() -> None:
    """It begins with our name, and no job's number follows: it stays, and its nodes stay reserved."""
    held = "ReservationName=arnold_suspect StartTime={start} EndTime={end} Nodes=n01 Users=root State=ACTIVE\n"
    live = looked(job(), states={"n01": "RESERVED"}, reservations=held.format(start=int(NOW) - 9, end=int(NOW) + 9_000))
    decision = decided(live)
    assert decision.unheld == ()
    assert [name.name for name in live.said.reservations or ()] == ["arnold_suspect"]
    assert all("n01" not in update.nodes for update in decision.updates)
