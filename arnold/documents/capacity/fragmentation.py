"""What ``arnold capacity fragmentation --json`` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from arnold.documents.capacity.common import AnswerDocument
from arnold.documents.common import Document
from simulator.capacity.fragmentation import FragmentationAnswer, ShapeRow, assumptions
from simulator.capacity.fragmentation_sheet import fragmentation_sheet


class LargestDoc(Document):
    """The largest job whose groups touch few domains."""

    family: Literal["dp", "pp"]
    """Whose groups."""
    spread: int = Field(ge=1)
    """Domains that each of them may touch."""
    nodes: int = Field(ge=0)
    """Nodes of the job; 0 = none fits."""
    proved: bool
    """No larger one fits; false = the algorithm ran out of time on a larger one."""


class SizeDoc(Document):
    """A job of some size, now and on the empty cluster."""

    share: float
    """Of the free nodes."""
    nodes: int = Field(ge=1)
    """Nodes of the job."""
    dp: int | None
    """DP spread now; null = nothing valid was found."""
    pp: int | None
    """PP spread now."""
    objective: float | None
    """Eq. 2 now."""
    objective_if_empty: float | None
    """The same on the empty cluster."""
    ratio: float | None
    """One over the other: 1 = fragmentation costs nothing."""


class ShapeDoc(Document):
    """What is left for one shape."""

    shape: str
    """tp x pp."""
    tp: int = Field(ge=1)
    """Tensor-parallel degree."""
    pp: int = Field(ge=1)
    """Pipeline stages."""
    most_nodes: int = Field(ge=0)
    """Nodes of the largest job whatever its spread."""
    largest: list[LargestDoc]
    """By family and spread."""
    too_small: int = Field(ge=0)
    """Free nodes in domains with fewer of them than one PP group has."""
    left_over: int = Field(ge=0)
    """Free nodes that remain when every domain is filled with whole PP groups, those among them."""
    sizes: list[SizeDoc]
    """Jobs by size."""


class FragmentationDocument(AnswerDocument):
    """What fragmentation costs, by job shape."""

    cluster: str
    """What the cluster is called."""
    level: str
    """The level whose domains count."""
    nodes: int = Field(ge=1)
    """Nodes in all."""
    free: int = Field(ge=0)
    """Nodes that a gang may use."""
    free_by_domain: list[int]
    """Free nodes of each domain, the most first."""
    alpha: float
    """DP affinity."""
    shapes: list[ShapeDoc]
    """By shape."""


def fragmentation_document(answer: FragmentationAnswer) -> FragmentationDocument:
    """The document of an answer."""
    return FragmentationDocument(
        verdict=fragmentation_sheet(answer).verdict,
        assumptions=list(assumptions(answer)),
        cluster=answer.source,
        level=answer.level,
        nodes=answer.nodes,
        free=answer.free,
        free_by_domain=list(answer.domains),
        alpha=answer.alpha,
        shapes=[_shape(row) for row in answer.shapes],
    )


def _shape(row: ShapeRow) -> ShapeDoc:
    return ShapeDoc(
        shape=row.shape.name,
        tp=row.shape.tp,
        pp=row.shape.pp,
        most_nodes=row.most * row.shape.row,
        largest=[
            LargestDoc(family=family, spread=spread, nodes=found.rows * row.shape.row, proved=found.proved)
            for (family, spread), found in row.largest.items()
        ],
        too_small=row.too_small,
        left_over=row.left_over,
        sizes=[
            SizeDoc(
                share=size.share,
                nodes=size.rows * row.shape.row,
                dp=size.dp,
                pp=size.pp,
                objective=size.now,
                objective_if_empty=size.empty,
                ratio=size.ratio,
            )
            for size in row.sizes
        ],
    )
