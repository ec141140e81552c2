"""Inputs that are known as a range only: a quantile function each, from which draws are made.

A user gives a number, ``24``, which is then certain, or a range, ``6..72``: its ends are the 10th and the 90th
percentile of a log-normal distribution, whose median is their geometric mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, lgamma, log
from random import Random
from statistics import NormalDist, mean, variance

from ground.errors import InvalidInput
from scheduler.queue.run_times import student_quantile

LOW, MEDIAN, HIGH = 0.1, 0.5, 0.9  # Probabilities of the percentiles that are told: P10, P50, P90

BATCHES = 5  # Of a run, whose means tell its standard error: each long against what jobs have to do with each other
MOST_CHANCE = 2.0  # Standard errors: what chance does beyond, in a twentieth of the runs each way, is not looked at

SEEDS = 2**31  # Seeds are drawn from 0 to below this

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][-+]?[0-9]{1,2})?"
_RANGE = re.compile(rf"({_NUMBER})(?:\.\.({_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class UncertainInput:
    """An input with its distribution."""

    name: str
    """By which an answer's function knows it."""
    words: str
    """What it is, with its unit: ``hours of a repair``."""
    quantile: Callable[[float], float]
    """From a probability between 0 and 1 to the value that is not exceeded with it."""
    source: str
    """Where the distribution is from."""
    ordered: bool = True
    """False = its values have no order, as those of a seed."""

    @property
    def certain(self) -> bool:
        """Whether it has one value only."""
        return self.quantile(LOW) == self.quantile(HIGH)


def seed_input() -> UncertainInput:
    """Return the seed of what is drawn at random, as an input: what chance alone does to an answer."""
    return UncertainInput("seed", "chance", lambda u: float(int(u * SEEDS)), "any seed", ordered=False)


def numbered_input(count: int, name: str, words: str) -> UncertainInput:
    """Return which of so many things drawn by seeds it is, as an input whose values are their numbers from 0."""
    source = f"{count} seeds"
    return UncertainInput(name, words, lambda u: float(min(count - 1, int(u * count))), source, ordered=False)


def chance_of(probability: float) -> float:
    """Return by how many standard errors a run is off, at a probability between 0 and 1: Student's distribution of
    :data:`BATCHES`, cut at :data:`MOST_CHANCE`.
    """
    quantile = student_quantile(NormalDist().inv_cdf(probability), BATCHES - 1)
    return min(MOST_CHANCE, max(-MOST_CHANCE, quantile))


def source_of(question: object, name: str) -> str:
    """Return where a question's option is from: ``assumed`` where it has its default."""
    return "assumed" if getattr(question, name) == getattr(type(question), name) else "given"


def given_input(
    text: str, name: str, words: str, *, where: str, least: float = 0.0, most: float = inf, source: str = "given"
) -> UncertainInput:
    """Return the input that a user's ``24`` or ``6..72`` stands for.

    :param where: the option, for messages.
    :param least: bounds of both ends; of a range the lower end is above 0 too.
    :raises InvalidInput: it is neither, or out of bounds.
    """
    found = _RANGE.fullmatch(text.strip())
    fix = f"give a number, or P10..P90, from {least:g}" + ("" if most == inf else f" to {most:g}")
    if found is None:
        raise InvalidInput(f"{text[:40]!r} is neither a number nor a range", where=where, fix=fix)
    low, high = (float(end) for end in (found[1], found[2] or found[1]))
    if not least <= low <= high <= most or (low == 0.0 and high > 0.0):
        raise InvalidInput(f"{text[:40]} is out of bounds", where=where, fix=f"{fix}; a range goes up from above 0")
    return UncertainInput(name, words, lognormal(low, high), source)


def range_words(text: str) -> str:
    """Return what an option holds as a sentence has it: ``6..9`` as ``6 to 9``."""
    return text.replace("..", " to ")


def option_input(question: object, name: str, words: str, *, least: float = 0.0, most: float = inf) -> UncertainInput:
    """Return the input that an option of a question is, by the name of its field.

    :raises InvalidInput: what it holds is neither a number nor a range, or out of bounds.
    """
    where, source = f"--{name.replace('_', '-')}", source_of(question, name)
    return given_input(getattr(question, name), name, words, where=where, least=least, most=most, source=source)


def lognormal(low: float, high: float) -> Callable[[float], float]:
    """Return the quantiles of the log-normal distribution with this P10 and P90; of equal ends, the one value."""
    if low == high:
        return lambda _: low
    standard = NormalDist()
    middle, spread = (log(low) + log(high)) / 2, (log(high) - log(low)) / (2.0 * standard.inv_cdf(HIGH))
    return lambda u: exp(middle + spread * standard.inv_cdf(u))


def gamma_of(values: Sequence[float]) -> Callable[[float], float]:
    """Return the quantiles of the Gamma distribution that has the mean and the (sample) variance of some values."""
    shape = mean(values) ** 2 / variance(values)
    scale = mean(values) / shape
    return lambda u: scale * _gamma_quantile(u, shape)


def _gamma_quantile(u: float, shape: float) -> float:
    """Return x with P(shape, x) = u, the regularised lower incomplete gamma function, by halving."""
    low, high = 0.0, 1.0
    while _gamma_share(high, shape) < u:
        high *= 2.0
    # 50 halvings leave less than 1e-13 of the value
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _gamma_share(middle, shape) < u else (low, middle)
    return (low + high) / 2


def _gamma_share(x: float, shape: float) -> float:
    """Return P(shape, x) by its series, x^k e^-x (1/G(k+1) + x/G(k+2) + ..)."""
    term = exp(shape * log(x) - x - lgamma(shape + 1.0))
    total, step = 0.0, 0
    while term > 1e-16 * total:
        total += term
        step += 1
        term *= x / (shape + step)
    return total


def draw(inputs: Sequence[UncertainInput], *, draws: int, seed: int) -> list[dict[str, float]]:
    """Return so many draws of all inputs, by name: a Latin hypercube, so that few draws cover each range evenly.

    An input's values follow from the seed and its name alone: whatever is compared meets the same draws (common random
    numbers), and one more input leaves the others as they are.
    """
    columns = {}
    for one in inputs:
        rng = Random(f"{seed} {one.name}")
        order = sorted(range(draws), key=[rng.random() for _ in range(draws)].__getitem__)
        columns[one.name] = [one.quantile((place + rng.random()) / draws) for place in order]
    return [{name: column[i] for name, column in columns.items()} for i in range(draws)]
