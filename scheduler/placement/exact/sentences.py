"""Why a pair (S, R) cannot be had, in words that a platform engineer understands."""

from __future__ import annotations

from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair


def edge(problem: GridProblem, pair: Pair, transposed: bool) -> str:
    """Spread 1 in one family: whole groups fit into too few domains."""
    family, other = ("PP", "DP") if transposed else ("DP", "PP")
    whole = sum(c // problem.rows for c in problem.capacities)
    if whole < problem.columns:
        return (
            f"{family} spread 1 puts each of the {problem.columns} {family} groups of {problem.rows} nodes whole into "
            f"one domain, and the domains have room for {whole} whole groups only"
        )
    return (
        f"with {family} spread 1 whole {family} groups fill the domains, and {problem.columns} of them need more than "
        f"{pair[1]} domains, all of which every {other} group touches"
    )


def product(least: float, pair: Pair) -> str:
    """The product bound."""
    return (
        f"DP spread x PP spread is at least {least:.2f} on this cluster, however the cells are arranged, and "
        f"{pair[0]} x {pair[1]} = {pair[0] * pair[1]}"
    )


def coverage(problem: GridProblem, pair: Pair, covered: int) -> str:
    """The coverage and rectangle bounds."""
    return (
        f"if no DP group touches more than {pair[0]} domains and no PP group more than {pair[1]}, the domains can hold "
        f"at most {covered} of the {problem.cells} cells"
    )


def skeleton(pair: Pair) -> str:
    """An exhausted skeleton search, confirmed by a second one."""
    return (
        f"two complete searches over which domains serve which stage found none in which no DP group touches more than "
        f"{pair[0]} domains and no PP group more than {pair[1]}"
    )
