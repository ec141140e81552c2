"""Jobs by size: the classes in which waits are told and nodes are coloured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from topology.cluster import IntArray

LIMITS = (1.0, 8.0, 64.0, 512.0)
"""Largest number of GPUs of each class but the last."""

NAMES = ("1 GPU or less", "2 to 8 GPUs", "9 to 64 GPUs", "65 to 512 GPUs", "over 512 GPUs")


def size_class(gpus: npt.ArrayLike) -> IntArray:
    """Return the class of a number of GPUs, from 0."""
    return np.searchsorted(LIMITS, np.asarray(gpus, dtype=np.float64), side="left").astype(np.int32)
