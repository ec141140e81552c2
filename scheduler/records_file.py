"""Characterisation files (docs/job.md): measurements beside the built-in table, every mistake named with its line."""

from __future__ import annotations

from pydantic import Field, model_validator

from scheduler.affinity import Model, Record
from scheduler.job import Parallelism
from scheduler.job_parts import Factor, StrictModel
from scheduler.jobfile import ParallelismFile
from topology.documents import load_document
from topology.errors import InvalidInput, InvalidJob
from topology.files import Source


class RecordFile(StrictModel):
    """One measurement of a characterisation file."""

    name: str
    gpu: str
    model: Model
    parallelism: ParallelismFile
    dp_gain: Factor
    pp_gain: Factor
    published: str = ""

    @model_validator(mode="after")
    def _some_gain(self) -> RecordFile:
        if self.dp_gain == self.pp_gain == 0.0:
            raise ValueError("one of dp_gain and pp_gain must be above 0; such a job tells nothing about alpha")
        return self


class RecordsDocument(StrictModel):
    """A characterisation file."""

    records: tuple[RecordFile, ...] = Field(min_length=1, strict=False)


def load_records(source: Source) -> tuple[Record, ...]:
    """Read a characterisation file: measurements that extend the built-in table.

    :raises InvalidInput: not YAML or JSON, unknown keys, impossible values; says the line.
    """
    document = load_document(source)
    records: list[Record] = []
    for i, row in enumerate(document.parse(RecordsDocument).records):
        try:
            parallelism = Parallelism(**row.parallelism.model_dump(exclude_none=True))
        except InvalidJob as error:
            where = document.where("records", i, *error.where.split("."))
            raise InvalidInput(error.message, where=where, fix=error.fix) from None
        measured = row.name, row.gpu, row.model, parallelism
        records.append(Record(*measured, dp_gain=row.dp_gain, pp_gain=row.pp_gain, published=row.published))
    return tuple(records)
