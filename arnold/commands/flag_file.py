"""What ``--flags-out`` of every detector writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arnold.documents.common import NodeFlagDoc


def write_flags(file: str, flags: Iterable[NodeFlagDoc]) -> None:
    """Write flags as ``--flags`` of `arnold place` reads them, whole or not at all."""
    from arnold.commands.output import to_json
    from arnold.documents.nodeflags import FlagFile
    from topology.files import write_file

    write_file(file, to_json(FlagFile(flags=list(flags))) + "\n")
