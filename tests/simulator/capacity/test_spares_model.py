"""Spares at every point of the inputs: what more of them buy, what domains add, and the tables by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.capacity.spares import SLACK, SparesModel, SparesQuestion, rows_of
from simulator.failures.ettr import exact_ettr
from tests.case_counts import examples


def model_of(**fields: Any) -> SparesModel:
    """The model of a question with few draws."""
    return SparesQuestion(**({"nodes": 64, "draws": 12, "runs": 2, "days": 1.0} | fields)).model


@examples(24)
@given(nodes=st.integers(1, 2_000), failures=st.sampled_from(["rsc-1", "rsc-2", "0.5..20"]), hours=st.integers(1, 96))
def test_a_further_spare_never_hurts_the_job(nodes: int, failures: str, hours: int) -> None:
    """Waits fall with every spare and ETTR rises, to at most that with a spare always at hand."""
    model = model_of(nodes=nodes, failures=failures, repair_hours=str(hours))
    assert (np.diff(model.waits, axis=1) <= 1e-12).all()
    assert (np.diff(model.ettr, axis=1) >= -1e-12).all()
    assert (model.ettr <= model.ceiling[:, None]).all()
    assert model.ceiling.tolist() == [exact_ettr(one) for one in model.losses]


@examples(24)
@given(nodes=st.integers(1, 2_000), hours=st.sampled_from(["6", "24", "4..72"]))
def test_the_best_numbers(nodes: int, hours: str) -> None:
    """The best has the least pooled cost, lies among those about as good, and each draw's own best costs that no more.

    Cost is (N + S) / (N ETTR); pooled, the ETTR is the mean over the draws.
    """
    model = model_of(nodes=nodes, repair_hours=hours)
    place = model.numbers.index(model.best)
    pooled = (nodes + model.best) / nodes / model.ettr[: model.points.draws, place].mean()
    assert pooled == pytest.approx(model.pooled_costs.min())
    low, high = model.about_as_good
    assert low <= model.best <= high
    assert model.pooled_costs[model.numbers.index(low)] <= (1.0 + SLACK) * pooled
    for point, number in enumerate(model.cheapest):
        assert model.costs[point, model.numbers.index(int(number))] <= model.costs[point, place]


@pytest.mark.parametrize("target", [0.5, 0.9, 0.97])
def test_the_fewest_for_a_target(target: float) -> None:
    """With so many the target is reached, with one number fewer it is not; infinite where the ceiling is below."""
    model = model_of(nodes=600)
    for point, found in enumerate(model.fewest(target)):
        row = model.ettr[point].tolist()
        if found == inf:
            assert max(row) < target
            continue
        place = model.numbers.index(int(found))
        assert row[place] >= target
        assert place == 0 or row[place - 1] < target


def test_domains_that_fail_at_once_make_the_job_wait_longer() -> None:
    """Leaves of 16 nodes: longer with few spares; with those of a leaf and some more they cost next to nothing."""
    model = model_of(nodes=64, failure_domains=("leaf:16:2:10",), draws=10)
    alone = replace(model, domains=())
    assert alone.domains == ()
    few, many = 2, max(model.numbers)
    both = [(model, model.numbers.index(few)), (alone, alone.numbers.index(few))]
    waits = [float(one.median(one.waits)[place]) for one, place in both]
    assert waits[0] > waits[1]
    assert model.waits_due_to(0, few) > model.waits_due_to(0, many) >= 0.0
    assert model.waits_due_to(0, many) < 1e-3
    # 4 leaves, 2 failures in 1,000 domain-days each, 10 hours until one is back.  Without spares nothing fails while
    # the job waits: it waits (a + b) / (1 + a + b) with loads a of nodes and b of leaves
    a, b = float(model.median(model.single.away)), 4 * 0.002 * 10 / 24
    assert model.waits_due_to(0, 0) == pytest.approx((a + b) / (1 + a + b) - a / (1 + a))


def test_a_median_stands_behind_the_draws() -> None:
    """The point after the draws has every input at its median; bands are over the draws alone."""
    model = model_of(draws=20)
    draws = model.points.draws
    assert model.median(model.waits).tolist() == model.waits[draws].tolist()
    low, high = model.band(model.ettr)
    assert (low <= high).all()
    first = np.sort(model.ettr[:draws, 0])
    assert (low[0], high[0]) == (first[1], first[17])  # the second and the eighteenth of twenty
    assert model.at(model.numbers[1], model.costs) == model.costs[:, 1].tolist()


@given(last=st.integers(0, 60), rows=st.integers(1, 12), chosen=st.sets(st.integers(0, 80), max_size=3))
def test_rows_of_a_table(last: int, rows: int, chosen: set[int]) -> None:
    """In rising order, each once, with all that are chosen, from 0 on, and about as many as were wished."""
    found = rows_of(range(100), last, [*chosen], rows=rows)
    assert found == sorted({*found})
    assert {0, *chosen} <= {*found}
    assert all(number <= last or number in chosen for number in found)
    assert len(found) <= 2 * rows + len(chosen) + 1
