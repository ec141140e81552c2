"""Bus bandwidth by collective, size and spread: a table, as NCCL tests print it, read between its lines.

The built-in table is drawn from the four figures of the characterisation.  In the alpha-beta model a transfer of S
bytes takes ``alpha + S / beta``, so its bandwidth is ``beta * S / (S + S_half)`` with ``S_half = alpha * beta``; what
size saturates it fixes S_half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from simulator.cost.calibration import Calibration
from topology.cluster import FloatArray

Collective = Literal["all-reduce", "send-recv"]

SIZES: FloatArray = np.exp2(np.arange(10.0, 37.0))
"""1 KiB to 64 GiB."""


@dataclass(frozen=True, slots=True, eq=False)
class BusBandwidth:
    """One collective.

    :param sizes: ascending, bytes that a node gives.
    :param spreads: ascending, minipods that the group touches, from 1 on.
    :param share: shape [sizes, spreads], bus bandwidth as a share of the node's bandwidth.
    """

    sizes: FloatArray
    spreads: FloatArray
    share: FloatArray

    def at(self, size: float, spread: npt.ArrayLike) -> FloatArray:
        """Share of the node's bandwidth; between entries linear in log size and in spread, beyond them as at the end.

        :param spread: any shape.
        """
        log_size = np.log(size) if size > 0 else -np.inf
        of_size = [np.interp(log_size, np.log(self.sizes), column) for column in self.share.T]
        return np.asarray(np.interp(np.asarray(spread, dtype=np.float64), self.spreads, np.array(of_size)))


def drawn(collective: Collective, calibration: Calibration) -> BusBandwidth:
    """Return the built-in table of a collective."""
    is_reduction = collective == "all-reduce"
    loss = calibration.collective_loss if is_reduction else calibration.send_recv_loss
    saturation = calibration.collective_saturation if is_reduction else calibration.send_recv_saturation
    half = saturation * (1.0 - calibration.saturated) / calibration.saturated
    spreads = np.arange(1.0, calibration.full_loss_from + 1.0)
    left = 1.0 - loss * (spreads - 1.0) / (calibration.full_loss_from - 1.0)
    return BusBandwidth(SIZES, spreads, np.outer(SIZES / (SIZES + half), left))
