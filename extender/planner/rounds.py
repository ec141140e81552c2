"""One pass over the queue: who is asked about next, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from extender.cluster_cache import ClusterCache as State
from extender.gangs import GangKey
from extender.planner.claims import Blocked, Claims
from extender.planner.question import Question, question_of
from extender.planner.stopping import Stopping, stopping
from extender.plans import GangPlan as Plan
from extender.queueing import Waiting, waiting_gang
from scheduler.queue.priority import PriorityAge
from scheduler.queue.types import QueuePolicy


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

    The state may change in between; a gang that is not complete any more, or has nodes now, is passed over.  The first
    that is blocked is asked about again, in turn with the others, when the fleet has changed, as those behind it may be
    many: when it has nodes then, the round is over, for what was said to those behind it does not hold any more.

    :param keys: the gangs to ask about; ``None`` = all of the state.
    """

    def __init__(self, keys: Iterable[GangKey] | None = None, policy: QueuePolicy | None = None) -> None:
        self._keys = None if keys is None else set(keys)
        self._done: set[GangKey] = set()
        self._policy = policy or PriorityAge()
        self._claims = Claims(self._policy)
        self._asked: Waiting | None = None
        self._blocked: list[Blocked] = []
        self._version = -1
        self._asked_again = False
        self._over = False
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def next(self, state: State, now: datetime) -> Question | None:
        """What to ask next; ``None`` = the round is over."""
        if self._over:
            return None
        if (head := self._head) is not None and state.fleet.version != self._version and not self._asked_again:
            self._version, self._asked_again = state.fleet.version, True
            if (first := _waiting(state, head.waiting.key)) is None:
                self._over = True
                return None
            return self._ask(state, first, [], now)
        self._asked_again = False
        keys = (gang.key for gang in state.gangs()) if self._keys is None else self._keys
        waiting = [one for key in keys if key not in self._done and (one := _waiting(state, key)) is not None]
        if not waiting:
            return None
        candidate = min(waiting, key=self._policy.rank)
        self._done.add(candidate.key)
        if head is None:
            self._version = state.fleet.version
        return self._ask(state, candidate, self._blocked, now)

    def tell(self, answer: Answer) -> None:
        """What came of the last question."""
        if self._asked is None or self._asked.key != answer.key:
            return
        place = next((i for i, one in enumerate(self._blocked) if one.waiting.key == answer.key), len(self._blocked))
        again = place < len(self._blocked)
        self._over = again and (answer.found or not answer.usable)
        if not answer.found:
            usable = self._known.setdefault(answer.usable, answer.usable)
            self._blocked[place : place + 1] = [Blocked(self._asked, usable)]

    def stopping(self, state: State, question: Question, answer: Answer, now: datetime) -> Stopping | None:
        """Whom the policy would stop for the gang that was asked about last and has no room."""
        if self._asked is None or self._asked.key != answer.key or answer.found or not answer.usable:
            return None
        return stopping(state, self._policy, question, self._asked, usable=answer.usable, now=now)

    @property
    def _head(self) -> Blocked | None:
        """The first whose waiting keeps nodes from others."""
        return next((one for one in self._blocked if one.usable), None)

    def _ask(self, state: State, candidate: Waiting, before: Sequence[Blocked], now: datetime) -> Question:
        gang = state.gang(candidate.key)
        assert gang is not None
        self._asked = candidate
        terms = self._claims.terms(state, candidate, [one for one in before if one.usable], now)
        return question_of(state, gang, now, terms)


def _waiting(state: State, key: GangKey) -> Waiting | None:
    """A gang in the queue; ``None`` = it is not, or not any more."""
    gang, plan = state.gang(key), state.plans.get(key)
    if gang is None or gang.over or not gang.complete or (plan is not None and plan.holding):
        return None
    return waiting_gang(state, gang)
