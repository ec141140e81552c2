"""Noise taken out of windows before machines are compared.

The paper reconstructs each window with a small LSTM-VAE.  What it asks of a denoiser is that healthy windows come out
alike and that what a fault did to a window survives; the others need neither training nor PyTorch
(the extra ``torch``).  The page peers.md of the docs has what each of them is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ground.errors import InvalidInput, UnknownName, did_you_mean
from health.peers.streams import FloatArray

HIDDEN, LATENT = 4, 8  # Sizes of the paper's LSTM-VAE
RATE = 3e-2  # Learning rate of Adam
DIVERGENCE = 1e-5  # Weight of the Kullback-Leibler term against the mean squared error
BATCH = 512
INFERENCE = 65_536  # Windows that are reconstructed at once


class LstmVae:
    """Windows reconstructed by an LSTM-VAE (Minder, section 4.2: one layer, hidden size 4, latent size 8).

    Untrained, it is trained on the windows it is given: those of one metric, nearly all healthy.
    """

    def __init__(self, *, steps: int = 1_500) -> None:
        self._steps = steps  # of training, each on BATCH windows
        self._network: Any = None
        self.error = float("nan")  # mean squared error of the last reconstruction; the paper trains to below 1e-4

    def train(self, windows: FloatArray) -> None:
        """Train on windows of one metric; from then on :meth:`denoise` only reconstructs."""
        torch = _torch()
        with _one_thread(torch):
            self._network = self._trained(torch, _standardised(windows)[0])

    def denoise(self, windows: FloatArray) -> FloatArray:
        """Return windows reconstructed, by the network trained before, or one trained on these very windows.

        :raises InvalidInput: PyTorch is not installed.
        """
        torch = _torch()
        flat, middle, spread = _standardised(windows)
        with _one_thread(torch):
            network = self._network or self._trained(torch, flat)
            with torch.no_grad():
                parts = [network(part, None)[0].numpy() for part in torch.from_numpy(flat).split(INFERENCE)]
        rebuilt = np.concatenate(parts)
        self.error = float(((rebuilt - flat) ** 2).mean()) * spread**2
        result: FloatArray = (rebuilt * spread + middle).reshape(windows.shape).astype(windows.dtype)
        return result

    def _trained(self, torch: Any, flat: FloatArray) -> Any:
        data = torch.from_numpy(flat)
        # same windows, same reconstructions
        chance = torch.Generator().manual_seed(0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = _network(torch)
        optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
        fading = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self._steps)
        for _ in range(self._steps):
            batch = data[torch.randint(len(data), (BATCH,), generator=chance)]
            made, mean, log_variance = network(batch, torch.randn(BATCH, LATENT, generator=chance))
            divergence = -0.5 * (1.0 + log_variance - mean**2 - log_variance.exp()).sum(dim=1).mean()
            loss = ((made - batch) ** 2).mean() + DIVERGENCE * divergence
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            fading.step()
        return network


def _standardised(windows: FloatArray) -> tuple[FloatArray, float, float]:
    """Return windows one below the other, with mean 0 and standard deviation 1, and what these were."""
    flat = np.ascontiguousarray(windows.reshape(-1, windows.shape[2]), dtype=np.float32)
    middle, spread = float(flat.mean()), float(flat.std()) or 1.0
    return (flat - middle) / spread, middle, spread


def _network(torch: Any) -> Any:
    """Return encoder and decoder, one LSTM layer each."""

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.LSTM(1, HIDDEN, batch_first=True)
            self.mean = torch.nn.Linear(HIDDEN, LATENT)
            self.log_variance = torch.nn.Linear(HIDDEN, LATENT)
            self.decoder = torch.nn.LSTM(LATENT, HIDDEN, batch_first=True)
            self.value = torch.nn.Linear(HIDDEN, 1)

        def forward(self, batch: Any, noise: Any) -> tuple[Any, Any, Any]:
            """Return reconstruction, mean and log variance; without noise the mean itself is decoded."""
            _, (state, _) = self.encoder(batch.unsqueeze(2))
            mean, log_variance = self.mean(state[0]), self.log_variance(state[0])
            code = mean if noise is None else mean + noise * (0.5 * log_variance).exp()
            outputs, _ = self.decoder(code.unsqueeze(1).expand(-1, batch.shape[1], -1))
            return self.value(outputs).squeeze(2), mean, log_variance

    return Network()


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Threads that wait for each other in layers as small as these take several times as long as one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        problem = "the denoiser 'lstm-vae' needs PyTorch, which is not installed"
        fix = "in a clone of Arnold: pip install '.[torch]', or take another denoiser"
        raise InvalidInput(problem, where="--denoiser", fix=fix) from None
    return torch


# Windows of one metric, min-max normalised, shape (windows, machines, samples) -> as many, comparable by Euclidean
# distance
Denoiser = Callable[[FloatArray], FloatArray]
REACH = 2  # Neighbours on either side in a running median: a spike of as many samples disappears
COMPONENTS = 2  # Shapes of windows that PCA keeps


def raw(windows: FloatArray) -> FloatArray:
    """Return the windows themselves."""
    return windows


def running_median(windows: FloatArray) -> FloatArray:
    """Return the median of each sample and its neighbours: spikes go, edges stay; ends of windows are mirrored."""
    reach = min(REACH, windows.shape[2] - 1)
    padded = np.pad(windows, ((0, 0), (0, 0), (reach, reach)), mode="reflect")
    neighbours = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=2)
    medians: FloatArray = np.partition(neighbours, reach, axis=3)[..., reach]
    return medians


def level(windows: FloatArray) -> FloatArray:
    """Return each window's median throughout: where a machine stands is kept, how it moves in a window is not."""
    return np.broadcast_to(np.median(windows, axis=2, keepdims=True), windows.shape)


def straight_line(windows: FloatArray) -> FloatArray:
    """Return the straight line nearest to each window: a Savitzky-Golay filter as wide as the window."""
    basis, _ = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, windows.shape[2]), 2))
    fitted: FloatArray = windows @ (basis @ basis.T).astype(windows.dtype)
    return fitted


def pca(windows: FloatArray) -> FloatArray:
    """Return windows rebuilt, around the mean window, from the few shapes that all machines' windows share most.

    The linear counterpart of the paper's auto-encoder: an auto-encoder with linear layers learns this subspace.
    """
    flat = windows.reshape(-1, windows.shape[2])
    mean = flat.mean(axis=0)
    centred = flat - mean
    _, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    kept = vectors[:, -COMPONENTS:].astype(windows.dtype)
    rebuilt: FloatArray = (mean + (centred @ kept) @ kept.T).reshape(windows.shape)
    return rebuilt


# Denoisers by name, the default first
DENOISERS: Mapping[str, Denoiser] = {
    "level": level,
    "median": running_median,
    "polynomial": straight_line,
    "pca": pca,
    "raw": raw,
    "lstm-vae": LstmVae().denoise,
}


def load_denoiser(name: str) -> Denoiser:
    """Return a denoiser by its name."""
    if name not in DENOISERS:
        fix = f"{did_you_mean(name, DENOISERS)}use one of: {', '.join(DENOISERS)}"
        raise UnknownName(f"there is no denoiser {name!r}", where="--denoiser", fix=fix)
    return DENOISERS[name]
