"""Flags, why a node should be avoided, how slow it is and until when, and the events by which a store keeps them."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from annotated_types import Ge, Gt, Le

from ground.quantities import utc_minute
from ground.records import AsWritten, AwareTime, FiniteFloat, JsonRecord, NullForInfinity, check_fields
from topology.xids import PROGRAM_XIDS

FlagKind = Literal["straggler", "degraded", "faulty"]

HEALTHY = 1.0  # Slowdown of a node without a flag
FAULTY = math.inf  # Slowdown that stands for a node which must never be used
# Of a warning how likely the node is at fault, by which factor it then slows a job, and how many nodes of a cluster are
# before anything is found
WARNED, FAULT_FACTOR, BEFORE = 0.1, 1.5, 0.01
# Slowdown to be expected of a node with a warning, or with evidence that does not suffice, 1.05: a price so small that
# it is used before a job spreads more by 5 %
WARNING = HEALTHY + WARNED * (FAULT_FACTOR - HEALTHY)
PROBATION = "probation"  # Source of the flags of nodes that passed a test


class FalseAlarms(NamedTuple):
    """How many of those that a detector named as slow were not, by a benchmark."""

    named: int
    wrong: int
    measured: str  # where, or by which command

    @property
    def probability(self) -> float | None:
        """How likely a node that it names is slow; ``None`` = it was never wrong, which is no price."""
        return round(1.0 - self.wrong / self.named, 3) if self.wrong else None


FALSE_ALARMS: Mapping[str, FalseAlarms] = {
    "what-if": FalseAlarms(542, 0, "docs/how-it-works/health/whatif.md, 815 synthetic traces"),
    "peers": FalseAlarms(73, 1, "python -m benchmarks evidence --tables single_parts"),
    "collectives": FalseAlarms(34, 0, "python -m benchmarks evidence --tables hangs --torch PYTHON --public"),
    "look": FalseAlarms(47, 0, "python -m benchmarks evidence --tables texts --public"),
}
"""By the source that a detector names in its flags."""

_XID = re.compile(r"(?<![a-z])s?xid(?![a-z])\D{0,20}(\d{1,4})?", re.IGNORECASE)
_DEVICE = re.compile(r"(?<![a-z])ecc(?![a-z])|uncorrectable|fallen off|(?<![a-z])dead(?![a-z])", re.IGNORECASE)
_FACTOR = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def parse_slowdown(text: str) -> float:
    """Return a slowdown as people write it: a finite factor of at least 1, or ``faulty``; raise ValueError else."""
    if text.strip().lower() == "faulty":
        return FAULTY
    factor = float(text) if _FACTOR.fullmatch(text.strip()) else math.nan
    if not HEALTHY <= factor < math.inf:
        raise ValueError(f"{text[:40]!r} is neither a finite factor of at least 1 nor 'faulty'")
    return factor


class NodeFlag(JsonRecord):
    """One finding about one node: a row of a flag file (``--flags`` of ``arnold place``), and of every JSON answer."""

    __pydantic_config__: ClassVar = {
        **JsonRecord.__pydantic_config__,
        "json_schema_serialization_defaults_required": True,
    }

    node: str
    """Name of the node."""
    kind: FlagKind = "straggler"
    """straggler (slow), degraded (slow, cause known) or faulty (never use)."""
    slowdown: Annotated[float, AsWritten(), Ge(HEALTHY), NullForInfinity()] = FAULTY
    """Factor on compute time, 1.3 = 30 % slower; null for a faulty node."""
    score: Annotated[FiniteFloat, AsWritten()] | None = None
    """Strength of the evidence, in the unit of the source."""
    source: str = ""
    """Name of the detector or person that found it."""
    since: AwareTime | None = None
    """When it began; null = unknown."""
    until: AwareTime | None = None
    """When it ends; null = open."""
    evidence: str = ""
    """Why, in a sentence."""
    rank: int | None = None
    """Global rank of the process that the evidence is about, whose program may be at fault; null = of the node."""
    hardware: bool | None = None
    """Whether a device is broken, which mends by no waiting; null = as the evidence reads (Xid, ECC, dead)."""
    probability: Annotated[float, Gt(0), Le(1)] | None = None
    """How likely the node is at fault; placement prices the expectation. null = certain, of a warning 0.1."""
    slowdown_range: tuple[float, float] | None = None
    """Least and largest factor that the evidence allows; null = not known."""

    def __post_init__(self) -> None:
        if self.kind == "faulty" and self.slowdown != FAULTY:
            raise ValueError(f"a faulty node has no slowdown, and this one has {self.slowdown}")
        if self.kind != "faulty" and self.slowdown == FAULTY:
            raise ValueError(f"a node that is {self.kind} needs a slowdown, a factor such as 1.3")
        if isinstance(self.slowdown, float | int) and not self.slowdown >= HEALTHY:
            raise ValueError(f"a slowdown is a factor of at least 1, not {self.slowdown}")
        check_fields(self)

    @property
    def belief(self) -> tuple[float, float]:
        """How likely the node is at fault, and its factor then; a taint is no evidence but somebody's wish."""
        warning = self.kind == "degraded" and self.slowdown == WARNING and self.source != "kubernetes"
        if warning and self.probability is None:
            return WARNED, FAULT_FACTOR
        return 1.0 if self.probability is None else self.probability, self.slowdown

    @property
    def needs_repair(self) -> bool:
        """Whether the node is faulty by a device: such a flag ends by a person, a test or the source's all-clear."""
        if self.kind != "faulty" or self.rank is not None:
            return False
        if self.hardware is not None:
            return self.hardware
        # a sentence tells of a broken device by an Xid that no program causes, ECC, dead
        xids = _XID.findall(self.evidence)
        by_device = any(not code or int(code) not in PROGRAM_XIDS for code in xids)
        return by_device or _DEVICE.search(self.evidence) is not None

    def active(self, at: datetime) -> bool:
        """Return whether the flag holds at an instant (both ends timezone-aware; the end is exclusive)."""
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)


