"""Slow nodes: avoided, weighed against spread, or taken no notice of."""

from __future__ import annotations

import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.exact.algorithm import Exact, thresholds
from scheduler.placement.types import Limits, PriceOption
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import FAULTY


def minipods(*pods: list[float]) -> Cluster:
    """Minipods m0, m1, ... of nodes with these slowdowns."""
    nodes = [
        Node(f"m{m}n{i}", (f"m{m}",), 8, 8, slowdown) for m, pod in enumerate(pods) for i, slowdown in enumerate(pod)
    ]
    return build_cluster(["minipod"], nodes)


def placed(cluster: Cluster, job: Job) -> Outcome:
    """The outcome, with time enough."""
    return run(Exact(), cluster, job, Limits(seconds=60, workers=1))


def chosen(outcome: Outcome) -> PriceOption:
    """The one option that was taken."""
    (option,) = [option for option in outcome.proposal.prices if option.chosen]
    return option


def used(cluster: Cluster, outcome: Outcome) -> list[float]:
    """Slowdowns of the nodes in use."""
    assert outcome.proposal.nodes is not None
    return sorted(cluster.slowdown[outcome.proposal.nodes.ravel()].tolist())


TEMPTING = minipods([1.0, 1.0, 1.0, 1.05], [1.0, 1.0])
"""Four cells fit into m0 with its slow node, (S, R) = (1, 1), and over both minipods without."""

COST_OF_HALF = 1 + 0.018 / 0.7 * 0.5
"""Predicted step time of an objective of 1.5, half a unit above the least."""

COLUMN = Parallelism(tp=8, dp=4)
"""Four rows of one stage: p = 1, so a slow node slows the whole job by its full factor."""


def test_a_slow_node_is_avoided_where_spread_is_cheap() -> None:
    """Avoiding costs one S, 0.5 of the objective: 1 + 0.018 / 0.7 * 0.5 = 1.012857 against 1.05 with the node."""
    outcome = placed(TEMPTING, Job("job", COLUMN, alpha=0.5))
    assert used(TEMPTING, outcome) == [1.0] * 4
    assert chosen(outcome).slowest == 1.0
    assert chosen(outcome).step_time == pytest.approx(COST_OF_HALF)
    assert [(o.slowest, o.objective, round(o.step_time or 0, 6)) for o in outcome.proposal.prices] == [
        (1.0, 1.5, round(COST_OF_HALF, 6)),
        (1.05, 1.0, 1.05),
    ]


def test_a_slow_node_is_used_where_spread_is_dear() -> None:
    """With a unit of the objective at 15 % of the step time, avoiding costs 7.5 %, the node 5 %."""
    outcome = placed(TEMPTING, Job("job", COLUMN, alpha=0.5, spread_cost=0.15))
    assert used(TEMPTING, outcome) == [1.0, 1.0, 1.0, 1.05]
    assert chosen(outcome).slowest == 1.05
    assert chosen(outcome).step_time == pytest.approx(1.05)
    assert outcome.objective == 1.0
    assert outcome.status == "optimal"


@pytest.mark.parametrize(
    ("slowdown", "microbatches", "slowest", "time"),
    [
        (1.2, None, 1.0, COST_OF_HALF),  # unknown m: the full 20 %
        (1.2, 1, 1.0, COST_OF_HALF),  # 0.2 * 1 / 4 = 5 %
        (1.04, 64, 1.0, COST_OF_HALF),  # 0.04 * 64 / 67 = 3.8 %
        (1.04, 1, 1.04, 1.01),  # 0.04 * 1 / 4 = 1 %
    ],
)
def test_few_microbatches_hide_a_slow_stage(
    slowdown: float, microbatches: int | None, slowest: float, time: float
) -> None:
    """In a pipeline of p = 4 stages a factor f costs (f - 1) * m / (m + p - 1); spread over two minipods 1.29 %."""
    cluster = minipods([1.0, 1.0, 1.0, slowdown], [1.0, 1.0])
    outcome = placed(cluster, Job("job", Parallelism(tp=8, pp=4), alpha=0.5, microbatches=microbatches))
    assert chosen(outcome).slowest == slowest
    assert chosen(outcome).step_time == pytest.approx(time)


