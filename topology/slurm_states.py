"""States of Slurm's nodes, in every spelling: what they mean to a gang of whole nodes.

Source: the manual page sinfo(1), "NODE STATE CODES", and the names of states and flags in Slurm's
``slurm_protocol_defs.c``.  There are short forms (``drng``, ``alloc*``), long ones (``DRAINING``), complete ones
(``IDLE+CLOUD+POWERED_DOWN``) and, in JSON, lists of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum


class Use(IntEnum):
    """What a node is to a new gang, from best to worst: of several opinions the largest counts."""

    FREE = 0
    IN_USE = 1
    """Held by a job, a reservation or a plan, or on its way: time makes it free."""
    UNUSABLE = 2
    """Down, drained, failing, in maintenance, not there: work of an operator makes it free."""


_UNUSABLE = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "DRNG", "POWER_DRAIN", "FAIL", "FAILING", "FAILG", "ERROR", "ERR",
    "FUTURE", "FUTR", "DYNAMIC_FUTURE", "UNKNOWN", "UNK", "INVAL", "INVALID", "INVALID_REG", "MAINT",
    "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND",
})  # fmt: skip
_IN_USE = frozenset({
    "ALLOC", "ALLOCATED", "MIX", "MIXED", "COMP", "COMPLETING", "RESV", "RESERVED", "PLND", "PLANNED", "BLOCK",
    "BLOCKED", "BOOT", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT_CANCELED", "CANCEL_REBOOT",
    "CANC_R", "POW_UP", "POWER_UP", "POWERING_UP", "POW_DN", "POWER_DOWN", "POWERING_DOWN", "POWRING_DN",
    "NPC", "PERFCTRS", "EXT", "EXTERNAL", "RESUME", "UNDRAIN",
})  # fmt: skip
_OFF = frozenset({"POWERED_DOWN", "POWERED_DN"})
_USES = (
    dict.fromkeys({"IDLE", "CLOUD", "DYNAMIC_NORM"} | _OFF, Use.FREE)
    | dict.fromkeys(_IN_USE, Use.IN_USE)
    | dict.fromkeys(_UNUSABLE, Use.UNUSABLE)
)
_WORD = re.compile(r"([A-Z_]+)([*~#!%$@^-]*)")

# what the character after a state means; ~ (powered off) alone leaves an idle node free: Slurm starts it for a job
_MARKS = {"*": Use.UNUSABLE, "$": Use.UNUSABLE, "~": Use.FREE}


def use_of(words: Iterable[str]) -> Use:
    """Return what a state says, given as one text or as several words.

    A word that is not known counts as unusable: a node is free only where Slurm surely says so.
    """
    found, idle = Use.FREE, False
    for word in _split(words):
        match = _WORD.fullmatch(word)
        if match is None:
            return Use.UNUSABLE
        name, marks = match.groups()
        idle = idle or name == "IDLE"
        found = max(found, _USES.get(name, Use.UNUSABLE), *(_MARKS.get(mark, Use.IN_USE) for mark in marks))
    return found if idle else max(found, Use.IN_USE)


def powered_off(words: Iterable[str]) -> bool:
    """Return whether a state says that the node is powered off."""
    return any(word.endswith("~") or word in _OFF for word in _split(words))


def is_state(text: str) -> bool:
    """Return whether a text is a state, in a spelling that is known."""
    matches = [_WORD.fullmatch(word) for word in _split([text])]
    return bool(matches) and all(match is not None and match[1] in _USES for match in matches)


def _split(words: Iterable[str]) -> list[str]:
    """Yield single words in capitals; ``alloc+`` (some jobs are completing) is allocated."""
    return [part for word in words for part in word.strip().upper().split("+") if part]
