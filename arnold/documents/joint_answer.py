"""What ``arnold place --json`` prints for several jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from arnold.documents.place_answer import PlaceDocument, place_document
from ground.records import JsonRecord, NotNegative, Share, record_of
from scheduler.outcome import Instance
from scheduler.several.together import JointOutcome, TurnResult


@dataclass(frozen=True, slots=True, kw_only=True)
class JointDocument(JsonRecord):
    """Where several jobs go, no two on one node; or which of them do not fit."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """Status of all jobs together. optimal: no placement of all has a smaller sum, where slow nodes have a price on
    nodes that are no slower than each job takes alone; infeasible: they do not all fit."""
    stopped_at: float | None
    """Seconds of the time limit that ended the search; null = it ended by itself, or proved its answer."""
    jobs: Mapping[str, PlaceDocument]
    """Name of the job -> its placement.  Its bound and its status are those of the job alone on the cluster, so a job
    may be feasible where the sum is optimal.  Empty without a placement of all."""
    objective: float | None
    """Sum of weight * objective / speed over the jobs; speed is 1 where a job names none.  null = no placement."""
    bound: float | None
    """No placement of all jobs has a smaller sum, slow nodes and all."""
    gap: Share | None
    """(objective - bound) / objective, 0 when it is proved the least of all."""
    weights: Mapping[str, float]
    """Name of the job -> weight of its objective."""
    left_out: tuple[str, ...]
    """Where not all fit: a smallest set of jobs without which the others do; empty where none is known."""
    reason: str | None
    """Why there is no placement."""
    one_after_the_other: tuple[TurnResult, ...]
    """What the jobs would get one after the other: in the order given, and in reverse."""
    solve_seconds: NotNegative
    """Wall time of the whole search."""
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""


def joint_document(instances: Sequence[Instance], weights: Sequence[float], found: JointOutcome) -> JointDocument:
    """Return the document of a joint placement; notes of reading a job stand in the document of that job."""
    names = [instance.job.name for instance in instances]
    placed = zip(names, instances, found.outcomes, strict=False)
    return record_of(
        JointDocument,
        found,
        status=found.status if found.status != "refused" else "gave-up",
        jobs={name: place_document(instance, outcome) for name, instance, outcome in placed},
        weights=dict(zip(names, weights, strict=True)),
        left_out=tuple(names[j] for j in found.left_out),
        reason=found.reason or None,
        one_after_the_other=found.turns,
    )
