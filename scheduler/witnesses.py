"""Witnesses: by what a refuted pair of spreads can be recounted, without a search and by other code than found it."""

from typing import Annotated

from annotated_types import Interval

from ground.records import JsonRecord

NOT_TO_BE_CHECKED = "proved by the solver, not to be checked"
"""What is said of a claim that is proved, and that no certificate shows."""

LARGEST = 2**60  # Sums of some fit into 64 bits; a charge is a part of a line at most, some 2^57 of the 2^40 of a cell
Charge = Annotated[int, Interval(ge=0, le=LARGEST)]


class Multipliers(JsonRecord):
    """What a touch is charged in the bound on the cells that a pair can cover; any numbers give a valid bound."""

    row: Charge
    """Charge for a row that touches a domain, in parts of a cell."""
    column: Charge
    """Charge for a column that touches a domain, in parts of a cell."""
    unit: Annotated[int, Interval(ge=1, le=LARGEST)]
    """Parts that a cell has: a row is charged row / unit cells."""


class PatternPrices(JsonRecord):
    """The same, and what a width and a height weigh in a single row and column; any numbers give a valid bound."""

    row: Charge
    """Charge for a row that touches a domain, in parts of a cell."""
    column: Charge
    """Charge for a column that touches a domain, in parts of a cell."""
    widths: tuple[Charge, ...]
    """Weight of each width, in parts of a cell for each row of a domain that so many columns touch, from 1 on."""
    heights: tuple[Charge, ...]
    """Weight of each height, in parts of a cell for each column of a domain that so many rows touch, from 1 on."""
    unit: Annotated[int, Interval(ge=1, le=LARGEST)]
    """Parts that a cell has."""


Witness = Multipliers | PatternPrices
"""What a refutation carries besides its pair.  Another kind of witness joins with ``|``."""
