"""The uncertain inputs of the question of spares: how often nodes fail, for how long, and what a restart takes."""

from __future__ import annotations

from ground.errors import InvalidInput, UnknownName
from simulator.capacity.hardware_prices import HOURS_OF_A_YEAR
from simulator.capacity.uncertain_input import UncertainInput, gamma_of, given_input, lognormal
from simulator.failures.rates import HIGHEST, RATES, failure_rate
from simulator.failures.restart_delay import parse_restart

PUBLISHED = "published"
REPAIR = "6..72"
RESTART = "100..900"
MOST_RESTART = 86_400.0  # Seconds


def failures_input(text: str) -> UncertainInput:
    """Return failures per 1,000 node-days: of one source, of all four, or as given.

    :raises UnknownName: no rate has that name.
    :raises InvalidInput: a number or a range out of bounds.
    """
    name, words = text.strip().lower(), "failures per 1,000 node-days"
    if name == PUBLISHED:
        rates = [rate.per_thousand_node_days for rate in RATES.values()]
        source = f"a Gamma distribution over the rates of {', '.join(RATES)}"
        return UncertainInput("failures", words, gamma_of(rates), source)
    if ".." in name:
        return given_input(name, "failures", words, where="--failures", most=HIGHEST)
    try:
        rate = failure_rate(text)
    except UnknownName as error:
        fix = f"{error.fix}, a range of these such as 1.2..6.5, or {PUBLISHED}"
        raise UnknownName(error.message, where=error.where, fix=fix) from None
    per_thousand = rate.per_thousand_node_days
    return UncertainInput("failures", words, lognormal(per_thousand, per_thousand), rate.source)


def repair_input(text: str) -> UncertainInput:
    """Return the mean hours of a repair; raise :class:`InvalidInput` where they are out of bounds."""
    source = "assumed: no publication says" if text == REPAIR else "given"
    words, where = "hours of a node's repair", "--repair-hours"
    return given_input(text, "repair", words, where=where, least=1e-3, most=HOURS_OF_A_YEAR, source=source)


def restart_input(text: str, *, gpus: int) -> UncertainInput:
    """Return seconds from a failure to training again, of a job of so many GPUs, by name or as given.

    :raises InvalidInput: no way to restart has that name, or seconds out of bounds.
    """
    words = "seconds of a restart"
    try:
        source = "from a hot update to a requeue after a hang, ByteRobust" if text == RESTART else "given"
        return given_input(text, "restart", words, where="--restart", most=MOST_RESTART, source=source)
    except InvalidInput:
        if ".." in text:
            raise
    seconds = parse_restart(text).mean_seconds(gpus=gpus)
    return UncertainInput("restart", words, lognormal(seconds, seconds), f"ByteRobust's {text.strip().lower()}")
