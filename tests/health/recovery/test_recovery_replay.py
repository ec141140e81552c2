"""Dual-phase replay against the definition: every machine, every cut."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import Infeasible, InvalidInput
from health.recovery.two_phase_replay import PHASES, ReplayPlan, plan_replay, replay_notes, replay_sentence
from scheduler.job import Job, Parallelism
from tests.case_counts import examples
from tests.facts import says
from tests.health.recovery.recovery_world import machines


@st.composite
def plans(draw: st.DrawFn) -> ReplayPlan:
    """Any cut into two or more equal groups."""
    k, groups = draw(st.integers(1, 6)), draw(st.integers(2, 12))
    return ReplayPlan(replica=draw(st.integers(1, 8)), replicas=k * groups, k=k)


@examples(80)
@given(plans())
def test_each_phase_parts_the_machines_evenly(plan: ReplayPlan) -> None:
    """In both phases every machine is in one group, all groups are of m machines, and members and group_of agree."""
    for phase in PHASES:
        members = [plan.members(phase, group) for group in range(plan.groups)]
        assert sorted(x for group in members for x in group) == list(range(plan.machines))
        assert {len(group) for group in members} == {plan.group_size}
        assert all(plan.group_of(phase, x) == g for g, group in enumerate(members) for x in group)


@examples(80)
@given(plans())
def test_one_culprit_exactly_where_m_is_at_most_n(plan: ReplayPlan) -> None:
    """By brute force over all machines: it is always among those left, alone for every machine iff m <= n, and
    never with more than m / n, rounded up.
    """
    left = [
        plan.suspects([plan.group_of("horizontal", x)], [plan.group_of("vertical", x)]) for x in range(plan.machines)
    ]
    assert all(x in suspects for x, suspects in enumerate(left))
    assert all(len(suspects) == 1 for suspects in left) == plan.unique
    assert max(map(len, left)) == plan.most_suspects


@examples(80)
@given(plans(), st.data())
def test_the_third_run_has_suspects_apart(plan: ReplayPlan, data: st.DataObject) -> None:
    """All machines in equal groups; suspects as even as can be; whoever fails everywhere is left alone where they are
    no more than the groups, and one suspect is not with any other of a failed group where there is a group for these.
    """
    culprit = data.draw(st.integers(0, plan.machines - 1))
    failed, both = [plan.group_of("horizontal", culprit)], data.draw(st.booleans())
    vertical = [plan.group_of("vertical", culprit)] if both else []
    two, groups = plan.suspects(failed, vertical), plan.third(failed, vertical)
    assert sorted(x for group in groups for x in group) == list(range(plan.machines))
    assert {len(group) for group in groups} == {plan.group_size}
    together = [len(set(two).intersection(group)) for group in groups]
    assert max(together) - min(together) <= 1
    (again,) = (number for number, group in enumerate(groups) if culprit in group)
    left = plan.suspects(failed, vertical, [again])
    assert culprit in left
    assert len(left) == together[again]
    if both and len(two) == 1 and plan.groups > 2:
        company = {*plan.members("horizontal", failed[0]), *plan.members("vertical", vertical[0])} - {culprit}
        assert not company.intersection(groups[again])


def test_three_runs_name_the_culprit_in_spite_of_noise() -> None:
    """128 machines; of each run 3 % of the healthy parts fail, and 3 % of the culprit's pass.  The culprit fails three
    times in .97 ** 3 = .91 of all cases, 182 of 200, and is named then but where chance fails beside it each time.  Of
    200 healthy jobs .39 ** 2 = .15 have a failed part in both runs, and .03 of these in that of the suspect, too: one.
    """
    plan, rng = plan_replay(Job("j", Parallelism(tp=8, pp=4, dp=32))), Random(1)
    assert (plan.machines, plan.group_size, plan.groups) == (128, 8, 16)

    def failures(groups: Sequence[Sequence[int]], culprit: int | None) -> list[int]:
        return [number for number, group in enumerate(groups) if rng.random() < (0.97 if culprit in group else 0.03)]

    named, wrong = 0, 0
    for number in range(400):
        culprit = rng.randrange(128) if number % 2 else None
        first, second = (failures([plan.members(phase, g) for g in range(16)], culprit) for phase in PHASES)
        third = failures(plan.third(first, second), culprit)
        left = plan.suspects(first, second, third) if first and second and third else ()
        named += left == (culprit,)
        wrong += len(left) == 1 and left != (culprit,)
    assert named >= 170
    assert wrong <= 2


@examples(60)
@given(st.integers(1, 8), st.integers(2, 48))
def test_k_is_the_most_that_leaves_one_culprit(pp: int, dp: int) -> None:
    """The default k by trying all divisors of DP; 1, the fewest suspects, where none leaves one culprit."""
    plan = plan_replay(Job("j", Parallelism(tp=8, pp=pp, dp=dp)))
    unique = [k for k in range(1, dp) if dp % k == 0 and k * pp <= dp // k]
    assert plan.k == max(unique, default=1)
    assert plan.unique == bool(unique)
    cuts = [ReplayPlan(pp, dp, k) for k in range(1, dp) if dp % k == 0]
    assert unique or plan.most_suspects == min(cut.most_suspects for cut in cuts)


def test_the_formula_of_the_paper() -> None:
    """PP 8, DP 150: k = 3 gives m = 24 machines and n = 50 groups; machine 100 is in 100 // 24 = 4 and 100 % 50 = 0."""
    plan = plan_replay(Job("j", Parallelism(tp=8, pp=8, dp=150)))
    assert (plan.k, plan.group_size, plan.groups) == (3, 24, 50)
    assert (plan.group_of("horizontal", 100), plan.group_of("vertical", 100)) == (4, 0)
    assert plan.suspects([4], [0]) == (100,)


