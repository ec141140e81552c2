"""One gang on one cluster cache: a plan, or the reason why not.  And the pass that says which gang is asked about.

The event loop chooses the gang and makes the question, the solver of ``arnold place`` answers in a thread without the
cache, and the loop writes the plan and tells the round.  Reservations get their zones likewise.
"""
