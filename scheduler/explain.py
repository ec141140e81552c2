"""Why a placement cannot be better: each cheaper pair of spreads, and what rules it out, for a program and in words."""

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


@dataclass(frozen=True, slots=True)
class WhyNot:
    """A pair of spreads that would cost less than the placement found, and why it cannot be had.

    :param by: the bound or search that rules it out; empty = open.
    :param sentence: the reason in words.
    :param with_it: smaller pairs that are ruled out with it, or open as it is; each stands with one pair only.
    """

    pair: CheaperPair
    by: str
    sentence: str
    with_it: tuple[CheaperPair, ...]

    @property
    def rest(self) -> str:
        """What holds for the smaller pairs."""
        return f"ruled out with ({self.pair.dp}, {self.pair.pp})" if self.by else "open as well"


def why_not(pairs: Sequence[CheaperPair]) -> list[WhyNot]:
    """Every cheaper pair once, with a reason for people: first those that no other exceeds, by DP spread.

    :param pairs: of :func:`cheaper_pairs`, dearest first.
    """
    heads: dict[CheaperPair, list[CheaperPair]] = {pair: [] for pair in maximal(pairs)}
    for pair in pairs:
        if pair in heads:
            continue
        above = [head for head in heads if head.dp >= pair.dp and head.pp >= pair.pp]
        settled = [head for head in above if head.refutation is not None]
        if settled or pair.refutation is None:
            heads[[*settled, *above][0]].append(pair)
        else:
            heads[pair] = []
    return [WhyNot(pair, *_reason(pair), tuple(rest)) for pair, rest in heads.items()]


def _reason(pair: CheaperPair) -> tuple[str, str]:
    """What rules a pair out, and the sentence."""
    known = pair.refutation
    if known is None:
        return "", "open: not settled within the time; a longer --time-limit may help"
    if known.pair == (pair.dp, pair.pp):
        return known.by, known.sentence
    return known.by, f"not even ({known.pair[0]}, {known.pair[1]}) can be had: {known.sentence}"


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
