"""What spread costs: gangs by the number of domains they touch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.results.run_history import ENDED, RunHistory


class SpreadRow(NamedTuple):
    """Gangs that ended, of one DP spread.

    :param gpu_hours: that they held.
    :param lost: share of what they could do at the trace's pace; ``None`` = none lost anything.
    :param length: of the bar, percent of the longest.
    """

    dp: int
    gangs: int
    gpu_hours: float
    lost: float | None
    length: float


def spread_rows(past: RunHistory) -> list[SpreadRow]:
    """Return a row for each DP spread that occurs."""
    attempts = past.attempts
    ended = (attempts.why == ENDED) & (attempts.dp > 0)
    hours = attempts.gpus * (attempts.end - attempts.begin) / 3600
    sound = np.isfinite(attempts.pace)
    worked = np.where(sound, attempts.gpus * (attempts.end - attempts.works), 0.0)
    done = np.where(sound, worked / np.where(sound, np.maximum(attempts.pace, 1e-12), 1.0), 0.0)
    rows = []
    for dp in np.unique(attempts.dp[ended]).tolist():
        mine = ended & (attempts.dp == dp)
        whole = float(worked[mine].sum())
        lost = max(0.0, 1.0 - float(done[mine].sum()) / whole) if whole > 0 else 0.0
        rows.append((dp, int(mine.sum()), float(hours[mine].sum()), lost))
    most = max((row[3] for row in rows), default=0.0)
    any_lost = most > 1e-9
    return [
        SpreadRow(dp, gangs, held, lost if any_lost else None, round(100 * lost / most, 2) if any_lost else 0.0)
        for dp, gangs, held, lost in rows
    ]
