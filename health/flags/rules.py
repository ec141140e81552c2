"""When a finding becomes a flag, and when a flag ends: the numbers, why they are what they are, and files of them.

Two costs are weighed.  A flag that should not be there costs a node, or a little spread.  A flag that is missing costs
a job: those that straggle because of a worker run 3.04 times slower on average (arXiv 2505.05713).  So flags come at
once and go slowly.  They also must go slowly because a flagged node is avoided, and an avoided node shows no symptoms:
that nothing is found says nothing.  The quiet time is therefore the time after which a node gets another chance, and
each relapse doubles it.  Until then a finding loses likelihood by halves, as slowness comes and goes; a broken device
does not.

People write rules in YAML or JSON, times as ``30m`` or ``1d``.
"""

import re
from dataclasses import field
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ground.documents import load_document
from ground.errors import InvalidInput
from ground.files import Source
from ground.records import FiniteFloat, JsonRecord, read_json
from topology.flag_sources import FlagLog, time_text
from topology.flags import LAST, NodeFlag

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smhdw])")
LONGEST = timedelta(days=3650)  # No time in the rules is longer: later times could not be written
TIMES = ("within", "quiet", "half_life", "all_clear", "longest", "memory")  # Fields of a rule that are times
MOST_FINDINGS = 100  # Most findings that can be asked for before a node is flagged


class Rule(JsonRecord):
    """How findings of one source are treated; in JSON times are seconds."""

    __pydantic_config__: ClassVar = JsonRecord.__pydantic_config__ | {"ser_json_timedelta": "float"}

    raise_after: int = 1
    """Findings that are needed, on different occasions.  Default 1, because every detector here demands persistence
    itself (a whole trace, four minutes of the same outlier, five rounds): a second wait would only cost jobs.  Raise
    it for a source that reports every spike.  A faulty node is flagged at once."""
    within: timedelta = timedelta(hours=1)
    """Seconds in which they must come; a source that takes a finding back begins anew."""
    score: FiniteFloat | None = None
    """A finding of at least this score needs no other; in the unit of the source, so there is no default."""
    quiet: timedelta = timedelta(days=1)
    """Seconds without a finding after which the flag ends. Default a day: one job in a day may meet a node that is
    still slow, and a node that was repaired waits no longer than that.
    """
    half_life: timedelta = timedelta(days=1)
    """Seconds without a finding after which a straggler is held to be half as likely one, and again; a degraded node,
    whose cause is known, after twice as long; a faulty one never.  Default a day, so that it tells where a flag holds
    longer: after relapses.
    """
    all_clear: timedelta = timedelta(minutes=30)
    """Seconds after which it ends where the source itself says that the node is healthy, or less slow, as monitors of
    conditions do. Default half an hour: it covers a monitor that is restarted and a fault that comes and goes.
    """
    longest: timedelta = timedelta(days=14)
    """Seconds that relapses make of either at most. Default two weeks: the time in which hardware is exchanged."""
    memory: timedelta = timedelta(days=7)
    """Seconds since its end within which a flag that is raised anew is a relapse. Default a week."""

    def __post_init__(self) -> None:
        if not 1 <= self.raise_after <= MOST_FINDINGS:
            raise ValueError(f"raise_after is a number from 1 to {MOST_FINDINGS}, not {self.raise_after}")
        for name in TIMES:
            if not timedelta(0) < getattr(self, name) <= LONGEST:
                raise ValueError(f"{name} is a positive time of at most {LONGEST.days} days")

    def quiet_after(self, relapses: int) -> timedelta:
        """Return the quiet time of a node that relapsed so often: twice as long each time, up to the longest."""
        return self._doubled(self.quiet, relapses)

    def half_life_of(self, flag: NodeFlag) -> timedelta:
        """Return the time after which a finding is half as likely still true; of a faulty node it never is."""
        return {"straggler": self.half_life, "degraded": 2 * self.half_life, "faulty": LONGEST}[flag.kind]

    def all_clear_after(self, relapses: int) -> timedelta:
        """Return the same where the source itself says less, never more than the quiet time."""
        return min(self.quiet_after(relapses), self._doubled(self.all_clear, relapses))

    def _doubled(self, time: timedelta, relapses: int) -> timedelta:
        seconds = time.total_seconds() * 2.0 ** min(relapses, 32)
        return max(time, min(self.longest, timedelta(seconds=min(seconds, LONGEST.total_seconds()))))


class Rules(JsonRecord):
    """The rules of all sources."""

    default: Rule = field(default_factory=Rule)
    """The rule of sources that have none of their own."""
    sources: dict[str, Rule] = field(default_factory=dict)
    """Source -> its rule."""

    def of(self, source: str) -> Rule:
        """Return the rule of a source."""
        return self.sources.get(source, self.default)


def rules_of(log: FlagLog, at: datetime = LAST) -> Rules:
    """Return the rules by which a store decides at an instant, timezone-aware."""
    for event in log.events("event = 'rules' AND time <= ? ORDER BY number DESC LIMIT 1", time_text(at)):
        try:
            return read_json(Rules, event.rules)
        except ValueError as error:
            problem = f"the rules in the store cannot be read: {' '.join(str(error).split())[:200]}"
            fix = "restore the store from a copy; it is written by `arnold flags` alone"
            raise InvalidInput(problem, where="rules", fix=fix) from error
    return Rules()


def parse_duration(text: str) -> timedelta:
    """Return the time that ``90s`` or ``1.5d`` stands for; raise ValueError for what is none, or above ten years."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0.0 < seconds <= LONGEST.total_seconds():
        raise ValueError(f"{text[:40]!r} is no time such as 90s, 30m, 12h, 1.5d or 2w")
    return timedelta(seconds=seconds)


def _duration(value: Any) -> timedelta:
    if not isinstance(value, str):
        raise ValueError("write a time such as 90s, 30m, 12h or 2d")
    return parse_duration(value)


Duration = Annotated[timedelta, BeforeValidator(_duration)]


class _RuleFile(BaseModel):
    """What is said of one source; the rest is as it is for all."""

    model_config = ConfigDict(extra="forbid")

    raise_after: int | None = Field(None, ge=1, le=MOST_FINDINGS)
    within: Duration | None = None
    score: float | None = Field(None, allow_inf_nan=False)
    quiet: Duration | None = None
    half_life: Duration | None = None
    all_clear: Duration | None = None
    longest: Duration | None = None
    memory: Duration | None = None

    def rule(self, others: Rule) -> Rule:
        """Return the rule, with what is left out taken from another."""
        names = _RuleFile.model_fields
        return Rule(**{name: getattr(self if getattr(self, name) is not None else others, name) for name in names})


class _RulesFile(_RuleFile):
    """Rules of all sources, and those of some that differ."""

    sources: dict[str, _RuleFile] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _make_sense(self) -> Self:
        self.rules()
        return self

    def rules(self) -> Rules:
        """Return the rules."""
        default = self.rule(Rule())
        return Rules(default, {name: row.rule(default) for name, row in sorted(self.sources.items())})


def read_rules(source: Source) -> Rules:
    """Return the rules of a file."""
    return load_document(source).parse(_RulesFile).rules()
