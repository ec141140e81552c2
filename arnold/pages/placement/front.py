"""The trade between DP and PP spread as a small chart: the Pareto front, what is impossible, who landed where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log

from arnold.pages.placement.labelling import Box, Point, place_labels
from scheduler.job import Job
from scheduler.outcome import Outcome
from scheduler.placement.types import Pair
from topology.drawing.labels import several
from topology.drawing.svg import number

WIDTH, HEIGHT = 520.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 14.0, 48.0
CHOSEN, FRONT, OTHER = 11.0, 6.0, 4.0
"""Radii of points."""

CROWDED = 20.0
"""Least distance between two ticks."""

TICKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Logarithmic axes: pairs of equal product, which is what the bounds speak of, lie on a straight line."""

    most_dp: float
    most_pp: float

    def x(self, dp: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (log(dp) - log(0.75)) / (log(self.most_dp) - log(0.75))

    def y(self, pp: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log(pp) - log(0.75)) / (log(self.most_pp) - log(0.75))


def front_chart(job: Job, outcome: Outcome, placed: Sequence[Outcome], level: str) -> str:
    """The chart as one ``<svg>``.

    :param outcome: whose front and refutations are shown.
    :param placed: outcomes with a placement, in the order of their numbers on the page; each has a ring, ``<circle
        data-ring="number">``, of which that of ``outcome`` is seen.  Those of other algorithms are small labelled dots.
    :param level: name of the level that spread counts.
    """
    refuted = [refutation.pair for refutation in outcome.proposal.refutations]
    dots: dict[Pair, list[str]] = {}
    rings = [(one.evaluation.dp, one.evaluation.pp) for one in placed if one.evaluation is not None]
    for other, pair in zip(placed, rings, strict=True):
        if other is not outcome:
            dots.setdefault(pair, []).append(other.algorithm)
    front = [(point.dp, point.pp) for point in outcome.proposal.pareto]
    chosen = [] if outcome.evaluation is None else [(outcome.evaluation.dp, outcome.evaluation.pp)]
    seen: list[Pair] = [*front, *rings]
    scale = _Scale(1.45 * max((dp for dp, _ in seen), default=2), 1.3 * max((pp for _, pp in seen), default=2))
    title = f"Pareto front of DP and PP spread: {', '.join(f'({dp}, {pp})' for dp, pp in front) or 'not known'}"
    parts = [
        f'<svg class="front" viewBox="0 0 {number(WIDTH)} {number(HEIGHT)}" width="{number(WIDTH)}" '
        f'height="{number(HEIGHT)}" role="img" aria-label="{escape(title)}">',
        *_impossible(refuted, scale),
        *_axes(scale, level),
        *(_equal_cost(job, outcome.objective, scale) if outcome.objective is not None else ()),
        *_steps(front, scale),
        *_dots(outcome, dots, scale),
        *_rings(outcome, placed, rings, scale),
        *_names(front, chosen, dots, scale),
        "</svg>",
    ]
    return "\n".join(parts)


def _impossible(refuted: Sequence[Pair], scale: _Scale) -> Iterator[str]:
    """Pairs that were refuted, each with everything below and to the left of it, as one area."""
    left, bottom = scale.x(0.75), scale.y(0.75)
    corners = [f"{number(left)},{number(bottom)}"]
    x, highest = left, 0
    for dp, pp in sorted(refuted, key=lambda pair: (-pair[1], -pair[0])):
        edge = scale.x(min(dp + 0.5, scale.most_dp))
        if edge > x:
            y = number(scale.y(min(pp + 0.5, scale.most_pp)))
            corners += [f"{number(x)},{y}", f"{number(edge)},{y}"]
            x, highest = edge, max(highest, pp)
    if highest:
        corners.append(f"{number(x)},{number(bottom)}")
        yield f'<polygon class="impossible" points="{" ".join(corners)}"/>'


def _axes(scale: _Scale, level: str) -> Iterator[str]:
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM
    for tick in _ticks(scale.most_dp, scale.x):
        x = number(scale.x(tick))
        yield f'<line class="rule" x1="{x}" y1="{number(top)}" x2="{x}" y2="{number(bottom)}"/>'
        yield f'<text class="note" x="{x}" y="{number(bottom + 16)}" font-size="11" text-anchor="middle">{tick}</text>'
    for tick in _ticks(scale.most_pp, scale.y):
        y = scale.y(tick)
        yield f'<line class="rule" x1="{number(left)}" y1="{number(y)}" x2="{number(right)}" y2="{number(y)}"/>'
        yield (
            f'<text class="note" x="{number(left - 8)}" y="{number(y + 4)}" font-size="11" '
            f'text-anchor="end">{tick}</text>'
        )
    middle_x, middle_y = (left + right) / 2, (top + bottom) / 2
    yield (
        f'<text class="axis" x="{number(middle_x)}" y="{number(HEIGHT - 8)}" font-size="12" '
        f'text-anchor="middle">DP spread: {escape(several(level))} a DP group touches</text>'
    )
    yield (
        f'<text class="axis" x="14" y="{number(middle_y)}" font-size="12" text-anchor="middle" '
        f'transform="rotate(-90 14 {number(middle_y)})">PP spread: {escape(several(level))} a PP group touches</text>'
    )


def _ticks(most: float, place: Callable[[float], float]) -> Iterator[int]:
    """Ticks up to the end of an axis that do not crowd each other."""
    last = float("inf")
    for tick in TICKS:
        if tick <= most and abs(place(tick) - last) >= CROWDED:
            yield tick
            last = place(tick)


def _equal_cost(job: Job, objective: float, scale: _Scale) -> Iterator[str]:
    """All pairs that would cost as much as what was found: alpha * S + beta * R = objective."""
    points = []
    for step in range(81):
        dp = 0.75 * (scale.most_dp / 0.75) ** (step / 80)
        pp = (objective - job.alpha * dp) / job.beta if job.beta > 0 else 0.0
        if 0.75 <= pp <= scale.most_pp:
            points.append(f"{number(scale.x(dp))},{number(scale.y(pp))}")
    if len(points) > 1:
        yield f'<polyline class="cost" points="{" ".join(points)}"/>'


def _steps(front: Sequence[Pair], scale: _Scale) -> Iterator[str]:
    """The border of what can be had, as a stair through the front."""
    corners = _corners(front, scale)
    if corners:
        points = " ".join(f"{number(x)},{number(y)}" for x, y in corners)
        yield f'<polyline class="stair" points="{points}"/>'


def _corners(front: Sequence[Pair], scale: _Scale) -> list[tuple[float, float]]:
    """Corners of the stair, from the upper left to the lower right."""
    corners: list[tuple[float, float]] = []
    last_pp = scale.most_pp
    for dp, pp in sorted(front):
        corners += [(scale.x(dp), scale.y(last_pp)), (scale.x(dp), scale.y(pp))]
        last_pp = pp
    return [*corners, (WIDTH - RIGHT, scale.y(last_pp))] if corners else []


def _treads(front: Sequence[Pair], scale: _Scale) -> list[Box]:
    """The lines of the stair as boxes, which labels keep off."""
    return [
        (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)) for (x0, y0), (x1, y1) in pairwise(_corners(front, scale))
    ]


