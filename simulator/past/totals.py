"""Numbers of a whole run that only its history tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.past.history import History
from simulator.past.series import series
from simulator.past.work import worst_ettr


@dataclass(frozen=True, slots=True)
class Totals:
    """The formulas are in docs/metrics.md; ``None`` = there was nothing of which to say it.

    :param allocation: GPU-seconds held over those of nodes that were not away.
    :param throughput_lost: share of the work that the GPUs held would have done at the trace's pace.
    :param ettr_worst_hour: ETTR of the hour in which it was least.
    :param failures: attempts that a failure cut short.
    :param preemptions: attempts that the policy cut short.
    """

    allocation: float | None
    throughput_lost: float | None
    ettr_worst_hour: float | None
    failures: int
    preemptions: int


def totals(past: History) -> Totals:
    """Of a run that is over."""
    whole = series(past, edges=np.array([0.0, past.length]))
    return Totals(
        allocation=_known(whole.allocation[0]),
        throughput_lost=_known(whole.lost[0]),
        ettr_worst_hour=worst_ettr(past),
        failures=int(whole.failures[0]),
        preemptions=int(whole.preemptions[0]),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
