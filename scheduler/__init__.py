"""Where a job goes: jobs, communication groups, placement algorithms and the one evaluator.

Its face is in ``__init__.pyi``; ``load``, ``place`` and ``explain`` are what the commands of these names do.
"""

from ground.faces import face

DISTRIBUTION = "arnold-scheduler"

__getattr__ = face(__name__)
