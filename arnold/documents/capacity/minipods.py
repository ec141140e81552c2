"""What ``arnold capacity minipods --json`` prints."""

from __future__ import annotations

from pydantic import Field

from arnold.documents.capacity.common import AnswerDocument
from arnold.documents.common import Document
from simulator.capacity.minipods import MinipodAnswer, assumptions
from simulator.capacity.minipods_sheet import minipods_sheet


class StudiedJobDoc(Document):
    """A job that is placed on every cluster."""

    shape: str
    """tp x pp."""
    rows: int = Field(ge=1)
    """PP groups."""
    nodes: int = Field(ge=1)
    """Nodes."""


class MinipodCellDoc(Document):
    """One algorithm on clusters of one size of minipod under one oversubscription."""

    algorithm: str
    """Name of the placement algorithm."""
    minipod_nodes: int = Field(ge=1)
    """Nodes of a minipod."""
    minipods: int = Field(ge=1)
    """How many."""
    oversubscription: float | None
    """Between minipods; null = the loss measured between minipods on an otherwise quiet network."""
    throughput: float | None
    """Share of the throughput of a flat network, a mean over seeds; null = no job was placed."""
    half_width: float = Field(ge=0.0)
    """Half of its 95 % interval; 0 with one seed."""
    dp_spread: float | None
    """Mean DP spread of the jobs."""
    pp_spread: float | None
    """Mean PP spread of the jobs."""
    placed: float = Field(ge=0.0, le=1.0)
    """Share of the jobs that found a place."""
    cut_short: float = Field(ge=0.0, le=1.0)
    """Share of the jobs for which the algorithm ran into its time limit."""


class MinipodsDocument(AnswerDocument):
    """Minipod size and oversubscription against throughput."""

    nodes: int = Field(ge=1)
    """Nodes of each cluster."""
    busy_share: float
    """Nodes that other jobs use."""
    seeds: int = Field(ge=1)
    """States of each cluster."""
    alpha: float
    """DP affinity."""
    jobs: list[StudiedJobDoc]
    """The jobs."""
    cells: list[MinipodCellDoc]
    """By algorithm, size and oversubscription."""


def minipods_document(answer: MinipodAnswer) -> MinipodsDocument:
    """The document of an answer."""
    q = answer.question
    return MinipodsDocument(
        verdict=minipods_sheet(answer).verdict,
        assumptions=list(assumptions(answer)),
        nodes=q.nodes,
        busy_share=q.busy_share,
        seeds=q.seeds,
        alpha=q.alpha,
        jobs=[StudiedJobDoc(shape=shape.name, rows=rows, nodes=rows * shape.row) for shape, rows in q.jobs],
        cells=[
            MinipodCellDoc(
                algorithm=cell.algorithm,
                minipod_nodes=cell.size,
                minipods=cell.minipods,
                oversubscription=cell.ratio,
                throughput=cell.throughput,
                half_width=cell.half_width,
                dp_spread=cell.dp,
                pp_spread=cell.pp,
                placed=cell.placed,
                cut_short=cell.cut_short,
            )
            for cell in answer.cells
        ],
    )
