"""One pass over the queue: who is asked about next, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from scheduler.extender.gangs import GangKey
from scheduler.extender.planner.question import Question, question_of
from scheduler.extender.planner.queue_policy import Blocked, PriorityAge, QueuePolicy, Waiting
from scheduler.extender.plans import Plan
from scheduler.extender.state import State


@dataclass(frozen=True)
class Answer:
    """What came of a question.

    :param found: whether there is a placement.
    :param plan: found: phase Planned (``expires`` is left to whoever writes it), or of a repair the phase before, with
        the new nodes.  Not found: phase Queued with the reason, or of a repair the plan before with condition Healthy
        false.
    :param moved: of a repair, ranks that have another node now.
    :param usable: of a gang that has no room, names of the nodes that it could use if the cluster were empty; none when
        it would not fit even then.
    """

    key: GangKey
    found: bool
    plan: Plan
    moved: tuple[int, ...] = ()
    usable: frozenset[str] = frozenset()
    solve_seconds: float = 0.0


class Round:
    """One pass over the queue, one gang after the other in the order of a policy.

    ``while (question := round.next(state, now)) is not None: answer = solve(question); ...; round.tell(answer)``

    The state may change in between; a gang that is not complete any more, or has nodes now, is passed over.

    :param keys: the gangs to ask about; ``None`` = all of the state.
    """

    def __init__(self, keys: Iterable[GangKey] | None = None, policy: QueuePolicy | None = None) -> None:
        self._keys = None if keys is None else set(keys)
        self._done: set[GangKey] = set()
        self._policy = policy or PriorityAge()
        self._asked: Waiting | None = None
        self._blocked: list[Blocked] = []
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def next(self, state: State, now: datetime) -> Question | None:
        """What to ask next; ``None`` = everybody was asked."""
        keys = (gang.key for gang in state.gangs()) if self._keys is None else self._keys
        waiting = [one for key in keys if key not in self._done and (one := _waiting(state, key)) is not None]
        if not waiting:
            return None
        candidate = self._policy.order(waiting)[0]
        self._done.add(candidate.key)
        gang = state.gang(candidate.key)
        assert gang is not None
        self._asked = candidate
        ahead = tuple(one.waiting.key for one in self._blocked if one.usable)
        withheld = self._policy.withheld(candidate, self._blocked)
        return question_of(state, gang, now, withheld=withheld, ahead=ahead)

    def tell(self, answer: Answer) -> None:
        """What came of the last question."""
        if not answer.found and self._asked is not None and self._asked.key == answer.key:
            usable = self._known.setdefault(answer.usable, answer.usable)
            self._blocked.append(Blocked(self._asked, usable))


def _waiting(state: State, key: GangKey) -> Waiting | None:
    """A gang in the queue; ``None`` = it is not, or not any more."""
    gang, plan = state.gang(key), state.plans.get(key)
    if gang is None or gang.over or not gang.complete or (plan is not None and plan.holding):
        return None
    return Waiting(key, gang.priority, gang.created, gang.size or 0)
