"""Pieces that documents of ``arnold recover`` share."""

from __future__ import annotations

from pydantic import Field

from arnold.documents.common import Document
from health.recovery.machines import Machines


class MachineDoc(Document):
    """A machine of the job."""

    node_rank: int = Field(ge=0)
    """Its number among the machines of the job; it holds the ranks from node_rank * gpus_per_node on."""
    node: str | None
    """Name of its node; null = no placement was given."""
    dp: int = Field(ge=0)
    """Row of the grid: its PP group."""
    pp: int = Field(ge=0)
    """Column of the grid: its stage, and so its DP group."""


def machine_doc(machines: Machines, machine: int) -> MachineDoc:
    """A machine of the job."""
    return MachineDoc(
        node_rank=machine,
        node=machines.names[machine] if machines.names else None,
        dp=int(machines.row[machine]),
        pp=int(machines.column[machine]),
    )
