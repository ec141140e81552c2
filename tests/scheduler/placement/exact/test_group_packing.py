"""Groups of a soft term inside the domains of a pair: counted out by closer domains, and bounded from below."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.algorithm_run import run
from scheduler.job import Count, Job, Parallelism
from scheduler.objective import evaluate, objective_terms
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.level_bounds import LevelBounds
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.starts import GroupPacking
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from tests.scheduler.placement.exact.test_exact_holds import racks


def expert_job(rows: int, columns: int, experts: int, weight: float = 0.3) -> Job:
    """A job whose expert groups are so many rows of one column, with a soft term at racks."""
    parallelism = Parallelism(tp=8, dp=rows, ep=experts, pp=columns)
    return Job("job", parallelism, alpha=0.1, level="minipod", counts=(Count("ep", "rack", weight),))


def test_parts_of_groups_are_packed_whole() -> None:
    """Three rows in one minipod and one in another: both groups of four rows have three cells in one rack and one in
    another.  The first minipod has six nodes but no two racks of three, so its part goes to the third.
    """
    job, cluster = expert_job(4, 2, 4), racks((2, 2, 2), (1, 1), (3, 4, 1))
    minipod = np.array([[0, 0], [0, 0], [0, 0], [1, 1]], dtype=np.int32)
    packing = GroupPacking(cluster, job, job.counts[0], cluster.level("minipod"), cluster.idle)
    nodes = packing.pack(minipod, 2, 5.0, clock() + 60)
    assert nodes is not None
    assert evaluate(cluster, job, nodes).by_level["rack"]["ep"] == 2
    assert cluster.level("minipod").domain_of[nodes[:3]].tolist() == [[2, 2]] * 3
    assert packing.pack(minipod, 1, 5.0, clock() + 60) is None


def test_whole_rows_take_the_groups_across_them_apart() -> None:
    """Minipods of two racks of four: a group of four rows fits in a rack, but a minipod has room for two whole rows of
    four, so with R = 1 it touches two.  Else R is 2: (2, 1) costs 1.1 and two racks 0.6, (1, 2) costs 1.9 and one 0.3.
    """
    job, cluster = expert_job(4, 4, 4), racks((4, 4), (4, 4))
    bounds = LevelBounds(GridReduction(cluster, job, 1.0), Limits(), DEFAULTS)
    terms = objective_terms(cluster, job)
    assert bounds.least(terms) == pytest.approx(1.7)
    assert bounds.least(job.counts) == pytest.approx(0.3)
    assert bounds.least(job.counts, apart=job.counts) == pytest.approx(0.6)


def test_more_of_the_pair_for_less_of_the_groups() -> None:
    """Minipods of four racks of 18 nodes hold four whole rows of 16, so with R = 1 an expert group of 16 rows touches
    four racks: 0.1 * 16 + 0.9 + 0.3 * 4 = 3.7.  Eight rows of eight columns fill 16 of 18 nodes of each rack with two
    halves of groups: 0.1 * 8 + 0.9 * 2 + 0.3 * 2 = 3.2, and it is proved that nothing is less.
    """
    job, cluster = expert_job(64, 16, 16), racks(*[(18,) * 4] * 16)
    outcome = run(Exact(), cluster, job, Limits(seconds=3.0, workers=1, clock="work", told="placement"))
    assert outcome.evaluation is not None
    assert (outcome.evaluation.dp, outcome.evaluation.pp, outcome.evaluation.by_level["rack"]["ep"]) == (8, 2, 2)
    assert outcome.status == "optimal"
