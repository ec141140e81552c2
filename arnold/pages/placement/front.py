"""The trade between DP and PP spread as a small chart: the Pareto front, what is impossible, who landed where.

Both axes are logarithmic: pairs of equal product, of which the bounds speak, lie on a straight line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

from arnold.pages.axis import log_ticks
from arnold.pages.placement.labelling import LabelledPoint, place_labels
from arnold.pages.plot import Plot
from scheduler.job import Job
from scheduler.outcome import Outcome
from scheduler.placement.types import Pair
from topology.drawing.elements import XY, area, circle, label, path, svg
from topology.quantities import several

CHOSEN, FRONT, OTHER = 11.0, 6.0, 4.0
"""Radii of points."""

LEAST = 0.75
"""Where both axes begin, below the smallest spread."""

CURVE = 80
"""Pieces of the curve of equal cost."""


def front_chart(job: Job, outcome: Outcome, placed: Sequence[Outcome], level: str) -> str:
    """Return the chart as one ``<svg>``.

    :param outcome: whose front and refutations are shown.
    :param placed: outcomes with a placement, in the order of their numbers on the page; each has a ring, ``<circle
        data-ring="number">``, of which that of ``outcome`` is seen.  Those of other algorithms are small labelled dots.
    :param level: name of the level that spread counts.
    """
    rings = [(one.evaluation.dp, one.evaluation.pp) for one in placed if one.evaluation is not None]
    dots: dict[Pair, list[str]] = {}
    for other, pair in zip(placed, rings, strict=True):
        if other is not outcome:
            dots.setdefault(pair, []).append(other.algorithm)
    front = sorted((point.dp, point.pp) for point in outcome.proposal.pareto)
    chosen = [] if outcome.evaluation is None else [(outcome.evaluation.dp, outcome.evaluation.pp)]
    seen: list[Pair] = [*front, *rings]
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
        *_dots(outcome, dots, plot),
        *_rings(outcome, placed, rings, plot),
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


def _dots(outcome: Outcome, dots: Mapping[Pair, Sequence[str]], plot: Plot) -> Iterator[str]:
    """Yield other algorithms below, the front above them."""
    for pair, names in dots.items():
        yield _circle(plot, pair, OTHER, "other", f"{', '.join(names)}\n{_spreads(pair)}")
    for point in outcome.proposal.pareto:
        pair = (point.dp, point.pp)
        kind, words = ("proved", "proved") if point.proved else ("unproved", "not proved")
        yield _circle(plot, pair, FRONT, f"point {kind}", f"{_spreads(pair)}\n{words}")


def _rings(outcome: Outcome, placed: Sequence[Outcome], rings: Sequence[Pair], plot: Plot) -> Iterator[str]:
    """Yield a ring around each placement; that of the outcome is seen."""
    for i, (one, pair) in enumerate(zip(placed, rings, strict=True)):
        tip = f"{one.algorithm}: {_spreads(pair)}"
        yield _circle(plot, pair, CHOSEN, "chosen", tip, ring=i, hidden=one is not outcome)


def _names(
    plot: Plot,
    front: Sequence[Pair],
    dots: Mapping[Pair, Sequence[str]],
    *,
    chosen: Sequence[Pair],
    stair: Sequence[XY],
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


def _circle(
    plot: Plot, pair: Pair, radius: float, kind: str, tip: str, *, ring: int | None = None, hidden: bool = False
) -> str:
    return circle(plot.x(pair[0]), plot.y(pair[1]), radius, kind, tip=tip, data_ring=ring, hidden=hidden)
