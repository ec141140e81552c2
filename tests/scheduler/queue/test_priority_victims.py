"""Which jobs are stopped for another: worked out by hand, and beside trying every set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.priority import DEAREST, PriorityPreempt, victim_choices
from tests.scheduler.queue.flat_clusters import Flat, Runs, Wants


def chosen(job: Wants, cluster: Flat) -> list[set[int]]:
    """Keys of the choices."""
    sets = PriorityPreempt().victims(job, cluster)
    return [{one.key for one in jobs if isinstance(one.key, int)} for jobs in sets]


def stoppable(key: int, places: Sequence[int], *, started: float = 0.0, priority: int = 0, gpus: int = 8) -> Runs:
    """A job that may be stopped."""
    return Runs(key, places, gpus, started=started, priority=priority, preemptible=True)


def test_victims_are_the_lowest_and_youngest_that_are_enough() -> None:
    """One node is needed: that of priority 0 rather than 1; of two of the same, the younger, which loses less."""
    running = [stoppable(1, [0], priority=1, started=8), stoppable(2, [1], started=2), stoppable(3, [2], started=6)]
    cluster = Flat(3, running, now=10)
    assert chosen(Wants(priority=2), cluster) == [{3}]
    assert chosen(Wants(priority=2, nodes=2), cluster) == [{2, 3}]
    assert not chosen(Wants(priority=1, nodes=3), cluster)
    assert not chosen(Wants(priority=0), cluster)


def test_a_gang_is_counted_once() -> None:
    """Two nodes are needed.  The gang of both loses 2 * 8 * 6 = 96 GPU-seconds, two jobs of one node 8 * (5 + 8) = 104:
    node by node the two would look cheaper at 40 and 64 beside 96 each.
    """
    running = [stoppable(1, [0, 1], started=4), stoppable(2, [2], started=5), stoppable(3, [3], started=2)]
    assert chosen(Wants(priority=1, nodes=2), Flat(4, running, now=10)) == [{1}]


def test_what_was_saved_is_not_lost() -> None:
    """The older has written a checkpoint at 9, the younger none since 6."""
    cluster = Flat(2, [stoppable(1, [0]), stoppable(2, [1], started=6)], now=10, saved={1: 9.0})
    assert chosen(Wants(priority=1), cluster) == [{1}]


def test_one_that_leaves_is_waited_for() -> None:
    """Job 2 is leaving anyhow, whatever its priority: stopping job 1, which is younger, would be for nothing."""
    leaving = replace(stoppable(2, [1], priority=5), leaving=True)
    assert chosen(Wants(priority=1), Flat(2, [stoppable(1, [0], started=9), leaving], now=10)) == [{2}]


def test_victims_lie_in_one_trunk() -> None:
    """Two nodes are needed.  The two of priority 0 lie in two trunks, beside one of 1 and one of 2: the former.

    Nobody is stopped where a trunk has room already, and where stopping makes room in none.
    """
    running = [stoppable(number, [number], priority=priority) for number, priority in enumerate((0, 2, 1, 0))]
    cluster = Flat(4, running, now=10, trunks=(1, 1, 0, 0))
    assert chosen(Wants(priority=3, nodes=2), cluster) == [{2, 3}]
    assert not chosen(Wants(priority=1, nodes=2), cluster)
    assert not chosen(Wants(priority=3, nodes=3), cluster)
    assert not chosen(Wants(priority=3, nodes=2), replace(cluster, running=running[:2]))


def test_nobody_is_stopped_who_is_not_in_the_way() -> None:
    """4 GPUs are needed; 2 are free, and of a job of 1 and one of 4 the second alone is enough."""
    cluster = Flat(1, [stoppable(1, [0], gpus=1, started=9), stoppable(2, [0], gpus=4), Runs(3, [0], gpus=1)], now=10)
    assert chosen(Wants(gpus=4, priority=1), cluster) == [{2}]


def test_one_rack_is_a_choice_unless_it_is_too_dear() -> None:
    """Two nodes are needed of racks {0, 1}, {2, 3}.  The cheapest are jobs 1 and 3, of 1 s each, in two racks; jobs 3
    and 4 in one rack lose 1 + 3 s, twice as much, and with a start a second earlier more than that.
    """
    running = [stoppable(key, [key - 1], started=started) for key, started in ((1, 9), (2, 0), (3, 9), (4, 7))]
    assert DEAREST == 2.0
    assert chosen(Wants(priority=1, nodes=2), Flat(4, running, now=10, racks=(0, 0, 1, 1))) == [{1, 3}, {3, 4}]
    running[3] = stoppable(4, [3], started=6)
    assert chosen(Wants(priority=1, nodes=2), Flat(4, running, now=10, racks=(0, 0, 1, 1))) == [{1, 3}]


def test_a_gang_larger_than_a_rack_is_given_the_fewest() -> None:
    """Four nodes of racks of 3, 2 and 2: the first rack and another are enough, where three racks hold the cheapest."""
    started = (9, 8, 9, 5, 9, 5, 9)
    running = [stoppable(node, [node], started=start) for node, start in enumerate(started)]
    racks = (0, 0, 1, 1, 2, 2, 0)
    assert chosen(Wants(priority=1, nodes=4), Flat(7, running, now=10, racks=racks)) == [{0, 2, 4, 6}, {0, 1, 2, 6}]


@st.composite
def clusters(draw: st.DrawFn, *, shared: bool) -> Flat:
    """Up to eight nodes with jobs on one to three of them; alone on their nodes, or with one other job of half each."""
    count = draw(st.integers(1, 8))
    free = [8] * count
    running = []
    for key in range(draw(st.integers(1, 7))):
        gpus = draw(st.sampled_from([4, 8])) if shared else 8
        places = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True))
        places = [node for node in places if free[node] >= gpus]
        if places:
            for node in places:
                free[node] -= gpus
            started, priority = draw(st.integers(0, 9)), draw(st.integers(0, 2))
            running.append(Runs(key, places, gpus, inf, started, priority, draw(st.booleans())))
    racks = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return Flat(count, running, now=10.0, racks=racks)


def worth(cluster: Flat, jobs: Sequence[Runs]) -> tuple[int, float]:
    """Highest priority, and GPU-seconds lost."""
    lost = sum(one.gpus * len(one.places) * cluster.unsaved(one) for one in jobs)
    return max(one.priority for one in jobs), lost


def has_room(job: Wants, cluster: Flat, without: Sequence[Runs] = ()) -> bool:
    """Whether enough nodes have enough free when some have gone."""
    left = [one for one in cluster.running if one not in without]
    return replace(cluster, running=left).may_fit(job)


@given(cluster=clusters(shared=False), nodes=st.integers(1, 8), priority=st.integers(0, 3))
def test_the_cheapest_set_is_that_of_trying_all(cluster: Flat, nodes: int, priority: int) -> None:
    """Where each job has its nodes alone: as cheap as the cheapest of all sets, and none where no set is enough."""
    job = Wants(99, nodes=nodes, priority=priority)
    able = [one for one in cluster.running if one.preemptible and one.priority < priority]
    sets = [one for size in range(1, len(able) + 1) for one in combinations(able, size)]
    enough = [worth(cluster, one) for one in sets if has_room(job, cluster, one)]
    found = PriorityPreempt().victims(job, cluster)
    if has_room(job, cluster) or not enough:
        assert not found
    else:
        assert worth(cluster, [one for one in found[0] if isinstance(one, Runs)]) == min(enough)


@given(cluster=clusters(shared=True), nodes=st.integers(1, 8), gpus=st.sampled_from([4, 8]), priority=st.integers(0, 3))
def test_every_choice_is_allowed_enough_and_not_too_dear(cluster: Flat, nodes: int, gpus: int, priority: int) -> None:
    """Only preemptible jobs of lower priority; there is room without them and not without fewer of them; the first is
    the cheapest, and the last loses no more than so many times as much.
    """
    job = Wants(99, nodes=nodes, gpus=gpus, priority=priority)
    sets = [[one for one in jobs if isinstance(one, Runs)] for jobs in PriorityPreempt().victims(job, cluster)]
    for jobs in sets:
        assert all(one.preemptible and one.priority < priority for one in jobs)
        assert has_room(job, cluster, jobs)
    if sets:
        dearest = max(worth(cluster, jobs) for jobs in sets)
        assert worth(cluster, sets[0]) == min(worth(cluster, jobs) for jobs in sets)
        assert dearest[1] <= DEAREST * worth(cluster, sets[0])[1]
        fewer = combinations(sets[0], len(sets[0]) - 1)
        assert not any(has_room(job, cluster, some) for some in fewer)


def test_none_may_be_stopped() -> None:
    """Then there is no choice."""
    assert not victim_choices(Wants(), Flat(1, [Runs(1, [0])]), may_stop=lambda one: one.preemptible)
