"""Evidence: which nodes are slow or faulty, and how sure that is.

Detectors write NodeFlags; the scheduler reads nothing else.  Its face is in ``__init__.pyi``.
"""

from ground.faces import face

DISTRIBUTION = "arnold-scheduler"

__getattr__ = face(__name__)
