"""One gang on one cluster cache: a plan, or the reason why not.  And the pass that says which gang is asked about.

Three steps, so that the solver runs in a thread while the event loop answers:

1. :class:`PlanningRound` (or :func:`repair_question`), in the loop: which gang comes next and what the solver is asked;
   quick.
2. :func:`solve`, in a thread: pure, does not touch the cache.
3. The loop writes ``answer.plan``, which puts it into the cache, and tells the round.

Reservations get their zones likewise: :func:`zone_question` in the loop, :func:`find_zone` in a thread.

The solver and the evaluator are those of ``arnold place``.
"""
