"""Fair order between namespaces: whose turn it is, what a pass makes of shares, and which weights are none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from scheduler.queue.dispatch import Backlog, Dispatch, Turns
from scheduler.queue.fair_share import FairShare, read_weight, read_weights
from tests.case_counts import examples
from tests.scheduler.queue.flat_clusters import Flat, Runs, Wants


class Driven:
    """Drives passes on a cluster of equal nodes: a job starts on the first free nodes that its offer leaves to it.

    :param shares: GPUs of each namespace at the beginning, divided by its weight.
    """

    def __init__(
        self, cluster: Flat, *jobs: Wants, live: bool, weights: dict[str, float] | None = None, **shares: float
    ) -> None:
        self.weights, self.shares = weights or {}, shares
        self.dispatch: Dispatch[Wants] = Dispatch(FairShare(), kind=lambda job: job.key, live=live)
        self.cluster = self.dispatch.cluster = replace(cluster, shares=self.shares)
        self.started: list[Wants] = []
        self.asked: list[int] = []
        for job in jobs:
            self.dispatch.join(job)

    def one_pass(self) -> None:
        """One pass."""
        for one in self.dispatch.candidates():
            self.asked.append(one.job.key)
            (keep,) = one.offers
            left = self.cluster.free if keep is None else self.cluster.free - keep
            usable = self.cluster.usable(one.job)
            places = [i for i in range(self.cluster.nodes) if usable[i] and left[i] >= one.job.gpus][: one.job.nodes]
            one.found = len(places) == one.job.nodes
            if one.found and not one.trial:
                self._start(one.job, places)

    def _start(self, job: Wants, places: list[int]) -> None:
        self.started.append(job)
        self.dispatch.backlog.leave(job)
        gained = job.nodes * job.gpus / self.weights.get(job.namespace, 1.0)
        self.shares[job.namespace] = self.shares.get(job.namespace, 0.0) + gained
        running, version = (*self.cluster.running, Runs(job.key, places)), self.cluster.version + 1
        self.cluster = self.dispatch.cluster = replace(self.cluster, running=running, version=version)


LIVE = pytest.mark.parametrize("live", [False, True], ids=["simulated", "live"])


@LIVE
def test_the_smallest_share_is_served_after_every_start(live: bool) -> None:
    """Namespace b has 8 GPUs: a is served until it has as many, then they take turns, a with its older jobs first."""
    jobs = [Wants(key, submitted=key, namespace="a" if key < 4 else "b") for key in range(8)]
    driven = Driven(Flat(6), *jobs, live=live, b=8.0)
    driven.one_pass()
    assert [job.key for job in driven.started] == [0, 1, 4, 2, 5, 3]


@LIVE
def test_a_weight_divides_what_a_namespace_has(live: bool) -> None:
    """A has the weight 2: it has two nodes for each of b, whose first job came later."""
    jobs = [Wants(key, submitted=key, namespace="a" if key < 6 else "b") for key in range(12)]
    driven = Driven(Flat(6), *jobs, live=live, weights={"a": 2.0})
    driven.one_pass()
    assert [job.namespace for job in driven.started] == ["a", "b", "a", "a", "b", "a"]


@LIVE
def test_priority_and_age_decide_inside_a_namespace_and_between_equals(live: bool) -> None:
    """Of equal shares the job of priority 1; priority 9 of a namespace that has 80 GPUs waits for all others."""
    jobs = [Wants(1, namespace="a"), Wants(2, namespace="a", priority=1), Wants(3, namespace="b", priority=1)]
    driven = Driven(Flat(4), *jobs, Wants(4, namespace="c", priority=9), live=live, c=80.0)
    driven.one_pass()
    assert [job.key for job in driven.started] == [2, 3, 1, 4]


@LIVE
def test_small_jobs_of_others_do_not_pass_a_large_one_whose_turn_it_is(live: bool) -> None:
    """Three of four nodes are free, a's gang wants all: what is free is kept from b, and from a's small job too."""
    jobs = [Wants(1, nodes=4, namespace="a"), Wants(2, submitted=1, namespace="a"), Wants(3, namespace="b")]
    driven = Driven(Flat(4, [Runs(9, [0])]), *jobs, live=live, b=8.0)
    driven.one_pass()
    assert not driven.started
    driven.cluster = driven.dispatch.cluster = replace(driven.cluster, running=(), version=1)
    driven.dispatch.freed = True
    driven.one_pass()
    assert [job.key for job in driven.started] == [1]


@LIVE
def test_who_comes_first_after_a_start_behind_it_is_asked_again(live: bool) -> None:
    """Jobs 1 (of a) and 2 (of b) can use nodes 0 and 1, of which one is in use; job 3 (of a) node 2.  Job 1 wants both,
    so 2 waits behind it; then 3 starts, a has more than b, and in the next pass 2 is the first.
    """
    cluster = Flat(3, [Runs(9, [1])], closed={1: [2], 2: [2], 3: [0, 1]})
    jobs = [Wants(1, nodes=2, namespace="a"), Wants(2, submitted=1, namespace="b")]
    driven = Driven(cluster, *jobs, Wants(3, submitted=2, namespace="a"), live=live)
    driven.one_pass()
    assert ([job.key for job in driven.started], driven.dispatch.due) == ([3], True)
    driven.one_pass()
    assert ([job.key for job in driven.started], driven.dispatch.due) == ([3, 2], False)


def test_one_that_comes_while_the_solver_works_has_its_turn_by_share() -> None:
    """While job 1 of a is asked, job 3 of b comes, which has less: it is next, with nothing before it."""
    driven = Driven(Flat(1), Wants(1, nodes=9, namespace="a"), Wants(2, namespace="a"), live=True, a=8.0)
    passing = driven.dispatch.candidates()
    first = next(passing)
    first.found = False
    driven.dispatch.join(Wants(3, submitted=5, namespace="b"))
    second = next(passing)
    second.found = False
    third = next(passing)
    assert [(one.job.key, [other.key for other in one.ahead]) for one in (first, second, third)] == [
        (1, []),
        (3, []),
        (2, [3, 1]),
    ]


def test_a_share_that_shrinks_while_the_solver_works_counts_at_once() -> None:
    """Namespace b loses its 80 GPUs while job 1 of a is asked: its job is before a's second."""
    jobs = [Wants(1, namespace="a"), Wants(2, namespace="a"), Wants(3, submitted=5, namespace="b")]
    driven = Driven(Flat(1), *jobs, live=True, a=8.0, b=80.0)
    passing = driven.dispatch.candidates()
    next(passing).found = None
    driven.shares["b"] = 0.0
    driven.dispatch.cluster = replace(driven.cluster, version=1)
    assert next(passing).job.key == 3


