"""How sure an answer is: its 10th, 50th and 90th percentile over uncertain inputs, and which of these decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite
from typing import TypeAlias

from ground.quantities import Kind, capitalised, label_of
from ground.records import AtLeastOne, FloatOrInfinity, JsonRecord
from simulator.capacity.uncertain_input import HIGH, LOW, MEDIAN, UncertainInput, draw
from simulator.sheet import TextTable, text_table

FEWEST = 10  # Values of which a tenth is one: of fewer P10 and P90 are the least and the most
MOST_SEEDS = 16  # Values of an input without order at which an answer is looked at

Percentiles = tuple[FloatOrInfinity, FloatOrInfinity, FloatOrInfinity]
"""P10, P50, P90, of fewer than ten values the least, the middle and the most; null = no number."""

AnswerTo: TypeAlias = Callable[[Mapping[str, float]], float]  # From values of the inputs, by name, to the answer


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
        for swing in (one for one in self.swings if one.width):
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
    draws: int
    """How many draws there are."""
    seed: int
    """Same seed, same draws."""

    @cached_property
    def swinging(self) -> dict[str, tuple[float, ...]]:
        """Values of each uncertain input, by its name: P10 and P90, or some without order."""
        return {
            one.name: (one.quantile(LOW), one.quantile(HIGH))
            if one.ordered
            else tuple(one.quantile((i + 0.5) / MOST_SEEDS) for i in range(MOST_SEEDS))
            for one in self.inputs
            if not one.certain
        }

    @cached_property
    def medians(self) -> dict[str, float]:
        """The median of each input, by its name."""
        return {one.name: one.quantile(MEDIAN) for one in self.inputs}

    @cached_property
    def points(self) -> list[dict[str, float]]:
        """Values of the inputs by name: the draws first, then the medians, then each input alone at its ends."""
        alone = [self.medians | {name: value} for name, values in self.swinging.items() for value in values]
        return [*draw(self.inputs, draws=self.draws, seed=self.seed), self.medians, *alone]

    def range_of(self, quantity: str, answers: Sequence[float], *, kind: Kind = "count") -> AnswerRange:
        """Return the range of a number that was computed at each of the points.

        :param answers: in the order of the points; infinity = no number is enough.
        """
        p10, p50, p90 = percentiles(answers[: self.draws])
        swings, at = [], self.draws + 1
        for one in (one for one in self.inputs if one.name in self.swinging):
            values = self.swinging[one.name]
            found, at = answers[at : at + len(values)], at + len(values)
            if one.ordered:
                swings.append(Swing(one.name, one.words, one.source, *values, *found))
            else:
                least, _, most = percentiles(found)
                swings.append(Swing(one.name, one.words, one.source, None, None, least, most))
        swings.sort(key=lambda one: one.width, reverse=True)
        return AnswerRange(quantity, kind, p10, p50, p90, answers[self.draws], self.draws, tuple(swings))


def answer_range(
    quantity: str, answer: AnswerTo, inputs: Sequence[UncertainInput], *, draws: int, seed: int
) -> AnswerRange:
    """Return the percentiles of an answer over draws of its inputs, and the swing of each input that is uncertain.

    :param answer: from values of the inputs to a number; infinity = no number is enough.
    """
    where = InputPoints(tuple(inputs), draws, seed)
    return where.range_of(quantity, [answer(values) for values in where.points])
