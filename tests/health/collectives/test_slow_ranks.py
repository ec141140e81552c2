"""Members that make a job slow: what is blamed, and when it is better to say nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from health.collectives.diagnosis import MOST_PEERS, Slow, find_slow
from health.collectives.recording import (
    CollectiveRecording,
    CompletionRow,
    Completions,
    Member,
    RankGroup,
    StateRow,
    States,
)
from health.collectives.stalls import FEWEST_SAMPLES, conditions, cover, flows_at, shares
from tests.case_counts import examples

STEPS = 40
CHANGE = 20
"""The step from which on something is slow."""


def stepped(
    work: Callable[[int, int], float],
    *,
    ranks: int = 4,
    kinds: Sequence[str] = ("dp",),
    inside: Callable[[int], float] = lambda _: 0.1,
    states: Sequence[StateRow] = (),
) -> tuple[CollectiveRecording, float, float]:
    """A job whose ranks work for ``work(rank, step)`` seconds and reduce together; and the times of change and end.

    :param kinds: of the groups, each of all ranks; a step has a collective in each, one right after another.
    :param inside: seconds of a step's transfers.
    """
    rows, time, change = [], 100.0, 0.0
    for step in range(STEPS):
        change = time if step == CHANGE else change
        launch = [time + work(rank, step) for rank in range(ranks)]
        for group in range(len(kinds)):
            end = max(launch) + inside(step)
            rows += [CompletionRow(end, launch[rank], group, rank, step, 0, 64) for rank in range(ranks)]
            launch, time = [end] * ranks, end
    groups = tuple(RankGroup(kind, kind, tuple(range(ranks))) for kind in kinds)
    members = tuple(Member(f"rank {i}", i) for i in range(ranks))
    made = CollectiveRecording(members, groups, ("AllReduce",), Completions.of(rows), States.of(states))
    return made, change, time


def found(job: tuple[CollectiveRecording, float, float]) -> list[Slow]:
    """What has become slow since the change."""
    return find_slow(*job)


@examples(50)
@given(st.integers(0, 3), st.floats(2.5, 20.0), st.floats(0.05, 3.0))
def test_a_member_that_works_longer_is_named_with_its_factor(odd: int, factor: float, usual: float) -> None:
    """It takes ``factor`` times what its peers take: one suspect, certain, and the factor is that of the slow steps.

    By rounding, the last step before the change may count with them.
    """
    slow = found(stepped(lambda rank, step: usual * (factor if rank == odd and step >= CHANGE else 1)))
    assert [(one.cause, one.suspects, one.unique, one.groups) for one in slow] == [("slow-before", (odd,), True, (0,))]
    count = STEPS - CHANGE
    assert (count * factor + 1) / (count + 1) - 1e-6 <= slow[0].factor <= factor + 1e-6


@examples(30)
@given(st.floats(0.05, 3.0), st.floats(1.0, 20.0))
def test_a_job_of_which_all_became_slow_blames_none(usual: float, factor: float) -> None:
    """All members take longer alike, as with a larger batch: there is no culprit among them."""
    assert found(stepped(lambda rank, step: usual * (factor if step >= CHANGE else 1))) == []


def test_a_member_that_was_always_slower_is_not_what_has_changed() -> None:
    """It takes three times as long from the first step on: what was lost since the change is what was lost before."""
    assert found(stepped(lambda rank, step: 1.5 if rank == 1 else 0.5)) == []


@pytest.mark.parametrize(("late", "named"), [(4, True), (2, False)])
def test_it_must_be_slow_most_of_the_time(late: int, named: bool) -> None:
    """Slow in four of five steps is persistent, in two of five it is noise, however long these are."""
    slow = found(stepped(lambda rank, step: 4.0 if rank == 2 and step >= CHANGE and step % 5 < late else 0.5))
    assert [one.suspects for one in slow] == ([(2,)] if named else [])


def test_work_of_microseconds_is_none() -> None:
    """A collective right after another has no work before it: ten times nothing accuses nobody."""
    assert found(stepped(lambda rank, step: 1e-5 * (10 if rank == 2 and step >= CHANGE else 1))) == []


def test_members_of_a_pipeline_are_no_peers() -> None:
    """Stages have different work; in a group of kind pp the same times say nothing."""
    odd = stepped(lambda rank, step: 4.0 if rank == 2 and step >= CHANGE else 0.5, kinds=("pp",))
    assert found(odd) == []


def test_a_loss_that_is_small_is_not_blamed() -> None:
    """It takes 1.3 times as long, persistently, but the job spends its time in transfers: under 30 % is explained."""
    made = stepped(lambda rank, step: 0.13 if rank == 2 and step >= CHANGE else 0.1, inside=lambda _: 1.0)
    assert found(made) == []


def test_two_slow_members_are_two_suspects() -> None:
    """Equally slow: both are named, neither is certain; one that loses less than half of the worst is left out."""
    times = {0: 0.5, 1: 4.0, 2: 4.0, 3: 1.9}
    slow = found(stepped(lambda rank, step: times[rank] if step >= CHANGE else 0.5))
    assert [(one.suspects, one.unique) for one in slow] == [((1, 2), False)]


def test_of_many_peers_a_few_are_compared() -> None:
    """Three times as many members as are compared: the slow one is found all the same."""
    odd = 2 * MOST_PEERS + 1
    made = stepped(lambda rank, step: 3.0 if rank == odd and step >= CHANGE else 0.5, ranks=3 * MOST_PEERS)
    assert [one.suspects for one in found(made)] == [(odd,)]


def test_one_group_that_repeats_in_each_step_counts_once() -> None:
    """A second collective right behind the first has no work of its own before it: the groups blamed are the first."""
    slow = found(stepped(lambda rank, step: 4.0 if rank == 2 and step >= CHANGE else 0.5, kinds=("dp", "tp")))
    assert [one.groups for one in slow] == [(0,)]


@pytest.mark.parametrize(("growth", "told"), [(1.4, False), (1.6, True)])
def test_transfers_that_take_longer_are_told_without_a_name(growth: float, told: bool) -> None:
    """From 1.5 times on a group is affected; without state lines nobody of the one group can be named."""
    made = stepped(lambda rank, step: 0.5, inside=lambda step: 0.2 * (growth if step >= CHANGE else 1))
    slow = found(made)
    assert [(one.cause, one.suspects, one.groups, one.unique) for one in slow] == (
        [("slow-inside", (), (0,), False)] if told else []
    )
    if told:
        assert slow[0].factor == pytest.approx(growth)


def flow_rows(waiting: Sequence[int], samples: int) -> list[StateRow]:
    """A ring of four in which the flows that leave ``waiting`` have sent and not delivered, each 100 ms."""
    rows = []
    for i in range(samples):
        for rank in range(4):
            done = 4 if rank in waiting else 6
            rows.append(StateRow(1000 + i / 10, 0, rank, 7, 0, 0, (rank + 1) % 4, 0, 40, 6, 6, done))
    return rows


@given(st.sets(st.integers(0, 3), max_size=3), st.integers(0, 6))
def test_shares_are_counted_by_sample(waiting: set[int], samples: int) -> None:
    """Of each flow the share of samples in which it waits and its target does not, where there are samples enough."""
    rows = flow_rows(sorted(waiting), samples)
    groups = (RankGroup("g", "dp", (0, 1, 2, 3)),)
    if samples < FEWEST_SAMPLES:
        assert shares(States.of(rows), groups, "not-delivered") == {}
        return
    # a flow whose target waits as well may wait because of it
    first = {rank for rank in waiting if (rank + 1) % 4 not in waiting}
    expected = {(rank, (rank + 1) % 4): float(rank in first) for rank in range(4)}
    assert shares(States.of(rows), groups, "not-delivered") == expected


def test_samples_before_all_have_come_say_nothing_of_transfers() -> None:
    """Rank 3 has not launched: what the others wait for is its coming."""
    rows = [row for row in flow_rows([1], 6) if row.member != 3]
    assert shares(States.of(rows), (RankGroup("g", "dp", (0, 1, 2, 3)),), "not-delivered") == {}


PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(5, 9)), min_size=1, max_size=8)


@given(PAIRS)
def test_a_cover_of_one_member_is_in_every_pair(pairs: list[tuple[int, int]]) -> None:
    """One suspect alone explains all; the members with the most pairs are always among the suspects."""
    votes = {member: sum(member in pair for pair in pairs) for pair in pairs for member in pair}
    most = {member for member, count in votes.items() if count == max(votes.values())}
    found_ = cover(pairs)
    assert most <= set(found_)
    assert (len(found_) == 1) == (len(most) == 1 and max(votes.values()) == len(pairs))
    assert cover(reversed(pairs)) == found_


COUNTERS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)).map(lambda three: sorted(three)[::-1])


@given(st.lists(COUNTERS, min_size=3, max_size=5), st.integers(0, 3))
def test_conditions_follow_the_three_counters(counters: list[list[int]], slack: int) -> None:
    """In a ring, by the rules as the documentation says them; slack only ever excuses a GPU."""
    n = len(counters)
    rows = [StateRow(1.0, 0, i, 1, 0, 0, (i + 1) % n, 0, 9, *counters[i]) for i in range(n)]
    flows = flows_at(States.of(rows), 0, 1)
    assert sorted(flow.source for flow in flows) == list(range(n))
    ahead = max(counters[i][0] - counters[i - 1][2] for i in range(n))
    found_ = conditions(flows, slack=slack)
    for flow, condition in zip(flows, found_, strict=True):
        possible = min(9, counters[flow.source - 1][2] + max(ahead, 0) - slack)
        waiting = "gpu-not-ready" if flow.ready < possible else "starved"
        moving = "not-transmitted" if flow.ready > flow.transmitted else waiting
        blocked = "not-delivered" if flow.transmitted > flow.done else moving
        assert condition == ("complete" if flow.done >= 9 else blocked)
    strict = conditions(flows)
    assert all(soft in (hard, "starved") for soft, hard in zip(found_, strict, strict=True))
    assert np.all([flow.total == 9 for flow in flows])
