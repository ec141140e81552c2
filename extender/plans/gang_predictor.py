"""How long gangs will run that do not say it, foreseen from what is stored of those that ended.

The rule is that of ``arnold simulate --predictor history`` (:mod:`scheduler.queue.run_times`); what it knows is what
the GangHistories say, so every replica foresees the same, and so does one that has just started.
"""

from __future__ import annotations

from itertools import accumulate

from extender.gangs.types import Gang
from extender.plans.gang_history import GangHistory, likeness_of
from extender.plans.gang_plan import GangPlan
from scheduler.queue.run_times import Likeness, Prediction, RunTimeHistory, foreseen

MOST_KEPT = 10_000  # answers that are kept until another gang has ended
# Kinds of gangs whose sums are kept, at about 1 kB each: 78 namespaces with as many as one may have, 1,000 with 20
MOST_KINDS_KEPT = 20_000
LEAST_KINDS = 20  # as which a namespace counts at least: each is looked through for every answer


class GangPredictor:
    """The past of all namespaces, as far as there is room for it.

    A gang is foreseen by its own namespace and by those of which most gangs have ended: which these are follows from
    what is stored, too.
    """

    def __init__(self) -> None:
        self._histories: dict[str, GangHistory] = {}
        self._ended: dict[str, int] = {}  # gangs of each namespace that ended
        self._parts: dict[str, RunTimeHistory] = {}  # of namespaces that tell about all others
        self._outdated = False  # whether there may be other such namespaces now
        self._known: dict[Likeness, Prediction | None] = {}

    def put(self, history: GangHistory) -> None:
        """Take up what is stored of one namespace, in place of what was."""
        self.drop(history.namespace)
        self._histories[history.namespace] = history
        self._ended[history.namespace] = sum(one.run_times.jobs for one in history.kinds)

    def drop(self, namespace: str) -> None:
        """Forget a namespace."""
        for known in (self._histories, self._ended, self._parts):
            known.pop(namespace, None)
        self._outdated = True
        self._known.clear()

    def prediction(self, gang: Gang, plan: GangPlan | None) -> Prediction | None:
        """Return how long a gang will run that does not say it, as its plan has it, or else as ended gangs tell now.

        A plan keeps what was foreseen when its gang came, as in a replay, unless the gang is of another size now.
        """
        if gang.seconds is not None:
            return None
        job = gang.job
        if plan is not None and plan.estimate is not None:
            same = job is None or plan.spec.gpus == job.parallelism.gpus
            if same or plan.holding:
                return plan.estimate
        return None if job is None else self.predict(likeness_of(gang.key, job.parallelism.gpus))

    def predict(self, gang: Likeness) -> Prediction | None:
        """Return how long a gang will run; ``None`` = too few have ended, of any kind."""
        if gang not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[gang] = foreseen(gang, self._told_by(gang.owner))
        return self._known[gang]

    def _told_by(self, owner: str) -> list[RunTimeHistory]:
        """Return the parts of the past that tell about gangs of a namespace."""
        if self._outdated:
            # Always in the same order: the last digits of sums depend on it.
            self._parts = {name: self._parts.get(name) or _part(self._histories[name]) for name in self._telling()}
            self._outdated = False
        own = self._histories.get(owner)
        beside = [] if own is None or owner in self._parts else [_part(own)]
        return [*self._parts.values(), *beside]

    def _telling(self) -> list[str]:
        """Return the namespaces for which there is room, by name: of too many those of which most gangs have ended."""
        ranked = sorted(self._histories, key=lambda name: (-self._ended[name], name))
        room = accumulate(max(LEAST_KINDS, len(self._histories[name].kinds)) for name in ranked)
        return sorted(name for name, taken in zip(ranked, room, strict=True) if taken <= MOST_KINDS_KEPT)


def _part(history: GangHistory) -> RunTimeHistory:
    """Return the sums of one namespace, by all that makes gangs alike."""
    part = RunTimeHistory()
    for one in history.kinds:
        part.add(Likeness(history.namespace, one.pattern, one.gpus), one.run_times)
    return part
