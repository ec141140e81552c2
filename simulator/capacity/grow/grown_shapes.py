"""What a cluster holds of jobs of several shapes after it has grown: the largest job, and the worth of one job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ground.quantities import several
from ground.records import AtLeastOne, Count, JsonRecord, Share
from simulator.capacity.affinity_question import SizedShape
from simulator.capacity.job_shape import JobShape
from simulator.capacity.largest_job import LargestJob, Prober
from simulator.sheet import TextTable, known, text_table

if TYPE_CHECKING:
    from simulator.capacity.cluster_question import ShapesQuestion
    from topology.cluster import Cluster

SHARE = 0.9  # Size of the job whose objective is compared, as a share of the nodes that are free today


@dataclass(frozen=True, slots=True)
class GrownShape(JsonRecord):
    """One shape on one cluster."""

    shape: str
    """tp x pp."""
    most_nodes: Count
    """Nodes of the largest job, whatever its spread."""
    whole_nodes: Count
    """Nodes of the largest job with every PP group in one domain."""
    whole_proved: bool
    """No larger one fits; false = the algorithm ran out of time on a larger one."""
    job_nodes: AtLeastOne
    """Nodes of the job whose objective is compared, the same on all clusters."""
    alpha: Share
    """DP affinity of that job."""
    objective: float | None
    """Objective of that job, Eq. 2; null = nothing valid was found."""


class GrownShapes:
    """Compares the shapes of a question on clusters that grow from its cluster as it is."""

    def __init__(self, question: ShapesQuestion) -> None:  # type: ignore[type-arg]
        self._question = question

    @cached_property
    def jobs(self) -> list[SizedShape]:
        """The job of each shape whose objective is compared."""
        today = self._question.prober(self._question.now)
        return [(shape, max(1, int(SHARE * today.most_rows(shape)))) for shape in self._question.job_shapes]

    def on(self, cluster: Cluster) -> tuple[GrownShape, ...]:
        """Return every shape on one cluster."""
        prober = self._question.prober(cluster)
        return tuple(self._shape(prober, *one) for one in self.jobs)

    def _shape(self, prober: Prober, shape: JobShape, rows: int) -> GrownShape:
        most, alpha = prober.most_rows(shape), self._question.affinity(shape, rows).alpha
        # a PP group of one node is always whole: nothing to search for
        whole = prober.largest(shape, "pp", 1) if shape.pp > 1 else LargestJob("pp", 1, most, proved=True)
        return GrownShape(
            shape=shape.name,
            most_nodes=most * shape.pp,
            whole_nodes=whole.nodes,
            whole_proved=whole.proved,
            job_nodes=rows * shape.pp,
            alpha=alpha,
            objective=prober.place(shape, rows, alpha).objective if rows <= most else None,
        )


def shapes_table(level: str, grown: Sequence[tuple[int, Sequence[GrownShape]]]) -> TextTable:
    """Return a line for each shape on each cluster, one shape after the other.

    :param grown: domains that were added, and the shapes on that cluster.
    """
    columns: dict[str, Callable[[tuple[int, GrownShape]], str]] = {
        "shape": lambda row: row[1].shape,
        f"{several(level)} more": lambda row: str(row[0]),
        "largest job": lambda row: f"{row[1].most_nodes:,}",
        "PP groups whole": lambda row: f"{'' if row[1].whole_proved else '>= '}{row[1].whole_nodes:,}",
        "job of": lambda row: f"{row[1].job_nodes:,}",
        "objective": lambda row: known(row[1].objective, ".2f"),
    }
    rows = [(more, shapes[i]) for i in range(len(grown[0][1])) for more, shapes in grown]
    return text_table("Largest job and objective, by shape", rows, columns)