def test_one_that_comes_goes_before_the_first_blocked_when_nodes_come_free() -> None:
    """Job 1 of a is blocked; then job 3 of b comes, which has less, and a node comes free: it is 3's, not 1's."""
    driven = Driven(Flat(1, [Runs(9, [0])]), Wants(1, namespace="a"), Wants(2, namespace="a"), live=True, a=8.0)
    passing = driven.dispatch.candidates()
    next(passing).found = False
    driven.dispatch.join(Wants(3, submitted=5, namespace="b"))
    driven.dispatch.cluster = replace(driven.cluster, running=(), version=1)
    candidate = next(passing)
    assert (candidate.job.key, candidate.ahead) == (3, [])
    candidate.found = False  # it is the first blocked now, so it is asked again when another node comes free
    driven.dispatch.cluster = replace(driven.cluster, running=(), version=2)
    assert next(passing).job.key == 3


def test_a_share_that_shrinks_leaves_the_order_within_its_namespace() -> None:
    """While jobs 1 and 2 of a are blocked, a's running work ends: job 3 of a, asked later, is still behind both."""
    jobs = [Wants(key, nodes=2, namespace="a") for key in (1, 2, 3)]
    driven = Driven(Flat(2, [Runs(9, [0])]), *jobs, live=True, a=8.0)
    passing = driven.dispatch.candidates()
    for key in (1, 2):
        candidate = next(passing)
        assert candidate.job.key == key
        candidate.found = False
    driven.shares["a"] = 0.0
    driven.dispatch.cluster = replace(driven.cluster, version=1)
    again, last = next(passing), None
    again.found = False
    last = next(passing)
    assert (again.job.key, last.job.key, [other.key for other in last.ahead]) == (1, 3, [1, 2])


