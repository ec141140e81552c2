"""The topology of Alibaba's Lingjun data set 2023: a CSV of hosts below three layers of switches.

Columns ``ip,DSW,PSW,ASW``.  Names of access switches (ASW) repeat below different pod switches (PSW): the pair is the
key, so an access switch is called ``P10/S14`` here.  Hosts have 8 GPUs.
Source: github.com/alibaba/alibaba-lingjun-dataset-2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from topology.build import build_cluster
from topology.cluster import DEFAULT_GPUS, Node
from topology.errors import InvalidInput
from topology.file_format import FileFormat
from topology.files import Source
from topology.readers.cluster_csv import read_table
from topology.readers.types import Reading
from topology.tables.text_rows import header_of

COLUMNS = ("ip", "DSW", "PSW", "ASW")


class Lingjun:
    """Reader of the Lingjun topology."""

    format = FileFormat(
        "lingjun",
        source=f"Alibaba's Lingjun data set 2023, a CSV with the columns `{','.join(COLUMNS)}`",
        export="topo.csv of github.com/alibaba/alibaba-lingjun-dataset-2023",
        read="hosts and their three layers of switches",
        left_out="",
        marks=tuple(name.lower() for name in COLUMNS),
    )
    chooses_levels = False

    def recognises(self, head: str) -> bool:
        """Return whether the first line is the data set's."""
        return header_of(head) == COLUMNS

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the table."""
        table = read_table(source)
        if table.header != COLUMNS:
            found = f"the columns are {','.join(table.header)[:80]}"
            raise InvalidInput(found, where=source.at(table.header_line), fix=f"use {','.join(COLUMNS)}")
        rows = (
            Node(ip, (dsw, psw, f"{psw}/{asw}" if psw and asw else asw), DEFAULT_GPUS, DEFAULT_GPUS)
            for ip, dsw, psw, asw in table.rows
        )
        return Reading(build_cluster(("dsw", "psw", "asw"), rows, where=table.place).replace(gpus_assumed=True))
