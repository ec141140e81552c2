"""The gains of aligning groups, from step times of one job on several placements, for :mod:`simulator.cost.models`.

The model is linear in the step without spread and in what each family costs,

    T = T0 * (1 + j_dp * lambda_c(S) / lambda_c(2) + j_pp * lambda_p(R) / lambda_p(2))

so the medians of runs, by least squares, give T0, T0 j_dp and T0 j_pp.  A family of which the spread never varies
cannot be told, nor two that vary together.  Bands are 95 % bootstrap intervals: runs of a placement are drawn with
replacement, and of each run the median of its steps, drawn as often as there are independent ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ground.errors import InvalidInput
from ground.records import AtLeastOne, JsonRecord
from simulator.cost.calibration import PUBLISHED
from topology.cluster import FloatArray

DRAWS = 2000
LEAST_STEPS = 6
"""Step times of a pair of spreads below which its noise is not known: the least and the greatest of n values enclose
the median with ``1 - 2 / 2^n``, which is 95 % from 6 on."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Step times of one run of the job on one placement."""

    name: str
    dp: int  # S, DP spread
    pp: int  # R, PP spread
    seconds: FloatArray  # shape [steps], each above 0


class GainEstimate(JsonRecord):
    """A number and how sure it is."""

    value: float
    """The estimate; a gain is in percent of the step without spread."""
    low: float | None
    """Lower end of its 95 % interval; null = not known, too few step times."""
    high: float | None
    """Upper end."""

    @property
    def band(self) -> tuple[float, float] | None:
        """Both ends, to four digits; ``None`` = not known."""
        return None if self.low is None or self.high is None else (round(self.low, 4), round(self.high, 4))


class MeasuredPlacement(JsonRecord):
    """What was measured on the placements of one pair of spreads."""

    dp: AtLeastOne
    """S, DP spread."""
    pp: AtLeastOne
    """R, PP spread."""
    runs: AtLeastOne
    """Runs on such placements."""
    steps: AtLeastOne
    """Step times."""
    seconds: float
    """Mean over runs of their median step, seconds."""
    fitted: float
    """Step by the estimates, seconds."""


@dataclass(frozen=True, slots=True)
class GainFit:
    """What step times tell."""

    dp: GainEstimate | None  # j_dp; None = cannot be told
    pp: GainEstimate | None  # j_pp; None = cannot be told
    # j_dp / (j_dp + j_pp), a loss counting as 0; None = one of them cannot be told, or both are losses
    alpha: GainEstimate | None
    step_seconds: float  # of the placements with least spread of what is told, by the fit
    placements: tuple[MeasuredPlacement, ...]  # by S, then R
    together: bool  # nothing is told, as S and R change together


def fit_gains(runs: Sequence[MeasuredRun], *, source: str = "", seed: int = 0) -> GainFit:
    """Estimate what each family gains.

    :param source: where the step times are from, for errors.
    :param seed: of the draws; same seed, same bands.
    :raises InvalidInput: fewer than two pairs of spreads, or step times that no step without spread explains.
    """
    pairs = sorted({(run.dp, run.pp) for run in runs})
    if len(pairs) < 2:
        problem = "all step times are of one S and one R: nothing tells what spread costs"
        fix = "measure the same job on a second placement, such as one with its PP groups aligned (R = 1)"
        raise InvalidInput(problem, where=source, fix=fix)
    curves = PUBLISHED.collective_curve, PUBLISHED.send_recv_curve
    shape = np.array([[curve.of_two(spread) for curve, spread in zip(curves, pair, strict=True)] for pair in pairs])
    families = [family for family in (0, 1) if np.ptp(shape[:, family]) > 0.0]
    design = np.column_stack([np.ones(len(pairs)), shape[:, families]])
    of_pair = [[run for run in runs if (run.dp, run.pp) == pair] for pair in pairs]
    medians = np.array([np.mean([np.median(run.seconds) for run in several]) for several in of_pair])
    together = bool(np.linalg.matrix_rank(design) < design.shape[1])
    if together:
        families, design = [], design[:, :1]
    fitted, drawn = _solved(design, medians), _solved(design, _bootstrapped(of_pair, seed))
    if fitted[0] <= 0.0:
        problem = "without spread the step would take no time: the step times are not those of one job"
        fix = "look for a slip in the step times or in S and R, and keep the rows of one job"
        raise InvalidInput(problem, where=source, fix=fix)
    gains: list[GainEstimate | None] = [None, None]
    for column, family in enumerate(families, 1):
        gains[family] = _estimate(fitted[column], drawn[column])
    shares = [_alpha(gain) for gain in (fitted, drawn)] if len(families) > 1 else [np.array(np.nan)]
    # of each pair, from T0 and the gains in percent
    steps = fitted[0] * (design @ np.concatenate([[1.0], fitted[1:] / 100.0]))
    placements = [
        MeasuredPlacement(*pair, len(several), sum(len(run.seconds) for run in several), float(median), float(step))
        for pair, several, median, step in zip(pairs, of_pair, medians, steps, strict=True)
    ]
    return GainFit(
        dp=gains[0],
        pp=gains[1],
        alpha=None if np.isnan(shares[0]) else _estimate(float(shares[0]), shares[1]),
        step_seconds=float(fitted[0]),
        placements=tuple(placements),
        together=together,
    )


