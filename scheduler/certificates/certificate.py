"""A certificate: what proves that a placement cannot be better, as a document that others can check.

It says what was asked, what was answered, and for each part of the question which pairs of spreads cannot be had, with
the witness by which that can be recounted without a search.  ``arnold verify`` checks it
(:mod:`scheduler.verification`); :mod:`.certificate_writer` makes it.  Nothing in a certificate is believed.
"""

from typing import Annotated, Literal

from annotated_types import Ge, Interval, Len

from ground.records import FiniteFloat, JsonRecord
from scheduler.objective import Spread
from scheduler.witnesses import Witness

VERSION: Literal[1] = 1  # Of the format; a change that an older verifier would misread gets the next number
Number = Annotated[int, Interval(ge=1, le=2**31 - 1)]  # As large as any count of nodes, and no larger
Slowest = Annotated[FiniteFloat, Ge(1)]  # A slowdown up to which nodes are used


class RefutedPair(JsonRecord):
    """No placement touches no more than so many domains in both families."""

    dp: Number
    """DP spread S."""
    pp: Number
    """PP spread R."""
    by: str
    """The kind of refutation: edges, product, coverage, rectangles, components, patterns, shapes, pieces, skeleton."""
    witness: Witness | None
    """Numbers by which it is recounted; null = the pair alone is enough, or only a solver can tell."""


class CertifiedPart(JsonRecord, kw_only=True):
    """One part of the question: nodes of some types of GPU, in one trunk, up to some slowdown."""

    gpu_types: tuple[str, ...]
    """Types of GPU of its nodes; empty text = nodes of which no type is said."""
    gpus_per_node: Number
    """GPUs of each node."""
    trunk: str
    """The trunk, where nothing joins the trunks of the cluster; else empty."""
    slowest: Slowest | None
    """Nodes up to this slowdown, 1 = none that is flagged; null = any."""
    level: str
    """Level whose domains are counted."""
    rows: Number
    """Rows of the grid, of blocks where cells are held together."""
    columns: Number
    """Columns of the grid."""
    capacities: tuple[Number, ...]
    """Cells that each domain with room can take, the largest first."""
    refuted: tuple[RefutedPair, ...]
    """Pairs that cannot be had; each rules out all that are as small in both."""


class CertifiedGrid(JsonRecord, kw_only=True):
    """Domains of a closer level, all of them or those inside one domain of a broader level, wherever there are such."""

    level: str
    """The closer level."""
    rows: Number
    """Rows of the grid, of blocks where cells are held together."""
    columns: Number
    """Columns of the grid."""
    capacities: tuple[Number, ...]
    """Cells that each domain can take, the largest first, no more of both than the grid has cells."""
    refuted: tuple[RefutedPair, ...]
    """Pairs that cannot be had there, besides those that counting whole groups or the product of spreads rules out."""


class CloserClaim(JsonRecord):
    """What is claimed of a closer level."""

    level: str
    """The level."""
    dp: Number
    """DP spread of the placement there."""
    pp: Number
    """PP spread of the placement there."""
    proved: bool
    """No placement as good in what comes before has less of alpha * dp + beta * pp there."""


class CloserClaims(JsonRecord, kw_only=True):
    """What is claimed besides what decides: of placements on some nodes."""

    gpu_types: Annotated[tuple[str, ...], Len(1)]
    """Types of GPU of these nodes; empty text = nodes of which no type is said."""
    gpus_per_node: Number
    """GPUs of each node."""
    slowest: Slowest | None
    """Nodes up to this slowdown, 1 = none that is flagged; null = any."""
    ep: Number | None
    """Claimed: no placement with as good an objective has a smaller EP spread than this; null = nothing is."""
    levels: tuple[CloserClaim, ...]
    """Closer levels, from the broadest."""
    grids: tuple[CertifiedGrid, ...]
    """What proves them."""


class Certificate(JsonRecord, kw_only=True):
    """What proves an answer of `arnold place`, for `arnold verify`."""

    version: Literal[1]
    """Version of the format."""
    job: str
    """Name of the job."""
    status: Literal["optimal", "feasible", "infeasible"]
    """What was claimed: that no placement is better (where slow nodes have a price: has a shorter predicted step), that
    none is better than the bound, that there is none."""
    alpha: Annotated[float, Interval(ge=0, le=1)]
    """DP affinity."""
    level: str
    """Level whose domains spread counts."""
    avoid: Literal["strict", "price", "ignore"]
    """What is done about slow nodes."""
    slowest: Slowest | None
    """The bound holds for nodes up to this slowdown, 1 = none that is flagged; null = any."""
    spread: Spread | None
    """Spread of the placement; null = there is none."""
    objective: FiniteFloat | None
    """Its objective."""
    bound: FiniteFloat | None
    """No placement has a smaller objective."""
    nodes: tuple[Annotated[tuple[str, ...], Len(1)], ...]
    """The placement: the name of the node of each cell, row by row of the grid; empty = there is none."""
    parts: tuple[CertifiedPart, ...]
    """What proves it, part by part."""
    closer: CloserClaims | None = None
    """What is claimed of EP spread and closer levels; null = nothing."""
