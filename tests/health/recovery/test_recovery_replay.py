"""Replay against its definition: every machine, every cut, and who is named in spite of noise."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.evidence.replays import search
from ground.errors import Infeasible, InvalidInput
from health.recovery.two_phase_replay import (
    PHASES,
    Groups,
    ReplayPlan,
    ReplayRun,
    Replays,
    judge,
    plan_replay,
    replay,
    replay_notes,
    replay_sentence,
)
from scheduler.job import Job, Parallelism
from tests.case_counts import cases, examples
from tests.facts import says
from tests.health.recovery.recovery_world import machines


@st.composite
def plans(draw: st.DrawFn) -> ReplayPlan:
    """Any cut into two or more equal groups."""
    k, groups = draw(st.integers(1, 6)), draw(st.integers(2, 12))
    return ReplayPlan(replica=draw(st.integers(1, 8)), replicas=k * groups, k=k)


def group_of(groups: Groups, machine: int) -> int:
    """The number of the group that a machine is in."""
    (number,) = (number for number, group in enumerate(groups) if machine in group)
    return number


def after(plan: ReplayPlan, culprits: Sequence[int], runs: int, *, repeats: int = 1) -> Replays:
    """What is known after runs without chance: every part with a culprit fails each time, and no other does."""
    replays = replay(plan, {}, repeats=repeats)
    for _ in range(runs):
        replays = replays.after({group_of(replays.next_groups, culprit): repeats for culprit in culprits})
    return replays


@examples(80)
@given(plans())
def test_each_phase_parts_the_machines_evenly(plan: ReplayPlan) -> None:
    """In both phases every machine is in one group, all groups are of m machines."""
    for phase in PHASES:
        groups = plan.cut(phase)
        assert sorted(x for group in groups for x in group) == list(range(plan.machines))
        assert {len(group) for group in groups} == {plan.group_size}


@examples(80)
@given(plans())
def test_two_groups_have_one_machine_exactly_where_m_is_at_most_n(plan: ReplayPlan) -> None:
    """By brute force over all machines: alone for every machine iff m <= n, and never with more than m / n, rounded
    up.
    """
    across, down = map(plan.cut, PHASES)
    left = [len({*across[group_of(across, x)]}.intersection(down[group_of(down, x)])) for x in range(plan.machines)]
    assert all(both == 1 for both in left) == plan.unique
    assert max(left) == plan.most_suspects


@examples(40)
@given(plans(), st.data())
def test_a_next_run_has_suspects_apart(plan: ReplayPlan, data: st.DataObject) -> None:
    """Whatever failed: all machines in equal groups, the likeliest in one each."""
    number = st.integers(0, plan.groups - 1)
    replays = replay(plan, {run: dict.fromkeys(data.draw(st.sets(number, max_size=3)), 1) for run in (1, 2)}, runs=2)
    groups = replays.next_groups
    assert sorted(x for group in groups for x in group) == list(range(plan.machines))
    assert {len(group) for group in groups} == {plan.group_size}
    likeliest = sorted(range(plan.machines), key=lambda x: -replays.chances[x])[: plan.groups]
    assert len({group_of(groups, x) for x in likeliest}) == plan.groups


def test_chances_are_those_of_the_definition() -> None:
    """Six machines in three groups of two, by summing over all sets of up to four culprits and integrating over how
    often chance makes healthy groups fail and others pass, on a grid.
    """
    runs = [ReplayRun(((0, 1), (2, 3), (4, 5)), (1, 0, 0)), ReplayRun(((0, 3), (1, 4), (2, 5)), (2, 1, 0))]
    fails = passes = (np.arange(4000) + 0.5) / 4000
    weight_of_fails, weight_of_passes = 50 * (1 - fails) ** 49, 4 * (1 - passes) ** 3
    chances, total, nobody = np.zeros(6), 0.0, 0.0
    for number in range(5):
        # of equally many culprits all sets are as likely; nobody 1 / 2, one .45, two .045, ...
        before = (0.5 if number == 0 else 0.45 * 0.1 ** (number - 1)) / comb(6, number)
        for culprits in combinations(range(6), number):
            of_fails, of_passes = weight_of_fails.copy(), weight_of_passes.copy()
            for run in runs:
                for group, failed in zip(run.groups, run.failed, strict=True):
                    if set(group) & set(culprits):
                        of_passes *= (1 - passes) ** failed * passes ** (2 - failed)
                    else:
                        of_fails *= fails**failed * (1 - fails) ** (2 - failed)
            likelihood = before * float(of_fails.mean() * of_passes.mean())
            total += likelihood
            nobody += likelihood * (number == 0)
            chances[list(culprits)] += likelihood
    judged, judged_nobody = judge(6, runs, 2)
    assert judged == pytest.approx(chances / total, rel=1e-3)
    assert judged_nobody == pytest.approx(nobody / total, rel=1e-3)


LARGE = plan_replay(Job("j", Parallelism(tp=8, pp=4, dp=32)))  # 128 machines in 16 groups of 8


def test_a_culprit_is_named_when_it_is_sure() -> None:
    """Without chance: one that fails in two runs is likely, as healthy parts fail too; in four it is named, or in two
    where each part is run twice.  Then another run says nothing more.
    """
    for runs, repeats, answer in ((2, 1, "suspects"), (4, 1, "culprit"), (2, 2, "culprit")):
        replays = after(LARGE, [77], runs, repeats=repeats)
        assert (replays.answer, replays.suspects) == (answer, (77,))
        assert replays.settled == (answer == "culprit")
    assert after(LARGE, [77], 2).sure(77) == "likely"


def test_nobody_is_suspected_where_nothing_fails() -> None:
    """A culprit may pass twice by chance, hardly three times."""
    assert [after(LARGE, (), runs).answer for runs in range(4)] == ["plan", "suspects", "suspects", "none"]


def test_a_job_that_fails_everywhere_names_nobody() -> None:
    """All parts fail in all runs: it is the job's own fault, not that of a machine."""
    replays = replay(LARGE, {run: dict.fromkeys(range(16), 1) for run in range(1, 9)})
    assert replays.culprits == ()
    assert says(replay_notes(replays), "the job itself")


