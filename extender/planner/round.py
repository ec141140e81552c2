"""Rounds: one dispatch pass over the gangs of the cluster, which is asked about next and what came of it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from datetime import datetime

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.gangs.types import GangKey
from extender.planner.question import Question, question_of, without
from extender.planner.solve import Answer
from extender.queue_views import FleetState, UsableRows, waiting_gang
from scheduler.queue.dispatch import Candidate, Dispatch, closed_to
from scheduler.queue.policy import QueuedJob, QueuePolicy
from scheduler.queue.priority import PriorityAge


class PlanningRound:
    """One pass over the queue (:mod:`scheduler.queue.dispatch`), one gang after the other in the order of a policy.

    ``while (question := round.next(state, now)) is not None: answer = answer_to(question); ...; round.tell(answer)``

    The cache may change in between; a gang that is not complete any more, or has nodes now, is passed over, and one
    that comes meanwhile has its turn.

    :param keys: the gangs to ask about; ``None`` = all of the cache.
    """

    def __init__(self, keys: Iterable[GangKey] | None = None, policy: QueuePolicy | None = None) -> None:
        self._keys = None if keys is None else set(keys)
        self._dispatch: Dispatch[QueuedJob] = Dispatch(policy or PriorityAge(), live=True)
        self._passing: Generator[Candidate[QueuedJob], None, None] | None = None
        self._candidate: Candidate[QueuedJob] | None = None
        self._waiting: dict[GangKey, QueuedJob] = {}
        self._asked: set[GangKey] = set()
        self._usable: dict[GangKey, UsableRows] = {}
        self._masks: dict[bytes, UsableRows] = {}

    def next(self, state: ClusterCache, now: datetime) -> Question | None:
        """Return what to ask next; ``None`` = the round is over."""
        # Gangs that came join the queue, and those leave that wait no more or have changed.
        waiting = self._waiting
        for key in state.gang_keys if self._keys is None else self._keys:
            before, waits, gang, plan = waiting.get(key), None, state.gang(key), state.plans.get(key)
            resting = plan is not None and (plan.holding or plan.preempting or plan.resting(now))
            if gang is not None and not gang.over and gang.complete and not resting:
                waits = waiting_gang(state, gang)
            if waits == before or (waits is not None and key in self._asked):
                continue
            if before is not None:
                self._dispatch.backlog.leave(waiting.pop(key))
            if waits is not None:
                waiting[key] = waits
                self._dispatch.join(waits)
        for key in [key for key in waiting if key not in state.gang_keys]:
            self._dispatch.backlog.leave(waiting.pop(key))
        cluster = self._dispatch.cluster = FleetState(state, now, self._usable)
        if self._passing is None:
            self._passing = self._dispatch.candidates()
        self._candidate = next(self._passing, None)
        if self._candidate is None:
            return None
        chosen = self._candidate.job.key
        assert isinstance(chosen, GangKey)
        self._asked.add(chosen)
        gang = state.gang(chosen)
        assert gang is not None
        question = question_of(state, gang, now, self._candidate, closed=closed_to(self._candidate, cluster))
        return without(state, question, self._candidate.victims) if question.case.stops_others else question

    def ask_again(self) -> None:
        """Give the gang that was asked about last another turn in this pass: nothing came of the question."""
        if self._candidate is None:
            return
        key = self._candidate.job.key
        assert isinstance(key, GangKey)
        self._asked.discard(key)
        if key in self._waiting:
            # it joins anew when the next is looked for
            self._dispatch.backlog.leave(self._waiting.pop(key))

    def tell(self, answer: Answer) -> None:
        """Take note of what came of the last question."""
        if self._candidate is None or self._candidate.job.key != answer.key:
            return
        self._candidate.found = answer.placed
        if answer.plan.objective is not None:
            self._candidate.objective = answer.plan.objective
        self._candidate.possible = answer.usable is not None
        if answer.usable is not None:
            # Gangs that can use the same nodes share one array: policies look at each only once.
            table, mask = answer.usable.table, answer.usable.mask
            about = id(table).to_bytes(8) + np.packbits(mask).tobytes()
            self._usable[answer.key] = self._masks.setdefault(about, answer.usable)
