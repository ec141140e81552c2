"""Which job is asked next and which must wait: for the Kubernetes controller and for the simulator alike.

``dispatch`` is the pass over the jobs that wait, under one of several policies behind one protocol (``policy``).  A
policy ranks the jobs, says what is kept for those that wait, and which to stop.  It is told plain values and remembers
nothing.  Where a job goes is the business of placement.
"""
