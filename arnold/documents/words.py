"""Outcomes and numbers in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.avoidance import Option
from scheduler.explain import CheaperPair, maximal
from scheduler.outcome import Outcome, Status

SAME = 5e-4
"""Predicted step times closer than this are the same to people."""

STATUS: Mapping[Status, str] = {
    "optimal": "proved optimal",
    "feasible": "feasible",
    "infeasible": "infeasible",
    "timeout": "stopped at its time limit",
    "gave-up": "gave up",
    "refused": "refused",
}
"""Statuses of an outcome as text and pages show them."""


def status_words(status: Status, stopped_at: float | None = None) -> str:
    """A status as text and pages show it: ``proved optimal``, ``feasible``, ``stopped at 5 s``.

    :param stopped_at: seconds of the time limit that stopped the algorithm, if one did.
    """
    return STATUS[status] if stopped_at is None else f"stopped at {stopped_at:.3g} s"


def verdict(outcome: Outcome) -> str:
    """An outcome in one sentence: ``proved optimal: DP spread 2, PP spread 4, objective 3.0``."""
    status = status_words(outcome.status, outcome.stopped_at)
    if outcome.evaluation is None:
        return f"{status}: {outcome.reason}"
    found = (
        f"DP spread {outcome.evaluation.dp}, PP spread {outcome.evaluation.pp}, "
        f"objective {decimal(outcome.evaluation.objective)}"
    )
    if outcome.status == "optimal":
        return f"{status}: {found}"
    return f"{status}, gap {outcome.gap:.1%}: {found}, proved bound {decimal(outcome.bound or 0.0)}"


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

    :param pairs: of :func:`scheduler.explain.cheaper_pairs`, dearest first.
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


def decimal(value: float) -> str:
    """A number as people read it: ``3.0``, ``2.25``, ``1.667``."""
    text = f"{value:.3f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def option_sentence(option: Option) -> str:
    """A way to treat slow nodes in one sentence."""
    way = {"avoid": "avoid all slow nodes", "some": "use the less slow ones", "use": "use slow nodes freely"}[
        option.way
    ]
    evaluation = option.outcome.evaluation
    if evaluation is None or option.step_time is None:
        status = status_words(option.outcome.status, option.outcome.stopped_at)
        return f"{way}: {status}: {option.outcome.reason}"
    in_use = f"{len(option.used)} in use, up to {option.slowest:.4g} times slower" if option.used else "none in use"
    proved = "" if option.outcome.status == "optimal" else f" (not proved best, gap {option.outcome.gap:.1%})"
    chosen = ", chosen" if option.chosen else ""
    return (
        f"{way}: predicted step time {option.step_time:.3f} x ideal, "
        f"DP spread {evaluation.dp}, PP spread {evaluation.pp}, objective {decimal(evaluation.objective)}{proved}; "
        f"{in_use}{chosen}"
    )


def comparison(options: Sequence[Option]) -> str:
    """What avoiding slow nodes costs or gains against using them; empty when either cannot be had."""
    times = {option.way: option.step_time for option in options}
    avoid, use = times.get("avoid"), times.get("use")
    if avoid is None or use is None:
        return ""
    if abs(avoid - use) < SAME:
        return "Either way the predicted step time is the same."
    if avoid < use:
        return f"Using them makes steps {use / avoid - 1:.1%} longer than avoiding them."
    return f"Avoiding them makes steps {avoid / use - 1:.1%} longer than using them."
