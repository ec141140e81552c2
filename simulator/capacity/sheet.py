"""What an answer looks like to a person, whether on a terminal or on a page: a verdict, tables, charts, assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Shape = Literal["line", "step", "dots", "dashes"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of words.

    :param headers: the first column is aligned left, the others right.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together.

    :param points: x and y; y is ``None`` where there is nothing to draw, which breaks a line.
    :param errors: half the height of an error bar at each point; empty = none.
    """

    name: str
    points: Sequence[tuple[float, float | None]]
    shape: Shape = "line"
    errors: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with numbers on both axes.

    :param floor: where the y axis begins; ``None`` = below the least value.
    :param ceiling: where it ends; ``None`` = above the largest.
    :param ticks: words for places of the x axis, instead of round numbers.
    :param lines: upright lines: place and word.
    :param percent: y is a share, shown in percent.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    floor: float | None = None
    ceiling: float | None = None
    ticks: Sequence[tuple[float, str]] = ()
    lines: Sequence[tuple[float, str]] = ()
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """An answer, ready to be shown.

    :param title: the question.
    :param verdict: the answer in a sentence or two.
    :param assumptions: what was taken for granted, one sentence each; never empty.
    """

    title: str
    verdict: str
    tables: Sequence[Table]
    charts: Sequence[Chart]
    assumptions: Sequence[str]
