"""Why a placement cannot be better: each cheaper pair of spreads, with what rules it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from ground.quantities import decimal, one_of, plural
from ground.records import AtLeastOne, JsonRecord
from scheduler.job import FAMILIES, Job
from scheduler.objective import TOLERANCE, Spread, objective_of
from scheduler.outcome import Outcome
from scheduler.placement.admission import admissible, blocks_at, capacity_by_level, types_of
from scheduler.placement.types import Pair, Refutation
from scheduler.second_levels import within_the_tree
from topology.cluster import Cluster, count_nodes
from topology.flags import HEALTHY

LONGEST = 3  # Kinds of domains that a sentence names


@dataclass(frozen=True, slots=True)
class CheaperPair(JsonRecord):
    """A pair of spreads that would cost less than the placement found."""

    dp: AtLeastOne
    """DP spread S."""
    pp: AtLeastOne
    """PP spread R."""
    objective: float
    """What it would cost, with the least that soft constraints can add."""
    refuted: Spread | None
    """The pair that was refuted, at least as large in both, and rules this one out with it, where slow nodes have a
    price on nodes no slower than were admitted; null = not settled."""
    refuted_by: str | None
    """The bound or search that refuted it."""
    sentence: str | None
    """The reason in words."""
    maximal: bool
    """No other cheaper pair is at least as large in both: ruling out these rules out all."""


def left_over(cluster: Cluster, job: Job) -> tuple[str, ...]:
    """Return for each level at which something is held which usable nodes no placement can use, and why: a sentence
    each, from the closest level on.
    """
    sentences = []
    job = within_the_tree(cluster, job)
    usable = admissible(cluster, job)
    room = capacity_by_level(cluster, job, usable)
    held = {cluster.level_index(hold.level) for hold in job.holds_on(cluster)}
    for depth in sorted(held, reverse=True):
        level, size = cluster.levels[depth], blocks_at(cluster, job, depth).size
        have = count_nodes(level, usable)
        if not (over := have - room[depth]).any():
            continue
        kinds = {hold.family for hold in job.holds_on(cluster) if cluster.level_index(hold.level) >= depth}
        named = " and ".join(family.upper() for family in FAMILIES if family in kinds)
        each = Counter(zip(over[over > 0].tolist(), have[over > 0].tolist(), strict=True))
        listed = [f"{left} of {all_} in each of {count}" for (left, all_), count in each.most_common(LONGEST)]
        more = ["others elsewhere"] if len(each) > LONGEST else []
        sentences.append(
            f"{named} groups take {size} nodes of one {one_of(level.name)} at a time: of the "
            f"{plural(len(level), level.name)}, {int(over.sum()):,} usable nodes are left over "
            f"({', '.join([*listed, *more])})"
        )
    return tuple(sentences)


def cheaper_pairs(cluster: Cluster, job: Job, outcome: Outcome) -> tuple[CheaperPair, ...]:
    """Return every pair (S, R) that would cost less than the outcome's placement, dearest first.

    A pair refuted in the outcome's proposal rules out every pair that is as small in both.  Where the placement is
    proved optimal, its bound rules out the rest: what a pair would cost counts the least that soft terms can add.
    """
    if outcome.objective is None:
        return ()
    refutations = sorted(outcome.proposal.refutations, key=lambda refutation: refutation.pair)
    costs = {pair: cost for pair, cost in _costs(cluster, job) if cost < outcome.objective - TOLERANCE}
    decisive, admitted = _antichain(costs), _admitted(outcome)
    pairs = []
    for (dp, pp), cost in costs.items():
        # the refuted pair closest above (dp, pp)
        known = next((known for known in refutations if known.covers(dp, pp)), None)
        known = known or _by_bound(outcome, (dp, pp), cost)
        refuted, by, sentence = (None, None, None) if known is None else (Spread(*known.pair), known.by, known.sentence)
        if sentence is not None and admitted < inf:
            on = "nodes that are not slow" if admitted == HEALTHY else f"nodes up to {admitted:.4g} times slower"
            sentence += f" (on {on}: a step on slower ones takes longer)"
        pairs.append(CheaperPair(dp, pp, cost, refuted, by, sentence, (dp, pp) in decisive))
    return tuple(sorted(pairs, key=lambda pair: (-pair.objective, pair.dp)))


@dataclass(frozen=True, slots=True)
class WhyNot:
    """A pair of spreads that would cost less than the placement found, and why it cannot be had."""

    pair: CheaperPair
    with_it: tuple[CheaperPair, ...]
    """Smaller pairs that are ruled out with it, or open as it is; each stands with one pair only."""

    @property
    def sentence(self) -> str:
        """The reason in words."""
        known = self.pair.refuted
        if known is None:
            return "open: not settled within the time; a longer --time-limit may help"
        if known == Spread(self.pair.dp, self.pair.pp):
            return str(self.pair.sentence)
        return f"not even ({known.dp}, {known.pp}) can be had: {self.pair.sentence}"

    @property
    def line(self) -> str:
        """The pair, what it would cost, and the reason."""
        return f"({self.pair.dp}, {self.pair.pp}) at {decimal(self.pair.objective)}: {self.sentence}"

    @property
    def rest(self) -> str:
        """What holds for the smaller pairs."""
        return f"ruled out with ({self.pair.dp}, {self.pair.pp})" if self.pair.refuted else "open as well"


def why_not(pairs: Sequence[CheaperPair]) -> list[WhyNot]:
    """Return every cheaper pair (given dearest first) with the reason: first those that none exceeds, by DP spread."""
    first = sorted((pair for pair in pairs if pair.maximal), key=lambda pair: pair.dp)
    heads: dict[CheaperPair, list[CheaperPair]] = {pair: [] for pair in first}
    for pair in pairs:
        if pair in heads:
            continue
        above = [head for head in heads if head.dp >= pair.dp and head.pp >= pair.pp]
        settled = [head for head in above if head.refuted is not None]
        if settled or pair.refuted is None:
            heads[[*settled, *above][0]].append(pair)
        else:
            heads[pair] = []
    return [WhyNot(pair, tuple(rest)) for pair, rest in heads.items()]


@dataclass(frozen=True, slots=True)
class TypeBinding(JsonRecord):
    """What binds on nodes of one type of GPU, or of several where the job may mix them."""

    gpu_types: tuple[str, ...]
    """The types; empty text = nodes of which no type is said."""
    sentence: str
    """Why the job has no placement there, or the dearest pair of spreads that would cost less and what rules it out."""


def what_binds(cluster: Cluster, outcome: Outcome) -> tuple[TypeBinding, ...]:
    """Return what binds for each choice of types that was compared; empty where there was nothing to choose."""
    return tuple(TypeBinding(types_of(cluster, job), _what_binds(cluster, job, one)) for job, one in outcome.by_type)


def _what_binds(cluster: Cluster, job: Job, outcome: Outcome) -> str:
    if outcome.evaluation is None:
        return outcome.reason
    heads = why_not(cheaper_pairs(cluster, job, outcome))
    if not heads:
        return "nothing can be cheaper: every group touches one domain"
    first = max(heads, key=lambda one: one.pair.objective)
    more = f" ({len(heads) - 1:,} more)" if len(heads) > 1 else ""
    return f"{first.line}{more}"


def _antichain(pairs: Collection[Pair]) -> set[Pair]:
    """Return the pairs that no other one exceeds in both: ruling these out rules out all."""
    kept: list[Pair] = []
    for dp, pp in sorted(pairs, reverse=True):
        if not kept or pp > kept[-1][1]:
            kept.append((dp, pp))
    return set(kept)


def _costs(cluster: Cluster, job: Job) -> Iterator[tuple[Pair, float]]:
    domains = len(cluster.level(job.level))
    for dp in range(1, min(job.grid.groups["dp"].largest, domains) + 1):
        for pp in range(1, min(job.grid.groups["pp"].largest, domains) + 1):
            yield (dp, pp), objective_of(job, dp, pp, job.least_soft)


def _admitted(outcome: Outcome) -> float:
    """Return up to which slowdown nodes were admitted for the placement; infinite = nothing was left out for that."""
    widest = max((option.slowest for option in outcome.proposal.prices), default=inf)
    chosen = next((option.slowest for option in outcome.proposal.prices if option.chosen), inf)
    return inf if chosen == widest else chosen


def _by_bound(outcome: Outcome, pair: Pair, cost: float) -> Refutation | None:
    """Return the certified bound as what rules out a pair that is said to cost less."""
    bound = outcome.bound_up_to(_admitted(outcome))
    if bound is None or cost >= bound - TOLERANCE:
        return None
    return Refutation(pair, "bound", f"no placement can have an objective below {bound:.4g}, all terms counted")
