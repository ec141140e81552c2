"""The two edges of the lattice, S = 1 and R = 1, settled exactly by counting.

S = 1: every column lies in one domain, so domain k takes floor(c_k / D) columns and a row touches every domain in use:
possible iff sum floor(c_k / D) >= P, and then R is the fewest such domains.  R = 1 is the same, transposed.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.exact.problem import GridProblem
from topology.cluster import IntArray


def whole_columns(problem: GridProblem) -> IntArray | None:
    """The placement with S = 1 and the fewest domains; ``None`` when there is none.

    :returns: shape [rows, columns], the domain of each cell.
    """
    takes = np.asarray(problem.capacities) // problem.rows
    order = np.argsort(-takes, kind="stable")
    domain_of_column = np.repeat(order, takes[order])[: problem.columns]
    if len(domain_of_column) < problem.columns:
        return None
    return np.tile(domain_of_column.astype(np.int32), (problem.rows, 1))


def contiguous(problem: GridProblem) -> IntArray:
    """The cells column by column into the domains, largest first: fewest domains, and few of them in a column.

    :returns: shape [rows, columns], the domain of each cell.
    """
    domains = np.repeat(np.arange(len(problem.capacities), dtype=np.int32), problem.capacities)
    return domains[: problem.cells].reshape(problem.columns, problem.rows).T
