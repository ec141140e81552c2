"""The dispatch pass: which job is asked, on what terms, and what a live cluster changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from scheduler.queue.arnold import Arnold, NoReserve
from scheduler.queue.dispatch import Candidate, Dispatch
from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill
from scheduler.queue.policy import CapacityReservation, QueuePolicy
from scheduler.queue.priority import PriorityAge, PriorityPreempt
from tests.scheduler.queue.flat_clusters import Flat, Runs, Wants

Driver = Callable[[Candidate[Wants]], bool | None]
"""Answers a question: whether there is room; none = no answer."""


def dispatch_of(policy: QueuePolicy, cluster: Flat, *jobs: Wants, live: bool = True) -> Dispatch[Wants]:
    """Jobs that wait on a cluster; each is of its own kind."""
    dispatch: Dispatch[Wants] = Dispatch(policy, kind=lambda job: job.key, live=live)
    dispatch.cluster = cluster
    for job in jobs:
        dispatch.join(job)
    return dispatch


def asked(dispatch: Dispatch[Wants], answer: Driver = lambda _: False) -> list[tuple[Candidate[Wants], object]]:
    """One pass, in which a job with room leaves the backlog; the questions with what they must leave free."""
    found = []
    for one in dispatch.candidates():
        keeps = [None if keep is None else keep.tolist() for keep in one.offers]
        one.found = answer(one)
        if one.found and not one.trial and not (one.victims and dispatch.live):
            dispatch.backlog.leave(one.job)
        found.append((one, keeps))
    return found


def keys(questions: Sequence[tuple[Candidate[Wants], object]]) -> list[int]:
    """Which jobs were asked."""
    return [one.job.key for one, _ in questions]


def test_what_those_before_could_use_is_withheld() -> None:
    """Job 1 could use node 1 alone, job 2 node 2 alone; both are blocked, so job 3 must leave both."""
    cluster = Flat(3, closed={1: [0, 2], 2: [0, 1]})
    questions = asked(dispatch_of(PriorityAge(), cluster, *(Wants(key, submitted=key) for key in (1, 2, 3))))
    last, keeps = questions[-1]
    assert (last.job.key, [one.key for one in last.ahead], keeps) == (3, [1, 2], [[0, 8, 8]])
    assert questions[0][1] == [None]


@pytest.mark.parametrize(
    ("policy", "keeps", "passing"),
    [(Fifo(), [], False), (FifoBackfill(), [[0, 8, 0]], True), (NoReserve(), [None], True)],
    ids=lambda value: getattr(value, "name", None),
)
def test_every_policy_says_what_it_withholds(policy: QueuePolicy, keeps: object, passing: bool) -> None:
    """Strict: everything; EASY without known ends: all that the first could use; a greedy one: nothing."""
    cluster = Flat(3, closed={1: [0, 2], 2: [0, 1]})
    last, offered = asked(dispatch_of(policy, cluster, *(Wants(key, submitted=key) for key in (1, 2, 3))))[-1]
    assert (last.job.key, offered, last.passing) == (3, keeps, passing)


def test_a_job_that_could_never_fit_blocks_none() -> None:
    """Of strict order: the first would not fit on the empty cluster, so the second is asked as if it were alone."""

    def answer(one: Candidate[Wants]) -> bool:
        one.possible = one.job.key != 1
        return False

    dispatch = dispatch_of(Fifo(), Flat(3), *(Wants(key, submitted=key) for key in (1, 2, 3)))
    assert [(one.job.key, one.passing) for one, _ in asked(dispatch, answer)] == [(1, True), (2, True), (3, False)]


def test_a_pass_sees_the_cluster_that_stands_for_it_at_each_question() -> None:
    """In strict order too: one node has no room for job 2; the cluster set after job 1 has its answer has three."""
    dispatch = dispatch_of(Fifo(), Flat(1), Wants(1), Wants(2, nodes=3), live=False)

    def answer(one: Candidate[Wants]) -> bool:
        dispatch.cluster = Flat(3, version=1)
        return True

    assert keys(asked(dispatch, answer)) == [1, 2]


def test_the_first_blocked_is_asked_again_when_the_cluster_changes() -> None:
    """A node comes free after job 2 was refused: job 1 is asked before job 3, takes it, and the pass is over."""
    dispatch = dispatch_of(NoReserve(), Flat(3), *(Wants(key, submitted=key) for key in (1, 2, 3)))
    order = []

    def answer(one: Candidate[Wants]) -> bool:
        order.append(one.job.key)
        if order == [1, 2]:
            dispatch.cluster = Flat(4, version=1)
        return order == [1, 2, 1]

    asked(dispatch, answer)
    assert (order, dispatch.due) == ([1, 2, 1], True)
    assert keys(asked(dispatch)) == [2, 3]


def test_one_that_comes_meanwhile_has_its_turn_and_one_that_left_has_none() -> None:
    """Job 3 goes and job 0, older than all, comes while job 1 is asked: 0 is next, with nothing before it."""
    third = Wants(3, submitted=3)
    dispatch = dispatch_of(PriorityAge(), Flat(3), Wants(1, submitted=1), Wants(2, submitted=2), third)

    def answer(one: Candidate[Wants]) -> bool:
        if one.job.key == 1:
            dispatch.backlog.leave(third)
            dispatch.join(Wants(0, submitted=0))
        return False

    questions = asked(dispatch, answer)
    assert keys(questions) == [1, 0, 2]
    assert [[other.key for other in one.ahead] for one, _ in questions] == [[], [], [0, 1]]


def test_one_that_changes_meanwhile_is_asked_as_it_is_now() -> None:
    """While job 1 is asked, job 2 says how long it runs, and keeps its place: it is asked once, as it is now."""
    before, now = Wants(2, submitted=2), Wants(2, submitted=2, predicted=5.0)
    dispatch = dispatch_of(PriorityAge(), Flat(3), Wants(1, submitted=1), before, Wants(3, submitted=3))

    def answer(one: Candidate[Wants]) -> bool:
        if one.job.key == 1:
            dispatch.backlog.leave(before)
            dispatch.join(now)
        return False

    questions = asked(dispatch, answer)
    assert keys(questions) == [1, 2, 3]
    assert questions[1][0].job is now


def test_without_an_answer_a_job_is_left_out() -> None:
    """It blocks none: the driver could not ask."""
    dispatch = dispatch_of(Fifo(), Flat(3), Wants(1, submitted=1), Wants(2, submitted=2))
    assert [one.passing for one, _ in asked(dispatch, lambda _: None)] == [True, True]


ZONE = CapacityReservation("large", 2, 8, 0.0, 50.0, (0, 1))
SPARE = Runs(8, [0], preemptible=True)


def test_those_that_leave_already_are_not_stopped_again() -> None:
    """Jobs 9 and 8 are in the zone and may be stopped: both at first, in the order of their starts; then none."""
    large = Wants(1, nodes=2, reservation="large")
    cluster = Flat(3, [SPARE, Runs(9, [1], started=-5.0, preemptible=True)], [replace(ZONE, claimed=True)], now=60.0)
    dispatch = dispatch_of(Arnold(), cluster, large)
    first, stop = asked(dispatch, lambda one: bool(one.victims))
    assert ([one.key for one in stop[0].victims], first[0].emptying) == ([9, 8], True)
    dispatch.cluster = replace(cluster, running=[replace(one, leaving=True) for one in cluster.running])
    dispatch.freed = True
    assert [list(one.victims) for one, _ in asked(dispatch)] == [[]]


@pytest.mark.parametrize(("live", "offers"), [(True, 1), (False, 2)])
def test_a_zone_that_is_being_emptied_is_waited_for_on_a_live_cluster(live: bool, offers: int) -> None:
    """Its own zone alone is offered; where all happens at once, any other nodes too."""
    large = Wants(1, nodes=2, reservation="large")
    cluster = Flat(4, [SPARE], [replace(ZONE, claimed=True)], now=60.0)
    questions = asked(dispatch_of(Arnold(), cluster, large, live=live))
    assert isinstance(questions[0][1], list)
    assert len(questions[0][1]) == offers


@pytest.mark.parametrize(("claimed", "keeps"), [(False, [None]), (True, [[8, 8, 0]])])
def test_none_comes_into_a_zone_that_is_being_emptied(claimed: bool, keeps: object) -> None:
    """A preemptible job runs anywhere until the large one is here; then it would have to leave at once."""
    cluster = Flat(3, reservations=[replace(ZONE, claimed=claimed)], now=60.0)
    assert asked(dispatch_of(Arnold(), cluster, Wants(2, preemptible=True)))[0][1] == keeps


def test_none_is_stopped_for_a_job_that_has_gone() -> None:
    """Job 1 has no room and is deleted before its answer comes: job 9, which it could have stopped, goes on."""
    only = Wants(1, nodes=3, priority=2)
    dispatch = dispatch_of(PriorityPreempt(), Flat(3, [Runs(9, [0], preemptible=True)]), only)

    def answer(_: Candidate[Wants]) -> bool:
        dispatch.backlog.leave(only)
        return False

    assert [list(one.victims) for one, _ in asked(dispatch, answer)] == [[]]


def test_where_all_happens_at_once_a_job_starts_in_place_of_those_it_stops() -> None:
    """Two of three nodes are free, so job 1 is asked about only as if job 9 had left; job 2 has its turn after it."""
    high, low = Wants(1, nodes=3, priority=2), Wants(2, submitted=1)
    cluster = Flat(3, [Runs(9, [0], preemptible=True)])
    questions = asked(dispatch_of(PriorityPreempt(), cluster, high, low, live=False), lambda one: bool(one.victims))
    assert [(one.job.key, [two.key for two in one.victims]) for one, _ in questions] == [(1, [9]), (2, [])]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    ("objectives", "taken"), [((2.0, 1.0), [3, 4]), ((1.0, 1.0 - 1e-12), [1, 3]), ((2.0, None), [1, 3])]
)
def test_placement_decides_between_sets_of_victims(
    live: bool, objectives: Sequence[float | None], taken: Sequence[int]
) -> None:
    """Jobs 1 and 3, the cheapest, or 3 and 4 in one rack: each is tried; the better objective counts, then the order.

    A set with which placement finds nothing is none.
    """
    running = [Runs(key, [key - 1], started=8.0 - key // 4, preemptible=True) for key in (1, 2, 3, 4)]
    running[1] = replace(running[1], started=0.0)
    cluster = Flat(4, running, now=10.0, racks=(0, 0, 1, 1))
    dispatch = dispatch_of(PriorityPreempt(), cluster, Wants(9, nodes=2, priority=1), live=live)
    worth = iter(objectives)

    def answer(one: Candidate[Wants]) -> bool:
        if one.trial:
            objective = next(worth)
            one.objective = objective or 0.0
            return objective is not None
        return bool(one.victims)

    questions = [one for one, _ in asked(dispatch, answer) if one.victims]
    assert [(one.trial, [two.key for two in one.victims]) for one in questions[:2]] == [(True, [1, 3]), (True, [4, 3])]
    assert [(one.trial, sorted(two.key for two in one.victims)) for one in questions[2:]] == [(False, taken)]
