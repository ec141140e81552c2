"""The paper's denoiser, which is optional."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ground.errors import InvalidInput
from health.peers.denoise import LstmVae, load_denoiser


def windows() -> np.ndarray:
    """Windows of a sine at any phase, with noise: (windows, machines, samples)."""
    rng = np.random.default_rng(1)
    phase = rng.uniform(0.0, 6.3, (200, 10, 1)) + np.arange(8) * 0.7
    return (0.5 + 0.3 * np.sin(phase) + rng.normal(0.0, 0.02, phase.shape)).astype(np.float32)


def test_without_pytorch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error with a way out, not an ImportError."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInput, match="needs PyTorch") as caught:
        load_denoiser("lstm-vae")(windows())
    assert "[torch]" in caught.value.fix


def test_it_learns_the_shape_of_windows() -> None:
    """After training the error is a small part of the variance (0.045), and the same windows give the same result."""
    pytest.importorskip("torch", reason="PyTorch, which the denoiser lstm-vae needs, is not installed")
    model = LstmVae(steps=600)
    made = model.denoise(windows())
    assert made.shape == windows().shape
    assert model.error < 0.25 * windows().var()
    assert np.array_equal(made, LstmVae(steps=600).denoise(windows()))


def test_trained_ahead_it_only_reconstructs() -> None:
    """A model that was trained gives what one trained on the same windows gives, for other windows too."""
    pytest.importorskip("torch", reason="PyTorch, which the denoiser lstm-vae needs, is not installed")
    model = LstmVae(steps=300)
    model.train(windows())
    assert np.array_equal(model.denoise(windows()), LstmVae(steps=300).denoise(windows()))
    assert model.denoise(windows()[:3]).shape == (3, 10, 8)
