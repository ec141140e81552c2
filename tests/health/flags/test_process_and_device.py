"""Evidence about a process is none about its node alone, and a broken device does not mend by waiting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from health.collectives.diagnosis import Culprit, Diagnosis
from health.collectives.flagging import flags_of, withheld
from health.collectives.recording import Member
from health.flags import Ledger
from tests.health.flags.stores import memory_ledger
from topology.flags import FAULTY, WARNING, NodeFlag

T0 = datetime(2026, 11, 17, 8, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def died(node: str, rank: int) -> NodeFlag:
    """What is found where one rank never launched a collective that its group waits for."""
    return NodeFlag(node, "degraded", WARNING, source="collectives", evidence=f"rank {rank}: never came", rank=rank)


def standing(ledger: Ledger, after: timedelta) -> dict[str, str]:
    """Kind of each flag, this long after the beginning."""
    return {flag.node: flag.kind for flag in ledger.holding(T0 + after)}


# processes


def test_a_rank_that_did_not_come_makes_its_node_dearer_and_no_more() -> None:
    """Its program may have failed: 1.05, with its rank; a job of one node cannot tell the two apart at all."""
    members = tuple(Member(f"rank {rank}", rank, f"n{rank}") for rank in range(4))
    found = Diagnosis(members, (), "failure", "not-launched", (Culprit(2, "certain"),))
    (flag,) = flags_of(found, {rank: f"n{rank}" for rank in range(4)}, now=T0)
    assert (flag.node, flag.kind, flag.slowdown, flag.rank) == ("n2", "degraded", WARNING, 2)
    on_one = dict.fromkeys(range(4), "n0")
    assert flags_of(found, on_one, now=T0) == []
    assert "its program or the node" in withheld(found, on_one)


def test_a_node_whose_processes_have_all_gone_is_faulty() -> None:
    """Two ranks a node: one that is dead is a process, both are the node."""
    members = tuple(Member(f"rank {rank}", rank, f"n{rank // 2}") for rank in range(4))
    node_of = {rank: f"n{rank // 2}" for rank in range(4)}
    for gone, kind in (((2,), "degraded"), ((2, 3), "faulty")):
        culprits = tuple(Culprit(rank, "certain") for rank in gone)
        (flag,) = flags_of(Diagnosis(members, (), "failure", "unreachable", culprits), node_of, now=T0)
        assert (flag.node, flag.kind) == ("n1", kind)


def test_a_program_that_dies_twenty_times_flags_at_most_one_node() -> None:
    """Rank 5 fails on another node in each restart: the second shows that it is the program, and clears the first."""
    ledger = memory_ledger(T0)
    for restart in range(20):
        after = restart * HOUR
        ledger.record([died(f"n{restart}", 5)], now=T0 + after)
        assert standing(ledger, after) == ({"n0": "degraded"} if restart == 0 else {})


def test_the_same_rank_on_the_same_node_stays_a_suspicion() -> None:
    """The job came back where it was: nothing tells its program from the node."""
    ledger = memory_ledger(T0)
    for restart in range(3):
        ledger.record([died("n1", 5)], now=T0 + restart * HOUR)
    assert standing(ledger, 3 * HOUR) == {"n1": "degraded"}


def test_a_second_job_on_the_same_node_convicts_it() -> None:
    """Rank 5 of one job and rank 12 of another failed on n1: it is the node; a month later it would be chance."""
    ledger = memory_ledger(T0)
    ledger.record([died("n1", 5)], now=T0)
    ledger.record([died("n1", 12)], now=T0 + HOUR)
    assert standing(ledger, HOUR) == {"n1": "faulty"}
    ledger = memory_ledger(T0)
    ledger.record([died("n1", 5)], now=T0)
    ledger.record([died("n1", 12)], now=T0 + 30 * DAY)
    assert standing(ledger, 30 * DAY) == {"n1": "degraded"}


@pytest.mark.parametrize("process_first", [True, False])
def test_a_signal_of_the_node_that_agrees_convicts_it(process_first: bool) -> None:
    """A monitor warns of n1, in whichever order; that a worker computed slowly says nothing of a process that died."""
    signal = NodeFlag("n1", "degraded", WARNING, source="nvsentinel", evidence="FrequentKubeletRestart")
    for other, kind in ((signal, "faulty"), (NodeFlag("n1", "straggler", 1.3, source="what-if"), "straggler")):
        ledger = memory_ledger(T0)
        for i, flag in enumerate([died("n1", 5), other] if process_first else [other, died("n1", 5)]):
            ledger.record([flag], now=T0 + i * HOUR)
        assert standing(ledger, HOUR) == {"n1": kind}


# devices


def faulty(evidence: str, **fields: bool) -> NodeFlag:
    """A node that a detector calls faulty."""
    return NodeFlag("n1", "faulty", FAULTY, source="peers", evidence=evidence, **fields)


@pytest.mark.parametrize(
    ("flag", "device"),
    [
        (faulty("XID 79, of most of its 63 peers none"), True),
        (faulty("GpuXidError: Xid (PCI:0000:c1:00): 94, Contained ECC error"), True),
        (faulty("GpuMemWatch: uncorrectable ECC"), True),
        (faulty("GPU has fallen off the bus"), True),
        (faulty("GPU 3 is dead"), True),
        (faulty("Xid 31, MMU fault of a program"), False),
        (faulty("CPU usage 5.97 against 30.1 of its 31 peers"), False),
        (faulty("decided by vote"), False),
        (faulty("CPU usage 5.97", hardware=True), True),
        (faulty("rank 3: it is dead or does not answer", hardware=False), False),
        (NodeFlag("n1", "straggler", 1.3, evidence="ECC"), False),
        (died("n1", 3), False),
    ],
    ids=lambda value: value.evidence if isinstance(value, NodeFlag) else None,
)
def test_what_needs_a_repair(flag: NodeFlag, device: bool) -> None:
    """Xid errors that no program causes, ECC, dead; what the source says itself goes before what its words say."""
    assert flag.needs_repair == device


def test_a_dead_gpu_stays_out_until_it_is_lifted() -> None:
    """Found once and avoided since, so that nothing shows any more: out after a year; a process that hung is back."""
    ledger = memory_ledger(T0)
    ledger.record([faulty("XID 79, of most of its 63 peers none")], now=T0)
    ledger.record([NodeFlag("n2", "faulty", FAULTY, source="peers", evidence="GPU power draw 300")], now=T0)
    assert standing(ledger, 365 * DAY) == {"n1": "faulty"}
    ledger.lift(["n1"], now=T0 + 365 * DAY, because="GPU 3 replaced, burn-in passed", by="ada")
    assert standing(ledger, 365 * DAY + HOUR) == {}


@pytest.mark.parametrize(("after_test", "prices"), [(True, [WARNING]), (False, [])])
def test_a_tested_node_comes_back_on_probation(after_test: bool, prices: list[float]) -> None:
    """Lifted after a test it costs as much as a warning for the quiet time, a day; lifted without one, nothing."""
    ledger = memory_ledger(T0)
    ledger.record([NodeFlag("n1", "faulty", FAULTY, source="peers", evidence="XID 79")], now=T0)
    ledger.lift(["n1"], now=T0 + HOUR, because="dcgmi diag", by="ann", after_test=after_test)
    assert [flag.slowdown for flag in ledger.holding(T0 + 2 * HOUR)] == prices
    assert ledger.holding(T0 + 26 * HOUR) == []


def test_a_dead_gpu_does_not_mend_by_a_lesser_finding() -> None:
    """That the same source finds the node only slow later is no repair; its all-clear, as of a monitor, is one."""
    ledger = memory_ledger(T0)
    ledger.record([faulty("XID 79")], now=T0)
    ledger.record([NodeFlag("n1", "straggler", 1.2, source="peers")], now=T0 + 2 * HOUR)
    assert standing(ledger, 30 * DAY) == {"n1": "faulty"}
    ledger.record([NodeFlag("n1", "straggler", 1.0, source="peers")], now=T0 + 30 * DAY)
    assert standing(ledger, 30 * DAY + HOUR) == {}
