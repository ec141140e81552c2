"""The paper's denoiser, a small LSTM variational auto-encoder.  It needs PyTorch: ``arnold-scheduler[torch]``.

Minder trains one for each metric ahead.  So can this; untrained, it is trained on the windows it is given, which are
those of one metric and nearly all healthy, so that there are no models to keep, at the cost of seconds for each metric.
``docs/health/peers.md`` has what it is worth beside the default, which needs no training.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from health.peers.streams import FloatArray
from topology.errors import InvalidInput

BATCH = 512
INFERENCE = 65_536  # Windows that are reconstructed at once


class LstmVae:
    """Windows reconstructed by an LSTM-VAE (Minder, section 4.2: one layer, hidden size 4, latent size 8).

    :param steps: of training, each on :data:`BATCH` windows.
    :param rate: learning rate of Adam.
    :param divergence: weight of the Kullback-Leibler term against the mean squared error.
    :param seed: of weights and batches; same windows, same reconstructions.
    """

    def __init__(
        self,
        *,
        hidden: int = 4,
        latent: int = 8,
        steps: int = 1_500,
        rate: float = 3e-2,
        divergence: float = 1e-5,
        seed: int = 0,
    ) -> None:
        self._sizes = (hidden, latent)
        self._steps, self._rate, self._divergence, self._seed = steps, rate, divergence, seed
        self._network: Any = None
        self.error = float("nan")
        """Mean squared error of the last reconstruction; the paper trains to below 1e-4."""

    def train(self, windows: FloatArray) -> None:
        """Train on windows of one metric; from then on :meth:`denoise` only reconstructs.

        :raises InvalidInput: PyTorch is not installed.
        """
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
        data, latent = torch.from_numpy(flat), self._sizes[1]
        chance = torch.Generator().manual_seed(self._seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            network = _network(torch, *self._sizes)
        optimiser = torch.optim.Adam(network.parameters(), lr=self._rate)
        fading = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self._steps)
        for _ in range(self._steps):
            batch = data[torch.randint(len(data), (BATCH,), generator=chance)]
            made, mean, log_variance = network(batch, torch.randn(BATCH, latent, generator=chance))
            divergence = -0.5 * (1.0 + log_variance - mean**2 - log_variance.exp()).sum(dim=1).mean()
            loss = ((made - batch) ** 2).mean() + self._divergence * divergence
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


def _network(torch: Any, hidden: int, latent: int) -> Any:
    """Return encoder and decoder, one LSTM layer each."""

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.LSTM(1, hidden, batch_first=True)
            self.mean = torch.nn.Linear(hidden, latent)
            self.log_variance = torch.nn.Linear(hidden, latent)
            self.decoder = torch.nn.LSTM(latent, hidden, batch_first=True)
            self.value = torch.nn.Linear(hidden, 1)

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
        raise InvalidInput(
            "the denoiser 'lstm-vae' needs PyTorch, which is not installed",
            where="--denoiser",
            fix="install it: pip install 'arnold-scheduler[torch]', or take another denoiser",
        ) from None
    return torch
