"""Hard and soft constraints on groups: kept, or refused with the reason; and the bounds that go with them."""

from __future__ import annotations

import pytest

from scheduler.algorithm_run import run
from scheduler.job import Avoid, Count, Hold, Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def racks(*sizes: tuple[int, ...], slow: int = 0) -> Cluster:
    """Minipods m0, m1, ... of racks of these sizes; the first nodes of m0 slow."""
    paths = [(f"m{m}", f"m{m}r{r}") for m, pod in enumerate(sizes) for r, size in enumerate(pod) for _ in range(size)]
    nodes = [Node(f"n{i:03d}", path, 8, 8, 1.5 if i < slow else 1.0) for i, path in enumerate(paths)]
    return build_cluster(["minipod", "rack"], nodes)


def placed(cluster: Cluster, job: Job) -> Outcome:
    """The outcome, with time enough."""
    return run(Exact(), cluster, job, Limits(seconds=60, workers=1))


def spreads(outcome: Outcome, level: str) -> dict[str, int]:
    """Spread of each family at a level, by the evaluator."""
    assert outcome.evaluation is not None
    return dict(outcome.evaluation.by_level[level])


def test_expert_groups_stay_inside_a_rack() -> None:
    """Expert groups of 2 rows on racks of 3: one group in each, the third node of every rack stays free."""
    job = Job("job", Parallelism(tp=8, dp=8, ep=2), alpha=0.5, holds=(Hold("ep", "rack"),))
    outcome = placed(racks((3, 3), (3, 3)), job)
    assert outcome.status == "optimal"
    assert spreads(outcome, "rack")["ep"] == 1
    # Each minipod takes 2 groups of 2 rows; 8 rows need both.
    assert outcome.objective == pytest.approx(0.5 * 2 + 0.5)


def test_a_hold_that_cannot_be_kept_is_named_and_counted() -> None:
    """Nine nodes are enough for 8 cells; in racks of 3 they have room for 3 of the 4 expert groups of 2."""
    job = Job("job", Parallelism(tp=8, dp=8, ep=2), alpha=0.5, holds=(Hold("ep", "rack"),))
    outcome = placed(racks((3, 3), (3,)), job)
    assert outcome.status == "infeasible"
    assert says(outcome.reason, "every ep group", "one rack", "4 blocks of 2 nodes", "3 such blocks")


def test_a_hold_broader_than_the_level_that_counts() -> None:
    """Spread counts in racks, and each of two PP groups of 4 has to stay in its minipod, of racks 2 + 2 and 3 + 3.

    A minipod has room for one: the first takes two racks, so does the second, and no column has both rows in one rack.
    """
    job = Job("job", Parallelism(tp=8, dp=2, pp=4), alpha=0.5, level="rack", holds=(Hold("pp", "minipod"),))
    outcome = placed(racks((2, 2), (3, 3)), job)
    assert outcome.status in ("optimal", "feasible")
    assert spreads(outcome, "minipod")["pp"] == 1
    assert (spreads(outcome, "rack")["dp"], spreads(outcome, "rack")["pp"]) == (2, 2)


def test_a_broad_hold_that_cannot_be_kept() -> None:
    """Six nodes in minipods of 3: no PP group of 4 stays inside one, whatever the level that counts."""
    job = Job("job", Parallelism(tp=8, pp=4), alpha=0.5, level="rack", holds=(Hold("pp", "minipod"),))
    outcome = placed(racks((2, 1), (2, 1)), job)
    assert outcome.status == "infeasible"
    assert says(outcome.reason, "every pp group", "one minipod")


def test_without_slow_nodes_a_broad_hold_may_not_fit() -> None:
    """The one minipod with room for the PP group has a slow node, so the slow node is used."""
    job = Job("job", Parallelism(tp=8, pp=4), alpha=0.5, level="rack", holds=(Hold("pp", "minipod"),))
    outcome = placed(racks((2, 2), (2, 1), slow=1), job)
    assert outcome.status in ("optimal", "feasible")
    assert spreads(outcome, "minipod")["pp"] == 1


def test_a_soft_term_has_a_sound_bound() -> None:
    """A DP group of 6 needs 2 racks of 4 at least, which costs 2 * 0.1 besides S = R = 1: reached, hence proved."""
    job = Job("job", Parallelism(tp=8, dp=6), alpha=0.5, counts=(Count("dp", "rack", 0.1),))
    outcome = placed(racks((4, 4), (4, 4)), job)
    assert outcome.bound == pytest.approx(1.2)
    assert outcome.objective == pytest.approx(1.2)
    assert outcome.status == "optimal"


def test_a_soft_term_may_outweigh_spread() -> None:
    """2 x 4 cells, expert groups of one row pair in each column, minipods of 4 in racks of 2.

    alpha = 0.2 prefers rows whole, (2, 1), with each expert group of two rows over two racks: 1.2 + 2 * 1.  Columns
    whole, (1, 2), keep it in one rack: 1.8 + 1, so the soft term of weight 1 turns the job round.
    """
    job = Job("job", Parallelism(tp=8, dp=2, pp=4, ep=2), alpha=0.2, counts=(Count("ep", "rack", 1.0),))
    outcome = placed(racks((2, 2), (2, 2)), job)
    assert spreads(outcome, "rack")["ep"] == 1
    assert outcome.objective == pytest.approx(2.8)
    assert outcome.bound is not None
    assert outcome.bound <= 2.8


@pytest.mark.parametrize("avoid", ["price", "ignore"])
def test_a_bound_on_soft_terms_counts_all_nodes_the_job_may_use(avoid: Avoid) -> None:
    """Four cells; rack 0 has 4 nodes of which 2 are slow, rack 1 has 2.  A job that takes no notice of slow nodes may
    lie in one rack at 1 + 1 * 0.5, so nothing above that is a bound; one that minds is bounded over healthy nodes.
    """
    job = Job(
        "job", Parallelism(tp=8, dp=4), alpha=0.5, level="minipod", avoid=avoid, counts=(Count("dp", "rack", 0.5),)
    )
    outcome = placed(racks((4, 2), slow=2), job)
    assert outcome.bound is not None
    assert outcome.bound <= (1.5 if avoid == "ignore" else 2.0) + 1e-9


def test_claims_of_a_job_that_takes_no_notice_are_about_all_nodes() -> None:
    """A column of 3, racks of 3 (one node slow), 2, 2 and 2, alpha 0: R = 1 whatever happens, so no slow node is used.
    Yet with it the column fits into rack 0, so that S = 1 is impossible is not to be said.
    """
    cluster = racks((3, 2), (2, 2), slow=1)
    job = Job("job", Parallelism(tp=8, dp=3), level="rack", avoid="ignore", alpha=0.0)
    outcome = placed(cluster, job)
    assert outcome.status == "optimal"
    assert outcome.evaluation is not None
    assert outcome.evaluation.flagged == ()
    assert outcome.proposal.refutations == ()
