"""EASY on nodes of which jobs take parts: a job that stays beyond the shadow time may start just where nobody is hurt.

What may happen is tried out: every choice of nodes for the job, and of each whether the first would still have room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.queue.fifo_and_backfill import FifoBackfill, shadow
from scheduler.queue.policy import HeldNodes
from tests.case_counts import examples
from tests.scheduler.queue.flat_clusters import Flat, Runs, Wants

SIZE = 8
NODES = 5
POLICY = FifoBackfill()


NUMBERS = st.lists(st.integers(0, 2), min_size=NODES, max_size=NODES)
"""The trunk of each node."""


@st.composite
def clusters(draw: st.DrawFn, trunks: st.SearchStrategy[Sequence[int]]) -> Flat:
    """Five nodes of 8 GPUs with jobs on one to three nodes each, whose ends are known; now and then a node is out."""
    out = frozenset(draw(st.sets(st.integers(0, NODES - 1), max_size=1)))
    free = {node: SIZE for node in range(NODES) if node not in out}
    running = []
    for key in range(draw(st.integers(1, 6))):
        places = draw(st.lists(st.sampled_from(sorted(free)), min_size=1, max_size=3, unique=True))
        most = min(free[node] for node in places)
        if most:
            gpus = draw(st.integers(1, most))
            running.append(Runs(key, places, gpus=gpus, ends=float(draw(st.integers(1, 4)))))
            for node in places:
                free[node] -= gpus
    return Flat(NODES, sorted(running, key=lambda one: (one.ends, one.key)), out=out, trunks=draw(trunks))


NEEDS = [Wants(nodes=nodes, gpus=gpus) for nodes in range(1, NODES + 1) for gpus in range(1, SIZE + 1)]


def room_at(cluster: Flat, time: float, head: Wants, *, taken: tuple[int, ...] = (), gpus: int = 0) -> int:
    """Nodes with room for a part of a job when all that end by a time have, and another holds GPUs of some nodes.

    Of trunks, in that which has most.
    """
    free = cluster.free.copy()
    for one in cluster.running:
        if one.ends <= time:
            free[list(one.places)] += one.gpus
    free[list(taken)] -= gpus
    return int(np.bincount(cluster.trunks or [0] * NODES, weights=free >= head.gpus).max())


@st.composite
def blocked(draw: st.DrawFn, trunks: st.SearchStrategy[Sequence[int]]) -> tuple[Flat, Wants]:
    """Such a cluster, and a job that has no room on it yet."""
    cluster = draw(clusters(trunks))
    heads = [one for one in NEEDS if room_at(cluster, 0.0, one) < one.nodes <= room_at(cluster, 4.0, one)]
    assume(heads)
    return cluster, draw(st.sampled_from(heads))


def earliest(cluster: Flat, head: Wants) -> int:
    """When a blocked job has room."""
    return min(time for time in range(1, 5) if room_at(cluster, time, head) >= head.nodes)


def held(cluster: Flat, head: Wants) -> HeldNodes:
    """What the policy keeps for a blocked job."""
    (hold,) = POLICY.holds([head], cluster)
    return hold


def offered(cluster: Flat, hold: HeldNodes, job: Wants) -> list[tuple[int, ...]]:
    """Every choice of nodes that a job behind a blocked one, for which that is held, may take."""
    (keep,) = POLICY.offers(job, cluster, [hold])
    left = cluster.free if keep is None else cluster.free - keep
    trunks = cluster.trunks or [0] * NODES
    choices = combinations(np.flatnonzero(left >= job.gpus).tolist(), job.nodes)
    return [choice for choice in choices if len({trunks[node] for node in choice}) == 1]


@given(case=blocked(st.just(())), job=st.sampled_from(NEEDS))
@examples(400)
def test_a_job_that_stays_starts_exactly_where_the_first_is_not_delayed(case: tuple[Flat, Wants], job: Wants) -> None:
    """There is an offer with room for it if and only if some choice of free nodes leaves the first its room.

    The shadow time is the earliest at which enough nodes have room.
    """
    cluster, head = case
    shadow_time = earliest(cluster, head)
    assert shadow(head, cluster).until == shadow_time

    choices = offered(cluster, held(cluster, head), job)
    harmless = [
        choice
        for choice in combinations(np.flatnonzero(cluster.free >= job.gpus).tolist(), job.nodes)
        if room_at(cluster, shadow_time, head, taken=choice, gpus=job.gpus) >= head.nodes
    ]
    assert bool(choices) == bool(harmless)
    # Whatever nodes of the offer a placement takes, the first keeps its room.
    assert set(choices) <= set(harmless)


@given(case=blocked(NUMBERS), job=st.sampled_from(NEEDS))
@examples(400)
def test_a_job_that_stays_leaves_the_first_the_trunk_that_has_room_first(case: tuple[Flat, Wants], job: Wants) -> None:
    """The shadow time is the earliest at which one trunk has room, and whatever is taken of an offer, one has it then.

    All nodes of other trunks are offered.
    """
    cluster, head = case
    shadow_time = earliest(cluster, head)
    hold = shadow(head, cluster)
    assert hold.until == shadow_time
    assert len({cluster.trunks[node] for node in np.flatnonzero(hold.keep)}) <= 1
    for choice in offered(cluster, held(cluster, head), job):
        assert room_at(cluster, shadow_time, head, taken=choice, gpus=job.gpus) >= head.nodes


@given(case=st.one_of(blocked(st.just(())), blocked(NUMBERS)), ends=st.integers(1, 6), data=st.data())
@examples(100)
def test_a_start_gives_room_to_nobody(case: tuple[Flat, Wants], ends: int, data: st.DataObject) -> None:
    """Who was refused is refused as well when another has passed the same job: replays do not ask twice."""
    cluster, head = case
    hold = held(cluster, head)
    passing = [replace(one, predicted=float(ends)) for one in NEEDS]
    passing = [one for one in passing if offered(cluster, hold, one)]
    refused = [one for one in NEEDS if not offered(cluster, hold, one)]
    assume(passing)
    passes = data.draw(st.sampled_from(passing))
    places = data.draw(st.sampled_from(offered(cluster, hold, passes)))
    started = Runs(99, places, gpus=passes.gpus, ends=float(ends))
    later = replace(cluster, running=sorted([*cluster.running, started], key=lambda one: (one.ends, one.key)))
    after = held(later, head)
    assert after.until == hold.until
    assert not [one for one in refused if offered(later, after, one)]
