"""Why a placement cannot be better: each cheaper pair of spreads, with what rules it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.job import Job
from scheduler.outcome import TOLERANCE, Outcome
from scheduler.placement.types import Pair, Refutation
from scheduler.spread import job_level, objective_of
from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class CheaperPair:
    """A pair of spreads that would cost less than the placement found.

    :param objective: what the pair would cost, with the least that the soft terms can add.
    :param refutation: what rules it out: a refuted pair that is as good in both; ``None`` = not settled.
    """

    dp: int
    pp: int
    objective: float
    refutation: Refutation | None


def cheaper_pairs(cluster: Cluster, job: Job, outcome: Outcome) -> tuple[CheaperPair, ...]:
    """Every pair (S, R) that would cost less than the outcome's placement, dearest first.

    A pair refuted in the outcome's proposal rules out every pair that is as small in both.  Where the placement is
    proved optimal, its bound rules out the rest: what a pair would cost counts the least that soft terms can add.

    :param outcome: with a placement.
    :returns: pairs with S up to the rows, R up to the columns, both up to the number of domains.
    """
    if outcome.objective is None:
        return ()
    refutations = sorted(outcome.proposal.refutations, key=lambda refutation: refutation.pair)
    pairs = [
        CheaperPair(dp, pp, cost, _covering(refutations, dp, pp) or _by_bound(outcome, (dp, pp)))
        for dp, pp, cost in _pairs(cluster, job)
        if cost < outcome.objective - TOLERANCE
    ]
    return tuple(sorted(pairs, key=lambda pair: (-pair.objective, pair.dp)))


def maximal(pairs: Sequence[CheaperPair]) -> tuple[CheaperPair, ...]:
    """The pairs that no other one exceeds in both: ruling these out rules out all, in order of DP spread."""
    kept: list[CheaperPair] = []
    for pair in sorted(pairs, key=lambda pair: (-pair.dp, -pair.pp)):
        if not kept or pair.pp > kept[-1].pp:
            kept.append(pair)
    return tuple(reversed(kept))


def _pairs(cluster: Cluster, job: Job) -> Iterator[tuple[int, int, float]]:
    domains = len(job_level(cluster, job))
    soft = sum(count.weight for count in job.counts)
    for dp in range(1, min(job.grid.rows, domains) + 1):
        for pp in range(1, min(job.grid.columns, domains) + 1):
            yield dp, pp, objective_of(job, dp, pp, soft)


def _covering(refutations: Sequence[Refutation], dp: int, pp: int) -> Refutation | None:
    """The refuted pair closest above (dp, pp)."""
    return next((known for known in refutations if known.pair[0] >= dp and known.pair[1] >= pp), None)


def _by_bound(outcome: Outcome, pair: Pair) -> Refutation | None:
    """The certified bound as what rules out a pair that is said to cost less."""
    if outcome.status != "optimal":
        return None
    return Refutation(
        pair, "bound", f"no placement can have an objective below {outcome.objective:.4g}, all terms counted"
    )
