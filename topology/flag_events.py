"""What a flag store is made of: events, each about one node and one source, and the flags that hold after them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from annotated_types import Ge

from topology.flags import NodeFlag
from topology.json_record import AwareTime, JsonRecord

LAST = datetime(9999, 12, 1, tzinfo=UTC)  # No flag of a store ends later
EventName = Literal["opened", "rules", "noted", "raised", "renewed", "lowered", "cleared", "expired"]
"""``opened``: the first one.  ``rules``: those by which is decided from here on.  ``noted``: a finding that does not
suffice to flag the node, or a source that takes a finding back.  ``raised``: flagged, or flagged as worse.
``renewed``: found again.  ``lowered``: less bad, as nothing worse was found for a while.  ``cleared``: nothing was
found for the quiet time, or a person lifted it.  ``expired``: its source said until when, and that is past."""


@dataclass(frozen=True, slots=True)
class HeldFlag(JsonRecord):
    """What a source holds against a node until some time."""

    flag: NodeFlag
    """The flag, with its end."""
    seen: AwareTime
    """When the source last said so."""
    stated: bool = False
    """Whether the source itself said until when, and that is later than the quiet time would end."""

    @property
    def until(self) -> datetime:
        """The end of the flag."""
        return self.flag.until or LAST


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagEvent(JsonRecord):
    """What was found or decided at a time; the store holds nothing else."""

    time: AwareTime
    """When it was so."""
    event: EventName
    """What happened."""
    node: str = ""
    """Name of the node; empty for ``opened`` and ``rules``."""
    source: str = ""
    """Name of the detector that found it."""
    steps: tuple[HeldFlag, ...] = ()
    """What the source holds against the node from now on; of several the slower come first and end first."""
    finding: NodeFlag | None = None
    """What was found, where it is none of the steps."""
    stamp: str = ""
    """Version of the flag file, so that the same one is taken in once only."""
    by: str = ""
    """Name of the person that did it; empty = the store by its rules."""
    because: str = ""
    """The reason in words."""
    relapses: Annotated[int, Ge(0)] = 0
    """How often the node was flagged anew soon after its flag had ended."""
    rules: dict[str, Any] | None = None
    """Of ``rules``: the rules, times in seconds."""
    forgotten: AwareTime | None = None
    """Of ``opened``: history before this is not whole any more."""

    def __post_init__(self) -> None:
        if self.event == "rules" and self.rules is None:
            raise ValueError("an event 'rules' has rules")
        if self.event not in ("opened", "rules") and not self.node:
            raise ValueError(f"an event {self.event!r} names a node")

    @property
    def flags(self) -> list[NodeFlag]:
        """What the source holds against the node from now on."""
        return [step.flag for step in self.steps]

    @property
    def found(self) -> NodeFlag | None:
        """The finding that caused the event; ``None`` = none did."""
        return self.steps[-1].flag if self.event in ("raised", "renewed") and self.steps else self.finding
