"""Parts of a job file that also stand in annotations of pods and in cells of a trace: constraints and the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ground.documents import load_document
from ground.errors import InvalidInput, InvalidJob
from ground.files import Source
from scheduler.affinity import Model
from scheduler.job import Count, Family, Hold
from scheduler.job_affinity import named_model
from topology.taints import Toleration, parse_toleration

MOST_CONSTRAINTS = 256  # of a job: more than there are families and levels of any cluster; each takes time
Factor = Annotated[float, Field(ge=0.0, le=1e6)]


class StrictModel(BaseModel):
    """Part of a file: unknown keys, text for numbers, NaN and infinities are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class ConstraintFile(StrictModel):
    """A hard constraint (``within``) or a soft one (``level`` and ``weight``)."""

    family: Family
    """Kind of the groups."""
    within: str | None = None
    """Level inside one domain of which each group is kept; null = the constraint is soft."""
    level: str | None = None
    """Level whose domains are counted; null = the constraint is hard."""
    weight: Factor | None = None
    """What each domain that the widest group touches adds to the objective; null = the constraint is hard."""

    @model_validator(mode="after")
    def _hard_or_soft(self) -> ConstraintFile:
        soft = self.level is not None and self.weight is not None
        if (self.within is None) != soft or (self.within is not None and (self.level or self.weight is not None)):
            raise ValueError("give either within (hard), or level and weight (soft)")
        return self


ConstraintFiles = Annotated[tuple[ConstraintFile, ...], Field(max_length=MOST_CONSTRAINTS, strict=False)]


def _by_name(given: Any) -> Any:
    """Return the model that a name stands for; anything else as it is."""
    try:
        return named_model(given) if isinstance(given, str) else given
    except InvalidJob as error:
        raise ValueError(f"{error.message}; {error.fix}") from None


NamedOrDescribed = Annotated[Model, BeforeValidator(_by_name, json_schema_input_type=Model | str)]
"""A model as a job file gives it: its shape, or a name of ``scheduler.job_affinity.NAMED_MODELS``."""


def _printable(name: str) -> str:
    """Return a name that may be printed on a terminal; raise ValueError where it has control characters."""
    if not name.isprintable():
        raise ValueError(f"it has control characters: {name[:60]!r}")
    return name


JobName = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_printable)]


def _type_names(given: object) -> object:
    """Return what a file says of types of GPU; raise ValueError, in our words, where it is neither a list nor any."""
    named = isinstance(given, list | tuple) and given and all(isinstance(one, str) and one for one in given)
    if given is None or given == "any" or named:
        return given
    raise ValueError("give a list of names such as [H200, H100], or any")


GpuTypes = Annotated[
    Literal["any"] | Annotated[tuple[str, ...], Field(min_length=1, strict=False)], BeforeValidator(_type_names)
]
DataSizes = Annotated[dict[str, Annotated[float, Field(gt=0.0, le=1e18)]], Field(max_length=256)]


class TolerationFile(StrictModel):
    """Taints that a job puts up with, as a pod's toleration says it."""

    key: str = ""
    """Key of the taints; empty = any, with the operator Exists."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal: of this value. Exists: of any value."""
    value: str = ""
    """Value of the taints."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Effect of the taints; empty = any."""
    toleration_seconds: Annotated[int | None, Field(alias="tolerationSeconds", exclude=True)] = None
    """How long a pod puts up with NoExecute; taken for ever."""

    @model_validator(mode="after")
    def _as_kubernetes(self) -> TolerationFile:
        if not self.key and self.operator != "Exists":
            raise ValueError("give a key, or the operator Exists for taints of any key")
        if self.value and self.operator == "Exists":
            raise ValueError("Exists is of any value: leave value out, or write Equal")
        return self

    @property
    def toleration(self) -> Toleration:
        """What it says."""
        return Toleration(self.key, self.operator, self.value, self.effect)


def _toleration(given: Any) -> Any:
    """Return what a short form ``KEY[=VALUE]`` stands for; anything else as it is."""
    if not isinstance(given, str):
        return given
    short = parse_toleration(given)
    return {"key": short.key, "operator": short.operator, "value": short.value, "effect": short.effect}


TolerationFiles = Annotated[
    tuple[Annotated[TolerationFile, BeforeValidator(_toleration, json_schema_input_type=TolerationFile | str)], ...],
    Field(max_length=MOST_CONSTRAINTS, strict=False),
]


class Constraints(NamedTuple):
    """What constraints of a job file come to."""

    holds: tuple[Hold, ...] = ()
    counts: tuple[Count, ...] = ()


def constraints_of(written: Iterable[ConstraintFile]) -> Constraints:
    """Return the hard ones, each once, and the soft ones."""
    holds: dict[Hold, None] = {}
    counts: list[Count] = []
    for one in written:
        if one.within is not None:
            holds[Hold(one.family, one.within)] = None
        if one.level is not None and one.weight is not None:
            counts.append(Count(one.family, one.level, one.weight))
    return Constraints(tuple(holds), tuple(counts))


@lru_cache(1024)  # jobs of a trace, and pods of a gang, say the same
def read_constraints(text: str) -> Constraints:
    """Return what YAML (or JSON) says that stands in a job file under ``constraints``.

    :raises InvalidJob: not such a list.
    """
    with _refused_as("constraints"):
        return constraints_of(load_document(Source("constraints", text)).parse(ConstraintFiles))


@lru_cache(1024)
def read_model(text: str) -> Model:
    """Return what YAML (or JSON) says that stands in a job file under ``model``: its shape, or a name.

    :raises InvalidJob: neither, or no model is called that.
    """
    if not text.strip():
        return named_model("")
    with _refused_as("model"):
        document = load_document(Source("model", text))
        return named_model(document.data) if isinstance(document.data, str) else document.parse(Model)


@contextmanager
def _refused_as(name: str) -> Iterator[None]:
    """Turn what is wrong with a text into an error of the job, at this key."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidJob(error.message, where=name, fix=error.fix) from None
