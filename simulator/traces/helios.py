"""The Helios trace of SenseTime, 2020.

``job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue``
Source: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021;
github.com/S-Lab-System-Group/HeliosData.  Dates have no zone.  More than half of the rows are jobs of CPUs alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.traces.intake import Intake
from simulator.traces.slurm_log import COLUMNS, SlurmLog
from simulator.traces.source import TraceSource
from simulator.traces.table import Table, header_of, share
from simulator.traces.types import Numbered

OWN = ("vc",)
FOREIGN = ("type", "gpu_time")
"""Columns that make it a file of Acme."""


class Helios:
    """Reader of the Helios trace."""

    name = "helios"
    summary = "a CSV with job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,...,duration,queue"

    def likeness(self, head: bytes) -> float:
        """Share of the columns that the header has; nothing when it has those of Acme."""
        header = header_of(head)
        return 0.0 if any(name in header for name in FOREIGN) else share(header, (*COLUMNS, *OWN))

    def read(self, source: TraceSource, intake: Intake) -> Iterator[Numbered]:
        """The jobs with their lines, in the order of the file."""
        table = Table(source, intake)
        yield from SlurmLog(table, intake, format=self.name, queue="vc", group="").jobs(table, source, intake)
