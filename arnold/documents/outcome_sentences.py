"""Outcomes in sentences: the same in text, in JSON and on pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.avoidance import Option
from scheduler.outcome import Outcome, Status
from topology.quantities import decimal, number, percent

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
    return STATUS[status] if stopped_at is None else f"stopped at {number(stopped_at)} s"


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
    return f"{status}, gap {percent(outcome.gap)}: {found}, proved bound {decimal(outcome.bound or 0.0)}"


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
    proved = "" if option.outcome.status == "optimal" else f" (not proved best, gap {percent(option.outcome.gap)})"
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
        return f"Using them makes steps {percent(use / avoid - 1)} longer than avoiding them."
    return f"Avoiding them makes steps {percent(avoid / use - 1)} longer than using them."
