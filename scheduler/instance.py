"""A placement problem: a job, and the cluster it is to be placed on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from scheduler.job import Job
from scheduler.objective import job_level
from topology.cluster import Cluster, Level


@dataclass(frozen=True)
class Instance:
    """A job, the cluster it is to be placed on, and where both come from."""

    cluster: Cluster
    job: Job
    source: str = ""
    """Name of the cluster's file."""
    notes: tuple[str, ...] = ()
    """What is worth knowing about how the two were read, a sentence each."""

    @cached_property
    def level(self) -> Level:
        """The level whose domains spread counts.

        :raises UnknownName: the job names a level that the cluster does not have.
        """
        return job_level(self.cluster, self.job)
