"""The file of ``--checkpoint``: a run that can go on, and what it is a run of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from simulator.engine.snapshot import EngineSnapshot
from topology.errors import InvalidInput

FORMAT = "arnold-checkpoint-2"


class Checkpoint(BaseModel):
    """A run that can go on."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format: str = Field(pattern=f"^{FORMAT}$")
    """Name and version of this format."""
    inputs: str
    """SHA-256 of trace, cluster and settings: a checkpoint goes on with these and no others."""
    wall_seconds: float = Field(ge=0)
    """Wall time of the run so far."""
    state: EngineSnapshot
    """The engine."""


def checkpoint_text(checkpoint: Checkpoint) -> bytes:
    """Return the file's content."""
    return _FILE.dump_json(checkpoint)


def parse_checkpoint(data: bytes, *, where: str) -> Checkpoint:
    """Return a checkpoint from a file's content.

    :raises InvalidInput: it is none.
    """
    try:
        return _FILE.validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise InvalidInput(
            f"is no checkpoint of this version: {place}: {first['msg']}",
            where=where,
            fix="remove the file to begin anew, or name another one",
        ) from None


_FILE = TypeAdapter(Checkpoint)
