"""What jobs keep of a flat network's throughput, by the models of communication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from scheduler.job import Job
    from scheduler.outcome import Outcome
    from simulator.cost.types import CommModel
    from topology.cluster import Cluster

EVEN = 1.0
"""As much bandwidth upwards from a minipod as below: what is lost then, flows lose that are hashed on one link."""

LEVEL = "minipod"

Placed: TypeAlias = "tuple[Cluster, Job, Outcome]"  # A job on one state of a cluster, and where an algorithm put it


def throughput(placed: Sequence[Placed], ratio: float | None) -> float | None:
    """Return the share of a flat network's throughput that jobs keep, by nodes; ``None`` = no job has a place.

    :param ratio: oversubscription between minipods, at least 1; ``None`` = the loss that was measured between them.
    """
    from simulator.cost.anchored import anchored
    from simulator.cost.hierarchical import hierarchical
    from simulator.cost.types import PlacedJob

    model: CommModel = anchored() if ratio is None else hierarchical(oversubscription={LEVEL: ratio})
    kept = weight = 0.0
    for cluster, job, outcome in placed:
        if outcome.proposal.nodes is not None and outcome.evaluation is not None:
            kept += job.grid.cells / model.relative_step_time(PlacedJob(job, cluster, outcome.proposal.nodes))
            weight += job.grid.cells
    return kept / weight if weight else None


def model_assumptions() -> tuple[str, ...]:
    """Return what the two models of communication take for granted, each line once where they agree."""
    from simulator.cost.anchored import anchored
    from simulator.cost.hierarchical import hierarchical

    tiers, measured = hierarchical(oversubscription={}), anchored()
    own = [line for line in tiers.assumptions if not line.startswith("Oversubscription")]
    other = [line for line in measured.assumptions if line not in own]
    lines = (
        *(f"A ratio (model {tiers.name}): {line}" for line in own[:3]),
        *own[3:],
        *(f"As measured (model {measured.name}): {line}" for line in other),
    )
    return tuple(" ".join(line.split()) for line in lines)
