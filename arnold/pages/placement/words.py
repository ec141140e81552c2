"""Numbers and verdicts in words a person reads."""

from __future__ import annotations

from collections.abc import Sequence

from arnold.documents.words import decimal, status_words
from scheduler.explain import CheaperPair
from scheduler.job import Job
from scheduler.outcome import TOLERANCE, Outcome
from scheduler.spread import Evaluation
from topology.cluster import Level
from topology.drawing.labels import plural


def seconds(value: float) -> str:
    """A time with the unit that suits it."""
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1.0:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s"


def verdict(job: Job, outcome: Outcome, level: Level, cheaper: Sequence[CheaperPair]) -> str:
    """What is known about the placement, in a few sentences.

    :param level: the level that spread counts.
    :param cheaper: pairs of spreads that would cost less.
    """
    if outcome.evaluation is None or outcome.bound is None or outcome.gap is None:
        return f"No placement: {outcome.reason}."
    start = _spreads(job, outcome.evaluation, level)
    if outcome.status != "optimal":
        return (
            f"{start}{_stopped(outcome)} Not proved optimal: no placement can have an objective below "
            f"{decimal(outcome.bound)}, so the best possible is at most {outcome.gap:.1%} lower than this one."
        )
    how = ""
    if cheaper and all(pair.refutation is not None for pair in cheaper):
        each = "The one cheaper pair" if len(cheaper) == 1 else f"Each of the {len(cheaper):,} cheaper pairs"
        how = f" {each} of spreads was refuted."
    return f"{start} Proved optimal: no valid placement has a smaller objective.{how}"


def beside(job: Job, outcome: Outcome, level: Level, main: Outcome) -> str:
    """What is to be said of the placement of another algorithm, in a few sentences.

    :param main: the outcome that the page is about.
    """
    if outcome.evaluation is None or main.evaluation is None:
        return f"No placement: {outcome.reason or main.reason}."
    mine, other = outcome.evaluation.objective, main.evaluation.objective
    times = "the same as that of" if abs(mine - other) <= TOLERANCE else f"{mine / other:.2f} times that of"
    return (
        f"{_spreads(job, outcome.evaluation, level)}{_stopped(outcome)} Objective {decimal(mine)}, {times} "
        f"{main.algorithm} ({decimal(other)}, {status_words(main.status, main.stopped_at)})."
    )


def _spreads(job: Job, worth: Evaluation, level: Level) -> str:
    return (
        f"{plural(job.grid.cells, 'node')} on {plural(len(worth.domains), level.name)}: a DP group touches at most "
        f"{plural(worth.dp, level.name)}, a PP group at most {plural(worth.pp, level.name)}."
    )


def _stopped(outcome: Outcome) -> str:
    if outcome.stopped_at is None:
        return ""
    return f" {status_words(outcome.status, outcome.stopped_at).capitalize()}."
