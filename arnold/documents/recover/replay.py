"""What ``arnold recover replay --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from arnold.documents.common import Document
from arnold.documents.recover.common import MachineDoc, machine_doc
from health.recovery.machines import Machines
from health.recovery.replay import PHASES, ReplayPlan
from health.recovery.replay_words import Answer


class ReplayDocument(Document):
    """How to cut the job in both phases, and who is left where groups have failed."""

    verdict: str
    """The plan or the culprit in a sentence or two."""
    answer: Answer
    """plan: no failed group was given; culprit: one machine is left; suspects: several are; nobody: no machine is in
    all of the failed groups."""
    machines: int = Field(ge=2)
    """Machines of the job."""
    replica: int = Field(ge=1)
    """Machines of the smallest part that runs on its own: PP at node level, times what context and expert groups
    bind."""
    replicas: int = Field(ge=2)
    """DP at node level."""
    k: int = Field(ge=1)
    """Replicas of a group: its DP."""
    group_size: int = Field(ge=1)
    """Machines of a group: m = k * replica."""
    groups: int = Field(ge=2)
    """Groups of each phase: n = replicas / k."""
    unique: bool
    """Whether one failed group of each phase always leaves one machine: m <= n."""
    most_suspects: int = Field(ge=1)
    """Machines that one failed group of each phase leaves at most: m / n, rounded up."""
    horizontal: list[list[int]]
    """Node ranks of each group of the first phase: machine x goes to group floor(x / m)."""
    vertical: list[list[int]]
    """Node ranks of each group of the second phase: machine x goes to group x mod n."""
    failed_horizontal: list[int]
    """Groups of the first phase that failed."""
    failed_vertical: list[int]
    """Groups of the second phase that failed."""
    suspects: list[MachineDoc]
    """Machines in a failed group of each phase; empty where no group was given."""
    notes: list[str]
    """What is worth knowing, one sentence each."""


def replay_document(
    plan: ReplayPlan,
    machines: Machines,
    *,
    horizontal: Sequence[int],
    vertical: Sequence[int],
    verdict: str,
    answer: Answer,
    suspects: Sequence[int],
    notes: Sequence[str],
) -> ReplayDocument:
    """The document of a plan and of what came of it."""
    cut = {phase: [list(plan.members(phase, group)) for group in range(plan.groups)] for phase in PHASES}
    return ReplayDocument(
        verdict=verdict,
        answer=answer,
        machines=plan.machines,
        replica=plan.replica,
        replicas=plan.replicas,
        k=plan.k,
        group_size=plan.group_size,
        groups=plan.groups,
        unique=plan.unique,
        most_suspects=plan.most_suspects,
        horizontal=cut["horizontal"],
        vertical=cut["vertical"],
        failed_horizontal=list(horizontal),
        failed_vertical=list(vertical),
        suspects=[machine_doc(machines, machine) for machine in suspects],
        notes=list(notes),
    )
