"""Rounds: one queue pass over the gangs of the cluster, which is asked about next and what came of it."""

from collections.abc import Iterable
from datetime import datetime

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.gangs.types import GangKey
from extender.planner.question import Question, question_of, without
from extender.planner.solve import Answer
from extender.queue_views import FleetState, UsableRows, waiting_gang
from scheduler.queue.dispatch import closed_to
from scheduler.queue.live_pass import LivePass
from scheduler.queue.policy import QueuedJob, QueuePolicy


class PlanningRound:
    """One pass (:class:`~scheduler.queue.live_pass.LivePass`) over the gangs.

    ``while (question := round.next(state, now)) is not None: answer = answer_to(question); ...; round.tell(answer)``

    The cache may change in between; a gang that is not complete any more, or has nodes now, is passed over, and one
    that comes meanwhile has its turn.

    :param keys: the gangs to ask about; ``None`` = all of the cache.
    """

    def __init__(self, keys: Iterable[GangKey] | None = None, policy: QueuePolicy | None = None) -> None:
        self._keys = None if keys is None else set(keys)
        self._turns = LivePass(policy)
        self._usable: dict[GangKey, UsableRows] = {}
        self._masks: dict[bytes, UsableRows] = {}

    def next(self, state: ClusterCache, now: datetime) -> Question | None:
        """Return what to ask next; ``None`` = the round is over."""
        if any(plan.preempting and not plan.holding for plan in state.plans.values()):
            return None  # for a moment: those behind it would have the free nodes that it is to have besides
        waiting: dict[GangKey, QueuedJob] = {}
        for key in state.gang_keys if self._keys is None else self._keys:
            gang, plan = state.gang(key), state.plans.get(key)
            resting = plan is not None and (plan.holding or plan.resting(now))
            if gang is not None and not gang.over and gang.complete and not resting:
                waiting[key] = waiting_gang(state, gang)
        cluster = FleetState(state, now, self._usable)
        candidate = self._turns.next(waiting, cluster)
        if candidate is None:
            return None
        chosen = candidate.job.key
        assert isinstance(chosen, GangKey)
        gang = state.gang(chosen)
        assert gang is not None
        question = question_of(state, gang, now, candidate, closed=closed_to(candidate, cluster))
        return without(state, question, candidate.victims) if question.case.stops_others else question

    def ask_again(self) -> None:
        """Give the gang that was asked about last another turn in this pass: nothing came of the question."""
        self._turns.ask_again()

    def tell(self, answer: Answer) -> None:
        """Take note of what came of the last question."""
        candidate = self._turns.candidate
        if candidate is None or candidate.job.key != answer.key:
            return
        objective = candidate.objective if answer.plan.objective is None else answer.plan.objective
        self._turns.tell(found=answer.placed, possible=answer.usable is not None, objective=objective)
        if answer.usable is not None:
            # Gangs that can use the same nodes share one array: policies look at each only once.
            table, mask = answer.usable.table, answer.usable.mask
            about = id(table).to_bytes(8) + np.packbits(mask).tobytes()
            self._usable[answer.key] = self._masks.setdefault(about, answer.usable)
