"""Who is asked next and who must wait: queue policies behind one protocol, for the controller and the simulator.

A policy ranks the queue, says what is kept for those that wait, and whom to stop.  Where a job goes is not its
business: that is placement's.  It is told plain values (``types``) and remembers nothing.
"""