def _dots(outcome: Outcome, dots: Mapping[Pair, Sequence[str]], scale: _Scale) -> Iterator[str]:
    """Other algorithms below, the front above them."""
    for pair, names in dots.items():
        yield _circle(scale, pair, OTHER, "other", f"{', '.join(names)}\n{_spreads(pair)}")
    for point in outcome.proposal.pareto:
        pair = (point.dp, point.pp)
        kind, words = ("proved", "proved") if point.proved else ("unproved", "not proved")
        yield _circle(scale, pair, FRONT, f"point {kind}", f"{_spreads(pair)}\n{words}")


def _rings(outcome: Outcome, placed: Sequence[Outcome], rings: Sequence[Pair], scale: _Scale) -> Iterator[str]:
    """A ring around each placement; that of the outcome is seen."""
    for i, (one, pair) in enumerate(zip(placed, rings, strict=True)):
        ring = f'data-ring="{i}"' + ("" if one is outcome else " hidden")
        yield _circle(scale, pair, CHOSEN, "chosen", f"{one.algorithm}: {_spreads(pair)}", more=ring)


def _names(
    front: Sequence[Pair], chosen: Sequence[Pair], dots: Mapping[Pair, Sequence[str]], scale: _Scale
) -> Iterator[str]:
    """Pairs beside the points of the front, names beside the dots of other algorithms, where there is room."""
    points = [
        Point(scale.x(dp), scale.y(pp), CHOSEN if (dp, pp) in chosen else FRONT, f"({dp}, {pp})", 12.0, "name")
        for dp, pp in dict.fromkeys([*chosen, *front])
    ]
    for (dp, pp), names in dots.items():
        text = names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
        points.append(Point(scale.x(dp), scale.y(pp), FRONT, text, 10.5, "note"))
    for label in place_labels(points, within=(LEFT, 0.0, WIDTH, HEIGHT - BOTTOM), lines=_treads(front, scale)):
        yield (
            f'<text class="{label.point.kind}" x="{number(label.x)}" y="{number(label.y)}" '
            f'font-size="{number(label.point.size)}">{escape(label.point.text)}</text>'
        )


def _spreads(pair: Pair) -> str:
    return f"DP spread {pair[0]}, PP spread {pair[1]}"


def _circle(scale: _Scale, pair: Pair, radius: float, kind: str, tip: str, *, more: str = "") -> str:
    x, y = number(scale.x(pair[0])), number(scale.y(pair[1]))
    more = f" {more}" if more else ""
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="{number(radius)}" data-tip="{escape(tip)}"{more}/>'
