"""The rules of a flag store as people write them: YAML or JSON, times as ``30m`` or ``1d``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ground.documents import load_document
from ground.files import Source
from health.flags.rules import MOST_FINDINGS, Rule, Rules, parse_duration


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
    def _make_sense(self) -> _RulesFile:
        self.rules()
        return self

    def rules(self) -> Rules:
        """Return the rules."""
        default = self.rule(Rule())
        return Rules(default, {name: row.rule(default) for name, row in sorted(self.sources.items())})


def read_rules(source: Source) -> Rules:
    """Return the rules of a file."""
    return load_document(source).parse(_RulesFile).rules()
