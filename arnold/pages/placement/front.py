"""The trade between DP and PP spread as a small chart: the Pareto front, what is impossible, what each algorithm found.

Both axes are logarithmic: pairs of equal product, of which the bounds speak, lie on a straight line.  Each label takes
the first free place around its point, so that none lies on another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from arnold.pages.axis import log_ticks
from arnold.pages.plot import Plot
from ground.quantities import several
from scheduler.job import Job
from scheduler.outcome import Outcome
from scheduler.placement.types import Pair
from topology.drawing.layout import text_width
from topology.drawing.page_kit import XY, area, circle, label, path, svg

CHOSEN, FRONT, OTHER = 11.0, 6.0, 4.0  # Radii of points
LEAST = 0.75  # Where both axes begin, below the smallest spread
CURVE = 80  # Pieces of the curve of equal cost
BOLD = 1.13  # How much wider bold type is
APART = 2.5
"""Least distance of a label from what stands beside it: half the width of a digit, so that two do not read as one."""

Box = tuple[float, float, float, float]  # Left, top, right, bottom
Dots = Mapping[Pair, Sequence[str]]  # Names of the other algorithms that found a pair of spreads


def front_chart(job: Job, outcome: Outcome, placed: Sequence[Outcome], level: str) -> str:
    """Return the chart as one ``<svg>``; nothing where it would show one point and no more.

    :param outcome: the one of which the front and the refutations are shown.
    :param placed: outcomes with a placement, in the order of their numbers on the page; each has a ring, ``<circle
        data-ring="number">``, of which that of ``outcome`` is seen.  Those of other algorithms are small labelled dots.
    :param level: name of the level that spread counts.
    """
    runs = [(one, (one.evaluation.dp, one.evaluation.pp)) for one in placed if one.evaluation is not None]
    dots: dict[Pair, list[str]] = {}
    for other, pair in runs:
        if other is not outcome:
            dots.setdefault(pair, []).append(other.algorithm)
    front = [(point.dp, point.pp) for point in outcome.proposal.corners]
    chosen = [pair for one, pair in runs if one is outcome]
    seen: list[Pair] = [*front, *(pair for _, pair in runs)]
    if len(set(seen)) < 2 and not outcome.proposal.refutations:
        return ""
    # room for the labels at the right and above
    across = LEAST, 1.45 * max((dp for dp, _ in seen), default=2)
    upward = LEAST, 1.3 * max((pp for _, pp in seen), default=2)
    plot = Plot(520.0, 400.0, (52.0, 16.0, 14.0, 48.0), across, upward, logarithmic=(True, True))
    stair = plot.points(_stair(front, plot))
    title = f"Pareto front of DP and PP spread: {', '.join(f'({dp}, {pp})' for dp, pp in front) or 'not known'}"
    levels = several(level)
    parts = [
        *_impossible([refutation.pair for refutation in outcome.proposal.refutations], plot),
        *plot.x_axis(log_ticks(plot.x)),
        *plot.y_axis(log_ticks(plot.y)),
        *plot.titles(f"DP spread: {levels} a DP group touches", f"PP spread: {levels} a PP group touches"),
        *(_equal_cost(job, outcome.objective, plot) if outcome.objective is not None else ()),
        *([path(stair, "stair")] if stair else ()),
        *_marks(outcome, runs, dots, plot),
        *_names(plot, [*chosen, *front], dots, chosen=chosen, stair=stair),
    ]
    return svg("chart front", plot.width, plot.height, parts, title=title)


def _impossible(refuted: Sequence[Pair], plot: Plot) -> Iterator[str]:
    """Yield pairs that were refuted, each with everything below and to the left of it, as one area."""
    corners: list[XY] = []
    edge = LEAST
    # a pair shades up to half way to the next: corners from the upper left to the lower right
    for dp, pp in sorted(refuted, key=lambda pair: (-pair[1], -pair[0])):
        if min(dp + 0.5, plot.across[1]) > edge:
            corners += [(edge, pp + 0.5), (dp + 0.5, pp + 0.5)]
            edge = dp + 0.5
    if corners:
        yield area(plot.points(corners), plot.points((dp, LEAST) for dp, _ in corners), "impossible")


def _equal_cost(job: Job, objective: float, plot: Plot) -> Iterator[str]:
    """Yield all pairs that would cost as much as what was found: alpha * S + beta * R = objective."""
    most = plot.across[1]
    places = [LEAST * (most / LEAST) ** (step / CURVE) for step in range(CURVE + 1)]
    points = [(dp, (objective - job.alpha * dp) / job.beta) for dp in places] if job.beta > 0 else []
    inside = [(dp, pp) for dp, pp in points if LEAST <= pp <= plot.upward[1]]
    if len(inside) > 1:
        yield path(plot.points(inside), "cost")


def _stair(front: Sequence[Pair], plot: Plot) -> list[XY]:
    """Return the border of what can be had, as a stair through the front from the upper left to the lower right."""
    if not front:
        return []
    before = [plot.upward[1], *(pp for _, pp in front)]
    corners = chain.from_iterable(((dp, last), (dp, pp)) for last, (dp, pp) in zip(before, front, strict=False))
    return [*corners, (plot.across[1], front[-1][1])]


def _marks(outcome: Outcome, runs: Sequence[tuple[Outcome, Pair]], dots: Dots, plot: Plot) -> Iterator[str]:
    """Yield other algorithms below, the front above them, and a ring around each placement; one ring is seen."""

    def mark(pair: Pair, radius: float, kind: str, tip: str, **more: int | bool) -> str:
        return circle(plot.x(pair[0]), plot.y(pair[1]), radius, kind, tip=tip, **more)

    for pair, names in dots.items():
        yield mark(pair, OTHER, "other", f"{', '.join(names)}\n{_spreads(pair)}")
    for point in outcome.proposal.pareto:
        kind, words = ("proved", "proved") if point.proved else ("unproved", "not proved")
        pair = (point.dp, point.pp)
        yield mark(pair, FRONT, f"point {kind}", f"{_spreads(pair)}\n{words}")
    for i, (one, pair) in enumerate(runs):
        tip = f"{one.algorithm}: {_spreads(pair)}"
        yield mark(pair, CHOSEN, "chosen", tip, data_ring=i, hidden=one is not outcome)


def _names(
    plot: Plot, front: Sequence[Pair], dots: Dots, *, chosen: Sequence[Pair], stair: Sequence[XY]
) -> Iterator[str]:
    """Yield pairs beside the points of the front, names beside the dots of other algorithms, where there is room."""
    x, y = plot.x, plot.y
    points = [
        LabelledPoint(x(dp), y(pp), CHOSEN if (dp, pp) in chosen else FRONT, f"({dp}, {pp})", 12.0, "name")
        for dp, pp in dict.fromkeys(front)
    ]
    for (dp, pp), names in dots.items():
        text = names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
        points.append(LabelledPoint(x(dp), y(pp), FRONT, text, 10.5, "note"))
    treads = [(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)) for (x0, y0), (x1, y1) in pairwise(stair)]
    for one in place_labels(points, within=(plot.left, 0.0, plot.width, plot.bottom), lines=treads):
        yield label(one.x, one.y, one.point.text, kind=one.point.kind, size=one.point.size)


def _spreads(pair: Pair) -> str:
    return f"DP spread {pair[0]}, PP spread {pair[1]}"


@dataclass(frozen=True, slots=True)
class LabelledPoint:
    """A point that wants a label."""

    x: float
    y: float
    radius: float  # of the dot drawn there
    text: str
    size: float  # of the type
    kind: str  # class of the style sheet for its label; name is bold


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """Where a label stands: left end and base line."""

    x: float
    y: float
    point: LabelledPoint


def place_labels(points: Sequence[LabelledPoint], *, within: Box, lines: Sequence[Box] = ()) -> Iterator[PlacedLabel]:
    """Place labels, the first points first; a label that finds no room is left out.

    :param within: where labels may stand.
    :param lines: which labels keep off, as boxes without width or height.
    """
    taken: list[Box] = [(p.x - p.radius, p.y - p.radius, p.x + p.radius, p.y + p.radius) for p in points]
    taken += lines
    for point in points:
        width = text_width(point.text, point.size) * (BOLD if point.kind == "name" else 1.0)
        for left, base in _places(point, width):
            box = (left, base - 0.8 * point.size, left + width, base + 0.25 * point.size)
            around = (box[0] - APART, box[1], box[2] + APART, box[3])
            if _inside(box, within) and not any(_overlap(around, other) for other in taken):
                taken.append(box)
                yield PlacedLabel(left, base, point)
                break


def _places(point: LabelledPoint, width: float) -> Iterator[tuple[float, float]]:
    """Yield left end and base line of the places around a point, the best first."""
    aside, low, high = point.radius + 3, point.size * 0.9 + point.radius + 2, point.radius + 5
    yield point.x + aside, point.y - high + 2
    yield point.x + aside, point.y + 0.35 * point.size
    yield point.x - width / 2, point.y - high
    yield point.x - width / 2, point.y + low
    yield point.x - width - aside, point.y - high + 2
    yield point.x - width - aside, point.y + 0.35 * point.size
    yield point.x + aside, point.y + low
    yield point.x - width - aside, point.y + low
    for further in (1, 2, 3):
        yield point.x - width / 2, point.y + low + further * point.size * 1.15
        yield point.x - width / 2, point.y - high - further * point.size * 1.15


def _inside(box: Box, within: Box) -> bool:
    return box[0] >= within[0] and box[1] >= within[1] and box[2] <= within[2] and box[3] <= within[3]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
