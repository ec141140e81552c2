"""What an answer looks like to a person, whether on a terminal or on a page: a verdict, tables, charts, assumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from simulator.confidence import Band

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of words."""

    title: str
    headers: Sequence[str]
    """The first column is aligned left, the others right; on a page those without a digit left, too."""
    rows: Sequence[Sequence[str]]


def text_table(title: str, rows: Iterable[R], columns: Mapping[str, Callable[[R], str]]) -> TextTable:
    """Return the table with a line for each row.

    :param columns: header -> what stands in the column.
    """
    return TextTable(title, tuple(columns), [tuple(cell(row) for cell in columns.values()) for row in rows])


def known(value: float | Band | None, spec: str) -> str:
    """Return a number in the format of a cell, ``-`` where there is none."""
    return "-" if value is None else format(value, spec)


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together."""

    name: str
    points: Sequence[tuple[float, float | None]]
    """x and y; y is ``None`` where there is nothing to draw, which breaks a line."""
    shape: Literal["line", "step", "dots", "dashes"] = "line"
    errors: Sequence[float] = ()
    """Half the height of an error bar at each point; empty = none."""
    band: tuple[Sequence[float], Sequence[float]] | None = None
    """Lower and upper ends of a band around the points."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with numbers on both axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    floor: float | None = None
    """Where the y axis begins; ``None`` = below the least value."""
    ceiling: float | None = None
    """Where the y axis ends; ``None`` = above the largest value."""
    ticks: Sequence[tuple[float, str]] = ()
    """Words for places of the x axis, instead of round numbers."""
    lines: Sequence[tuple[float, str]] = ()
    """Upright lines: place and word."""
    percent: bool = False
    """y is a share, shown in percent."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Tables and charts of an answer, ready to be shown beside its sentences."""

    tables: Sequence[TextTable]
    charts: Sequence[Chart]
