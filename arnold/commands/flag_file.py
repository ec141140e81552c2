"""What ``--flags-out`` of every detector writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.flags import NodeFlag


def write_flags(file: str, flags: Iterable[NodeFlag]) -> None:
    """Write flags as ``--flags`` of `arnold place` reads them, whole or not at all."""
    from arnold.commands.output import to_json
    from topology.files import write_file
    from topology.overlay import FlagFile

    write_file(file, to_json(FlagFile(tuple(flags))) + "\n")
