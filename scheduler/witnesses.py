"""Witnesses: by what a refuted pair of spreads can be recounted, without a search and by other code than found it."""

from __future__ import annotations

from dataclasses import dataclass

from topology.field_types import AtLeastOne, Count
from topology.json_record import JsonRecord


@dataclass(frozen=True, slots=True)
class Multipliers(JsonRecord):
    """What a touch is charged in the bound on the cells that a pair can cover; any numbers give a valid bound."""

    row: Count
    """Charge for a row that touches a domain, in parts of a cell."""
    column: Count
    """The same for a column."""
    unit: AtLeastOne
    """Parts that a cell has: a row is charged row / unit cells."""


Witness = Multipliers
"""What a refutation carries besides its pair.  Another kind of witness joins with ``|``."""
