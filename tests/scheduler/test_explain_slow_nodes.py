"""To avoid slow nodes against to use them, both solved."""

from __future__ import annotations

import pytest

from scheduler.algorithm_run import run
from scheduler.explanation import AvoidanceOption, comparison, weigh
from scheduler.job import Avoid, Job, Parallelism
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import FAULTY

LIMITS = Limits(seconds=60, workers=1)
COLUMN = Parallelism(tp=8, dp=4)
"""Four rows of one stage: a slow node slows the whole job by its full factor."""


def minipods(*pods: list[float]) -> Cluster:
    """Minipods m0, m1, ... of nodes with these slowdowns."""
    nodes = [
        Node(f"m{m}n{i}", (f"m{m}",), 8, 8, slowdown) for m, pod in enumerate(pods) for i, slowdown in enumerate(pod)
    ]
    return build_cluster(["minipod"], nodes)


def weighed(cluster: Cluster, job: Job) -> tuple[AvoidanceOption, ...]:
    """The ways of the exact solver's answer."""
    return weigh(cluster, job, run(Exact(), cluster, job, LIMITS), solver=Exact(), limits=LIMITS)


TEMPTING = minipods([1.0, 1.0, 1.0, 1.05], [1.0, 1.0])
"""Four cells fit into m0 with its slow node, (S, R) = (1, 1), and over both minipods without."""


@pytest.mark.parametrize(
    ("avoid", "chosen"), [("price", "avoid"), ("strict", "avoid"), ("ignore", "use")], ids=["price", "strict", "ignore"]
)
def test_both_ways_are_shown_whatever_the_job_says(avoid: Avoid, chosen: str) -> None:
    """Avoiding: S = 2, 1 + 0.018 / 0.7 * 0.5; using: S = 1 and the node's 5 %.  Only which is chosen differs."""
    options = weighed(TEMPTING, Job("job", COLUMN, alpha=0.5, avoid=avoid))
    assert [(option.way, round(option.step_time or 0.0, 6), option.slowest) for option in options] == [
        ("avoid", 1.012857, 1.0),
        ("use", 1.05, 1.05),
    ]
    assert [option.used for option in options] == [(), ("m0n3",)]
    assert [option.left_out for option in options] == [("m0n3",), ()]
    assert [option.way for option in options if option.chosen] == [chosen]
    assert says(comparison(options), "3.7%", "longer than avoiding")


def test_using_them_can_be_better() -> None:
    """With a unit of the objective at 15 % of the step time avoiding costs 7.5 %, the node 5 %: 1.075 / 1.05."""
    options = weighed(TEMPTING, Job("job", COLUMN, alpha=0.5, spread_cost=0.15))
    assert [option.way for option in options if option.chosen] == ["use"]
    assert says(comparison(options), "2.4%", "longer than using")


def test_the_jobs_own_way_may_lie_between() -> None:
    """Six cells; the one at 1.01 is worth it and the one at 1.5 is not (see the tests of the price)."""
    cluster = minipods([1.0, 1.0, 1.0, 1.01, 1.5, 1.5], [1.0], [1.0])
    options = weighed(cluster, Job("job", Parallelism(tp=8, dp=5), alpha=0.5))
    assert [option.way for option in options] == ["avoid", "some", "use"]
    assert [option.way for option in options if option.chosen] == ["some"]
    assert options[1].used == ("m0n3",)
    times = [option.step_time or 0.0 for option in options]
    assert times[1] == min(times)


def test_a_job_that_fits_one_way_only() -> None:
    """Without the slow node there is no room: avoiding has no placement and no time, and says why."""
    cluster = minipods([1.0, 1.0, 1.0, 1.05])
    for avoid in ("price", "strict"):
        options = weighed(cluster, Job("job", COLUMN, alpha=0.5, avoid=avoid))  # type: ignore[arg-type]
        assert [(option.way, option.step_time) for option in options] == [("avoid", None), ("use", 1.05)]
        assert "flagged (avoid: strict)" in options[0].sentence
        assert comparison(options) == ""


def test_a_job_that_fits_neither_way() -> None:
    """Both are refused; none is chosen under a price, as nothing was placed."""
    cluster = minipods([1.0, 1.0, 1.05])
    options = weighed(cluster, Job("job", COLUMN, alpha=0.5))
    assert [(option.way, option.step_time, option.chosen) for option in options] == [
        ("avoid", None, False),
        ("use", None, False),
    ]


def test_no_slow_node_no_ways() -> None:
    """Faulty nodes are never used, busy ones cannot be: there is nothing to weigh."""
    nodes = [Node(f"n{i}", ("m",), 8, 8) for i in range(4)]
    cluster = build_cluster(
        ["minipod"], [*nodes, Node("broken", ("m",), 8, 8, FAULTY), Node("busy", ("m",), 8, 0, 2.0)]
    )
    assert weighed(cluster, Job("job", COLUMN, alpha=0.5)) == ()


def test_slow_nodes_that_nobody_needs() -> None:
    """The same spread with and without: the same step time, and no slow node in use either way."""
    cluster = minipods([1.0, 1.0, 1.0, 1.0, 1.5], [1.0])
    options = weighed(cluster, Job("job", COLUMN, alpha=0.5))
    assert [option.used for option in options] == [(), ()]
    assert says(comparison(options), "same")
    assert says(
        options[0].sentence,
        "avoid",
        "1.000 x ideal",
        "DP spread 1",
        "PP spread 1",
        "objective 1.0",
        "none in use",
        "chosen",
    )
