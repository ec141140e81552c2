"""Gangs: which pods belong together, which rank each has, and which job they are.

:func:`recognise` reads one pod; :func:`assemble` puts the members of one gang together.  Nothing here raises for what
users write: contradictions become :class:`InvalidGang` in ``problem``, to be shown as a condition.
"""

from __future__ import annotations

from extender.gangs.gang_assembly import assemble
from extender.gangs.gang_job import holds_for, understand
from extender.gangs.hints import Hints, hints_of
from extender.gangs.recognise import Owners, recognise
from extender.gangs.types import Asked, Gang, GangKey, GangMember, InvalidGang, TopologyRequest

__all__ = [
    "Asked",
    "Gang",
    "GangKey",
    "GangMember",
    "Hints",
    "InvalidGang",
    "Owners",
    "TopologyRequest",
    "assemble",
    "hints_of",
    "holds_for",
    "recognise",
    "understand",
]
