"""How long gangs will run that do not say it, foreseen from what is stored of those that ended.

The rule is that of ``arnold simulate --predictor history`` (:mod:`scheduler.queue.run_times`); what it knows is what
the GangHistories say, so every replica foresees the same, and so does one that has just started.
"""

from __future__ import annotations

from extender.plans.gang_history import GangHistory
from scheduler.queue.run_times import Likeness, Prediction, RunTimeHistory, foreseen

MOST_KEPT = 10_000  # answers that are kept until another gang has ended


class GangPredictor:
    """The past of all namespaces."""

    def __init__(self) -> None:
        self._parts: dict[str, RunTimeHistory] = {}
        self._known: dict[Likeness, Prediction | None] = {}

    def put(self, history: GangHistory) -> None:
        """Take up what is stored of one namespace, in place of what was."""
        part = RunTimeHistory()
        for one in history.kinds:
            part.add(Likeness(history.namespace, one.pattern, one.gpus), one.run_times)
        self._parts[history.namespace] = part
        # Always in the same order: the last digits of sums depend on it.
        self._parts = dict(sorted(self._parts.items()))
        self._known.clear()

    def drop(self, namespace: str) -> None:
        """Forget a namespace."""
        self._parts.pop(namespace, None)
        self._known.clear()

    def predict(self, gang: Likeness) -> Prediction | None:
        """Return how long a gang will run; ``None`` = too few have ended, of any kind."""
        if gang not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[gang] = foreseen(gang, self._parts.values())
        return self._known[gang]
