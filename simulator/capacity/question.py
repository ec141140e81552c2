"""A question of capacity planning, the answer to it, and how sure that is.

The fields of a question are the options of its command.  Its answer has numbers, a verdict in a sentence or two, the
figure that stands largest on its page, what was taken for granted and what would change it.

Inputs that are known as a range only are drawn: an answer is told as its 10th, 50th and 90th percentile over the draws,
with the input that decides.  A user gives a number, ``24``, which is then certain, or a range, ``6..72``: its ends are
the 10th and the 90th percentile of a log-normal distribution, whose median is their geometric mean.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, inf, isfinite, lgamma, log
from random import Random
from statistics import NormalDist, mean, variance
from typing import ClassVar, Generic, TypeVar

from ground.errors import InvalidInput
from ground.quantities import Kind, capitalised, label_of
from ground.records import AtLeastOne, FloatOrInfinity, JsonRecord, check_fields
from scheduler.queue.run_times import student_quantile
from simulator.sheet import Sheet, TextTable, text_table


class AnswerFigure(JsonRecord):
    """The answer as the largest figure of its page: what the sentence says, in a few letters."""

    value: str
    """The answer: ``29``, ``2:1``, ``now``."""
    words: str
    """What it is."""
    sure: str
    """How sure it is, or what it comes with."""
    ranged: bool = False
    """Whether the first of the ranges is of this number."""


class CapacityAnswer(JsonRecord, kw_only=True):
    """What every answer has."""

    question: str = ""
    """What was asked."""
    verdict: str = ""
    """The answer in a sentence or two, with its range."""
    figure: AnswerFigure | None = None
    """What of that stands first and largest on a page; null = the answer is not finished."""
    ranges: tuple[AnswerRange, ...] = ()
    """How sure the answer is: the headline's number first; empty = it is of one state, and has no range."""
    assumptions: tuple[str, ...] = ()
    """What was taken for granted, one sentence each."""
    changes: tuple[str, ...] = ()
    """What would change the answer, one sentence each."""

    @property
    def headline(self) -> tuple[AnswerRange, ...]:
        """The range of the headline's number, where inputs decide on it; else none."""
        return tuple(number for number in self.ranges[:1] if number.swings)

    @property
    def reached(self) -> bool:
        """Whether what the question aims at can be had."""
        return True


A = TypeVar("A", bound=CapacityAnswer)


@dataclass(frozen=True, kw_only=True)
class CapacityQuestion(ABC, Generic[A]):
    """A question: its fields are the options of its command, and its docstring the help.

    :raises InvalidInput: a number is out of the bounds of its field.
    """

    answer_type: ClassVar[type[CapacityAnswer]]
    """Type of the answer, which is the JSON that the command prints."""

    def __post_init__(self) -> None:
        check_fields(self)
        if isinstance(cluster := getattr(self, "cluster", None), str):  # whose type is known to type checkers alone
            fix = "give a cluster, such as load_topology(file).cluster"
            raise InvalidInput(f"cluster is {cluster!r}", where="cluster", fix=fix)

    def answer(self, *, step: Callable[[str], None] = lambda _: None) -> A:
        """Answer the question; ``step`` is called before each of :attr:`steps`.

        :raises ArnoldError: the question makes no sense; with the option and what to do.
        """
        answer = self.compute(step)
        return replace(
            answer,
            question=self.title(answer),
            verdict=self.verdict(answer),
            figure=self.figure(answer),
            assumptions=tuple(self.assumptions(answer)),
            changes=(*(line for number in answer.headline for line in number.sentences()), *self.changes(answer)),
        )

    @abstractmethod
    def title(self, answer: A) -> str:
        """Return the question in words."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many steps the computation has."""

    @abstractmethod
    def compute(self, step: Callable[[str], None]) -> A:
        """Return the answer in numbers and their ranges; the sentences are still empty."""

    @abstractmethod
    def verdict(self, answer: A) -> str:
        """Return the answer in a sentence or two."""

    @abstractmethod
    def figure(self, answer: A) -> AnswerFigure:
        """Return what of the verdict stands first and largest on a page."""

    @abstractmethod
    def assumptions(self, answer: A) -> Iterable[str]:
        """Return what was taken for granted, one sentence each; never empty."""

    @abstractmethod
    def changes(self, answer: A) -> Iterable[str]:
        """Return what would change the answer beside the inputs of its ranges, one sentence each."""

    @abstractmethod
    def sheet(self, answer: A) -> Sheet:
        """Return the answer as a person reads it; its first chart is the figure that is saved as a picture."""


