"""Of placements with equal objectives that with the smaller EP spread, proved: by hand, and against all there are."""

from __future__ import annotations

import random
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.documents.place_answer import place_document
from ground.errors import InvalidJob
from scheduler.algorithm_run import run
from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.outcome import ExpertSpread, Instance
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits, Told
from scheduler.several.together import place_together
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.every_placement import MOST_ASSIGNMENTS, least
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.build import build_cluster
from topology.cluster import Cluster, Node

LIMITS = Limits(seconds=20, workers=1, clock="work")

EP64 = Job("ep64", Parallelism(tp=1, pp=2, dp=128, ep=64), alpha=0.5, level="minipod")
"""16 x 2 cells: a column has two expert groups of eight nodes each."""
FOUR = racks((12,), (12,), (12,), (12,))
"""Minipods of 12 nodes: a column of 16 touches two whatever is done, an expert group need not."""


@pytest.mark.parametrize("told", get_args(Told))
def test_expert_groups_lie_in_one_minipod_where_that_costs_nothing(told: Told) -> None:
    """DP and PP spread are 2 at least, 32 cells on minipods of 12; four groups of eight nodes find a minipod each.  So
    it is for services, which read the placement alone, and for replays.
    """
    found = run(Exact(), FOUR, EP64, Limits(seconds=20, workers=1, told=told))
    assert (found.status, found.objective, found.ep) == ("optimal", 2.0, ExpertSpread(1, proved=True))
    assert place_document(Instance(FOUR, EP64), found).ep == ExpertSpread(1, proved=True)
    # as cheap as with the groups held there
    held = run(Exact(), FOUR, EP64.replace(holds=(Hold("ep", "minipod"),)), LIMITS)
    assert held.objective == found.objective


def test_it_never_costs_any_objective() -> None:
    """One stage of 3 x 8 nodes on minipods of 12, 7 and 7: all touch three minipods; groups of eight whole would leave
    room in one alone, so two of three touch two.
    """
    job = Job("j", Parallelism(tp=1, dp=192, ep=64), alpha=1.0, level="minipod")
    found = run(Exact(), racks((12,), (7,), (7,)), job, LIMITS)
    assert (found.status, found.objective, found.ep) == ("optimal", 3.0, ExpertSpread(2, proved=True))


def test_without_expert_groups_of_several_nodes_there_is_no_goal() -> None:
    """Eight experts on the eight GPUs of a node, and none at all: no EP spread is said, as no group leaves its node."""
    for ep in (1, 8):
        job = EP64.replace(parallelism=Parallelism(tp=1, pp=2, dp=128, ep=ep))
        found = run(Exact(), FOUR, job, LIMITS)
        assert (found.ep, place_document(Instance(FOUR, job), found).ep) == (None, None)


def test_several_jobs_at_once() -> None:
    """The job twice on eight such minipods: each costs 2, and no expert group leaves its minipod."""
    jobs = [EP64, EP64.replace(name="other")]
    found = place_together(racks(*[(12,)] * 8), jobs, [1.0, 1.0], solver=Exact(), limits=LIMITS)
    assert (found.status, found.objective) == ("optimal", 4.0)
    assert [one.ep for one in found.outcomes] == [ExpertSpread(1, proved=True)] * 2


def tiny_experts(seed: int) -> tuple[Cluster, Job]:
    """Up to nine cells with expert groups of two to eight nodes, in a third of all cases with a hold or a soft term, on
    two to four minipods of one or two racks each.
    """
    chance = random.Random(seed)
    while True:
        nodes = []
        for pod in range(chance.randint(2, 4)):
            for rack in range(chance.randint(1, 2)):
                path = (f"m{pod}", f"m{pod}r{rack}")
                nodes += [Node(f"n{len(nodes) + i}", path, 8, 8, 1.0) for i in range(chance.randint(1, 5))]
        tp, dp, pp = chance.choice([1, 2, 4, 8]), chance.choice([2, 4, 6, 8, 16, 24, 32]), chance.randint(1, 4)
        term = chance.choice(
            [
                {},
                {},
                {"holds": (Hold(chance.choice(["dp", "pp"]), "minipod"),)},
                {"counts": (Count("pp", "rack", 0.1),)},
            ]
        )
        try:
            parallelism = Parallelism(
                tp=tp, dp=dp, pp=pp, ep=chance.choice([2, 4, 8, 16, 32]), etp=chance.choice([1, tp])
            )
            job = Job(
                "tiny",
                parallelism,
                alpha=chance.choice([0.0, 0.3, 0.5, 0.7, 1.0]),
                level="minipod",
                avoid="strict",
                **term,
            )
            cells, wanted = job.grid.cells, job.experts_apart and job.grid.aligned
        except InvalidJob:
            continue
        paths = len({node.path for node in nodes})
        if wanted and 3 <= cells <= min(9, len(nodes)) and paths**cells <= MOST_ASSIGNMENTS:
            return build_cluster(["minipod", "rack"], nodes), job


def check(cluster: Cluster, job: Job) -> None:
    """Objective, EP spread and Eq. 2 at the racks are the least, one after the other, and said to be."""
    found, goals = run(Exact(), cluster, job, LIMITS), least(cluster, job)
    if goals is None:
        assert found.status == "infeasible"
        return
    assert found.evaluation is not None
    assert found.status == "optimal"
    assert found.evaluation.goals == pytest.approx(goals)
    assert found.ep == ExpertSpread(int(goals[1]), proved=True)
    assert all(one.proved for one in found.closer.values())


@given(seed=st.integers(0, 10**9))
@examples(120)
def test_the_least_ep_spread_of_all_placements(seed: int) -> None:
    """Any order of magnitude of expert groups to minipods; holds and soft terms among them."""
    check(*tiny_experts(seed))


@pytest.mark.many_cases
@pytest.mark.parametrize("first", every_fourth(range(0, 480, 120)))
def test_the_least_ep_spread_on_many_seeds(first: int) -> None:
    """The same on seeds that stay the same."""
    for seed in every_fourth(range(first, first + 120)):
        check(*tiny_experts(seed))


def test_a_larger_job_keeps_what_it_claims() -> None:
    """60 minipods of 3 to 9 nodes, 16 x 16 cells, which no model takes whole: whatever is claimed of the EP spread is
    of the placement, and the objective is that of the job without experts.
    """
    chance = random.Random(3)
    cluster = racks(*[(chance.randint(3, 9),) for _ in range(60)])
    job = Job("j", Parallelism(tp=1, pp=16, dp=128, ep=64), alpha=0.3, level="minipod")
    found = run(Exact(), cluster, job, Limits(seconds=0.2, workers=1, clock="work"))
    dense = run(
        Exact(),
        cluster,
        job.replace(parallelism=Parallelism(tp=1, pp=16, dp=128)),
        Limits(seconds=0.2, workers=1, clock="work"),
    )
    assert found.objective is not None
    assert dense.objective is not None
    assert found.objective <= dense.objective + 1e-9
    assert found.ep is not None
    assert found.evaluation is not None
    assert 1 <= found.ep.spread == found.evaluation.by_level["minipod"]["ep"] <= found.evaluation.dp
    assert found.proposal.nodes is not None
    assert len(np.unique(found.proposal.nodes)) == job.grid.cells
