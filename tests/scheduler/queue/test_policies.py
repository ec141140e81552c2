"""What each policy says of a small cluster, worked out by hand."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.queue.arnold import Arnold, NoJct
from scheduler.queue.fifo_and_backfill import FifoBackfill, ShortestFirst, shadow
from scheduler.queue.policy import CapacityReservation, Keep
from scheduler.queue.priority import PriorityAge
from tests.scheduler.queue.flat_clusters import Flat, Runs, Wants


def listed(keep: Keep) -> list[int] | None:
    """As a list."""
    return None if keep is None else keep.tolist()


def test_ranks() -> None:
    """Priority before age, the shortest first and the unknown last; keys part equals."""
    jobs = [Wants(1, submitted=5), Wants(2, submitted=1), Wants(3, submitted=9, priority=1), Wants(4, submitted=1)]
    assert [one.key for one in sorted(jobs, key=PriorityAge().rank)] == [3, 2, 4, 1]
    jobs = [Wants(1), Wants(2, predicted=9), Wants(3, predicted=2)]
    assert [one.key for one in sorted(jobs, key=ShortestFirst().rank)] == [3, 2, 1]


def test_the_shadow_time_is_when_enough_nodes_are_free_together() -> None:
    """Nodes 0 and 1 are taken until 5 and 9, node 2 is free: two nodes at 5, three at 9."""
    cluster = Flat(3, [Runs(1, [0], ends=5), Runs(2, [1], ends=9)])
    two, three = shadow(Wants(nodes=2), cluster), shadow(Wants(nodes=3), cluster)
    # Node 0 comes back by then by itself; node 2 must stay free.
    assert (two.until, two.keep.tolist()) == (5, [0, 0, 8])
    assert (three.until, three.keep.tolist()) == (9, [0, 0, 8])


def test_only_what_does_not_come_back_by_itself_is_kept() -> None:
    """6 GPUs are needed on a node of which 5 are taken until 4 and 2 for ever: 1 free now, and 6 at 4: 1 is kept."""
    cluster = Flat(1, [Runs(1, [0], gpus=5, ends=4), Runs(2, [0], gpus=2)])
    assert shadow(Wants(gpus=6), cluster).keep.tolist() == [1]


def test_overdue_jobs_end_now_and_unknown_ends_never() -> None:
    """One that should have ended at 3 is expected at 10, which it is; with one of unknown end nothing is certain."""
    late = shadow(Wants(nodes=2), Flat(2, [Runs(1, [0], ends=3)], now=10))
    assert (late.until, late.keep.tolist()) == (10, [0, 8])
    never = shadow(Wants(nodes=2), Flat(3, [Runs(1, [0])], out=frozenset([2])))
    assert (never.until, never.keep.tolist()) == (-inf, [8, 8, 0])


def test_backfilling_offers_everything_to_those_that_end_in_time() -> None:
    """The first has its nodes at 5: 5 s are in time, 6 s and an unknown time are not."""
    policy, cluster = FifoBackfill(), Flat(2, [Runs(1, [0], ends=5)])
    holds = policy.holds([Wants(nodes=2)], cluster)
    offers = [list(policy.offers(Wants(predicted=time), cluster, holds)) for time in (5, 6, None)]
    assert [[listed(keep) for keep in offer] for offer in offers] == [[None], [[0, 8]], [[0, 8]]]


def test_the_shadow_time_is_that_of_one_trunk() -> None:
    """Three trunks of two nodes; one node is free in two of them, whose other ones are taken until 100 and 1000.

    Two nodes are free now, and no job lies on both: the first waits for 100, for which its trunk alone is kept.
    """
    running = [Runs(1, [1], ends=100), Runs(2, [3], ends=1000), Runs(3, [4, 5], ends=5000)]
    hold = shadow(Wants(nodes=2), Flat(6, running, trunks=(0, 0, 1, 1, 2, 2)))
    assert (hold.until, hold.keep.tolist(), hold.spare) == (100, [8, 0, 0, 0, 0, 0], 0)


def test_without_a_known_end_in_any_trunk_all_is_kept() -> None:
    """Two nodes come back at 5, in two trunks; with them no trunk has two."""
    running = [Runs(1, [0, 2], ends=5), Runs(2, [1, 3])]
    never = shadow(Wants(nodes=2), Flat(4, running, trunks=(0, 0, 1, 1)))
    assert (never.until, never.keep.tolist()) == (-inf, [8, 8, 8, 8])


def test_a_node_too_many_is_one_that_the_other_can_use() -> None:
    """Three of four nodes are needed, two come back at 5: one of the two that are free is over.

    For one job that is the last of them, for another, which can use the first of them alone, that one.
    """
    cluster = Flat(4, [Runs(1, [0, 1], ends=5)], closed={3: [0, 1, 3]})
    policy = FifoBackfill()
    holds = policy.holds([Wants(1, nodes=3)], cluster)
    offers = [list(policy.offers(Wants(key), cluster, holds)) for key in (2, 3)]
    assert [[listed(keep) for keep in offer] for offer in offers] == [[[0, 0, 8, 0]], [[0, 0, 0, 8]]]


def test_whoever_is_blocked_keeps_all_it_could_use() -> None:
    """Without predictions: blocked by priority and age, two jobs of different needs; a node that is out is nobody's."""
    cluster = Flat(3, [Runs(1, [0], gpus=1)], out=frozenset([2]))
    hold = PriorityAge().holds([Wants(1, nodes=2), Wants(2, nodes=9, gpus=1)], cluster)[0]
    assert (hold.until, hold.keep.tolist()) == (-inf, [8, 8, 0])


