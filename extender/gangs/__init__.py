"""Gangs: which pods belong together, which rank each has, and which job they are.

:func:`recognise` reads one pod; :func:`assemble` puts the members of one gang together.  Nothing here raises for what
users write: contradictions become :class:`InvalidGang` in ``problem``, to be shown as a condition.
"""

from __future__ import annotations

from extender.gangs.assemble import assemble
from extender.gangs.hints import Hints, hints_of
from extender.gangs.jobs import holds_for, understand
from extender.gangs.recognise import Owners, recognise
from extender.gangs.types import Asked, Gang, GangKey, InvalidGang, Member, Wish

__all__ = [
    "Asked",
    "Gang",
    "GangKey",
    "Hints",
    "InvalidGang",
    "Member",
    "Owners",
    "Wish",
    "assemble",
    "hints_of",
    "holds_for",
    "recognise",
    "understand",
]
