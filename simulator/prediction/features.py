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

from simulator.records import JobRecord

FloatArray = npt.NDArray[np.float64]
Request = tuple[float, float, float, float, float, str, str]
"""gpus, nodes, cpus, memory, estimate (NaN = unknown), group, queue."""

NUMBERS = ("gpus", "nodes", "cpus", "memory", "estimate")
WORDS = ("group", "queue")
MOST_WORDS = 250
"""Categories of one feature (the library takes up to 255); rarer ones count as unknown."""


def request_of(record: JobRecord) -> Request:
    """The features of a job, before words become numbers."""
    numbers = (record.nodes, record.cpus, record.memory, record.estimate)
    nodes, cpus, memory, estimate = (float("nan") if value is None else float(value) for value in numbers)
    return record.gpus, nodes, cpus, memory, estimate, record.group, record.queue


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
        matrix = np.empty((len(requests), len(NUMBERS) + len(WORDS)))
        for row, request in enumerate(requests):
            matrix[row, : len(NUMBERS)] = request[: len(NUMBERS)]
        for column, codes in enumerate(self._codes, len(NUMBERS)):
            for row, request in enumerate(requests):
                code = codes.get(str(request[column]), MOST_WORDS)
                matrix[row, column] = code if code < MOST_WORDS else np.nan
        return matrix
