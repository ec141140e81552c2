"""The pages on Kubernetes say what the program has: metrics, names, phases, policies, times."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from extender import kubernetes_names as names
from extender.cluster_api.election import LeaseTimes as LeaseTerms
from extender.controller.pacing import Timeouts
from extender.extender_metrics import Metrics
from extender.plans.gang_plan import PlanPhase
from extender.plans.reservation import ReservationPhase
from scheduler.job import Parallelism
from scheduler.queue.policy import POLICIES
from tests.facts import says
from tests.manifests.rendering import MANIFESTS, read

DOCS = MANIFESTS.parent / "docs"
PAGE = (DOCS / "reference" / "kubernetes.md").read_text(encoding="utf-8")
GANGS = (DOCS / "how-it-works" / "gangs.md").read_text(encoding="utf-8")
ENGINE = (DOCS / "how-it-works" / "simulation-engine.md").read_text(encoding="utf-8")


def test_every_metric_is_described() -> None:
    """The table of metrics names those that the program exports, the process's own apart."""
    table = PAGE.partition("| metric |")[2].partition("\n\n")[0]
    described = set(re.findall(r"`(arnold_[a-z_]+)", table))
    exported = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in Metrics(plans=lambda: [], leads=lambda: False).registry.collect()
    }
    assert described == {name for name in exported if name.startswith("arnold_")}


@pytest.mark.parametrize(
    "name",
    [
        names.GANG,
        names.RANK,
        names.GANG_SIZE,
        names.PARALLELISM,
        names.ALPHA,
        names.LEVEL,
        names.AVOID,
        names.EXPECTED_DURATION,
        names.PREEMPTIBLE,
    ],
)
def test_what_users_write_is_described(name: str) -> None:
    """Each label and annotation that is read has its row."""
    table = PAGE.partition("## What you write")[2].partition("\n\n`schedulerName")[0]
    assert f"`{name}`" in table


def test_every_live_policy_is_described() -> None:
    """The page lists the policies that a cluster may have, and says why it may not have the others."""
    listed = GANGS.partition("names the [queue policy]")[2].partition(". ")[0]
    described = set(re.findall(r"`([a-z-]+)`", listed))
    simulated = {name for name in POLICIES.names() if POLICIES.load(name).stops_any_time}
    assert described == {*POLICIES.names()} - simulated
    assert all(f"`{name}`" in GANGS for name in simulated)


def test_every_policy_has_its_row() -> None:
    """The one table of queue policies has all of them and no others."""
    rows = ENGINE.partition("| `--policy` |")[2].partition("\n\n")[0].splitlines()[2:]
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])} == {*POLICIES.names()}


def test_every_policy_about_users_is_described() -> None:
    """The table of admission policies that hold users is those that the manifests have."""
    table = GANGS.partition("| admission policy | |")[2].partition("\n\n")[0]
    described = {row.split("`")[1] for row in table.splitlines()[2:]}
    assert described == {thing["metadata"]["name"] for thing in read("base/policies.yaml")}


@pytest.mark.parametrize("phase", [*PlanPhase, *ReservationPhase])
def test_every_phase_is_described(phase: PlanPhase | ReservationPhase) -> None:
    """Each phase has its row."""
    assert f"\n| `{phase.value}` |" in PAGE


def test_times_are_those_of_the_program() -> None:
    """The times that are named are the defaults."""
    terms = Timeouts()
    assert (terms.bind, terms.lost) == (timedelta(minutes=5), timedelta(seconds=30))
    assert says(GANGS, "5 minutes")
    assert "not `Ready` for 30 seconds" in GANGS
    assert f"the Lease lapses ({LeaseTerms().lease:g} s)" in GANGS


def test_drawing_is_the_order_of_ranks() -> None:
    """The drawing of the grid has the rank that the solver's grid has, in every cell that it shows."""
    drawing = PAGE.partition("## Rank and cell")[2].split("```")[1]
    rank = Parallelism(tp=8, pp=8, dp=12).grid(8).node_rank
    shown: dict[tuple[int, int], int] = {}
    for line in drawing.splitlines():
        if row := re.match(r"\s+dp (\d+) +(\d+) +(\d+) +(\d+) +\.\.\. +(\d+)", line):
            dp, *cells = map(int, row.groups())
            shown |= {(dp, column): cell for column, cell in zip((0, 1, 2, 7), cells, strict=True)}
    # Four rows of four stages are drawn.
    assert len(shown) == 16
    assert all(rank[cell] == shown[cell] for cell in shown)
