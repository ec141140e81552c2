"""What the cluster is: an immutable tree of network domains with nodes as leaves.

This package knows nothing of jobs and needs no solver to import.
"""

DISTRIBUTION = "arnold-scheduler"
