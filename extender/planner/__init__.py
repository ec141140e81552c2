"""One gang on one state: a plan, or the reason why not.  And the order in which gangs are planned.

Three steps, so that the solver runs in a thread while the event loop answers:

1. :class:`PlanningRound` (or :func:`repair_question`), in the loop: which gang comes next and what the solver is asked;
   quick.
2. :func:`solve`, in a thread: pure, touches no state.
3. The loop puts ``answer.plan`` into the state and writes it, and tells the round.

Reservations get their zones likewise: :func:`zone_question` in the loop, :func:`find_zone` in a thread.

The solver and the evaluator are those of ``arnold place``.
"""

from __future__ import annotations

from extender.planner.doubts import HINTS_READ, with_doubts
from extender.planner.planning_round import Answer, PlanningRound
from extender.planner.question import Question, Stopping, question_of, repair_question
from extender.planner.solve import solve
from extender.planner.zones import ZoneQuestion, find_zone, zone_question

__all__ = [
    "HINTS_READ",
    "Answer",
    "PlanningRound",
    "Question",
    "Stopping",
    "ZoneQuestion",
    "find_zone",
    "question_of",
    "repair_question",
    "solve",
    "with_doubts",
    "zone_question",
]
