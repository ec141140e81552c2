"""Lists of nodes of Alibaba's public traces.

Those of GPU jobs do not say where nodes are, but their GPUs and types alone:
``sn,cpu_milli,memory_mib,gpu,model`` (GPU trace 2023) and ``gpu_model,gpu_capacity_num,cpu_num,node_name`` (spot GPUs
2026), in any order of columns.  Source: github.com/alibaba/clusterdata.

The Lingjun data set 2023 lists hosts below three layers of switches, columns ``ip,DSW,PSW,ASW``.  Names of access
switches (ASW) repeat below different pod switches (PSW): the pair is the key, so an access switch is called ``P10/S14``
here.  Hosts have 8 GPUs.  Source: github.com/alibaba/alibaba-lingjun-dataset-2023.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from ground.errors import InvalidInput, InvalidTopology
from ground.files import Source
from ground.formats import FileFormat
from ground.rows import header_of
from topology.build import build_cluster
from topology.cluster import DEFAULT_GPUS, Node
from topology.readers.cluster_csv import read_table
from topology.readers.reading import PlacedNode, Reading, TopologyReader, place_nodes

SHAPES = (("sn", "gpu", "model", "cpu_milli"), ("node_name", "gpu_capacity_num", "gpu_model", "cpu_num"))
"""Columns of a list: the node, how many GPUs it has, their type, and one more to tell it by."""

_COUNT = re.compile(r"[0-9]{1,6}(?:\.0*)?")


class AlibabaNodes(TopologyReader):
    """Reader of Alibaba's lists of nodes."""

    format = FileFormat(
        "alibaba-nodes",
        source="lists of nodes of Alibaba's GPU traces, a CSV with `sn,...,gpu,model` or `gpu_model,...,node_name`",
        export="`openb_node_list_*.csv` (2023), `node_info_df.csv` (2026) of github.com/alibaba/clusterdata",
        read="GPUs of nodes and their type; all nodes are one level",
        left_out="nodes without GPUs; processors and memory",
        marks=("sn,", "gpu", "model"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the first line has the columns of one of the lists."""
        return float(_shape(header_of(head)) is not None)

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the table."""
        table = read_table(source)
        shape = _shape(table.header)
        if shape is None:
            others = f"the columns are {','.join(table.header)[:80]}"
            raise InvalidInput(others, where=source.at(table.header_line), fix=f"use {','.join(SHAPES[0])}")
        names, gpus, models = (table.column(column) for column in shape[:3])
        counts = []
        for i, count in enumerate(gpus):
            if not _COUNT.fullmatch(count):
                odd = f"{shape[1]} is {count[:60]!r}, not a whole number"
                raise InvalidInput(odd, where=table.place(i), fix="write a number such as 8, or 0")
            counts.append(int(float(count)))
        kept = [row for row, count in enumerate(counts) if count]
        nodes = [PlacedNode(names[i], (), counts[i], models[i]) for i in kept]
        if not nodes:
            raise InvalidTopology("no node has a GPU", where=source.name, fix="give a list of nodes with GPUs")
        left_out = len(counts) - len(kept)
        notes = [f"nodes without GPUs, left out: {left_out:,}"] if left_out else []
        return place_nodes((), nodes, where=lambda row: table.place(kept[row]), notes=notes)


def _shape(header: Sequence[str]) -> tuple[str, ...] | None:
    return next((shape for shape in SHAPES if set(shape) <= set(header)), None)


COLUMNS = ("ip", "DSW", "PSW", "ASW")


class Lingjun(TopologyReader):
    """Reader of the Lingjun topology."""

    format = FileFormat(
        "lingjun",
        source=f"Alibaba's Lingjun data set 2023, a CSV with the columns `{','.join(COLUMNS)}`",
        export="topo.csv of github.com/alibaba/alibaba-lingjun-dataset-2023",
        read="hosts and their three layers of switches",
        left_out="",
        marks=tuple(name.lower() for name in COLUMNS),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the first line is the data set's."""
        return float(header_of(head) == COLUMNS)

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the table."""
        table = read_table(source)
        if table.header != COLUMNS:
            others = f"the columns are {','.join(table.header)[:80]}"
            raise InvalidInput(others, where=source.at(table.header_line), fix=f"use {','.join(COLUMNS)}")
        rows = (
            Node(ip, (dsw, psw, f"{psw}/{asw}" if psw and asw else asw), DEFAULT_GPUS, DEFAULT_GPUS)
            for ip, dsw, psw, asw in zip(*table.columns, strict=True)
        )
        return Reading(build_cluster(("dsw", "psw", "asw"), rows, where=table.place).replace(gpus_assumed=True))
