"""What a request says, as numbers: the features of the Arnold paper and a few more that traces have.

The paper takes requested CPUs, GPUs and drives, and the department of the owner.  Here: GPUs, nodes, CPUs, memory and
the user's estimate as numbers (missing where a trace has none), and group (the department) and queue as categories.
No trace has drives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from simulator.job_record import JobRecord

FloatArray = npt.NDArray[np.float64]
Request = tuple[float, int | None, float | None, float | None, float | None, str, str]
"""gpus, nodes, cpus, memory, estimate (``None`` = unknown), group, queue."""

NUMBERS = ("gpus", "nodes", "cpus", "memory", "estimate")
WORDS = ("group", "queue")
MOST_WORDS = 250
"""Categories of one feature (the library takes up to 255); rarer ones count as unknown."""


def request_of(record: JobRecord) -> Request:
    """Return the features of a job, before words become numbers."""
    return (
        record.gpus,
        record.nodes,
        record.cpus,
        record.memory,
        record.estimate,
        record.group,
        record.queue,
    )


class Encoder:
    """Words of past requests as numbers, from 0 for the most frequent; words never seen are unknown."""

    def __init__(self, requests: Iterable[Request]) -> None:
        counts: tuple[Counter[str], ...] = tuple(Counter() for _ in WORDS)
        for request in requests:
            for count, word in zip(counts, request[len(NUMBERS) :], strict=True):
                count[str(word)] += 1
        self._codes = [
            {word: code for code, (word, _) in enumerate(sorted(count.items(), key=lambda item: (-item[1], item[0])))}
            for count in counts
        ]

    def matrix(self, requests: Sequence[Request]) -> FloatArray:
        """Shape [requests, features], NaN where unknown."""
        numbers = np.array([request[: len(NUMBERS)] for request in requests], dtype=np.float64)
        words = np.full((len(requests), len(WORDS)), np.nan)
        for column, codes in enumerate(self._codes):
            for row, request in enumerate(requests):
                code = codes.get(str(request[len(NUMBERS) + column]), MOST_WORDS)
                if code < MOST_WORDS:
                    words[row, column] = code
        return np.hstack([numbers.reshape(len(requests), len(NUMBERS)), words])
