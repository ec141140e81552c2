"""What the questions of capacity planning have in common: options, an answer in numbers, and how it is shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

from ground.records import JsonRecord, check_bounds
from simulator.capacity.answer_range import AnswerRange
from simulator.sheet import Sheet


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, kw_only=True)
class CapacityAnswer(JsonRecord):
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
        return tuple(one for one in self.ranges[:1] if one.swings)

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
        check_bounds(self)

    def answer(self, *, step: Callable[[str], None] = lambda _: None) -> A:
        """Answer the question; ``step`` is called before each of :attr:`steps`.

        :raises ArnoldError: the question makes no sense; with the option and what to do.
        """
        found = self.compute(step)
        return replace(
            found,
            question=self.title(found),
            verdict=self.verdict(found),
            figure=self.figure(found),
            assumptions=tuple(self.assumptions(found)),
            changes=(*(line for one in found.headline for line in one.sentences()), *self.changes(found)),
        )

    @abstractmethod
    def title(self, found: A) -> str:
        """Return the question in words."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many steps the computation has."""

    @abstractmethod
    def compute(self, step: Callable[[str], None]) -> A:
        """Return the answer in numbers and their ranges; the sentences are still empty."""

    @abstractmethod
    def verdict(self, found: A) -> str:
        """Return the answer in a sentence or two."""

    @abstractmethod
    def figure(self, found: A) -> AnswerFigure:
        """Return what of the verdict stands first and largest on a page."""

    @abstractmethod
    def assumptions(self, found: A) -> Iterable[str]:
        """Return what was taken for granted, one sentence each; never empty."""

    @abstractmethod
    def changes(self, found: A) -> Iterable[str]:
        """Return what would change the answer beside the inputs of its ranges, one sentence each."""

    @abstractmethod
    def sheet(self, answer: A) -> Sheet:
        """Return the answer as a person reads it; its first chart is the figure that is saved as a picture."""
