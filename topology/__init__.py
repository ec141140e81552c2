"""What the cluster is: an immutable tree of network domains with nodes as leaves.

This package knows nothing of jobs and needs no solver to import.  Its face is in ``__init__.pyi``.
"""

from ground.faces import face

DISTRIBUTION = "arnold-scheduler"

__getattr__ = face(__name__)