def test_between_the_slowdowns() -> None:
    """Six cells; m0 has 4 healthy, one at 1.01 and one at 1.5, m1 and m2 one healthy node each.

    Healthy alone: 3 minipods, objective 2, 1.0257.  Up to 1.01: 2 minipods, 1.5, 1.012857 * 1.01 = 1.023.  All: 1.5.
    """
    cluster = minipods([1.0, 1.0, 1.0, 1.0, 1.01, 1.5], [1.0], [1.0])
    outcome = placed(cluster, Job("job", Parallelism(tp=8, dp=6), alpha=0.5))
    assert used(cluster, outcome) == [1.0] * 5 + [1.01]
    assert chosen(outcome).slowest == 1.01
    assert chosen(outcome).step_time == pytest.approx(COST_OF_HALF * 1.01)


def test_strict_never_uses_one() -> None:
    """Whatever spread costs; and without room there is no placement."""
    job = Job("job", COLUMN, alpha=0.5, avoid="strict", spread_cost=10.0)
    outcome = placed(TEMPTING, job)
    assert used(TEMPTING, outcome) == [1.0] * 4
    assert outcome.proposal.prices == ()
    tight = placed(minipods([1.0, 1.0, 1.0, 1.05]), job)
    assert tight.status == "infeasible"
    assert "flagged (avoid: strict)" in tight.reason


def test_ignore_takes_no_notice() -> None:
    """A node twice as slow is as good as any for a job that says so."""
    cluster = minipods([1.0, 1.0, 1.0, 2.0], [1.0, 1.0])
    outcome = placed(cluster, Job("job", COLUMN, alpha=0.5, avoid="ignore"))
    assert used(cluster, outcome) == [1.0, 1.0, 1.0, 2.0]
    assert outcome.objective == 1.0


def test_ignore_weighs_nothing_so_it_says_no_prices() -> None:
    """Nodes 1.5 and 2 times slower, of which the job uses the first: a step of it takes 1.5 times as long.

    The search takes no notice of that: by its own step time the job would lose nothing, with a node twice as slow.
    """
    cluster = minipods([1.0, 1.0, 1.0, 1.5], [1.0, 2.0])
    outcome = placed(cluster, Job("job", COLUMN, alpha=0.5, avoid="ignore"))
    assert used(cluster, outcome) == [1.0, 1.0, 1.0, 1.5]
    assert outcome.proposal.prices == ()


@pytest.mark.parametrize("avoid", ["strict", "price", "ignore"])
def test_faulty_is_never_used(avoid: str) -> None:
    """Not even where the job does not fit without it."""
    cluster = minipods([1.0, 1.0, 1.0, FAULTY])
    outcome = placed(cluster, Job("job", COLUMN, alpha=0.5, avoid=avoid))  # type: ignore[arg-type]
    assert outcome.status == "infeasible"
    assert says(outcome.reason, "4 free nodes of 8 GPUs", "3 of 4", "1 faulty")


def test_of_equal_step_times_the_healthier_is_taken() -> None:
    """With spread for free and m0 at (1, 1) either way, no slow node is used."""
    cluster = minipods([1.0, 1.0, 1.0, 1.0, 1.3], [1.0])
    assert used(cluster, placed(cluster, Job("job", COLUMN, alpha=0.5, spread_cost=0.0))) == [1.0] * 4


def test_no_choice_no_prices() -> None:
    """A healthy cluster has nothing to weigh."""
    assert placed(minipods([1.0] * 4), Job("job", COLUMN, alpha=0.5)).proposal.prices == ()


@pytest.mark.parametrize(
    ("avoid", "expected"),
    [("strict", (1.0,)), ("price", (1.0, 1.1, 1.5)), ("ignore", (1.0, 1.5))],
)
def test_thresholds(avoid: str, expected: tuple[float, ...]) -> None:
    """Slowdowns of free nodes of the job's size: a faulty, a busy and a small one are no options."""
    nodes = [
        *(Node(f"n{i}", ("m",), 8, 8, slowdown) for i, slowdown in enumerate([1.5, 1.0, 1.1, 1.1, FAULTY])),
        Node("busy", ("m",), 8, 0, 3.0),
        Node("small", ("m",), 4, 4, 4.0),
    ]
    job = Job("job", COLUMN, alpha=0.5, avoid=avoid)  # type: ignore[arg-type]
    assert thresholds(build_cluster(["minipod"], nodes), job) == expected


def test_the_options_in_words() -> None:
    """What it decided and why, for people."""
    outcome = placed(TEMPTING, Job("job", COLUMN, alpha=0.5))
    without, with_slow = (option.sentence for option in outcome.proposal.prices)
    assert says(without, "without slow nodes", "objective 1.5", "1.013", "chosen")
    assert says(with_slow, "1.05", "objective 1", "1.050")
    assert not says(with_slow, "chosen")
