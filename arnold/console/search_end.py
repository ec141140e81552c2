"""How searches ended, in exit codes and for ``--verbose``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.outcome import Outcome
    from scheduler.placement.types import Status

EXIT_CODES = {"optimal": 0, "feasible": 0, "infeasible": 3}
OUT_OF_TIME = 4  # Of every other status: nothing valid was found, and nothing proved


def log_outcome(outcome: Outcome) -> None:
    """Tell `--verbose` how a search ended."""
    solver = logging.getLogger(__name__)
    solver.info("%s, %.3f s: %s", outcome.algorithm, outcome.proposal.solve_seconds, outcome.verdict)


def exit_code(*statuses: Status) -> int:
    """Return the best exit code of the statuses of some outcomes: 0 if any has a placement."""
    return min((EXIT_CODES.get(status, OUT_OF_TIME) for status in statuses), default=OUT_OF_TIME)
