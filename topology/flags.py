"""Why a node should be avoided, how slow it is, who says so, and until when.

Detectors write flags and the scheduler reads them; neither knows the other.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

FlagKind = Literal["straggler", "degraded", "faulty"]

HEALTHY = 1.0
"""Slowdown of a node without a flag."""

FAULTY = math.inf
"""Slowdown that stands for a node which must never be used."""


_FACTOR = re.compile(r"[0-9]{1,18}(?:\.[0-9]{0,20})?(?:[eE][-+]?[0-9]{1,3})?")


def parse_slowdown(text: str) -> float:
    """A slowdown as people write it: a factor of at least 1, or ``faulty``.

    :raises ValueError: neither.
    """
    if text.strip().lower() == "faulty":
        return FAULTY
    factor = float(text) if _FACTOR.fullmatch(text.strip()) else math.nan
    if not HEALTHY <= factor < math.inf:
        raise ValueError(f"{text[:40]!r} is neither a factor of at least 1 nor 'faulty'")
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
