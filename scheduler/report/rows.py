"""What the tables of the page show: one frozen row a line, words and widths ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.documents.words import decimal
from scheduler.job import FAMILIES, Job
from scheduler.outcome import Outcome
from scheduler.report.words import STATUS, seconds, widest_refutations
from scheduler.spread import objective_of

MOST_REFUTATIONS = 400
"""Refuted pairs that a page lists at most."""

RULED_OUT = "none by its rule"
"""Status of an algorithm that finds the job infeasible while others place it."""


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
    """One pair and why it cannot be had."""

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
    return [
        _algorithm_row(outcome, number.get(id(outcome)), best=best, worst=worst, others_fit=bool(placed))
        for outcome in ordered
    ]


def _algorithm_row(outcome: Outcome, run: int | None, *, best: float, worst: float, others_fit: bool) -> AlgorithmRow:
    worth, objective = outcome.evaluation, outcome.objective
    return AlgorithmRow(
        name=outcome.algorithm,
        status=RULED_OUT if outcome.status == "infeasible" and others_fit else STATUS[outcome.status],
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


def refutation_rows(job: Job, outcome: Outcome) -> list[RefutationRow]:
    """Pairs that were refuted, by DP spread, those that others cover left out; at most :data:`MOST_REFUTATIONS`."""
    return [
        RefutationRow(
            pair=f"({refutation.pair[0]}, {refutation.pair[1]})",
            cost=decimal(objective_of(job, *refutation.pair)),
            by=refutation.by,
            sentence=refutation.sentence,
        )
        for refutation in widest_refutations(outcome)[:MOST_REFUTATIONS]
    ]


def price_rows(outcome: Outcome) -> list[PriceRow]:
    """How slow nodes were weighed against spread."""
    return [
        PriceRow(
            admitted="none" if option.slowest <= 1.0 else f"up to {option.slowest:g}x",
            objective="" if option.objective is None else decimal(option.objective),
            step_time="" if option.step_time is None else f"{option.step_time:.3f}",
            chosen=option.chosen,
            sentence=option.sentence,
        )
        for option in outcome.proposal.prices
    ]


def spread_rows(outcome: Outcome) -> list[tuple[str, list[int]]]:
    """Level and its largest spread of each family, in the order of ``FAMILIES``."""
    if outcome.evaluation is None:
        return []
    return [(level, [spread[family] for family in FAMILIES]) for level, spread in outcome.evaluation.by_level.items()]
