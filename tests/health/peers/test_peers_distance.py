"""Distances, the score, and the bound that spares most of the work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import UnknownName
from health.peers.comparison import ALL_PAIRS, candidates, default_threshold, distances
from health.peers.denoise import DENOISERS, load_denoiser
from tests.case_counts import examples


def plain_score(window: np.ndarray) -> tuple[int, float]:
    """The score by its definition, pair by pair."""
    between = np.linalg.norm(window[:, None] - window[None, :], axis=2)
    n = len(window)
    first = int(between.sum(axis=1).argmax())
    others = [j for j in range(n) if j != first]
    among = [sum(between[j, k] for k in others) / (n - 2) for j in others]
    return first, between[first].sum() / (n - 1) / float(np.median(among))


def test_score_of_a_window_made_by_hand() -> None:
    """Four machines at 0, one at 10, one sample: peers are 0 apart, so the floor decides: 10 / (1/4) = 40."""
    window = np.array([[0.0], [0.0], [0.0], [0.0], [10.0]])[None]
    found = candidates(window, threshold=4.0, least=1.0)
    assert found.machine.tolist() == [4]
    assert found.score[0] == pytest.approx(40.0)


def test_a_difference_that_is_not_noticeable_is_none() -> None:
    """The same machine 0.9 away where 1.0 is the least that matters: no candidate, however alike the peers."""
    window = np.array([[0.0], [0.0], [0.0], [0.0], [0.9]])[None]
    assert candidates(window, threshold=4.0, least=1.0).machine.tolist() == []


@given(st.integers(4, 40), st.integers(0, 10_000), st.floats(0.0, 30.0))
@examples(60)
def test_candidates_agree_with_the_definition(machines: int, seed: int, offset: float) -> None:
    """With bound, blocks and one matrix product the first candidate and its score are those of the definition."""
    window = np.random.default_rng(seed).normal(size=(machines, 8))
    window[seed % machines] += offset
    found = candidates(window[None], threshold=3.0, least=1e-6)
    plain = found.only(found.first)
    first, score = plain_score(window)
    if abs(score - 3.0) > 1e-6:
        assert plain.machine.tolist()[:1] == ([first] if score > 3.0 else [])
    if len(plain.machine) == 1:
        assert found.score[0] == pytest.approx(score, rel=1e-6)


@pytest.mark.parametrize(("far", "named"), [([300.0, 30.0], [3, 7]), ([30.0, 29.0], [3, 7]), ([30.0, 29.5, 29.0], [])])
def test_all_machines_that_stand_out(far: list[float], named: list[int]) -> None:
    """Of ten machines one or two may stand out, also two that are alike and hide each other; three have each other.

    Peers are 0, 1, 2, ... and on average about 3 apart.  29 without 30 is 24 from them, a score of 8; beside 30 the
    peers' distances to it make that 6 and the score of either below 4, where 4.9 is asked for.
    """
    window = np.arange(10.0)[:, None]
    window[[3, 7, 5][: len(far)], 0] = far
    found = candidates(window[None], threshold=None, least=1e-6)
    assert sorted(found.machine.tolist()) == named
    assert found.first.tolist() == ([True, False] if far[0] > 30.0 else [False] * len(named))


def test_of_more_than_a_few_the_farthest_is_named() -> None:
    """Three of twelve, each ten times as far as the one before: one may be named; which of the others is left open."""
    window = np.random.default_rng(8).normal(size=(12, 1))
    window[[2, 5, 9], 0] = (1e2, 1e3, 1e4)
    assert candidates(window[None], threshold=None, least=1e-6).machine.tolist() == [9]


def test_many_machines_are_scored_by_a_sample_of_their_peers() -> None:
    """Above 256 machines the peers' median is taken over 256 of them: the same candidate, the score within 5 %."""
    window = np.random.default_rng(3).normal(size=(ALL_PAIRS * 2, 8))
    window[301] += 6.0
    found = candidates(window[None], threshold=3.0, least=1e-6)
    first, score = plain_score(window)
    assert found.machine.tolist() == [first] == [301]
    assert found.score[0] == pytest.approx(score, rel=0.05)


def test_distances_in_single_precision() -> None:
    """Normalised windows in float32 give distances good to a thousandth, also where machines are nearly equal."""
    windows = np.random.default_rng(5).random((3, 20, 8))
    windows[:, 1] = windows[:, 0] + 1e-3
    exact = np.linalg.norm(windows[:, :, None] - windows[:, None, :], axis=3)
    single = windows.astype(np.float32)
    assert np.abs(distances(single, single) - exact).max() < 1e-3


@pytest.mark.parametrize(("few", "many"), [(1, 4), (50, 400), (272, 1500)])
def test_distances_in_parts(few: int, many: int) -> None:
    """Products are made some rows at a time, 62 of 400 machines and 16 of 1,500: every pair is there."""
    rng = np.random.default_rng(6)
    of, to = rng.random((2, few, 8)), rng.random((2, many, 8))
    exact = np.linalg.norm(of[:, :, None] - to[:, None, :], axis=3)
    assert np.abs(distances(of, to) - exact).max() < 1e-6


@pytest.mark.parametrize("machines", [4, 8, 16, 64])
def test_the_default_threshold_is_reached_by_few_healthy_jobs(machines: int) -> None:
    """Machines that differ for good by Gaussian offsets: 2 % of 4,000 jobs are 80; 45 and 115 are 4 sigma away."""
    offsets = np.random.default_rng(machines).normal(size=(4000, machines, 1))
    found = candidates(offsets, threshold=default_threshold(machines), least=1e-9)
    assert 45 <= len(np.unique(found.window[found.first])) <= 115


def test_the_default_threshold_between_and_beyond_its_table() -> None:
    """Few machines say little of their spread, of many the farthest is far; beyond 1,500 it stays."""
    assert [default_threshold(n) for n in (4, 10, 64, 1500, 4000)] == pytest.approx([13.9, 4.9, 4.0, 4.5, 4.5])
    assert 4.6 < default_threshold(11) < 4.9


@pytest.mark.parametrize("name", [name for name in DENOISERS if name != "lstm-vae"])
def test_denoisers_keep_shape_and_level(name: str) -> None:
    """Every denoiser gives windows of the same shape, and leaves windows of one level alone."""
    windows = np.repeat(np.random.default_rng(1).random((5, 6, 1)), 8, axis=2)
    made = load_denoiser(name)(windows)
    assert made.shape == windows.shape
    assert np.allclose(made, windows)


def test_the_median_takes_spikes_out() -> None:
    """A spike of two samples goes, a step of level stays where it is."""
    window = np.array([0, 0, 9, 9, 0, 0, 0, 0], dtype=float)
    step = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=float)
    made = load_denoiser("median")(np.stack([window, step])[None])
    assert made[0].tolist() == [[0] * 8, step.tolist()]


def test_unknown_denoiser() -> None:
    """The closest name is offered."""
    with pytest.raises(UnknownName, match="median"):
        load_denoiser("medain")
