"""Predicted gains beside published ones, by run and model: ``python -m benchmarks predictions``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import cast

from benchmarks.predictions.cases import Case, Pair
from benchmarks.predictions.readings import READINGS
from benchmarks.report import section, table
from ground.plugins import OWN, object_at
from simulator.cost.calibration import Calibration
from simulator.cost.step import COMM_MODELS, CommModel

HEAD = """# Predictions

Printed by `python -m benchmarks predictions > docs/how-it-works/predictions.md`.
[simulation-cost.md](simulation-cost.md) has the models and what to make of these tables.
"""
"""Head of the page that ``predictions`` prints."""

MODELS: Mapping[str, Callable[[Calibration], CommModel]] = {
    name: cast("Callable[[Calibration], CommModel]", object_at(target))
    for name, target in sorted(OWN[COMM_MODELS.group].items())
    if name != "none"
}
"""Every model of ours but the one in which place has no effect; each can be made with another calibration."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Gains of one run in one model."""

    gains: Mapping[str, float]  # Reading -> mean gain in throughput over the pairs of placements
    low: float  # The least, over readings and, where any pair may have been the one that ran, over pairs
    high: float

    @property
    def gain(self) -> float:
        """As calibrated: the first reading."""
        return next(iter(self.gains.values()))

    def __str__(self) -> str:
        """With its range."""
        return f"{self.gain:+.1%} ({self.low:+.1%} .. {self.high:+.1%})"


@dataclass(frozen=True, slots=True)
class Line:
    """One case with its prediction in each model."""

    case: Case
    predictions: Mapping[str, Prediction]


def lines_of(found: Iterable[Case]) -> list[Line]:
    """Price cases."""
    made = {name: {words: make(read) for words, read in READINGS.items()} for name, make in MODELS.items()}
    return [Line(case, {name: _predict(case, models) for name, models in made.items()}) for case in found]


def _predict(case: Case, models: Mapping[str, CommModel]) -> Prediction:
    """Gains of a case, the job alone on its links."""
    each = {words: [_gain(model, pair) for pair in case.pairs] for words, model in models.items()}
    means = {words: fmean(gains) for words, gains in each.items()}
    spans = [gain for gains in each.values() for gain in gains] if case.any_pair else list(means.values())
    return Prediction(means, min(spans), max(spans))


def _gain(model: CommModel, pair: Pair) -> float:
    before, after = (model.relative_step_time(side.placed) for side in (pair.before, pair.after))
    return before / after - 1.0


def distance(lines: Sequence[Line], model: str, reading: str) -> float:
    """Mean distance from what is published, over the lines with a published gain."""
    known = [(line.predictions[model].gains[reading], line.case.published) for line in lines]
    return fmean(abs(predicted - published) for predicted, published in known if published is not None)


def report(lines: Sequence[Line]) -> str:
    """What was assumed, the predictions, and what each reading makes of them."""
    setups = dict.fromkeys((line.case.name, line.case.setup) for line in lines)
    header = ["run", "compared with", "pairs", "DP, PP before", "after", "published", *MODELS]
    rows = [
        [
            line.case.name,
            line.case.baseline,
            len(line.case.pairs),
            _spreads([pair.before.evaluation for pair in line.case.pairs]),
            _spreads([pair.after.evaluation for pair in line.case.pairs]),
            "-" if line.case.published is None else f"{line.case.published:+.1%}",
            *(str(line.predictions[name]) for name in MODELS),
        ]
        for line in lines
    ]
    usual, production = next(iter(READINGS)), [line for line in lines if line.case.production]
    for words, some in (("mean distance", lines), ("mean distance, production", production)):
        rows.append([words, *[""] * 5, *(f"{100 * distance(some, name, usual):.1f} points" for name in MODELS)])
    misses = [[words, *(f"{100 * distance(lines, name, words):.1f}" for name in MODELS)] for words in READINGS]
    return "\n".join(
        [
            section("Runs that are predicted", table(["run", "setup"], list(setups))),
            section("Gains in throughput, as calibrated, and the range over all readings", table(header, rows)),
            section("Mean distance from what was published, points, by reading", table(["reading", *MODELS], misses)),
        ]
    )


def _spreads(evaluations: Sequence[object]) -> str:
    return ", ".join(f"{fmean(getattr(found, family) for found in evaluations):.3g}" for family in ("dp", "pp"))
