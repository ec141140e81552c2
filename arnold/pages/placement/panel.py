"""What a page says of one placement: the sentence, the tiles, the spread at every level.

The script of the page shows another algorithm's placement by exchanging all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arnold.documents.words import decimal
from arnold.pages.placement.words import beside, seconds, verdict
from scheduler.explain import CheaperPair
from scheduler.job import FAMILIES, Job
from scheduler.outcome import TOLERANCE, Outcome
from scheduler.spread import job_level, objective_of
from topology.cluster import Cluster
from topology.drawing.labels import plural, several


@dataclass(frozen=True, slots=True)
class Panel:
    """Words and numbers of one placement.

    :param facts: large number, what it is, small print; of every placement of a page the same ones.
    :param spreads: level and its largest spread of each family, in the order of ``FAMILIES``.
    """

    verdict: str
    proved: bool
    facts: tuple[tuple[str, str, str], ...]
    spreads: tuple[tuple[str, tuple[int, ...]], ...]


def panel(cluster: Cluster, job: Job, outcome: Outcome, *, main: Outcome, cheaper: Sequence[CheaperPair]) -> Panel:
    """What a page says of one of its outcomes.

    :param main: the outcome that the page is about; its bound holds for all.
    :param cheaper: pairs of spreads that would cost less than the placement of ``main``.
    """
    level = job_level(cluster, job)
    words = verdict(job, outcome, level, cheaper) if outcome is main else beside(job, outcome, level, main)
    spreads = {} if outcome.evaluation is None else outcome.evaluation.by_level
    return Panel(
        words,
        outcome.status == "optimal",
        tuple(_facts(cluster, job, outcome, bound=main.bound)),
        tuple((name, tuple(families[family] for family in FAMILIES)) for name, families in spreads.items()),
    )


def _facts(cluster: Cluster, job: Job, outcome: Outcome, *, bound: float | None) -> list[tuple[str, str, str]]:
    worth = outcome.evaluation
    if worth is None or bound is None:
        return []
    levels = several(job_level(cluster, job).name)
    flagged = [
        i for i, flag in cluster.flags.items() if flag.slowdown > 1.0 and cluster.free_gpus[i] == cluster.gpus[i]
    ]
    weights = f"{decimal(job.alpha)} x {worth.dp} + {decimal(job.beta)} x {worth.pp}"
    soft = worth.objective - objective_of(job, worth.dp, worth.pp)
    if soft > TOLERANCE:
        weights += f" + {decimal(soft)} of soft terms"
    known = "proved: nothing is lower" if outcome.status == "optimal" else f"nothing below {decimal(bound)}"
    facts = [
        (decimal(worth.objective), "objective", f"{weights}; {known}"),
        (str(worth.dp), "DP spread", f"{levels} that the widest DP group touches"),
        (str(worth.pp), "PP spread", f"{levels} that the widest PP group touches"),
        (f"{job.grid.cells:,}", "nodes", f"{plural(job.grid.rows, 'row')} x {plural(job.grid.columns, 'stage')}"),
        (seconds(outcome.proposal.solve_seconds), "to solve", outcome.algorithm),
    ]
    if flagged:
        avoided = len(flagged) - len(worth.flagged)
        noun = "flagged node" if avoided == 1 else "flagged nodes"
        facts.append((str(avoided), f"{noun} avoided", f"{len(worth.flagged)} of {len(flagged)} used"))
    return facts
