"""Soft terms and closer levels against all placements there are: never worse than the least, never a false claim."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Count, Job, LevelWeight, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.types import Limits
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.every_placement import least, tiny_instance
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag


def placed(cluster: Cluster, job: Job) -> Outcome:
    """The outcome, with time enough."""
    return run(Exact(), cluster, job, Limits(seconds=20, workers=1, clock="work"))


def check(cluster: Cluster, job: Job) -> None:
    """The objective is the least and its bound true; Eq. 2 at each closer level is the least, and said to be."""
    types = cluster.gpu_types
    best = {name: goals for name in types if (goals := least(cluster, job, gpu_type=name)) is not None}
    outcome = placed(cluster, job)
    if not best:
        assert outcome.status == "infeasible"
        return
    assert outcome.evaluation is not None
    assert outcome.proposal.nodes is not None
    objective = min(goals[0] for goals in best.values())
    assert outcome.objective == pytest.approx(objective)
    assert (outcome.status, outcome.bound) == ("optimal", pytest.approx(objective))
    on_type = best[cluster.node(int(outcome.proposal.nodes.flat[0])).gpu_type]
    assert outcome.evaluation.goals[1:] == pytest.approx(on_type[1:])
    assert outcome.ep is None or outcome.ep.proved
    assert all(found.proved for found in outcome.closer.values())


@given(seed=st.integers(0, 10**9))
@examples(60)
def test_the_least_of_all_placements(seed: int) -> None:
    """Holds, soft terms at broader, the same and closer levels, weighed levels, slow nodes refused or not minded."""
    check(*tiny_instance(random.Random(seed)))


@pytest.mark.many_cases
@pytest.mark.parametrize("first", every_fourth(range(0, 240, 60)))
def test_the_least_on_many_seeds(first: int) -> None:
    """The same on seeds that stay the same."""
    for seed in every_fourth(range(first, first + 60)):
        check(*tiny_instance(random.Random(seed)))


@given(seed=st.integers(0, 10**9))
@examples(30)
def test_the_least_on_several_types_of_gpu(seed: int) -> None:
    """Of one type at a time; at closer levels the least on the type that was chosen."""
    check(*tiny_instance(random.Random(seed), types=("A", "B")))


def test_minipods_are_chosen_with_a_look_at_their_racks() -> None:
    """Three nodes wanted; minipod 0 has them in racks of 2 and 1, minipod 1 one more, of which 3 are in a rack."""
    outcome = placed(racks((2, 1), (3, 1)), Job("job", Parallelism(tp=8, dp=3), level="minipod"))
    assert outcome.evaluation is not None
    assert set(outcome.evaluation.domains) == {"m1"}
    assert outcome.evaluation.by_level["rack"]["dp"] == 1


def test_a_term_broader_than_the_level() -> None:
    """Two rows of two; spread counts in racks, and a pipeline costs 1 for each minipod.

    In racks 2 + 2 of one minipod S = 2 and R = 1, or the other way round; a rack of 4 would be better by itself, and is
    not there.  The racks of 3 and 1 lie in different minipods.
    """
    job = Job("job", Parallelism(tp=8, dp=2, pp=2), alpha=0.5, level="rack", counts=(Count("pp", "minipod", 1.0),))
    outcome = placed(racks((3,), (1,), (2, 2)), job)
    assert (outcome.status, outcome.objective) == ("optimal", pytest.approx(2.5))


def test_a_level_that_is_weighed_counts_in_the_objective() -> None:
    """Three cells of one stage on minipods of 3 nodes in 3 racks, or of 2 nodes in a rack each.

    By itself the minipod of 3 is best: S = 1, then three racks.  With racks at a weight of 2 it costs 1 and 2 * (0.6 *
    3 + 0.4), in all 5.4; two minipods cost 0.6 * 2 + 0.4 and twice that in racks, in all 4.8.
    """
    cluster, job = racks((1, 1, 1), (2,), (2,)), Job("job", Parallelism(tp=8, dp=3), alpha=0.6, level="minipod")
    alone = placed(cluster, job)
    assert alone.objective == pytest.approx(1.0)
    assert alone.closer["rack"].dp == 3
    job = job.replace(levels=(LevelWeight("rack", 2.0),))
    weighed = placed(cluster, job)
    assert (weighed.status, weighed.objective) == ("optimal", pytest.approx(1.6 + 2 * 1.6))
    assert weighed.closer == {}


def test_a_job_that_takes_no_notice_of_slow_nodes_uses_them_at_closer_levels() -> None:
    """The one rack with three nodes has a slow one; healthy nodes alone lie in two racks."""
    cluster = racks((3, 1, 1)).with_flags([NodeFlag("n000", "straggler", 1.5)])
    job = Job("job", Parallelism(tp=8, dp=3), level="minipod", avoid="ignore")
    outcome = placed(cluster, job)
    assert outcome.closer["rack"].dp == 1
    assert placed(cluster, job.replace(avoid="strict")).closer["rack"].dp == 2


def test_another_trunk_that_may_be_as_good_leaves_a_closer_level_unproved() -> None:
    """Two trunks with the same racks: what one of them has at least, the other may have less of."""
    nodes = [Node(f"n{i}", (f"t{i // 4}", f"t{i // 4}r{i // 2}"), 8, 8) for i in range(8)]
    cluster = build_cluster(["trunk", "rack"], nodes).replace(joined=False)
    job = Job("job", Parallelism(tp=8, dp=3), level="trunk")
    outcome = placed(cluster, job)
    assert outcome.status == "optimal"
    assert [found.proved for found in outcome.closer.values()] == [False]


def test_a_closer_level_is_not_proved_where_the_objective_is_not() -> None:
    """Whatever bound is claimed: placements that are better may look otherwise inside."""
    cluster, job = racks((2, 2)), Job("job", Parallelism(tp=8, dp=3), level="minipod")
    outcome = placed(cluster, job)
    assert outcome.closer["rack"].proved
    assert not replace(outcome, status="feasible").closer["rack"].proved


def test_the_same_answer_twice() -> None:
    """Larger than one model: the parts that are laid anew are drawn by the seed."""
    cluster = racks((5, 7, 6, 8), (8, 3, 8, 8))
    job = Job("job", Parallelism(tp=8, dp=8, pp=4, ep=4), alpha=0.3, counts=(Count("ep", "rack", 0.5),))
    exact, limits = Exact(ExactParams(cell_choices=100, term_effort=0.005)), Limits(seconds=5, workers=1, clock="work")
    first, again = (run(exact, cluster, job, limits) for _ in range(2))
    assert first.proposal.nodes is not None
    assert again.proposal.nodes is not None
    assert first.proposal.nodes.tolist() == again.proposal.nodes.tolist()