ZONE = CapacityReservation("large", 2, 8, announced=0, arrives=10, zone=(0, 1))


def test_algorithm_1_offers_the_zone_only_to_those_that_leave_in_time() -> None:
    """At 4 with arrival at 10: outside first; inside for 6 s by the end of the band, not for 7; unknown: never."""
    cluster = Flat(4, reservations=[ZONE], now=4)
    outside = [8, 8, 0, 0]

    def offers(policy: Arnold, **job: object) -> list[list[int] | None]:
        return [listed(keep) for keep in policy.offers(Wants(**job), cluster, ())]  # type: ignore[arg-type]

    assert offers(Arnold(), predicted=3, predicted_high=6) == [outside, None]
    assert offers(Arnold(), predicted=3, predicted_high=7) == [outside]
    assert offers(Arnold()) == [outside]
    assert offers(Arnold(), preemptible=True) == [None]
    assert offers(NoJct(), predicted=1, predicted_high=1) == [outside]
    assert offers(Arnold(), nodes=2, reservation="large") == [[0, 0, 8, 8], None]


def test_two_zones_are_opened_one_by_one() -> None:
    """A job that leaves before the later arrival, not before the earlier, may enter the later zone alone."""
    later = CapacityReservation("later", 1, 8, announced=0, arrives=50, zone=(2,))
    cluster = Flat(4, reservations=[ZONE, later], now=4)
    offers = [listed(keep) for keep in Arnold().offers(Wants(predicted=20, predicted_high=20), cluster, ())]
    assert offers == [[8, 8, 8, 0], [8, 8, 0, 0]]


def test_preemptible_jobs_leave_the_zone_once_nobody_else_is_there() -> None:
    """While another job is in it, stopping them would help nobody."""
    inside, other = Runs(1, [0], preemptible=True), Runs(2, [1])
    large = Wants(nodes=2, reservation="large")
    assert Arnold().victims(large, Flat(4, [inside], [ZONE], now=10)) == [[inside]]
    assert not Arnold().victims(large, Flat(4, [inside, other], [ZONE], now=10))
    assert not Arnold().victims(Wants(), Flat(4, [inside], [ZONE], now=10))


def test_holds_are_fresh_arrays() -> None:
    """A policy changes nothing of the cluster it is shown."""
    cluster = Flat(2, [Runs(1, [0], ends=5)])
    before = cluster.free
    FifoBackfill().holds([Wants(nodes=2)], cluster)
    assert np.array_equal(before, cluster.free)