FEWEST = 10  # Values of which a tenth is one: of fewer P10 and P90 are the least and the most
MOST_SEEDS = 16  # Values of an input without order at which an answer is looked at

Percentiles = tuple[FloatOrInfinity, FloatOrInfinity, FloatOrInfinity]
"""P10, P50, P90, of fewer than ten values the least, the middle and the most; null = no number."""


class Swing(JsonRecord):
    """What one input alone does to an answer, with the others at their medians."""

    name: str
    """Name of the input."""
    words: str
    """What the input is, with its unit."""
    source: str
    """Where its distribution is from."""
    low: float | None
    """P10 of the input; null = its values have no order."""
    high: float | None
    """P90 of the input; null = its values have no order."""
    at_low: FloatOrInfinity
    """The answer at the input's P10; without an order, P10 of the answer. Null = no number."""
    at_high: FloatOrInfinity
    """The answer at the input's P90; without an order, P90 of the answer. Null = no number."""

    @property
    def width(self) -> float:
        """How far the answers are apart."""
        return 0.0 if self.at_low == self.at_high else abs(self.at_high - self.at_low)


class AnswerRange(JsonRecord):
    """A number of an answer over its uncertain inputs."""

    quantity: str
    """What the number is, with its unit."""
    kind: Kind
    """How the number is written."""
    p10: FloatOrInfinity
    """A tenth of the draws gives no more, of fewer than ten draws none less; null = no number."""
    p50: FloatOrInfinity
    """Half of the draws gives no more; null = no number."""
    p90: FloatOrInfinity
    """Nine tenths of the draws give no more, of fewer than ten draws all; null = no number."""
    at_medians: FloatOrInfinity
    """The number with every input at its median; null = no number."""
    draws: AtLeastOne
    """Draws of the inputs."""
    swings: tuple[Swing, ...]
    """What each input does to the answer, the one that decides first."""
    beyond: str = "none is enough"
    """What infinity means, in words."""

    def value(self, number: float) -> str:
        """Return a number of this quantity as a person reads it."""
        return label_of(number, self.kind) if isfinite(number) else self.beyond

    @property
    def words(self) -> str:
        """The percentiles in words."""
        values = map(self.value, (self.p10, self.p50, self.p90))
        return ", ".join(f"{name} {value}" for name, value in zip(percentile_names(self.draws), values, strict=True))

    @property
    def sentence(self) -> str:
        """The percentiles, of how many values they are, and what decides."""
        decides = f"; {self.decides} decides" if self.decides else ""
        return f"{self.words} of {self.draws:,} {'draws' if self.swings else 'values'}{decides}"

    @property
    def decides(self) -> str:
        """What decides, in words; empty where nothing changes the answer."""
        return self.swings[0].words if self.swings and self.swings[0].width else ""

    def sentences(self) -> Iterator[str]:
        """Yield for each input that changes the answer how far it does, the one that decides first."""
        for swing in (swing for swing in self.swings if swing.width):
            answers = f"{self.value(swing.at_low)} to {self.value(swing.at_high)}"
            ends = "" if swing.low is None else f" {end_words(swing.low)} to {end_words(swing.high)}"
            yield f"{capitalised(swing.words)}{ends} ({swing.source}): {self.quantity} {answers}."

    def table(self) -> TextTable:
        """Return a line for each input: its range, and what that makes of the answer."""
        columns: dict[str, Callable[[Swing], str]] = {
            "input": lambda row: row.words,
            "P10": lambda row: end_words(row.low),
            "P90": lambda row: end_words(row.high),
            "answer at P10": lambda row: self.value(row.at_low),
            "answer at P90": lambda row: self.value(row.at_high),
        }
        return text_table(f"What decides: {self.quantity} as each input alone varies", self.swings, columns)


def end_words(value: float | None) -> str:
    """Return an end of an input's range; a dash where its values have no order."""
    return "-" if value is None else label_of(value, "count")


def percentile_names(count: int) -> tuple[str, str, str]:
    """Return what the percentiles of so many values are called: of a few the ends are all that is known."""
    return ("P10", "P50", "P90") if count >= FEWEST else ("least", "median", "most")


def percentiles(values: Sequence[float]) -> Percentiles:
    """Return P10, P50 and P90 of some values, each one of them: whole numbers stay whole, infinities do not spread."""
    ordered = sorted(values)
    low, median, high = (ordered[max(0, ceil(share * len(ordered)) - 1)] for share in (LOW, MEDIAN, HIGH))
    return low, median, high


