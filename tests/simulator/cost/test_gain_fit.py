"""Gains from step times: exact where there is no noise, honest about it where there is."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from simulator.cost.calibration import PUBLISHED
from simulator.cost.gain_fit import LEAST_STEPS, GainFit, MeasuredRun, fit_gains
from tests.case_counts import examples

FOUR = ((1, 1), (2, 1), (1, 2), (3, 4))
"""S and R of four placements."""


def runs(
    pairs: Iterable[tuple[int, int]] = FOUR,
    *,
    gains: tuple[float, float] = (0.77, 1.8),
    steps: int = 40,
    noise: float = 0.0,
    alike: float = 0.0,
    seed: int = 0,
) -> list[MeasuredRun]:
    """A run on each placement, as the model makes them, steps of 3 s with lognormal noise.

    :param alike: correlation of the noise from one step to the next.
    """
    rng = np.random.default_rng(seed)
    made = []
    for i, (dp, pp) in enumerate(pairs):
        lost = gains[0] * PUBLISHED.collective_curve.of_two(dp) + gains[1] * PUBLISHED.send_recv_curve.of_two(pp)
        drawn = rng.normal(0.0, noise, steps)
        for step in range(1, steps):
            drawn[step] = alike * drawn[step - 1] + np.sqrt(1 - alike**2) * drawn[step]
        made.append(MeasuredRun(str(i), dp, pp, 3.0 * (1 + lost / 100) * np.exp(drawn)))
    return made


@given(dp=st.floats(0, 5), pp=st.floats(0.1, 5))
@examples(30)
def test_without_noise_the_gains_come_back(dp: float, pp: float) -> None:
    """Any gains, on placements that tell both: bands of no width, alpha as records have it."""
    fit = fit_gains(runs(gains=(dp, pp)))
    assert fit.dp is not None
    assert fit.pp is not None
    assert fit.alpha is not None
    assert (fit.dp.value, fit.dp.low, fit.dp.high) == pytest.approx((dp, dp, dp), abs=1e-6)
    assert (fit.pp.value, fit.pp.band) == (pytest.approx(pp, abs=1e-6), pytest.approx((pp, pp), abs=1e-4))
    assert fit.alpha.value == pytest.approx(dp / (dp + pp), abs=1e-6)
    assert fit.step_seconds == pytest.approx(3.0)
    assert [one.fitted for one in fit.placements] == pytest.approx([one.seconds for one in fit.placements])


def inside(fit: GainFit) -> tuple[bool, bool, bool]:
    """Whether each band has the true value: 0.77, 1.8, and 0.77 / 2.57."""
    found = (fit.dp, 0.77), (fit.pp, 1.8), (fit.alpha, 0.77 / 2.57)
    return tuple(one is not None and one.low <= true <= one.high for one, true in found)  # type: ignore[return-value, operator]


@pytest.mark.parametrize("alike", [0.0, 0.6])
def test_bands_hold_the_truth_in_95_of_100_cases(alike: float) -> None:
    """100 experiments of 4 placements, 40 steps each, 1 % of noise, independent or not: at least 90 % of each.

    Of 100 draws at 95 % the standard deviation is 2.2 %.
    """
    made = (runs(noise=0.01, alike=alike, seed=seed) for seed in range(100))
    held = np.mean([inside(fit_gains(one)) for one in made], axis=0)
    assert (held >= 0.90).all(), held


def test_what_never_varies_cannot_be_told() -> None:
    """S is 2 on both placements: no DP gain and no alpha; the PP gain is of the step at that S."""
    fit = fit_gains(runs([(2, 1), (2, 2)]))
    assert (fit.dp, fit.alpha, fit.together) == (None, None, False)
    assert fit.pp is not None
    assert fit.pp.value == pytest.approx(100 * 0.018 / 1.0077)


def test_what_varies_together_cannot_be_told_apart() -> None:
    """Aligned both ways, and neither: the sum is known, no part of it."""
    fit = fit_gains(runs([(1, 1), (2, 2)]))
    assert (fit.dp, fit.pp, fit.alpha, fit.together) == (None, None, None, True)


def test_one_pair_of_spreads_is_refused() -> None:
    """However many runs there are; the error says what to measure."""
    with pytest.raises(InvalidInput, match="one S and one R") as caught:
        fit_gains(runs([(2, 1), (2, 1)]), source="steps.csv")
    assert caught.value.where == "steps.csv"
    assert "R = 1" in caught.value.fix


def test_few_step_times_have_no_band() -> None:
    """The estimate stands, how sure it is does not."""
    few, enough = (fit_gains(runs(steps=steps, noise=0.01)) for steps in (LEAST_STEPS - 1, LEAST_STEPS))
    assert few.pp is not None
    assert enough.pp is not None
    assert (few.pp.low, few.pp.high, few.pp.band) == (None, None, None)
    assert enough.pp.band is not None


def test_runs_of_a_placement_that_differ_widen_the_band() -> None:
    """Three runs on each placement, each with an offset of its own of 1 %, against one run of as many quiet steps."""
    rng = np.random.default_rng(3)
    several = [
        MeasuredRun(f"{pair}{i}", *pair, np.full(20, 3.0 * (1 + rng.normal(0, 0.01))))
        for pair in FOUR
        for i in range(3)
    ]
    alike, differing = fit_gains(runs(noise=0.001, steps=60)), fit_gains(several)
    assert alike.pp is not None
    assert differing.pp is not None
    assert alike.pp.band is not None
    assert differing.pp.band is not None
    assert np.ptp(differing.pp.band) > 5 * np.ptp(alike.pp.band)
    assert [one.runs for one in differing.placements] == [3] * 4


def test_a_loss_counts_as_nothing_in_alpha() -> None:
    """Steps that are shorter with more DP spread: the gain is below 0, alpha 0."""
    fit = fit_gains(runs(gains=(-1.0, 2.0)))
    assert fit.dp is not None
    assert fit.alpha is not None
    assert (fit.dp.value, fit.alpha.value) == (pytest.approx(-1.0), 0.0)
    assert fit_gains(runs(gains=(-1.0, -2.0))).alpha is None


def test_alpha_is_anything_where_both_gains_may_be_losses() -> None:
    """DP groups lose, PP groups gain and may lose: then nothing tells alpha, which 0 to 0 would be sure of."""
    fits = [fit_gains(runs(gains=(-0.3, 0.1), noise=0.05, seed=seed)) for seed in range(20)]
    told = [(fit.dp, fit.pp, fit.alpha) for fit in fits if fit.dp and fit.pp and fit.alpha]
    bands = [alpha.band for dp, pp, alpha in told if dp.band and pp.band and dp.band[1] < 0.1 and pp.band[0] < -0.2]
    assert set(bands) == {(0.0, 1.0)}


@given(dp=st.floats(0.1, 5), pp=st.floats(0.1, 5))
@examples(30)
def test_a_value_lies_in_its_band(dp: float, pp: float) -> None:
    """To the last digit, without noise too: both are rounded alike."""
    fit = fit_gains(runs(gains=(dp, pp)))
    for told in (fit.dp, fit.pp, fit.alpha):
        assert told is not None
        assert told.low is not None
        assert told.high is not None
        assert told.low <= told.value <= told.high


def test_same_seed_same_bands() -> None:
    """And another seed draws others."""
    noisy = runs(noise=0.01)
    assert fit_gains(noisy, seed=1) == fit_gains(noisy, seed=1) != fit_gains(noisy, seed=2)


def test_a_few_slow_steps_do_not_count() -> None:
    """Four of forty steps ten times as long, as with a checkpoint: the same gains."""
    spiked = [MeasuredRun(run.name, run.dp, run.pp, np.r_[run.seconds[4:], 10 * run.seconds[:4]]) for run in runs()]
    fit = fit_gains(spiked)
    assert fit.pp is not None
    assert fit.pp.value == pytest.approx(1.8)


def test_a_log_of_few_digits_is_as_sure_as_its_steps_are_many() -> None:
    """Steps rounded to a few values: a band between half and twice as wide as that of the same steps unrounded."""
    exact = runs(noise=0.01, steps=200, seed=4)
    rounded = [MeasuredRun(run.name, run.dp, run.pp, np.round(run.seconds, 2)) for run in exact]
    widths = []
    for made in (exact, rounded):
        fit = fit_gains(made)
        assert fit.pp is not None
        assert fit.pp.band is not None
        widths.append(np.ptp(fit.pp.band))
    assert 0.5 * widths[0] < widths[1] < 2 * widths[0]
