"""How each kind of refutation is recounted: one function a kind, each in whole numbers.

A function is given the grid as recounted, the pair, and its witness.  It says whether the refutation *holds*, *fails*
(the certificate claims what it does not show), or cannot be *told* without more, and why, in words.  A new kind is one
more function and its line in :data:`KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from math import isqrt
from typing import Literal

from scheduler.objective import Spread
from scheduler.verification.column_groups import can_be_covered
from scheduler.verification.counted_grid import CountedGrid
from scheduler.verification.covering import Covering
from scheduler.verification.effort import CALL, Effort, TooMuch
from scheduler.verification.pattern_covering import pattern_slack
from scheduler.witnesses import Multipliers, PatternPrices, Witness

Told = Literal["holds", "fails", "not told"]
ROOT = 250  # Steps for each domain, whatever the kind
_BITS = 64  # Binary places of a square root: far more than tell a product bound from the next whole number


@dataclass(frozen=True, slots=True)
class Recount:
    """What recounting a refutation says."""

    told: Told
    sentence: str


RecountKind = Callable[[CountedGrid, Spread, Witness | None, Effort], Recount]


def recount_edges(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:  # noqa: ARG001
    """Recount spread 1: every line lies in one domain, so a domain takes whole lines, and all domains in use are
    touched by every line across.
    """
    found = []
    for family, own, other, line, lines in (
        ("DP", pair.dp, pair.pp, grid.rows, grid.columns),
        ("PP", pair.pp, pair.dp, grid.columns, grid.rows),
    ):
        if own > 1:
            continue
        takes = [capacity // line for capacity in grid.capacities]
        if sum(takes) < lines:
            return Recount("holds", f"the domains take {sum(takes)} whole {family} groups, and there are {lines}")
        fewest = next(k for k, taken in enumerate(accumulate(takes), start=1) if taken >= lines)
        if fewest > other:
            return Recount("holds", f"{lines} whole {family} groups fill {fewest} domains, and the pair allows {other}")
        found.append(f"{lines} whole {family} groups find room in {fewest} domains")
    return Recount("fails", "; ".join(found) or "neither spread is 1")


def recount_product(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:  # noqa: ARG001
    """Recount the product bound: the sum of the square roots of what the domains hold is at most the root of
    (R D) (S P), by Cauchy-Schwarz, and it is least with the largest domains filled first.
    """
    left, roots = grid.cells, 0
    for capacity in grid.capacities:
        held = min(capacity, left)
        # rounded down, so that the sum is no larger than it is
        roots += isqrt(held << 2 * _BITS)
        left -= held
    least = roots * roots / (1 << 2 * _BITS) / grid.cells
    # S R D P < (sum of roots)^2, all times 4^_BITS
    if pair.dp * pair.pp * grid.cells << 2 * _BITS < roots * roots:
        return Recount("holds", f"DP spread x PP spread is at least {least:.3f}, and here {pair.dp * pair.pp}")
    return Recount("fails", f"DP spread x PP spread may be {least:.3f}, and here it is {pair.dp * pair.pp}")


def recount_coverage(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:
    """Recount the most cells that a pair covers, touches charged (:mod:`scheduler.verification.covering`)."""
    if not isinstance(witness, Multipliers):
        return Recount("fails", "its multipliers are missing")
    covering = Covering.of(grid, pair, witness)
    effort.take(covering.work)
    slack = covering.slack
    most = grid.cells + slack / witness.unit
    if slack < 0:
        return Recount("holds", f"at most {most:.2f} of {grid.cells} cells can be covered")
    return Recount("fails", f"with its multipliers {most:.2f} of {grid.cells} cells may be covered")


def recount_rectangles(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:
    """Recount that no rows and columns touched, domain by domain, cover all cells: charges leave few to be tried."""
    if not isinstance(witness, Multipliers):
        return Recount("fails", "its multipliers are missing")
    covering = Covering.of(grid, pair, witness)
    effort.take(covering.work)
    if (slack := covering.slack) < 0:
        return Recount("holds", f"at most {grid.cells + slack / witness.unit:.2f} of {grid.cells} cells can be covered")
    if covering.fits(slack, effort):
        return Recount("fails", f"rectangles cover all {grid.cells} cells")
    return Recount("holds", f"no choice of rectangles covers all {grid.cells} cells")


def recount_patterns(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:
    """Recount the most cells that a pair covers, where widths must add up row by row and heights column by column
    (:mod:`scheduler.verification.pattern_covering`).
    """
    if not isinstance(witness, PatternPrices):
        return Recount("fails", "its prices are missing")
    if (len(witness.widths), len(witness.heights)) != (grid.columns, grid.rows):
        return Recount("fails", f"its weights are not those of {grid.columns} widths and {grid.rows} heights")
    slack = pattern_slack(grid, pair, witness, effort)
    most = grid.cells + slack / witness.unit
    if slack < 0:
        return Recount("holds", f"at most {most:.2f} of {grid.cells} cells can be covered by widths that add up")
    return Recount("fails", f"with its prices {most:.2f} of {grid.cells} cells may be covered")


def recount_groups(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:  # noqa: ARG001
    """Recount a spread of 2: no groups of domains without a common line (:mod:`scheduler.verification.column_groups`).

    What a search has refuted may be beyond it: then it is left open.
    """
    for family, own, other, line, lines in (
        ("DP", pair.dp, pair.pp, grid.rows, grid.columns),
        ("PP", pair.pp, pair.dp, grid.columns, grid.rows),
    ):
        if own != 2:
            continue
        with suppress(TooMuch):
            if not can_be_covered(line, lines, grid.capacities, other, effort):
                across = "PP" if family == "DP" else "DP"
                said = f"with {family} spread 2 the domains fall into sets that have no {family} group in common"
                return Recount("holds", f"{said}, and no such sets leave every {across} group on {other} domains")
    return Recount("not told", "not checked without a solver")


KINDS: Mapping[str, RecountKind] = {
    "edges": recount_edges,
    "product": recount_product,
    "coverage": recount_coverage,
    "rectangles": recount_rectangles,
    "patterns": recount_patterns,
    "components": recount_groups,
    "shapes": recount_groups,
    "skeleton": recount_groups,
}
"""Kinds of refutation, and what recounts them; the last three come from searches, and may need a solver."""


def recount(grid: CountedGrid, pair: Spread, by: str, witness: Witness | None, effort: Effort | None = None) -> Recount:
    """Recount a refutation of any kind; one that is not known is left open, as a later version may have more.

    :param effort: what all refutations of a certificate may take; ``None`` = this one is alone.
    """
    if by not in KINDS:
        return Recount("not told", f"the kind {by!r} is not known")
    effort = effort or Effort()
    effort.begin()
    try:
        effort.take(CALL + ROOT * len(grid.capacities))
        return KINDS[by](grid, pair, witness, effort)
    except TooMuch:
        return Recount("not told", "too large to be recounted without a solver")
