"""What a repair answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler.objective import Evaluation
from topology.cluster import IntArray

Prefer = Literal["moves", "objective"]
"""What comes first: the fewest moved cells, or the best objective."""


@dataclass(frozen=True, slots=True)
class Move:
    """One cell that changes its node.

    :param row: row of the cell: which PP group.
    :param column: column of the cell: which stage.
    :param node_rank: rank of the cell among the job's nodes; it does not change.
    :param source: index of the node it leaves.
    :param target: index of the node it goes to.
    """

    row: int
    column: int
    node_rank: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Repair:
    """A placement after a repair, and what is known of it.

    :param nodes: shape [rows, columns], index of the node of each cell.
    :param moves: the cells that change their node, by rank.
    :param before: worth of the placement before nodes were lost.
    :param after: worth of the placement now.
    :param prefer: the order that was asked for.
    :param fewest_moves: certified: no valid placement moves fewer cells than this (with the best objective known, when
        the objective comes first).
    :param objective_bound: certified: no valid placement has a smaller objective (of those with as few moves, when
        moves come first).
    :param notes: what a user should know, one sentence each.
    :param solve_seconds: wall time of the repair.
    """

    nodes: IntArray
    moves: tuple[Move, ...]
    before: Evaluation
    after: Evaluation
    prefer: Prefer
    fewest_moves: int
    objective_bound: float
    notes: tuple[str, ...] = ()
    solve_seconds: float = 0.0

    @property
    def moves_proved(self) -> bool:
        """Whether fewer moved cells are impossible."""
        return self.fewest_moves >= len(self.moves)

    @property
    def objective_proved(self) -> bool:
        """Whether a better objective is impossible."""
        return self.objective_bound >= self.after.objective - 1e-9
