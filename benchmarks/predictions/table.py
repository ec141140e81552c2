"""Predicted gains beside published ones, by run and model: ``python -m benchmarks predictions``.

Twice: the cases as they were predicted first, and compared as the paper compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.predictions.cases import Case, Pair, cases, ratios
from benchmarks.predictions.corrected import corrected
from benchmarks.report import section, table
from simulator.cost.alpha_beta import alpha_beta
from simulator.cost.calibration import Calibration
from simulator.cost.hierarchical import hierarchical
from simulator.cost.shared_flows import SharedFlows
from simulator.cost.spread_price import spread_counters
from simulator.cost.types import CommModel

MODELS: Mapping[str, Callable[[Calibration], CommModel]] = {
    "spread": spread_counters,
    "alpha-beta": alpha_beta,
    "hierarchical": hierarchical,
    "flows": SharedFlows,
}

SHARES = (0.30, 0.40, 0.50)
"""Of communication in a step without spread: the ends of what is published, and the middle, which is the prediction."""

OVERLAPS = (0.0, 0.9)
"""Of the reduction of gradients: nothing hidden, which is the prediction; all but one bucket in ten if there is compute
enough, to see what it does."""


@dataclass(frozen=True, slots=True)
class Line:
    """One case under one assumption about overlap.

    :param gains: model -> mean gain in throughput for each of :data:`SHARES`.
    """

    case: Case
    overlap: float
    gains: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Cases compared in one way.

    :param title: of its part of the report.
    """

    title: str
    lines: Sequence[Line]


def measure(seconds: float) -> list[Reading]:
    """Place and price every case.

    :param seconds: time limit of each solve.
    """
    first = list(cases(seconds))
    return [
        Reading("Beside what was published", list(lines_of(first))),
        Reading("Compared as the paper compares", list(lines_of(list(corrected(first, seconds))))),
    ]


def lines_of(found: Sequence[Case]) -> Iterator[Line]:
    """Price cases: one line for each and each overlap."""
    for overlap in OVERLAPS:
        for case in found:
            gains = {
                name: tuple(
                    _gain(make(Calibration(communication_share=share, overlap=overlap)), case.pairs) for share in SHARES
                )
                for name, make in MODELS.items()
            }
            yield Line(case, overlap, gains)


def _gain(model: CommModel, pairs: Sequence[Pair]) -> float:
    """Mean gain in throughput, the job alone on its links."""
    before, after = (
        [model.relative_step_time(side.placed) for side in sides]
        for sides in ([pair.before for pair in pairs], [pair.after for pair in pairs])
    )
    return fmean(slow / fast - 1.0 for slow, fast in zip(before, after, strict=True))


def report(readings: Sequence[Reading]) -> str:
    """What was assumed, and one table for each overlap, for each reading."""
    return "\n".join(_part(reading) for reading in readings)


def _part(reading: Reading) -> str:
    setups = dict.fromkeys(f"- {line.case.name}: {line.case.setup}." for line in reading.lines)
    tables = [
        _section(reading.title, overlap, [line for line in reading.lines if line.overlap == overlap])
        for overlap in OVERLAPS
    ]
    return "\n".join([section(f"{reading.title}: runs", "\n".join(setups)), *tables])


def _section(title: str, overlap: float, lines: Sequence[Line]) -> str:
    header = ["run", "compared with", "clusters", "DP, PP before", "after", "ratio", "published", *MODELS]
    rows = [
        [
            line.case.name,
            line.case.baseline,
            len(line.case.pairs),
            _spreads([pair.before.evaluation for pair in line.case.pairs]),
            _spreads([pair.after.evaluation for pair in line.case.pairs]),
            ", ".join(f"{fmean(values):.3g}x" for values in zip(*map(ratios, line.case.pairs), strict=True)),
            "-" if line.case.published is None else f"{line.case.published:+.1%}",
            *(_range(line.gains[name]) for name in MODELS),
        ]
        for line in lines
    ]
    rows.append(["mean distance from published", *[""] * 6, *(_distance(lines, name) for name in MODELS)])
    hidden = f"{overlap:.0%} of the reduction hidden" if overlap else "nothing hidden"
    return section(f"{title}: gains in throughput, {hidden}", table(header, rows))


def _distance(lines: Sequence[Line], model: str) -> str:
    """In points of a percentage, at the middle share, over the lines with a published gain."""
    known = [(line.gains[model][1], line.case.published) for line in lines if line.case.published is not None]
    return f"{fmean(abs(predicted - published) for predicted, published in known) * 100:.1f} points"


def _spreads(evaluations: Sequence[object]) -> str:
    return ", ".join(f"{fmean(getattr(found, family) for found in evaluations):.3g}" for family in ("dp", "pp"))


def _range(gains: Sequence[float]) -> str:
    low, middle, high = gains
    return f"{middle:+.1%} ({low:+.1%} .. {high:+.1%})"
