"""Tables and charts for a person, whether on a terminal or on a page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal, TypeVar

from ground.quantities import Kind
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
    shape: Literal["line", "step", "dots", "dashes"] = "line"  # A step goes from each point to the next
    errors: Sequence[float] = ()  # Half the height of an error bar at each point; empty = none
    band: tuple[Sequence[float], Sequence[float]] | None = None  # Lower and upper ends of a band around the points
    filled: bool = False  # Whether the area below is tinted
    tips: Sequence[str] = ()
    """Words of the tooltip of each point, which then has a dot; empty = those of its values, without titles none."""
    colour: int | None = None  # Number of a colour of the style sheet; `None` = by its place in the chart

    @property
    def values(self) -> list[float]:
        """Y of each point, NaN where there is nothing to draw."""
        return [nan if y is None else y for _, y in self.points]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with numbers on both axes."""

    title: str
    x_label: str
    y_label: str  # Titles of the axes; empty = the chart's own says it
    series: Sequence[Series]
    floor: float | None = None  # Where the y axis begins; `None` = below the least value
    ceiling: float | None = None  # Where the y axis ends; `None` = above the largest value
    ticks: Sequence[tuple[float, str]] = ()
    """Words for places of the x axis, instead of round numbers, or times where there is a key."""
    lines: Sequence[tuple[float, str]] = ()  # Upright lines: place and word
    kind: Kind = "count"  # What y is
    key: str = ""  # By which the script of a page knows a chart over time, unique there; empty = it need not
    note: str = ""  # A sentence below the title


@dataclass(frozen=True, slots=True)
class Sheet:
    """Tables and charts of an answer, ready to be shown beside its sentences."""

    tables: Sequence[TextTable]
    charts: Sequence[Chart]
