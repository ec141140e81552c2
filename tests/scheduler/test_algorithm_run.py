"""Weighing proposals: status, bound and gap, and what no algorithm gets away with."""

from __future__ import annotations

import numpy as np
import pytest

from ground.errors import Infeasible, SolverTimeout
from scheduler.algorithm_run import judge, run
from scheduler.job import Count, Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.types import Limits, Proposal
from topology.build import build_cluster
from topology.cluster import Cluster, Node

JOB = Job("small", Parallelism(tp=8, dp=2, pp=2), alpha=0.25)

SPLIT = np.array([[0, 1], [2, 3]], dtype=np.int32)
"""Rows whole, columns split over the two domains: S = 2, R = 1, objective 0.25 * 2 + 0.75 = 1.25."""


@pytest.fixture
def cluster() -> Cluster:
    """Two domains of two nodes."""
    return build_cluster(["rack"], [Node(f"n{i}", (f"r{i // 2}",), 8, 8) for i in range(4)])


def judged(cluster: Cluster, **claims: object) -> Outcome:
    """The outcome of the split placement with some claims."""
    return judge("test", cluster, JOB, Proposal(SPLIT, **claims))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bound", "status", "gap"),
    [
        (1.25, "optimal", 0.0),
        (1.25 - 1e-12, "optimal", 0.0),
        (1.0, "feasible", 0.2),
        (None, "feasible", 0.2),
        (0.3, "feasible", 0.2),
    ],
)
def test_bound_and_gap(cluster: Cluster, bound: float | None, status: str, gap: float) -> None:
    """Gap = (objective - bound) / objective = 0.25 / 1.25; without a claim, or a weaker one, alpha + beta = 1 holds."""
    outcome = judged(cluster, lower_bound=bound)
    assert (outcome.status, outcome.gap) == (status, pytest.approx(gap))
    assert outcome.objective == 1.25
    assert outcome.bound is not None
    assert outcome.bound >= 1.0


def test_soft_terms_cost_at_least_their_weight(cluster: Cluster) -> None:
    """A group touches one domain at least, so a soft term of weight 2 adds 2 to the trivial bound."""
    job = JOB.replace(counts=(Count("tp", "rack", 2.0),))
    outcome = judge("test", cluster, job, Proposal(SPLIT))
    assert outcome.bound == 3.0
    assert outcome.objective == 3.25


def test_a_bound_above_the_own_placement_is_not_believed(cluster: Cluster) -> None:
    """A claim that the placement itself refutes proves nothing, and is reported."""
    outcome = judged(cluster, lower_bound=2.0)
    assert (outcome.status, outcome.bound) == ("feasible", 1.0)
    assert "refutes" in outcome.notes[-1]


def test_what_the_evaluator_refuses_is_no_placement(cluster: Cluster) -> None:
    """A node twice: no evaluation, no bound, the reason in words."""
    outcome = judge("test", cluster, JOB, Proposal(np.zeros((2, 2), dtype=np.int32), lower_bound=1.0))
    assert (outcome.status, outcome.evaluation, outcome.bound) == ("refused", None, None)
    assert "used twice" in outcome.reason


@pytest.mark.parametrize(
    ("proposal", "status"),
    [
        (Proposal(None, infeasible="no room"), "infeasible"),
        (Proposal(None, complete=False), "timeout"),
        (Proposal(None), "gave-up"),
    ],
)
def test_no_placement(cluster: Cluster, proposal: Proposal, status: str) -> None:
    """Proved infeasible, out of time, and given up are told apart; each has a reason."""
    outcome = judge("test", cluster, JOB, proposal)
    assert outcome.status == status
    assert outcome.reason


@pytest.mark.parametrize(("error", "status"), [(Infeasible("no room"), "infeasible"), (SolverTimeout(""), "timeout")])
def test_algorithms_may_raise_instead(cluster: Cluster, error: Exception, status: str) -> None:
    """An algorithm that raises Infeasible or SolverTimeout says the same as one that returns it."""

    class Raises:
        name, summary = "raises", ""

        def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
            """Never returns."""
            raise error

    assert run(Raises(), cluster, JOB, Limits()).status == status


@pytest.mark.parametrize(
    ("proposal", "stopped_at"),
    [
        (Proposal(SPLIT, complete=False), 2.5),
        (Proposal(None, complete=False), 2.5),
        (Proposal(SPLIT), None),
        # proved all the same: the limit took nothing away
        (Proposal(SPLIT, complete=False, lower_bound=1.25), None),
        (Proposal(None), None),
        (Proposal(None, infeasible="too few nodes"), None),
    ],
)
def test_what_the_time_limit_stopped_says_so(cluster: Cluster, proposal: Proposal, stopped_at: float | None) -> None:
    """Only an algorithm that did not end by itself was stopped, at the limit it was given; a heuristic merely ended."""

    class Canned:
        name = "canned"
        summary = "answers what it is told to"

        def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
            return proposal

    assert run(Canned(), cluster, JOB, Limits(seconds=2.5)).stopped_at == stopped_at


def test_an_algorithm_that_raises_at_its_limit_was_stopped(cluster: Cluster) -> None:
    """A timeout that is raised instead of returned is stopped at the same limit."""

    class Slow:
        name = "slow"
        summary = "never done"

        def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
            raise SolverTimeout("too slow", fix="wait")

    assert run(Slow(), cluster, JOB, Limits(seconds=0.5)).stopped_at == 0.5
