"""A cluster over time: traces, failures, reservations; the production scheduler decides (ADR 9).

Its face is in ``__init__.pyi``.
"""

from ground.faces import face

DISTRIBUTION = "arnold-scheduler"

__getattr__ = face(__name__)