@pytest.mark.parametrize(
    ("parallelism", "replica", "replicas"),
    [
        # tp 4 leaves room for two ranks of DP in a node: 16 DP ranks are 8 rows.
        (Parallelism(tp=4, pp=2, dp=16), 2, 8),
        # Context groups of 2 nodes stay whole: a replica is 2 rows of 2 stages.
        (Parallelism(tp=8, cp=2, pp=2, dp=8), 4, 8),
        # Expert groups of 4 rows stay whole: 16 rows are 4 replicas of 4 rows and 2 stages.
        (Parallelism(tp=8, ep=4, pp=2, dp=16), 8, 4),
    ],
)
def test_replicas_at_node_level(parallelism: Parallelism, replica: int, replicas: int) -> None:
    """A replica holds its context and expert groups whole."""
    plan = plan_replay(Job("j", parallelism))
    assert (plan.replica, plan.replicas) == (replica, replicas)


def test_a_single_replica_cannot_be_cut() -> None:
    """DP 1 leaves no two groups to compare."""
    with pytest.raises(Infeasible, match="single replica of 4 machines"):
        plan_replay(Job("j", Parallelism(tp=8, pp=4)))


def test_k_that_does_not_cut() -> None:
    """Seven does not divide 12 replicas; 12 leaves one group; the remedy lists those that do."""
    for k in (7, 12):
        with pytest.raises(InvalidInput) as caught:
            plan_replay(Job("j", Parallelism(tp=8, dp=12)), k=k)
        assert "1, 2, 3, 4, 6" in caught.value.fix


def test_a_group_that_is_not_there() -> None:
    """Groups are numbered below n."""
    plan = plan_replay(Job("j", Parallelism(tp=8, pp=2, dp=8)))
    for failed, where in (([0], [4]), "--failed-vertical"), (([0], [], [4]), "--failed-third"):
        with pytest.raises(InvalidInput, match="group 4") as caught:
            plan.suspects(*failed)
        assert caught.value.where == where
    with pytest.raises(InvalidInput, match="of what the first two leave"):
        plan.suspects([], [], [0])


def test_words() -> None:
    """A certain plan, an uncertain one with its warning, one phase only, and groups that have no machine in common."""
    sure, unsure = ReplayPlan(4, 16, 2), ReplayPlan(8, 4, 1)
    job = machines(dp=16, pp=4)
    assert "exactly one machine" in replay_sentence(sure, job, (), failed=False)
    assert "up to 2 machines" in replay_sentence(unsure, machines(dp=4, pp=8), (), failed=False)
    assert "m = 8, n = 4" in replay_notes(unsure, (), horizontal=(), vertical=())[0]
    assert any("the second narrows" in note for note in replay_notes(sure, (0, 1), horizontal=(0,), vertical=()))
    assert any("run all phases again" in note for note in replay_notes(unsure, (), horizontal=(0,), vertical=(1,)))
    several = replay_notes(sure, (0, 8), horizontal=(0, 1), vertical=(0,))
    assert says(several, "more than one machine")
    # Groups of one replica leave machine 3 of horizontal group 0 and vertical group 3: 3 // 2 = 1, so nobody.
    assert ReplayPlan(2, 8, 1).suspects([0], [3]) == ()
