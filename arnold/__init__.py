"""The command ``arnold``: its sub-commands, their options, JSON answers and pages.

The only package that sees all others; none of them knows of it.  From Python it makes the files of its demonstration.
"""

from ground.faces import face

DISTRIBUTION = "arnold-scheduler"

__getattr__ = face(__name__)
