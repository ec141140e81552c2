"""Slow nodes at a price against all placements there are: every number of the answer is true of all of them."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.documents.place_answer import place_document
from scheduler.algorithm_run import judge, run
from scheduler.job import Job, Parallelism
from scheduler.objective import step_time
from scheduler.outcome import Instance
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits, Proposal
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.every_placement import least, tiny_instance
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.cluster import Cluster
from topology.flags import NodeFlag

LIMITS = Limits(seconds=20, workers=1, clock="work")


def priced_instance(seed: int) -> tuple[Cluster, Job]:
    """A tiny question whose job weighs slow nodes against spread, and up to four more of these."""
    chance = random.Random(seed)
    cluster, job = tiny_instance(chance)
    names = chance.sample(cluster.names, min(len(cluster), chance.randint(1, 4)))
    slow = [NodeFlag(name, "straggler", chance.choice([1.01, 1.02, 1.05, 1.1, 1.3])) for name in names]
    cost, microbatches = chance.choice([0.0, 0.018 / 0.7, 0.1, 0.5]), chance.choice([None, 1, 4, 16])
    return cluster.with_flags(slow), job.replace(avoid="price", spread_cost=cost, microbatches=microbatches)


def least_up_to(cluster: Cluster, job: Job, slowest: float) -> float:
    """The least objective on nodes up to a slowdown; infinite = nothing fits there."""
    there = cluster.replace(free_gpus=np.where(cluster.slowdown <= slowest, cluster.free_gpus, 0).astype(np.int32))
    goals = least(there, job)
    return inf if goals is None else goals[0]


def check(cluster: Cluster, job: Job) -> None:
    """The step is the shortest of all, and said to be; bounds are of all placements, and of each way to treat slow
    nodes; the document repeats them.
    """
    found = run(Exact(), cluster, job, LIMITS)
    usable = cluster.slowdown[cluster.idle & (cluster.gpus == job.gpus_per_node)]
    by_slowdown = {slowest: least_up_to(cluster, job, slowest) for slowest in {1.0, *usable.tolist()}}
    lowest = min(by_slowdown.values())
    if lowest == inf:
        assert found.status == "infeasible"
        return
    document = place_document(Instance(cluster, job), found)
    assert found.objective is not None
    assert (found.status, found.bound) == ("optimal", pytest.approx(lowest))
    assert found.gap == pytest.approx((found.objective - lowest) / found.objective)
    assert (document.bound, document.gap) == (found.bound, found.gap)
    if max(by_slowdown) == 1.0:
        assert (document.step_time, document.step_time_bound, document.prices) == (None, None, ())
        return
    shortest = min(step_time(job, objective=o, slowest=f) for f, o in by_slowdown.items() if o < inf)
    assert (document.step_time, document.step_time_bound) == pytest.approx((shortest, shortest))
    assert sum(option.chosen for option in document.prices) == 1
    for option in document.prices:
        assert (option.objective, option.bound) == pytest.approx((by_slowdown[option.slowest],) * 2)
        assert option.step_time == pytest.approx(
            step_time(job, objective=by_slowdown[option.slowest], slowest=option.slowest)
        )


@given(seed=st.integers(0, 10**9))
@examples(120)
def test_every_number_is_true_of_all_placements(seed: int) -> None:
    """Holds, soft terms, weighed levels, prices of spread from nothing to half a step, any number of microbatches."""
    check(*priced_instance(seed))


@pytest.mark.many_cases
@pytest.mark.parametrize("first", every_fourth(range(0, 240, 60)))
def test_every_number_on_many_seeds(first: int) -> None:
    """The same on seeds that stay the same."""
    for seed in every_fourth(range(first, first + 60)):
        check(*priced_instance(seed))


def split_pipeline() -> tuple[Cluster, Job]:
    """Three stages, of which PP groups count alone; a rack of three nodes, one 1.3 times slower, and one of two."""
    cluster = racks((3, 2)).with_flags([NodeFlag("n000", "straggler", 1.3)])
    return cluster, Job("j", Parallelism(tp=8, pp=3), alpha=0.0, level="rack", microbatches=4, spread_cost=0.02)


def test_the_shortest_step_need_not_have_the_least_objective() -> None:
    """In the rack of three the objective is 1, and a step 1 + 0.3 * 4 / 6 = 1.2 as long; over two racks without the
    slow node it is 2, and 1.02 as long.  So the step is proved, and no less than 1 of the objective.
    """
    found = run(Exact(), *split_pipeline(), LIMITS)
    assert (found.status, found.objective, found.bound, found.gap) == ("optimal", 2.0, 1.0, 0.5)
    assert (found.step_time, found.step_time_bound) == (pytest.approx(1.02), pytest.approx(1.02))
    assert "proved optimal by step time" in found.verdict
    assert "proved bound 1" in found.verdict


def test_a_rule_proves_no_step() -> None:
    """A rule takes the rack of three, slow node and all: the objective is the least there is, the step is not."""
    cluster, job = split_pipeline()
    found = judge("rule", cluster, job, Proposal(np.array([[0, 1, 2]], dtype=np.int32)))
    assert (found.status, found.objective, found.bound) == ("feasible", 1.0, 1.0)
    assert (found.step_time, found.step_time_bound) == (pytest.approx(1.2), pytest.approx(1.0))
