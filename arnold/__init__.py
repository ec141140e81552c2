"""The command ``arnold``: its sub-commands, their options, JSON answers and pages.

The only package that sees all others; none of them knows of it.
"""

DISTRIBUTION = "arnold-scheduler"
