"""What checking a certificate says, as it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ground.records import AtLeastOne, JsonRecord
from scheduler.verification.refutation_kinds import Told

Verdict = Literal["verified", "not verified", "cannot be told"]
"""``not verified``: a claim is wrong, or nothing in the certificate shows it; ``cannot be told``: what it shows holds,
and is not enough."""


@dataclass(frozen=True, slots=True)
class CheckedPair(JsonRecord):
    """A refuted pair, recounted."""

    part: str
    """The part of the question, in words; empty = there is one part only."""
    dp: AtLeastOne
    """DP spread S."""
    pp: AtLeastOne
    """PP spread R."""
    by: str
    """The kind of refutation."""
    told: Told
    """Whether the refutation holds, fails, or cannot be told."""
    sentence: str
    """Why, in words."""

    @property
    def line(self) -> str:
        """All of it in one line."""
        where = f" on {self.part}" if self.part else ""
        words = {"holds": "refuted by", "fails": "NOT refuted by", "not told": "left open:"}[self.told]
        return f"({self.dp}, {self.pp}){where} {words} {self.by}: {self.sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(JsonRecord):
    """What `arnold verify` prints."""

    job: str
    """Name of the job."""
    verdict: Verdict
    """What comes of it."""
    sentence: str
    """The verdict in words."""
    status: Literal["optimal", "feasible", "infeasible"]
    """What the certificate claims."""
    objective: float | None
    """Objective of the placement, by the evaluator; null = there is none, or it is not valid."""
    bound: float | None
    """No placement has a smaller objective, by what was recounted; null = there is none, or a claim is wrong."""
    checked: tuple[CheckedPair, ...]
    """Every refuted pair of the certificate."""
    faults: tuple[str, ...]
    """What is wrong with it, a sentence each."""
    untold: tuple[str, ...]
    """What it does not show, a sentence each."""
    seconds: float
    """Seconds that it took to check, without reading files."""
