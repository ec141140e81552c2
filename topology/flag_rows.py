"""A flag as it stands in a file: one row of a flag file, and the part of it that a flag store keeps."""

from __future__ import annotations

import math

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag


class Finding(BaseModel):
    """What a source says of a node: a flag without the names of the two."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: FlagKind
    slowdown: float | None = Field(None, ge=HEALTHY)
    score: float | None = Field(None, allow_inf_nan=False)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    evidence: str = ""

    @model_validator(mode="after")
    def _slowdown_fits_the_kind(self) -> Finding:
        factor = self.slowdown
        if self.kind == "faulty":
            if factor is not None and not math.isinf(factor):
                raise ValueError(f"a faulty node has no slowdown, and this one has {factor}")
        elif factor is None or not math.isfinite(factor):
            raise ValueError(f"a node that is {self.kind} needs a slowdown, a factor such as 1.3")
        return self

    @property
    def factor(self) -> float:
        """The slowdown, ``inf`` of a faulty node."""
        return FAULTY if self.kind == "faulty" else self.slowdown or HEALTHY

    def flag_of(self, node: str, source: str) -> NodeFlag:
        """The flag that says so."""
        return NodeFlag(
            node=node,
            kind=self.kind,
            slowdown=self.factor,
            score=self.score,
            source=source,
            since=self.since,
            until=self.until,
            evidence=self.evidence,
        )


class FlagRow(Finding):
    """A row of a flag file."""

    node: str
    source: str = ""

    def flag(self) -> NodeFlag:
        """The flag itself."""
        return self.flag_of(self.node, self.source)
