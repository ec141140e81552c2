"""What the tables of the page show: one frozen row a line, words and widths ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arnold.documents.words import decimal, status_words, why_not
from arnold.pages.placement.words import seconds
from scheduler.explain import CheaperPair
from scheduler.outcome import Outcome

MOST_REFUTATIONS = 400
"""Cheaper pairs that a page lists at most."""


@dataclass(frozen=True, slots=True)
class AlgorithmRow:
    """One algorithm in the comparison.

    :param run: its number among the placements that the page can draw; ``None`` = it has none.
    :param length: of its bar, percent of the longest.
    :param times: objective as a multiple of the smallest one in the table.
    """

    name: str
    status: str
    proved: bool
    run: int | None
    objective: str
    length: float
    times: str
    dp: str
    pp: str
    gap: str
    seconds: str
    remark: str


@dataclass(frozen=True, slots=True)
class RefutationRow:
    """One pair and why it cannot be had.

    :param by: the bound or search that rules it out; empty = it goes with another pair, or is open.
    """

    pair: str
    cost: str
    by: str
    sentence: str


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One way to treat slow nodes and what it would have cost."""

    admitted: str
    objective: str
    step_time: str
    chosen: bool
    sentence: str


def algorithm_rows(outcomes: Sequence[Outcome], placed: Sequence[Outcome]) -> list[AlgorithmRow]:
    """All algorithms, the best objective first, those without a placement last.

    :param placed: outcomes with a placement, in the order of their numbers.
    """
    worths = [outcome.objective for outcome in placed if outcome.objective is not None]
    best, worst = min(worths, default=1.0), max(worths, default=1.0)
    number = {id(outcome): i for i, outcome in enumerate(placed)}
    ordered = sorted(
        outcomes,
        key=lambda outcome: (
            outcome.objective is None,
            outcome.objective or 0.0,
            outcome.status != "optimal",
            outcome.proposal.lower_bound is None,
        ),
    )
    return [_algorithm_row(outcome, number.get(id(outcome)), best=best, worst=worst) for outcome in ordered]


def _algorithm_row(outcome: Outcome, run: int | None, *, best: float, worst: float) -> AlgorithmRow:
    worth, objective = outcome.evaluation, outcome.objective
    return AlgorithmRow(
        name=outcome.algorithm,
        status=status_words(outcome.status, outcome.stopped_at),
        proved=outcome.status == "optimal",
        run=run,
        objective="" if objective is None else decimal(objective),
        length=0.0 if objective is None else round(100.0 * objective / worst, 2),
        times="" if objective is None else f"{objective / best:.2f}x",
        dp="" if worth is None else str(worth.dp),
        pp="" if worth is None else str(worth.pp),
        gap=_gap(outcome),
        seconds=seconds(outcome.proposal.solve_seconds),
        remark=outcome.reason,
    )


def _gap(outcome: Outcome) -> str:
    """The gap, where the algorithm vouches for a bound or any bound will do."""
    if outcome.gap is None or (outcome.gap > 0.0 and outcome.proposal.lower_bound is None):
        return ""
    return "0" if outcome.gap == 0.0 else f"{outcome.gap:.1%}"


def refutation_rows(cheaper: Sequence[CheaperPair]) -> list[RefutationRow]:
    """Each cheaper pair and what rules it out, smaller ones behind the one that they go with; at most
    :data:`MOST_REFUTATIONS`.
    """
    rows = []
    for one in why_not(cheaper):
        rows.append(_refutation_row(one.pair, one.by, one.sentence))
        rows += [_refutation_row(pair, "", one.rest) for pair in one.with_it]
    return rows[:MOST_REFUTATIONS]


def _refutation_row(pair: CheaperPair, by: str, sentence: str) -> RefutationRow:
    return RefutationRow(f"({pair.dp}, {pair.pp})", cost=decimal(pair.objective), by=by, sentence=sentence)


def price_rows(outcome: Outcome) -> list[PriceRow]:
    """How slow nodes were weighed against spread."""
    return [
        PriceRow(
            admitted="none" if option.slowest <= 1.0 else f"up to {option.slowest:g}x",
            objective="" if option.objective is None else decimal(option.objective),
            step_time="" if option.step_time is None else f"{option.step_time:.3f} x ideal",
            chosen=option.chosen,
            sentence=option.sentence,
        )
        for option in outcome.proposal.prices
    ]
