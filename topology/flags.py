"""Why a node should be avoided, how slow it is, who says so, and until when.

Detectors write flags and the scheduler reads them; neither knows the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

FlagKind = Literal["straggler", "degraded", "faulty"]

HEALTHY = 1.0
"""Slowdown of a node without a flag."""

FAULTY = math.inf
"""Slowdown that stands for a node which must never be used."""


_FACTOR = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def parse_slowdown(text: str) -> float:
    """A slowdown as people write it: a finite factor of at least 1, of any number of digits, or ``faulty``.

    :raises ValueError: neither.
    """
    if text.strip().lower() == "faulty":
        return FAULTY
    factor = float(text) if _FACTOR.fullmatch(text.strip()) else math.nan
    if not HEALTHY <= factor < math.inf:
        raise ValueError(f"{text[:40]!r} is neither a finite factor of at least 1 nor 'faulty'")
    return factor


@dataclass(frozen=True, slots=True)
class NodeFlag:
    """One finding about one node.

    :param node: name of the node.
    :param kind: ``straggler`` (slow by a factor), ``degraded`` (slow, cause known), ``faulty`` (never use).
    :param slowdown: factor on compute time, 1.3 = 30 % slower; ``inf`` exactly when ``faulty``.
    :param score: strength of the evidence, unit of the detector.
    :param source: who says so.
    :param since: start of validity, ``None`` = always.
    :param until: end of validity, ``None`` = open.
    :param evidence: one sentence for the operator.
    """

    node: str
    kind: FlagKind
    slowdown: float = HEALTHY
    score: float | None = None
    source: str = ""
    since: datetime | None = None
    until: datetime | None = None
    evidence: str = ""

    def __post_init__(self) -> None:
        if (self.kind == "faulty") != (self.slowdown == FAULTY):
            raise ValueError(f"a faulty node has slowdown inf and only it: {self.kind}, {self.slowdown}")
        if not self.slowdown >= HEALTHY:
            raise ValueError(f"a slowdown is a factor of at least 1, not {self.slowdown}")

    def active(self, at: datetime) -> bool:
        """Whether the flag holds at an instant (both ends timezone-aware; the end is exclusive)."""
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)


def severity(flag: NodeFlag) -> tuple[float, bool, float, str, str]:
    """By which flags of one node are compared, the largest the worst: the slowdown; of equal ones a known cause, then
    the later end; then names, so that the order in which they came does not matter.
    """
    end = math.inf if flag.until is None else flag.until.timestamp()
    return flag.slowdown, flag.kind != "straggler", end, flag.source, flag.evidence


def merged(flags: Sequence[NodeFlag]) -> NodeFlag:
    """One flag for a node out of those of several sources: the worst counts, and the others are named with it.

    No source outvotes another: a node that one detector finds healthy and another slow is slow, for detectors look at
    different things, and a wrong flag costs a node while a missed one costs a job.

    :param flags: at least one, all of the same node.
    """
    worst, *others = sorted(flags, key=severity, reverse=True)
    if not others:
        return worst
    ordered = [worst, *others]
    evidence = "; ".join(f"{flag.source or 'unnamed'}: {flag.evidence or in_words(flag)}" for flag in ordered)
    return replace(
        worst, source=", ".join(dict.fromkeys(flag.source or "unnamed" for flag in ordered)), evidence=evidence
    )


def in_words(flag: NodeFlag) -> str:
    """``straggler, 1.3 times slower``, or ``faulty``."""
    return flag.kind if flag.slowdown == FAULTY else f"{flag.kind}, {flag.slowdown:.4g} times slower"
