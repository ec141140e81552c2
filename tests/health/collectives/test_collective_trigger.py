"""The trigger, its guards, what becomes a flag, and whose node it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf, nan

import pytest

from benchmarks.simulated_collectives import BenchJob, simulate
from ground.errors import InvalidInput
from ground.files import Source
from health.collectives.diagnosis import (
    AlarmKind,
    Cause,
    Certainty,
    Culprit,
    Diagnosis,
    alarms,
    diagnose,
    verdict,
    watched_members,
)
from health.collectives.flagging import HOLD, flags_of, nodes_of, withheld
from health.collectives.recording import (
    CollectiveRecording,
    CompletionRow,
    Completions,
    Member,
    RankGroup,
    StateRow,
    States,
)
from health.collectives.trigger_settings import TriggerSettings
from tests.facts import says

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def recording(ends: list[float], *, standing: list[float] | None = None, size: int = 100) -> CollectiveRecording:
    """One data-parallel group of two, of which member 1 is watched; it completes at ``ends``."""
    done = [CompletionRow(end, nan, 0, 1, i, 0, size) for i, end in enumerate(ends)]
    rows = [StateRow(time, 0, 1, len(ends), 0, 0, 0, 0, 8, 4, 4, 4) for time in standing or []]
    group = RankGroup("dp", "dp", (0, 1))
    members = (Member("rank 0", 0), Member("rank 1", 1))
    return CollectiveRecording(members, (group,), ("AllReduce",), Completions.of(done), States.of(rows))


def raised(made: CollectiveRecording) -> list[tuple[float, AlarmKind]]:
    """Times and kinds of all alarms."""
    return [(time, alarm.kind) for time, _, found in alarms(made, TriggerSettings()) for alarm in found]


def every(seconds: float, start: float, end: float) -> list[float]:
    """Instants at equal distances."""
    return [start + seconds * i for i in range(round((end - start) / seconds))]


def test_no_completion_in_the_window_is_a_failure() -> None:
    """The last completion was at 44 s and the rank stands in a collective: the look at 50 s finds 5 s without any."""
    made = recording(every(1.0, 0.0, 45.0), standing=every(0.1, 44.1, 52.0))
    assert raised(made)[0] == (50.0, "failure")


def test_a_job_that_begins_has_no_rhythm_yet() -> None:
    """Its first collective takes 25 s: nothing to compare with.  A rank that stands in it for 30 s is stuck."""
    waiting = every(0.1, 1.0, 25.0)
    assert raised(recording([25.0, 26.0], standing=waiting)) == []
    stuck = recording([], standing=every(0.1, 1.0, 45.0))
    # It stands from 1 s on, which is when the recording begins; a look each 10 s.
    assert raised(stuck)[0] == (31.0, "failure")


@pytest.mark.parametrize("compute", [1.5, 3.0])
def test_long_steps_raise_no_alarm(compute: float) -> None:
    """A simulated job without a fault, steps of 14 s and 27 s: silent, and not short of evidence."""
    made = simulate(BenchJob(dp=2, tp=1, pp=2, gpus_per_node=1, compute=compute), 8 * 9 * compute, seed=3)
    assert raised(made) == []
    assert diagnose(made).notes == ()


def test_a_short_recording_says_so() -> None:
    """Two completions are no rhythm: that no alarm was raised means little, and the diagnosis says it."""
    found = diagnose(recording([1.0, 2.0], standing=every(0.1, 2.1, 20.0)))
    assert found.status == "healthy"
    assert any("record more steps" in note for note in found.notes)


def test_steps_longer_than_the_window_are_no_failure() -> None:
    """One collective each 15 s: most windows of 10 s are empty, and that is how this job is."""
    standing = [time for start in every(15.0, 1.0, 150.0) for time in every(0.1, start + 10, start + 14)]
    assert raised(recording(every(15.0, 0.0, 150.0), standing=standing)) == []


@pytest.mark.parametrize("step", [0.3, 1.0, 3.0, 7.0, 9.0])
def test_windows_that_hold_one_step_less_are_no_straggler(step: float) -> None:
    """Steps that do not divide the window make counts that differ by one."""
    assert raised(recording(every(step, 0.0, 150.0))) == []


def test_half_the_rate_is_a_straggler_and_two_thirds_is_not() -> None:
    """The rule: throughput halved or interval doubled."""
    halved = recording([*every(0.5, 0.0, 60.0), *every(1.1, 60.0, 90.0)])
    assert raised(halved)[0] == (70.0, "straggler")
    assert raised(recording([*every(0.5, 0.0, 60.0), *every(0.75, 60.0, 90.0)])) == []


def test_the_same_count_of_smaller_collectives_is_a_straggler_too() -> None:
    """Throughput counts bytes."""
    made = recording(every(0.5, 0.0, 90.0))
    size = made.completions.bytes.copy()
    size[made.completions.end >= 60.0] //= 4
    object.__setattr__(made.completions, "bytes", size)
    assert raised(made)[0] == (70.0, "straggler")


def test_one_rank_of_each_group_and_ten_at_most() -> None:
    """30 data-parallel groups: ten ranks, of different groups, from the first to the last."""
    groups = tuple(RankGroup(f"dp{i}", "dp", (2 * i, 2 * i + 1)) for i in range(30))
    made = CollectiveRecording(
        tuple(Member(f"rank {i}", i) for i in range(60)), groups, (), Completions.of([]), States.of([])
    )
    watched = watched_members(made)
    assert len(watched) == 10
    assert (min(watched), max(watched)) == (1, 59)
    assert all(watched[member] == member // 2 for member in watched)
    few = CollectiveRecording(made.members, groups[:3], (), Completions.of([]), States.of([]))
    assert watched_members(few) == {1: 0, 3: 1, 5: 2}


def diagnosis(cause: Cause, certainty: Certainty, *, factor: float | None = None) -> Diagnosis:
    """Two culprits on one node."""
    members = tuple(Member(f"rank {i}", i, f"h{i // 2}") for i in range(4))
    culprits = tuple(Culprit(member, certainty, factor) for member in (2, 3))
    status = "straggler" if factor else "failure"
    return Diagnosis(members, (), status, cause, culprits, since=NOW.timestamp(), localised=NOW.timestamp() + 10)


def test_what_is_certain_becomes_one_flag_for_each_node() -> None:
    """Two ranks of one node: one flag, which holds for a day from the moment it was found."""
    found = diagnosis("gpu-not-ready", "certain")
    (flag,) = flags_of(found, nodes_of(found.members), now=NOW)
    assert (flag.node, flag.kind, flag.slowdown, flag.source) == ("h1", "faulty", inf, "collectives")
    assert (flag.since, flag.until) == (NOW, NOW + timedelta(seconds=10) + HOLD)
    assert "rank 2" in flag.evidence


def test_slow_nodes_keep_their_factor() -> None:
    """A slow GPU is a straggler by its factor, a slow network card is degraded."""
    found = diagnosis("slow-compute", "certain", factor=2.5)
    (flag,) = flags_of(found, nodes_of(found.members), now=NOW)
    assert (flag.kind, flag.slowdown) == ("straggler", 2.5)
    found = diagnosis("slow-transfer", "certain", factor=4.0)
    (flag,) = flags_of(found, nodes_of(found.members), now=NOW)
    assert (flag.kind, flag.slowdown) == ("degraded", 4.0)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (diagnosis("crossed-order", "likely"), "the program's"),
        (diagnosis("not-transmitted", "likely"), "one suspect alone"),
        (diagnosis("late", "possible", factor=3.0), "one suspect alone"),
    ],
)
def test_what_is_not_certain_becomes_none(found: Diagnosis, words: str) -> None:
    """No node is flagged, and the reason is given."""
    nodes = nodes_of(found.members)
    assert flags_of(found, nodes, now=NOW) == []
    assert words in withheld(found, nodes)


def test_unknown_nodes_are_asked_for() -> None:
    """A certain culprit of whom no node is known: no flag, and a hint at --nodes."""
    found = diagnosis("not-launched", "certain")
    assert flags_of(found, {}, now=NOW) == []
    assert "--node-map" in withheld(found, {})


def test_nodes_from_a_file() -> None:
    """By rank, or translating the hosts of the records."""
    members = (Member("rank 0", 0, "10.0.0.1"), Member("rank 1", 1), Member("x", None, "10.0.0.9"))
    assert nodes_of(members, Source("n.csv", "rank,node\n1,n0001\n")) == {0: "10.0.0.1", 1: "n0001", 2: "10.0.0.9"}
    assert nodes_of(members, Source("n.csv", "host, node\n10.0.0.1, n0007\n")) == {0: "n0007", 2: "10.0.0.9"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("worker,node\n", 1, "header"),
        ("rank,node\n1\n", 2, "the row has 1 cells, the header 2"),
        ("rank,node\nx,n1\n", 2, "is not a rank and a node"),
        ("rank,node\n1,n1\n\n1,n2\n", 4, "another node above"),
    ],
)
def test_damaged_nodes(text: str, line: int, words: str) -> None:
    """Each fault is said with its line."""
    with pytest.raises(InvalidInput, match=words) as caught:
        nodes_of((), Source("n.csv", text))
    assert caught.value.where == f"n.csv:{line}"


def test_verdicts_begin_with_what_happened() -> None:
    """In words, with the doubt there is."""
    assert says(verdict(diagnosis("not-launched", "certain")), "stands still", "rank 2 on h1")
    assert "likely rank 2" in verdict(diagnosis("not-transmitted", "likely"))
    assert "(2.5 times)" in verdict(diagnosis("slow-compute", "certain", factor=2.5))
    assert "No collective stands still" in verdict(Diagnosis((), (), "healthy"))