@pytest.mark.many_cases
@pytest.mark.parametrize(("culprits", "most", "least"), [(0, 3, 0.0), (1, 3, 0.85), (2, 5, 0.95)])
def test_culprits_are_named_in_spite_of_noise(culprits: int, most: int, least: float) -> None:
    """128 machines, each part run twice, 3 % of healthy parts fail and 3 % of a culprit's pass.  In three runs it is
    tested six times, and fails in all or all but one of .97 ** 6 + 6 * .03 * .97 ** 5 = .99; chance elsewhere may leave
    a doubt.  Nobody else is named, and nobody of a healthy job.
    """
    named, runs = 0, cases(20 if culprits else 100)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        guilty = frozenset(rng.choice(128, culprits, replace=False).tolist())
        replays = search(LARGE, guilty, 0.03, rng, repeats=2, most=most)
        assert guilty.issuperset(replays.culprits)
        named += len(replays.culprits)
    assert named >= int(least * culprits * runs)


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
    assert [group_of(plan.cut(phase), 100) for phase in PHASES] == [4, 0]
    assert replay(plan, {1: {4: 1}, 2: {0: 1}}).suspects == (100,)


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
    """Groups are numbered below n, and fail as often as they are run at most."""
    plan = plan_replay(Job("j", Parallelism(tp=8, pp=2, dp=8)))
    for run, where in enumerate(("--failed-horizontal", "--failed-vertical", "--failed-third", "--failed"), 1):
        for group, times, problem in ((4, 1, "no group 4"), (3, 2, "2 times of 1")):
            with pytest.raises(InvalidInput, match=problem) as caught:
                replay(plan, {run: {group: times}})
            assert caught.value.where == where


def test_words() -> None:
    """A certain plan, an uncertain one with its warning; who is suspected, and who is named."""
    sure, unsure = ReplayPlan(4, 16, 2), ReplayPlan(8, 4, 1)
    job = machines(dp=16, pp=4)
    assert "exactly one machine" in replay_sentence(replay(sure, {}), job)
    assert "up to 2 machines" in replay_sentence(replay(unsure, {}), machines(dp=4, pp=8))
    assert "m = 8, n = 4" in replay_notes(replay(unsure, {}))[0]
    assert says(replay_sentence(after(sure, [5], 2), job), "cannot be told yet", "n005 is suspected")
    assert says(replay_sentence(after(sure, [5], 1), job), "n[000-007]")
    assert says(replay_sentence(after(sure, [5], 4), job), "The culprit is n005", "after 4 runs")
    assert says(replay_sentence(after(sure, [5, 40], 5), job), "The culprits are n[005,040]")
    assert says(replay_sentence(after(sure, [], 3), job), "Nobody seems to be at fault")
