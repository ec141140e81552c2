"""The bench of faults: a healthy job raises no alarm; of a faulty one the rank is named, or nobody for certain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated_collectives import FAULTS, BenchJob, Fault, FaultKind, simulate
from benchmarks.simulated_collectives.run import EPOCH
from health.collectives.diagnosis import Diagnosis, diagnose, find_slow
from health.collectives.recording import CollectiveRecording
from tests.case_counts import ALL_CASES, examples

SECONDS = 62.0
COMPUTE = [0.08, 0.2, 0.4] if ALL_CASES else [0.4]  # seconds of a step: the shortest has most records by far
SHAPES = st.sampled_from([(4, 2, 2), (2, 2, 2), (4, 1, 3), (4, 2, 1), (3, 1, 2)])


@st.composite
def jobs(draw: st.DrawFn) -> BenchJob:
    """Small jobs of any shape, rings and trees."""
    dp, tp, pp = draw(SHAPES)
    return BenchJob(
        dp=dp,
        tp=tp,
        pp=pp,
        microbatches=draw(st.integers(1, 3)),
        algorithm=draw(st.sampled_from(["ring", "tree"])),
        rings=draw(st.integers(1, 2)),
        compute=draw(st.sampled_from(COMPUTE)),
        gpus_per_node=tp,
    )


def named(found: Diagnosis) -> list[int]:
    """Ranks of the culprits."""
    return [culprit.member for culprit in found.culprits]


@examples(8)
@given(jobs(), st.integers(0, 1000))
def test_a_healthy_job_raises_no_alarm(job: BenchJob, seed: int) -> None:
    """Whatever its shape and speed, nothing is found where nothing is wrong."""
    assert diagnose(simulate(job, SECONDS, seed=seed)).status == "healthy"


@examples(20)
@given(jobs(), st.integers(0, 1000), st.sampled_from(FAULTS), st.floats(0, 1), st.floats(36, 44))
def test_nobody_else_is_ever_blamed_for_certain(
    job: BenchJob, seed: int, kind: FaultKind, who: float, time: float
) -> None:
    """A certain culprit is the rank with the fault; where it is one of a few, it is among them."""
    rank = min(int(who * job.ranks), job.ranks - 1)
    found = diagnose(simulate(job, SECONDS, seed=seed, fault=Fault(kind, rank, time)))
    if found.certainty == "certain":
        assert named(found) == [rank]
    if found.certainty == "likely" and found.status == "failure":
        assert rank in named(found)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("sender-stuck", "not-transmitted"),
        ("receiver-stuck", "not-delivered"),
        ("not-launched", "not-launched"),
        ("slow-nic", "slow-transfer"),
    ],
)
def test_two_rings_name_the_rank(kind: FaultKind, cause: str) -> None:
    """With two rings in opposite order, and no pipeline, each of these faults is told apart with certainty."""
    job = BenchJob(dp=6, tp=2, pp=1, gpus_per_node=2, microbatches=1, compute=0.2)
    found = diagnose(simulate(job, SECONDS, seed=1, fault=Fault(kind, 6, 41.0, factor=16)))
    assert (found.cause, found.certainty, named(found)) == (cause, "certain", [6])


def test_a_slow_gpu_is_measured_by_its_own_time() -> None:
    """A GPU at a sixth of its speed: whoever waits for it is not blamed, and the factor is the injected one."""
    recording = simulate(
        BenchJob(dp=4, tp=2, pp=2, compute=0.2), 110.0, seed=5, fault=Fault("slow-gpu", 9, 50.0, factor=6)
    )
    assert named(diagnose(recording)) == [9]
    slow = find_slow(recording, EPOCH + 52.0, EPOCH + 108.0)[0]
    assert (slow.cause, slow.suspects, slow.unique) == ("slow-before", (9,), True)
    # Own times are drawn with 5 % noise.
    assert slow.factor == pytest.approx(6.0, rel=0.1)


def test_one_ring_does_not_tell_sender_from_receiver() -> None:
    """A stuck sender and a receiver that makes no room write the same records: both ends are named, as likely."""
    job = BenchJob(dp=4, tp=1, pp=1, rings=1, gpus_per_node=1)
    sender = diagnose(simulate(job, SECONDS, seed=2, fault=Fault("sender-stuck", 1, 41.0)))
    receiver = diagnose(simulate(job, SECONDS, seed=2, fault=Fault("receiver-not-posting", 2, 41.0)))
    assert named(sender) == named(receiver) == [1, 2]
    assert sender.certainty == receiver.certainty == "likely"


def test_crossed_order_is_seen_as_the_programs() -> None:
    """One rank of four takes two collectives in the other order: it is named, and a node never."""
    found = diagnose(simulate(BenchJob(dp=4, tp=1, pp=1), SECONDS, seed=3, fault=Fault("crossed-order", 2, 40.0)))
    assert (found.cause, named(found), found.certainty) == ("crossed-order", [2], "likely")


def test_alarms_come_within_two_periods() -> None:
    """A job that stops at 41 s has an empty window of 10 s by the look at 60 s at the latest."""
    found = diagnose(simulate(BenchJob(), SECONDS, seed=4, fault=Fault("not-launched", 3, 41.0)))
    assert found.alarm is not None
    assert 41.0 < found.alarm - EPOCH <= 60.1


def test_the_same_seed_gives_the_same_recording() -> None:
    """A bench that is not repeatable measures nothing."""
    first, second = (simulate(BenchJob(), 8.0, seed=7) for _ in range(2))
    assert np.array_equal(first.completions.end, second.completions.end)
    assert np.array_equal(first.states.done, second.states.done)
    other = simulate(BenchJob(), 8.0, seed=8)
    assert not np.array_equal(first.completions.end, other.completions.end[: len(first.completions)])


@pytest.mark.parametrize("skew", [-6.0, 4.0])
def test_a_wrong_clock_is_no_fault(skew: float) -> None:
    """The clock of rank 1 is off: no alarm without a fault, and with one it is not rank 1 who is blamed."""
    job = BenchJob(dp=4, tp=1, pp=1, gpus_per_node=1)
    healthy = diagnose(skewed(simulate(job, SECONDS, seed=1), 1, skew))
    assert healthy.status == "healthy"
    assert any("1 clock of ranks off" in note for note in healthy.notes)
    fault = Fault("not-launched", 2, 41.0)
    found = diagnose(skewed(simulate(job, SECONDS, seed=1, fault=fault), 1, skew))
    assert (found.cause, named(found), found.certainty) == ("not-launched", [2], "certain")


def skewed(recording: CollectiveRecording, member: int, seconds: float) -> CollectiveRecording:
    """The recording as it is if the clock of a member is ahead."""
    ends, rows = recording.completions, recording.states
    late = np.where(ends.member == member, seconds, 0.0)
    ends = replace(ends, end=ends.end + late, start=ends.start + late)
    rows = replace(rows, time=rows.time + np.where(rows.member == member, seconds, 0.0))
    return replace(recording, completions=ends.where(np.argsort(ends.end)), states=rows.where(np.argsort(rows.time)))


def test_a_rank_whose_lines_cease_is_unreachable() -> None:
    """All stand in a collective, the lines of rank 3 stop while those of the others go on: its host is gone."""
    job = BenchJob(dp=4, tp=1, pp=1, gpus_per_node=1)
    made = simulate(job, SECONDS, seed=1, fault=Fault("receiver-stuck", 0, 41.0))
    rows = made.states
    found = diagnose(replace(made, states=rows.where((rows.member != 3) | (rows.time < EPOCH + 45.0))))
    assert (found.cause, named(found)) == ("unreachable", [3])
