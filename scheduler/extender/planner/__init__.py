"""One gang on one state: a plan, or the reason why not.  And the order in which gangs are planned.

Three steps, so that the solver runs in a thread while the event loop answers:

1. :class:`Round` (or :func:`repair_question`), in the loop: which gang comes next and what the solver is asked; quick.
2. :func:`solve`, in a thread: pure, touches no state.
3. The loop puts ``answer.plan`` into the state and writes it, and tells the round.

The solver and the evaluator are those of ``arnold place``.
"""

from __future__ import annotations

from scheduler.extender.planner.question import Question, question_of, repair_question
from scheduler.extender.planner.rounds import Answer, Round
from scheduler.extender.planner.solve import solve

__all__ = ["Answer", "Question", "Round", "question_of", "repair_question", "solve"]