@given(changes=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 9)), max_size=30))
@examples(100)
def test_a_backlog_knows_the_first_of_each_namespace(changes: list[tuple[str, int, int]]) -> None:
    """Jobs come and leave by namespace, kind (their priority) and age."""
    backlog: Backlog[Wants] = Backlog(FairShare().rank, kind=lambda job: job.priority, group=lambda job: job.namespace)
    there = dict[int, Wants]()
    for name, priority, key in changes:
        if key in there:
            backlog.leave(there.pop(key))
        else:
            there[key] = Wants(key, priority=priority, submitted=key, namespace=name)
            backlog.join(there[key])
        ranks = {name: [backlog.rank(job) for job in there.values() if job.namespace == name] for name in "ab"}
        assert backlog.firsts == {name: min(found) for name, found in ranks.items() if found}
        assert backlog.queues.keys() == backlog.firsts.keys()


SIZES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 1)), min_size=1, max_size=20)


@LIVE
@given(sizes=SIZES, weights=st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5]), min_size=4, max_size=4))
@examples(200)
def test_shares_differ_by_one_gang_at_most(live: bool, sizes: list[tuple[int, int, int]], weights: list[float]) -> None:
    """On an empty cluster, while every namespace has work that waits: whoever was served had not more than any other
    before its last gang, so it is ahead of none by more than that gang over its weight.
    """
    of = {f"n{i}": weight for i, weight in enumerate(weights)}
    jobs = [
        Wants(key, nodes=nodes, priority=priority, submitted=key, namespace=f"n{i}")
        for key, (i, nodes, priority) in enumerate(sizes)
    ]
    driven = Driven(Flat(12), *jobs, live=live, weights=of)
    driven.one_pass()
    waiting = {job.namespace for job in driven.dispatch.backlog}
    for name in {job.namespace for job in driven.started}:
        last = next(job for job in reversed(driven.started) if job.namespace == name)
        for other in waiting - {name}:
            ahead = driven.shares[name] - driven.shares.get(other, 0.0)
            assert ahead <= 8 * last.nodes / of[name]


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=30),
    gains=st.lists(st.integers(0, 3), min_size=30, max_size=30),
)
@examples(200)
def test_turns_are_those_of_sorting_anew_after_each(rows: list[tuple[int, int]], gains: list[int]) -> None:
    """The heap gives the order of looking for the smallest (share, rank) each time; half join while it goes on."""
    shares = dict.fromkeys(map(str, range(5)), 0)
    waiting = [(str(name), (rank, number)) for number, (name, rank) in enumerate(rows)]
    early, late = waiting[::2], waiting[1::2]
    turns = Turns(lambda name: shares[name], ((rank, name, rank) for name, rank in early))
    there = list(early)
    for gain in gains:
        if late:
            name, rank = late.pop()
            turns.add(rank, name, rank)
            there.append((name, rank))
        turn = turns.next()
        if not there:
            assert turn is None
            break
        expected = min(there, key=lambda one: (shares[one[0]], one[1]))
        assert turn == ((shares[expected[0]], expected[1]), expected[1])
        there.remove(expected)
        shares[expected[0]] += gain


@pytest.mark.parametrize(("text", "weight"), [("1", 1.0), ("2.5", 2.5), ("0.000000001", 1e-9), ("007", 7.0)])
def test_weights(text: str, weight: float) -> None:
    """Decimal numbers above 0."""
    assert read_weight(text) == weight


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.0", "-1", "+1", "nan", "inf", "1e3", "1_0", " 1", "1\n", "٣", "1.", ".5", "x", "9" * 5_000],
    ids=lambda text: repr(text[:8]),
)
def test_what_is_no_weight(text: str) -> None:
    """Refused, with at most some of it repeated."""
    with pytest.raises(InvalidInput, match="is no weight") as error:
        read_weight(text)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["a"], "'a' gives no name a weight"),
        (["=2"], "'=2' gives no name a weight"),
        ([""], "'' gives no name a weight"),
        (["a=2", "a=3"], "'a' has two weights"),
        (["a=1", "b=nan"], "'b': 'nan' is no weight"),
    ],
)
def test_lists_of_weights_that_are_none(parts: list[str], message: str) -> None:
    """Each is NAME=W, every name once."""
    with pytest.raises(InvalidInput) as error:
        read_weights(parts, where="--share-weights")
    assert (error.value.message, error.value.where, bool(error.value.fix)) == (message, "--share-weights", True)


def test_a_name_may_hold_an_equals_sign() -> None:
    """The weight is what stands behind the last."""
    assert read_weights(["a=b=2", "c=0.5"], where="--share-weights") == {"a=b": 2.0, "c": 0.5}