def begins_later(what: str, upcoming: Sequence[NodeFlag]) -> str:
    """Return the note that some flags begin later, at least one; ``what``: which they are."""
    first = min(flag.since for flag in upcoming if flag.since is not None)
    keep = "a job that says its expected_hours is kept off nodes that are faulty before it ends"
    return f"{what} that begin later: {len(upcoming)}, the first at {utc_minute(first)}; {keep}"


def severity(flag: NodeFlag) -> tuple[float, bool, float, str, str]:
    """Return a key by which flags of one node are compared, the largest the worst: the slowdown; of equal ones a known
    cause, then the later end; then names, so that the order in which they came does not matter.
    """
    end = math.inf if flag.until is None else flag.until.timestamp()
    return flag.slowdown, flag.kind != "straggler", end, flag.source, flag.evidence


def expected_slowdown(flags: Sequence[NodeFlag]) -> tuple[float, float]:
    """Return how likely a node is at fault by all that is held against it, and the factor to be expected of it.

    Sources look at different things, so their evidence adds up as odds do, beside those of any node (:data:`BEFORE`):
    of one factor after the other, the largest first, how likely the node is at least as slow.  No evidence outweighs
    other: that a detector finds a node healthy says nothing of what others look at, a wrong flag costs a node, a missed
    one a job.  So more evidence never lowers what is expected.
    """
    prior = math.log(BEFORE / (1.0 - BEFORE))
    likely: dict[str, float] = {}  # source -> what its findings so far add to the log odds
    slower, sure, excess = math.inf, 0.0, 0.0
    for belief, factor, source in sorted(((*flag.belief, flag.source) for flag in flags), key=lambda one: -one[1]):
        if sure and math.isfinite(slower):
            excess += (slower - factor) * sure
        odds = math.inf if belief >= 1.0 else math.log(belief / (1.0 - belief)) - prior
        likely[source] = max(likely.get(source, 0.0), odds)
        slower, sure = factor, 1.0 / (1.0 + math.exp(-min(500.0, prior + sum(likely.values()))))
    if math.isinf(max((flag.slowdown for flag in flags), default=HEALTHY)):
        return sure, FAULTY
    return sure, HEALTHY + excess + (slower - HEALTHY) * sure


def merged(flags: Sequence[NodeFlag]) -> NodeFlag:
    """Return one flag for a node out of one or more of its sources: with the slowdown that is to be expected by all of
    them, and the kind of the worst; the others are named with it.
    """
    worst, *others = ordered = sorted(flags, key=severity, reverse=True)
    slowdown = expected_slowdown(flags)[1]
    # a single finding that is certain, or a warning, is priced as it says
    if others or (worst.belief[0] < 1.0 and worst.belief[1] == worst.slowdown):
        lows, highs = zip(*((flag.slowdown_range or (flag.slowdown,) * 2) for flag in flags), strict=True)
        known = any(flag.slowdown_range for flag in flags) and math.isfinite(max(highs))
        worst = replace(
            worst,
            slowdown=slowdown if math.isinf(slowdown) else round(slowdown, 6),
            probability=None,
            slowdown_range=(min(lows), max(highs)) if known else None,
        )
    if not others:
        return worst
    named = [(flag.source or "unnamed", flag.evidence or in_words(flag)) for flag in ordered]
    evidence = "; ".join(f"{source}: {words}" for source, words in named)
    return replace(worst, source=", ".join(dict.fromkeys(source for source, _ in named)), evidence=evidence)


def in_words(flag: NodeFlag) -> str:
    """Return ``straggler, 1.3 times slower``, or ``faulty``."""
    return flag.kind if flag.slowdown == FAULTY else f"{flag.kind}, {flag.slowdown:.4g} times slower"


def worst_of_each(flags: Iterable[NodeFlag]) -> list[NodeFlag]:
    """Return of each node and source the slowest flag."""
    worst: dict[tuple[str, str], NodeFlag] = {}
    for flag in flags:
        key = flag.node, flag.source
        if key not in worst or worst[key].slowdown < flag.slowdown:
            worst[key] = flag
    return list(worst.values())


def merge_by_node(flags: Iterable[NodeFlag]) -> list[NodeFlag]:
    """Return one flag a node, by name, merged over the sources (:func:`merged`)."""
    ordered = sorted(flags, key=lambda flag: flag.node)
    return [merged([*of_node]) for _, of_node in groupby(ordered, key=lambda flag: flag.node)]


LAST = datetime(9999, 12, 1, tzinfo=UTC)  # No flag of a store ends later
EventName = Literal["opened", "rules", "noted", "raised", "renewed", "lowered", "cleared", "expired"]
"""``opened``: the first one.  ``rules``: those by which is decided from here on.  ``noted``: a finding that does not
suffice to flag the node, or a source that takes a finding back.  ``raised``: flagged, or flagged as worse.
``renewed``: found again.  ``lowered``: less bad, as nothing worse was found for a while.  ``cleared``: nothing was
found for the quiet time, or a person lifted it.  ``expired``: its source said until when, and that is past."""


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


class FlagEvent(JsonRecord, kw_only=True):
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
        if self.event not in ("raised", "renewed") or not self.steps:
            return self.finding
        # of the steps of one finding, each half as likely as the one before, the first is as it was found
        return next(flag for flag in self.flags if flag.slowdown == self.steps[-1].flag.slowdown)
