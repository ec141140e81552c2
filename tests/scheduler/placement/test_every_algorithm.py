"""What holds for every algorithm but ``exact``, which has tests of its own: valid, repeatable, honest."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import UnknownName
from scheduler.algorithm_run import run
from scheduler.job import Avoid, Job, Parallelism
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm
from tests.case_counts import examples
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import FAULTY

NAMES = [name for name in ALGORITHMS.names() if name != "exact"]
REFUSES = {
    "kueue-required": "one domain",
    "kueue-slice-p": "slices",
    "kueue-slice-d": "slices",
    "kueue-multilayer": "slices",
    "kai-segment-p": "segment",
    "kai-segment-d": "segment",
    "volcano-partition-p": "partition",
    "volcano-partition-d": "partition",
    "slurm-block": "segment",
    "slurm-segment-p": "segment",
    "slurm-segment-d": "segment",
}
"""Those whose rule refuses jobs for which there are nodes, and a word of the reason they give."""


@cache
def algorithm(name: str) -> PlacementAlgorithm:
    """An algorithm, made once."""
    return ALGORITHMS.load(name)


STATES = {
    "free": (8, 8, 1.0),
    "used": (8, 0, 1.0),
    "part": (8, 4, 1.0),
    "slow": (8, 8, 1.4),
    "dead": (8, 8, FAULTY),
    "small": (4, 4, 1.0),
}


@st.composite
def instances(draw: st.DrawFn) -> tuple[Cluster, Job]:
    """Clusters of up to ten racks with nodes in every state, names not in the order of the file; jobs of few cells.

    Every third rack has no name: its nodes hang on the switch of the minipod.
    """
    racks = draw(st.lists(st.integers(0, 3), min_size=1, max_size=10))
    states = st.lists(st.sampled_from(["free", "free", "free", *STATES]), min_size=1, max_size=6)
    nodes = [
        Node(f"n{(7 * len(racks) - r) * 10 + i}", (f"m{pod}", f"m{pod}r{r}" if r % 3 else ""), *STATES[state])
        for r, pod in enumerate(racks)
        for i, state in enumerate(draw(states))
    ]
    avoid: Avoid = draw(st.sampled_from(["strict", "price", "ignore"]))
    return build_cluster(["minipod", "rack"], nodes), Job(
        "job",
        Parallelism(tp=8, dp=draw(st.integers(1, 5)), pp=draw(st.integers(1, 4))),
        alpha=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        level=draw(st.sampled_from([None, "minipod", "rack"])),
        avoid=avoid,
    )


@pytest.mark.parametrize("name", NAMES)
@given(instance=instances(), seed=st.integers(0, 3))
@examples(40)
def test_valid_or_refused_with_a_reason(name: str, instance: tuple[Cluster, Job], seed: int) -> None:
    """The evaluator accepts every placement; without one there is a reason, and few rules refuse what would fit."""
    cluster, job = instance
    outcome = run(algorithm(name), cluster, job, Limits(seconds=20, seed=seed))
    assert outcome.status in ("optimal", "feasible", "infeasible")
    if outcome.status == "infeasible" and not outcome.reason.startswith("the job needs"):
        assert REFUSES[name] in outcome.reason
    if outcome.proposal.nodes is not None:
        assert outcome.proposal.nodes.shape == (job.grid.rows, job.grid.columns)
        assert outcome.proposal.nodes.dtype == np.int32


@pytest.mark.parametrize("name", NAMES)
@given(instance=instances(), seed=st.integers(0, 3))
@examples(10)
def test_same_seed_same_answer(name: str, instance: tuple[Cluster, Job], seed: int) -> None:
    """Two runs with one seed propose the same nodes, or refuse for the same reason."""
    first, again = (algorithm(name).place(*instance, Limits(seconds=20, seed=seed)) for _ in range(2))
    assert first.infeasible == again.infeasible
    assert np.array_equal(first.nodes, again.nodes) if first.nodes is not None else again.nodes is None


@pytest.mark.parametrize("name", NAMES)
def test_name_and_summary(name: str) -> None:
    """An algorithm is called what it is registered as, and says in a line what it does."""
    assert algorithm(name).name == name
    assert 10 < len(algorithm(name).summary) < 90


def test_documentation_names_every_algorithm() -> None:
    """docs/reference/algorithms.md has a word on each."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "algorithms.md").read_text(encoding="utf-8")
    assert [name for name in ALGORITHMS.names() if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", NAMES)
def test_unknown_level_is_an_error(name: str) -> None:
    """A level that the cluster does not have is the user's mistake, with every algorithm."""
    cluster = build_cluster(["rack"], [Node("n", ("r",), 8, 8)])
    with pytest.raises(UnknownName, match="no level 'minipod'"):
        algorithm(name).place(cluster, Job("job", Parallelism(tp=8), level="minipod"), Limits())


@pytest.mark.parametrize("name", NAMES)
def test_too_few_nodes_is_infeasible(name: str) -> None:
    """Two cells on one free node: the reason counts them."""
    cluster = build_cluster(["rack"], [Node("n", ("r",), 8, 8), Node("m", ("r",), 8, 0)])
    proposal = algorithm(name).place(cluster, Job("job", Parallelism(tp=8, dp=2)), Limits())
    assert proposal.nodes is None
    assert says(proposal.infeasible, "2 free nodes of 8 GPUs", "1 of 2", "1 in use")
