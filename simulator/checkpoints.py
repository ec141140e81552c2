"""The file of ``--checkpoint``: written whole or not at all, and refused by any run but its own."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simulator.engine.engine import Engine
from simulator.engine.snapshot import EngineSnapshot, restore, snapshot
from simulator.replay import Replay, fingerprint
from topology.errors import InvalidInput
from topology.files import write_file

FORMAT = "arnold-checkpoint-3"


class Checkpoint(BaseModel):
    """A run that can go on, and what it is a run of."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format: str = Field(pattern=f"^{FORMAT}$")
    """Name and version of this format."""
    inputs: str
    """SHA-256 of trace, cluster and settings: a checkpoint goes on with these and no others."""
    wall_seconds: float = Field(ge=0)
    """Wall time of the run so far."""
    state: EngineSnapshot
    """The engine."""


class CheckpointFile:
    """The checkpoint of one run, at a path where it is or will be."""

    def __init__(self, path: str, replay: Replay) -> None:
        self._path = path
        self._replay = replay
        self._inputs = fingerprint(replay.settings, replay.trace, {"": replay.cluster})
        self._wall = 0.0
        self._since = perf_counter()

    @property
    def wall_seconds(self) -> float:
        """Wall time of the run, from its very beginning."""
        return self._wall + perf_counter() - self._since

    def begin(self) -> bool:
        """Begin the run, or go on where the file says; return whether it goes on.

        :raises InvalidInput: the file is no checkpoint, or one of another run.
        """
        found = Path(self._path).is_file()
        if found:
            saved = self._read()
            restore(self._replay.engine, saved.state)
            self._wall = saved.wall_seconds
        self._since = perf_counter()
        if not found:
            self.save(self._replay.engine)
        return found

    def _read(self) -> Checkpoint:
        try:
            saved = Checkpoint.model_validate_json(Path(self._path).read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise InvalidInput(
                f"is no checkpoint of this version: {place}: {first['msg']}",
                where=self._path,
                fix="remove the file to begin anew, or name another one",
            ) from None
        if saved.inputs != self._inputs:
            raise InvalidInput(
                "is the checkpoint of a run with another trace, cluster or settings",
                where=self._path,
                fix="give the same inputs as then, or name another file",
            )
        return saved

    def save(self, engine: Engine) -> None:
        """Write the checkpoint; what stood there before stands until it is whole.

        :raises InvalidInput: the place cannot be written to.
        """
        state = snapshot(engine)
        checkpoint = Checkpoint(format=FORMAT, inputs=self._inputs, wall_seconds=self.wall_seconds, state=state)
        write_file(self._path, checkpoint.model_dump_json().encode())

    def remove(self) -> None:
        """Remove the file, as the run has ended."""
        Path(self._path).unlink(missing_ok=True)
