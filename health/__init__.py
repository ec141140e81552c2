"""Evidence: which nodes are slow or faulty, and how sure that is.

Detectors write NodeFlags; the scheduler reads nothing else.
"""

DISTRIBUTION = "arnold-scheduler"