def _solved(design: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return T0 and the gains in percent, by least squares; of each column of ``seconds``, where there are several."""
    solved = np.linalg.lstsq(design, seconds, rcond=None)[0]
    return np.asarray(np.concatenate([solved[:1], 100.0 * solved[1:] / solved[:1]]))


def _alpha(fitted: FloatArray) -> FloatArray:
    """Return the part of DP in both gains, a loss counting as 0; NaN where both are losses."""
    dp, pp = np.maximum(fitted[1:], 0.0)
    return np.asarray(np.divide(dp, dp + pp, out=np.full_like(dp, np.nan), where=dp + pp > 0.0))


def _bootstrapped(of_pair: Sequence[Sequence[MeasuredRun]], seed: int) -> FloatArray:
    """Return the step of each pair, drawn again: shape [pairs, draws]; NaN where a pair has too few step times."""
    rng = np.random.default_rng(seed)
    drawn = np.full((len(of_pair), DRAWS), np.nan)
    for row, several in zip(drawn, of_pair, strict=True):
        if sum(len(run.seconds) for run in several) < LEAST_STEPS:
            continue
        chosen = rng.integers(len(several), size=(DRAWS, len(several)))
        medians = np.empty(chosen.shape)
        for number, run in enumerate(several):
            here, middle = chosen == number, (_independent(run.seconds) + 1) / 2
            # the median of n values drawn with replacement stands at the median of n uniform numbers
            medians[here] = np.quantile(run.seconds, rng.beta(middle, middle, size=int(here.sum())))
        row[:] = medians.mean(axis=1)
    return drawn


def _independent(seconds: FloatArray) -> float:
    """Return as how many independent steps those of a run count: ``n (1 - r) / (1 + r)``, steps in their order.

    r is the autocorrelation of their ranks from one step to the next, at least 0, corrected for the bias that it has
    over few steps (Kendall, Biometrika 1954): ``(n r + 1) / (n - 3)``.
    """
    count = len(seconds)
    values, which, times = np.unique(seconds, return_inverse=True, return_counts=True)
    if count < LEAST_STEPS or len(values) == 1:
        return count
    # of equal values the mean of their ranks, or a log of few digits would seem to drift
    ranks = (times.cumsum() - (times + count) / 2)[which]
    r = float(ranks[1:] @ ranks[:-1] / (ranks @ ranks))
    alike = min(max(0.0, (count * r + 1) / (count - 3)), 1 - 2 / count)
    return count * (1 - alike) / (1 + alike)


def _estimate(value: float, drawn: FloatArray) -> GainEstimate:
    # least squares leave 1e-13 or so of nothing, and no gain has no sign
    if np.isnan(drawn).all():
        return GainEstimate(round(float(value), 9) + 0.0, None, None)
    # a draw without a share, as both gains are losses in it, may have any
    low, high = (np.quantile(np.nan_to_num(drawn, nan=end), at) for end, at in ((0.0, 0.025), (1.0, 0.975)))
    return GainEstimate(*(round(float(number), 9) + 0.0 for number in (value, low, high)))
