"""A live Slurm: what it says of itself, and jobs planned on it with every rank on its node.

Programs of Slurm's are started in one place, :mod:`slurm.ask`; readers of what they print are in ``topology``.  Its
face is in ``__init__.pyi``.
"""

from ground.faces import face

DISTRIBUTION = "arnold-scheduler"

__getattr__ = face(__name__)
