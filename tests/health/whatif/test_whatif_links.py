"""Slow links: named by both ends, and no node flagged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from health.whatif import analyse, help_for, prepare, slow_workers, verdict
from health.whatif.analysis import with_nodes
from health.whatif.synthetic import make_trace
from tests.facts import says
from tests.health.whatif.recipes import Recipe


@pytest.mark.parametrize(("dp", "pp", "vpp"), [(8, 4, 1), (4, 2, 1), (4, 2, 2)])
def test_one_slow_link_is_named_by_both_ends(dp: int, pp: int, vpp: int) -> None:
    """A link 60 times slower is the cause, with its factor and its two nodes; neither is flagged."""
    replayed = prepare(make_trace(Recipe(dp=dp, pp=pp, vpp=vpp, slow_links={(2, 0): 60.0})))
    analysis = analyse(replayed)
    assert analysis.cause == "link"
    assert says(verdict(analysis), "one link", "dp 2 / stage 0", "dp 2 / stage 1")
    found = with_nodes(analysis.links, {(2, 0): "a", (2, 1): "b"})
    assert found is not None
    (link,) = found.links
    assert (link.dp, link.stages, link.nodes) == (2, (0, 1), ("a", "b"))
    # the slower end of a transfer counts, of the link as of its peers
    assert link.factor == pytest.approx(60.0, rel=0.02)
    assert found.share > 0.9
    assert slow_workers(replayed, analysis, {(2, 0): "a", (2, 1): "b"}) == ()
    assert "No node is flagged" in help_for(replayed, analysis, ())[0]


def test_links_that_meet_point_at_the_worker_between() -> None:
    """Both links of a worker are slow: it is named to be looked at first, and not flagged."""
    replayed = prepare(make_trace(Recipe(dp=8, slow_links={(3, 1): 60.0, (3, 2): 60.0})))
    analysis = analyse(replayed)
    assert analysis.cause == "link"
    assert "2 links (" in verdict(analysis)
    assert says(help_for(replayed, analysis, ())[0], "dp 3 / stage 2 first")
    assert slow_workers(replayed, analysis) == ()


def test_receives_that_are_slow_at_one_end_are_a_link() -> None:
    """Sends are over once they are buffered, and only the receive shows how long the link took."""
    replayed = prepare(make_trace(Recipe()))
    seconds = replayed.durations.traced.copy()
    for place, operation in enumerate(replayed.trace.operations):
        if operation.stage == 1 and operation.optype == "forward-recv":
            seconds[place, 2] += 0.3
    analysis = analyse(replayed._replace(durations=replace(replayed.durations, traced=seconds)))
    assert analysis.cause == "link"
    assert analysis.links is not None
    assert [(link.dp, link.stages) for link in analysis.links.links] == [(2, (0, 1))]


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(dp=8, slow={(3, 2): 1.5}),
        Recipe(dp=8, slow={(3, 2): 1.5}, noise=0.2),
        Recipe(dp=1, slow_links={(0, 1): 60.0}),
    ],
    ids=["slow worker", "noise", "no other rank"],
)
def test_no_link_is_named_without_evidence(recipe: Recipe) -> None:
    """Waiting for a slow worker is no slow link, nor is noise of a fifth; one rank has no peers."""
    assert analyse(prepare(make_trace(recipe))).links is None


def test_a_slow_worker_is_not_hidden_by_a_link_that_costs_less() -> None:
    """A link that explains little stands beside the worker that explains the rest, which is flagged."""
    replayed = prepare(make_trace(Recipe(dp=8, slow={(3, 2): 1.6}, slow_links={(3, 1): 5.0})))
    analysis = analyse(replayed)
    assert analysis.cause == "worker"
    assert [(worker.dp, worker.stage) for worker in slow_workers(replayed, analysis)] == [(3, 2)]
