"""Gangs: which pods belong together, which rank each has, and which job they are.

:func:`recognise` reads one pod; :func:`assemble` puts the members of one gang together.  Nothing here raises for what
users write: contradictions become :class:`InvalidGang` in ``problem``, to be shown as a condition.
"""
