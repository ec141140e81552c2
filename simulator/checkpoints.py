"""Checkpoints on disk: written whole or not at all, and refused by any run but their own."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from simulator.checkpoint_document import FORMAT, Checkpoint, checkpoint_text, parse_checkpoint
from simulator.engine.engine import Engine
from simulator.engine.snapshot import restore, snapshot
from simulator.replay import Replay, fingerprint
from topology.errors import InvalidInput
from topology.files import write_file


class CheckpointFile:
    """The checkpoint of one run.

    :param path: where it is, or will be.
    """

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
        """Begin the run, or go on where the file says.

        :returns: whether it goes on.
        :raises InvalidInput: the file is no checkpoint, or one of another run.
        """
        path = Path(self._path)
        found = path.is_file()
        if found:
            saved = parse_checkpoint(path.read_bytes(), where=self._path)
            if saved.inputs != self._inputs:
                raise InvalidInput(
                    "is the checkpoint of a run with another trace, cluster or settings",
                    where=self._path,
                    fix="give the same inputs as then, or name another file",
                )
            restore(self._replay.engine, saved.state)
            self._wall = saved.wall_seconds
        self._since = perf_counter()
        if not found:
            self.save(self._replay.engine)
        return found

    def save(self, engine: Engine) -> None:
        """Write the checkpoint; what stood there before stands until it is whole.

        :raises InvalidInput: the place cannot be written to.
        """
        checkpoint = Checkpoint(
            format=FORMAT, inputs=self._inputs, wall_seconds=self.wall_seconds, state=snapshot(engine)
        )
        write_file(self._path, checkpoint_text(checkpoint))

    def remove(self) -> None:
        """Remove the file, as the run has ended."""
        Path(self._path).unlink(missing_ok=True)
