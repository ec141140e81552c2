"""One gang on one state: a plan, or the reason why not.  And the order in which gangs are planned.

Three steps, so that the solver runs in a thread while the event loop answers:

1. :func:`next_question`, in the loop: which gang comes next, and what the solver is asked; quick.
2. :func:`solve` (or :func:`mend`), in a thread: pure, touches no state.
3. the loop writes ``answer.plan`` and puts it into the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.extender.gangs import Gang, GangKey
from scheduler.extender.plan import Plan
from scheduler.extender.state import State
from scheduler.job import Job
from scheduler.placement.types import Limits
from topology.cluster import Cluster


@dataclass(frozen=True)
class Question:
    """What the solver is asked: everything it needs, nothing that changes.

    :param cluster: nodes that the gang's pods may use; what is in use or promised is not free.
    :param refused: why the solver need not be asked; empty = ask it.
    """

    gang: Gang
    job: Job | None
    cluster: Cluster | None
    before: Plan | None = None
    lost: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Answer:
    """What came of it.

    :param plan: in phase Planned (without ``expires``, which the controller sets), Queued with the reason why not, or
        Invalid; of a repair the plan before with new nodes and its phase unchanged.
    :param moved: of a repair, ranks that have another node now.
    """

    key: GangKey
    plan: Plan
    moved: tuple[int, ...] = ()
    solve_seconds: float = 0.0

    @property
    def found(self) -> bool:
        """Whether there is a placement."""
        raise NotImplementedError


class Round:
    """One pass over the queue: asks about one gang after the other.

    Use: ``while (question := round.next(state, now)): answer = solve(question); ...; round.tell(answer)``.
    """

    def __init__(self, policy: str = "priority-age") -> None:
        raise NotImplementedError

    def next(self, state: State, now: datetime) -> Question | None:
        """What to ask next: the first gang in order that is complete, has no nodes and was not asked in this round."""
        raise NotImplementedError

    def tell(self, answer: Answer) -> None:
        """What came of a question; those after it in the queue see whether it is blocked."""
        raise NotImplementedError


def repair_question(state: State, plan: Plan, lost: Sequence[str], now: datetime) -> Question:
    """What to ask when nodes of a plan are lost."""
    raise NotImplementedError


def solve(question: Question, limits: Limits) -> Answer:
    """Ask the solver; runs in a thread, touches nothing else.

    Never raises for what a gang or a cluster is: reasons become the plan's.
    """
    raise NotImplementedError
