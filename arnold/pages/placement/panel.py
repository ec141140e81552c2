"""What a page says of one placement: the sentence, the tiles, the spread at every level.

The script of the page shows another algorithm's placement by exchanging all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ground.quantities import decimal, fixed, one_of, percent, plural, seconds, several
from scheduler.explanation import CheaperPair
from scheduler.job import FAMILIES, Job
from scheduler.objective import TOLERANCE, Evaluation, objective_of
from scheduler.outcome import Outcome, status_words
from topology.cluster import Cluster, Level
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class Panel:
    """Words and numbers of one placement."""

    verdict: str
    proved: bool
    # large number, what it is, small print; of every placement of a page the same ones
    facts: tuple[tuple[str, str, str], ...]
    # level and its largest spread of each family, in the order of FAMILIES
    spreads: tuple[tuple[str, tuple[int, ...]], ...]


def panel(
    cluster: Cluster,
    job: Job,
    outcome: Outcome,
    *,
    main: Outcome,
    cheaper: Sequence[CheaperPair],
    known: str | None = None,
) -> Panel:
    """Return what a page says of one of its outcomes.

    :param main: the outcome that the page is about; its bound holds for all.
    :param cheaper: pairs of spreads that would cost less than the placement of ``main``.
    :param known: what is known of the objective of ``main``; ``None`` = what its status and bound say.
    """
    level = cluster.level(job.level)
    if outcome is not main:
        words = _beside(job, outcome, level, main)
    elif known is not None and outcome.evaluation is not None:
        start = _start(job, outcome, outcome.evaluation, level)
        words = f"{start} Objective {decimal(outcome.evaluation.objective)}: {known}."
    else:
        words = _verdict(job, outcome, level, cheaper)
    spreads = {} if outcome.evaluation is None else outcome.evaluation.by_level
    return Panel(
        words,
        outcome.status == "optimal",
        tuple(_facts(cluster, job, outcome, bound=main.bound, known=known if outcome is main else None)),
        tuple((one_of(name), tuple(families[family] for family in FAMILIES)) for name, families in spreads.items()),
    )


def _facts(
    cluster: Cluster, job: Job, outcome: Outcome, *, bound: float | None, known: str | None
) -> list[tuple[str, str, str]]:
    worth = outcome.evaluation
    if worth is None or bound is None:
        return []
    levels = several(cluster.level(job.level).name)
    flagged = np.count_nonzero((cluster.slowdown > HEALTHY) & (cluster.free_gpus == cluster.gpus))
    weights = f"{decimal(job.alpha)} x {worth.dp} + {decimal(job.beta)} x {worth.pp}"
    soft = worth.objective - objective_of(job, worth.dp, worth.pp)
    if soft > TOLERANCE:
        weights += f" + {decimal(soft)} of soft terms"
    if known is None:
        known = "proved: nothing is lower" if outcome.gap == 0.0 else f"nothing below {decimal(bound)}"
    facts = [
        (decimal(worth.objective), "objective", f"{weights}; {known}"),
        (str(worth.dp), "DP spread", f"{levels} that the widest DP group touches"),
        (str(worth.pp), "PP spread", f"{levels} that the widest PP group touches"),
        (f"{job.grid.cells:,}", "nodes", f"{plural(job.grid.rows, 'row')} x {plural(job.grid.columns, 'stage')}"),
        (
            seconds(outcome.proposal.solve_seconds),
            "to solve",
            outcome.algorithm + ("" if outcome.run_seconds is None else f"; {seconds(outcome.run_seconds)} in all"),
        ),
    ]
    if flagged:
        avoided = flagged - len(worth.flagged)
        noun = "flagged node" if avoided == 1 else "flagged nodes"
        facts.append((str(avoided), f"{noun} avoided", f"{len(worth.flagged)} of {flagged} used"))
    return facts


def _verdict(job: Job, outcome: Outcome, level: Level, cheaper: Sequence[CheaperPair]) -> str:
    """Return what is known about the placement, in a few sentences.

    :param level: the level that spread counts.
    :param cheaper: pairs of spreads that would cost less.
    """
    if outcome.evaluation is None or outcome.bound is None or outcome.gap is None:
        return f"No placement: {outcome.reason}."
    start = _start(job, outcome, outcome.evaluation, level)
    below = f"no placement can have an objective below {decimal(outcome.bound)}"
    if outcome.status != "optimal":
        short = "" if outcome.step is None else f" {outcome.step.in_words.capitalize()}."
        return (
            f"{start} Not proved optimal: {below}, so the best possible is at most {percent(outcome.gap)} lower than "
            f"this one.{short}"
        )
    how = ""
    if cheaper and all(pair.refuted is not None for pair in cheaper):
        each = "The one cheaper pair" if len(cheaper) == 1 else f"Each of the {len(cheaper):,} cheaper pairs"
        how = f" {each} of spreads was refuted."
    if outcome.step is not None and outcome.gap > 0.0:
        return (
            f"{start} Proved optimal: slow nodes have a price, and no placement has a shorter predicted step. With "
            f"slower nodes the objective might be less: {below}.{how}"
        )
    return f"{start} Proved optimal: no placement has a smaller objective.{how}"


def _beside(job: Job, outcome: Outcome, level: Level, main: Outcome) -> str:
    """Return what is to be said of the placement of another algorithm, in a few sentences.

    :param main: the outcome that the page is about.
    """
    if outcome.evaluation is None or main.evaluation is None:
        return f"No placement: {outcome.reason or main.reason}."
    mine, other = outcome.evaluation.objective, main.evaluation.objective
    times = "the same as that of" if abs(mine - other) <= TOLERANCE else f"{fixed(mine / other)} times that of"
    return (
        f"{_start(job, outcome, outcome.evaluation, level)} Objective {decimal(mine)}, {times} "
        f"{main.algorithm} ({decimal(other)}, {status_words(main.status, main.stopped_at)})."
    )


def _start(job: Job, outcome: Outcome, worth: Evaluation, level: Level) -> str:
    """Return how far the job is spread, and what stopped the algorithm if anything did."""
    stopped = "" if outcome.stopped_at is None else f" {status_words(outcome.status, outcome.stopped_at).capitalize()}."
    experts = ""
    if outcome.ep is not None:
        known = ", the least with this objective" if outcome.ep.proved else ""
        experts = f", an expert group at most {plural(outcome.ep.spread, level.name)}{known}"
    return (
        f"{plural(job.grid.cells, 'node')} on {plural(len(worth.domains), level.name)}: a DP group touches at most "
        f"{plural(worth.dp, level.name)}, a PP group at most {plural(worth.pp, level.name)}{experts}.{stopped}"
    )
