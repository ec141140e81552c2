"""How fast a node loads samples, by what of them a cache holds, and in which form (docs: shared-data.md).

A sample is found *augmented*, *decoded* or *encoded* in the cache, or is a *miss* and comes from storage; each way has
its own time until it is ready.  The forms are those of Seneca (FAST '26).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topology.cluster import FloatArray


def samples_by_form(
    split: FloatArray, *, cache: float, samples: float, encoded: float, prepared: float
) -> tuple[FloatArray, ...]:
    """Return how many samples the cache has augmented, decoded and encoded, and how many not at all.

    The cache is filled form by form, and no sample is held twice: what a form has no more samples for is left empty.

    :param split: shares of the cache for augmented, decoded and encoded samples, shape [3] or [3, splits].
    :param cache: bytes of it.
    :param encoded: bytes of a sample as it is stored; ``prepared``: of a decoded one, and of an augmented one.
    """
    left = np.full(split.shape[1:], samples)
    found = []
    for share, size in zip(split, (prepared, prepared, encoded), strict=True):
        held = np.minimum(left, share * cache / size)
        found.append(held)
        left = left - held
    return (*found, left)


def seconds_a_sample(counts: Sequence[FloatArray], rates: Sequence[float]) -> FloatArray:
    """Return the mean time until a sample is ready, ``sum of p_f / r_f``: one over the loading rate.

    :param counts: samples of each form; ``rates``: samples of the form that are ready in a second.
    """
    found: FloatArray = np.tensordot(1.0 / np.array(rates), np.array(counts), axes=1) / np.sum(counts, axis=0)
    return found


def all_splits(steps: int = 100) -> FloatArray:
    """Return every split of a cache in equal steps, shape [3, splits]: shares augmented, decoded, encoded."""
    augmented, decoded = np.mgrid[: steps + 1, : steps + 1].reshape(2, -1)
    kept = augmented + decoded <= steps
    shares: FloatArray = np.stack([augmented, decoded, steps - augmented - decoded])[:, kept] / steps
    return shares
