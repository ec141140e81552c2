"""The Acme traces of Shanghai AI Laboratory, 2023: the clusters Seren and Kalos.

The columns of Helios with ``type`` and ``gpu_time`` (and ``mem_per_pod_GB`` in Kalos), without ``vc``; dates have UTC
offsets.  Source: Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024;
github.com/InternLM/AcmeTrace.  The type of a job (Pretrain, Evaluation, ...) becomes its group.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.traces.helios import FOREIGN
from simulator.traces.intake import Intake
from simulator.traces.slurm_log import COLUMNS, SlurmLog
from simulator.traces.source import TraceSource
from simulator.traces.table import Table, header_of, share
from simulator.traces.types import Numbered


class Acme:
    """Reader of the Acme traces."""

    name = "acme"
    summary = "a CSV with job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,...,duration,queue,gpu_time"

    def likeness(self, head: bytes) -> float:
        """Share of the columns that the header has; nothing without those that Helios has not."""
        header = header_of(head)
        return share(header, COLUMNS) if any(name in header for name in FOREIGN) else 0.0

    def read(self, source: TraceSource, intake: Intake) -> Iterator[Numbered]:
        """The jobs with their lines, in the order of the file."""
        table = Table(source, intake)
        yield from SlurmLog(table, intake, format=self.name, queue="vc", group="type").jobs(table, source, intake)