@dataclass(frozen=True)
class InputPoints:
    """Where an answer has to be known for its range: at draws of all inputs, at the medians, at the ends of each input.

    Several numbers that follow from the same computation at each point have their ranges from one set of points.
    """

    inputs: tuple[UncertainInput, ...]
    draws: int  # How many draws there are
    seed: int  # Same seed, same draws

    @cached_property
    def swinging(self) -> dict[str, tuple[float, ...]]:
        """Values of each uncertain input, by its name: P10 and P90, or some without order."""
        seeds = [(i + 0.5) / MOST_SEEDS for i in range(MOST_SEEDS)]
        return {
            given.name: tuple(map(given.quantile, (LOW, HIGH) if given.ordered else seeds))
            for given in self.inputs
            if not given.certain
        }

    @cached_property
    def medians(self) -> dict[str, float]:
        """The median of each input, by its name."""
        return {given.name: given.quantile(MEDIAN) for given in self.inputs}

    @cached_property
    def values(self) -> list[dict[str, float]]:
        """Values of the inputs by name: the draws first, then the medians, then each input alone at its ends."""
        alone = [self.medians | {name: value} for name, values in self.swinging.items() for value in values]
        return [*draw(self.inputs, draws=self.draws, seed=self.seed), self.medians, *alone]

    def range_of(self, quantity: str, answers: Sequence[float], *, kind: Kind = "count") -> AnswerRange:
        """Return the range of a number that was computed at each of the points.

        :param answers: in the order of the points; infinity = no number is enough.
        """
        p10, p50, p90 = percentiles(answers[: self.draws])
        swings, at = [], self.draws + 1
        for given in (given for given in self.inputs if given.name in self.swinging):
            values = self.swinging[given.name]
            alone, at = answers[at : at + len(values)], at + len(values)
            ends = (*values, *alone) if given.ordered else (None, None, *percentiles(alone)[::2])
            swings.append(Swing(given.name, given.words, given.source, *ends))
        swings.sort(key=lambda swing: swing.width, reverse=True)
        return AnswerRange(quantity, kind, p10, p50, p90, answers[self.draws], self.draws, tuple(swings))

    def range_over(self, quantity: str, answer: Callable[[Mapping[str, float]], float]) -> AnswerRange:
        """Return the range of a number that follows from the values of the inputs, by name, at each point."""
        return self.range_of(quantity, [answer(values) for values in self.values])


LOW, MEDIAN, HIGH = 0.1, 0.5, 0.9  # Probabilities of the percentiles that are told: P10, P50, P90

BATCHES = 5  # Of a run, whose means tell its standard error: each long against what jobs have to do with each other
MOST_CHANCE = 2.0  # Standard errors: what chance does beyond, in a twentieth of the runs each way, is not looked at

SEEDS = 2**31  # Seeds are drawn from 0 to below this

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][-+]?[0-9]{1,2})?"
_RANGE = re.compile(rf"({_NUMBER})(?:\.\.({_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class UncertainInput:
    """An input with its distribution."""

    name: str  # By which an answer's function knows it
    words: str  # What it is, with its unit: `hours of a repair`
    quantile: Callable[[float], float]  # From a probability between 0 and 1 to the value that is not exceeded with it
    source: str  # Where the distribution is from
    ordered: bool = True  # False = its values have no order, as those of a seed

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
    ends = _RANGE.fullmatch(text.strip())
    fix = f"give a number, or P10..P90, from {least:g}" + ("" if most == inf else f" to {most:g}")
    if ends is None:
        raise InvalidInput(f"{text[:40]!r} is neither a number nor a range", where=where, fix=fix)
    low, high = float(ends[1]), float(ends[2] or ends[1])
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

    def quantile(u: float) -> float:
        """Return scale * x with P(shape, x) = u, the regularised lower incomplete gamma function, by halving."""
        low, high = 0.0, 1.0
        while _gamma_share(high, shape) < u:
            high *= 2.0
        # 50 halvings leave less than 1e-13 of the value
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if _gamma_share(middle, shape) < u else (low, middle)
        return scale * (low + high) / 2

    return quantile


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
    for given in inputs:
        rng = Random(f"{seed} {given.name}")
        order = sorted(range(draws), key=[rng.random() for _ in range(draws)].__getitem__)
        columns[given.name] = [given.quantile((place + rng.random()) / draws) for place in order]
    return [{name: column[i] for name, column in columns.items()} for i in range(draws)]
