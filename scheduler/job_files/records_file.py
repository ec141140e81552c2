"""Characterisation files (docs: job.md): measurements beside the built-in table, every mistake named with its line."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from ground.documents import load_document
from ground.errors import InvalidInput, InvalidJob
from ground.files import Source
from scheduler.affinity import Gains, Model, Record
from scheduler.job import Parallelism
from scheduler.job_files.job_file import Factor, ParallelismFile, StrictModel

MEASURED = ("dp_gain", "pp_gain", "dp_band", "pp_band", "published")  # What all measurements say, beside their name

Interval95 = Annotated[
    tuple[Annotated[float, Field(allow_inf_nan=False)], Annotated[float, Field(allow_inf_nan=False)]] | None,
    Field(strict=False),
]


class RecordFile(StrictModel):
    """One measurement of a characterisation file."""

    name: str
    """Name of the measurement."""
    gpu: str = ""
    """Type of GPU that it was measured on; empty = not known."""
    model: Model | None = None
    """What was trained; null = the measurement is of all jobs."""
    parallelism: ParallelismFile | None = None
    """Degrees of the job; null = the measurement is of all jobs."""
    dp_gain: Factor
    """What aligning DP groups brings, percent of throughput; a loss counts as 0."""
    pp_gain: Factor
    """What aligning PP groups brings, percent of throughput; a loss counts as 0."""
    dp_band: Interval95 = None
    """95 % interval of `dp_gain`, percent; null = not known."""
    pp_band: Interval95 = None
    """95 % interval of `pp_gain`, percent; null = not known."""
    published: str = ""
    """What the source says, and which source; empty = nothing is published."""

    @model_validator(mode="after")
    def _tells_something(self) -> RecordFile:
        if self.dp_gain == self.pp_gain == 0.0:
            raise ValueError("one of dp_gain and pp_gain must be above 0; such a job tells nothing about alpha")
        for name, band in (("dp_band", self.dp_band), ("pp_band", self.pp_band)):
            if band is not None and band[0] > band[1]:
                raise ValueError(f"{name} goes up, from its lower to its upper end")
        if (self.model is None) != (self.parallelism is None):
            raise ValueError("give model and parallelism, or neither; without them the measurement is of all jobs")
        return self


class RecordsDocument(StrictModel):
    """A characterisation file."""

    records: tuple[RecordFile, ...] = Field(min_length=1, strict=False)
    """Measurements; one without a model stands alone."""

    @model_validator(mode="after")
    def _one_rule(self) -> RecordsDocument:
        if len(self.records) > 1 and (of_all := [record.name for record in self.records if record.model is None]):
            raise ValueError(f"{of_all[0]!r} has no model and so is of all jobs: give it one, or keep it alone")
        return self


def load_records(source: Source) -> tuple[Gains, ...]:
    """Read a characterisation file: kinds of jobs that extend the built-in table, or one measurement for all jobs.

    :raises InvalidInput: not YAML or JSON, unknown keys, impossible values; says the line.
    """
    document = load_document(source)
    records: list[Gains] = []
    for i, row in enumerate(document.parse(RecordsDocument).records):
        measured = row.model_dump(include=set(MEASURED))
        if row.model is None or row.parallelism is None:
            records.append(Gains(row.name, **measured))
            continue
        try:
            parallelism = Parallelism(**row.parallelism.model_dump(exclude_none=True))
        except InvalidJob as error:
            where = document.where("records", i, *error.where.split("."))
            raise InvalidInput(error.message, where=where, fix=error.fix) from None
        records.append(Record(row.name, row.gpu, row.model, parallelism, **measured))
    return tuple(records)


def records_document(record: Gains) -> RecordsDocument:
    """Return the file that says one measurement."""
    kind: dict[str, Any] = {}
    if isinstance(record, Record):
        degrees = ParallelismFile(**{name: getattr(record.parallelism, name) for name in ParallelismFile.model_fields})
        kind = {"gpu": record.gpu, "model": record.model, "parallelism": degrees}
    measured: dict[str, Any] = {name: getattr(record, name) for name in MEASURED}
    return RecordsDocument(records=(RecordFile(name=record.name, **measured, **kind),))
