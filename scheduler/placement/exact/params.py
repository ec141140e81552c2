"""Tuning numbers of the exact search that several of its methods share, or that callers change: shares, efforts, sizes.

No number here, or beside a method, can make an answer wrong: what is refuted is proved and what is built is counted,
whatever they are.  They decide what is tried, in which order of effort, and hence how much is proved in the time that a
user gives.  A number that one method alone reads stands above it.

*Effort* is CP-SAT's deterministic time, about seconds on one core: a limit that is the same on every machine.  *Share*
is a part of the user's time limit.  Numbers without another source were set on the seeded instances of
``benchmarks/instances.py``, where the results are published (docs: benchmarks.md).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExactParams:
    """How much of the time each kind of method may take, and in what sizes of questions it pays."""

    # A method that finds most of what quicker ones leave: split bands, flows, shapes, components; and the search of
    # pairs where soft terms count, and single parts where stages share nodes, which leaves the rest to others
    long_share: float = 0.35
    # What is good to have: the pattern bound, first peeled bands, the search with expert groups held together, searches
    # below the job's level, corners of the front which the best pair did not need; and quick rules where the limit is
    # up, as none may be better in the end
    short_share: float = 0.05
    # First tries: the rectangle bound, components; and rules that go pod by pod, so that placements of hundreds of
    # cells take hardly longer for them
    quick_share: float = 0.02
    # Share after which no further quick rule is asked: a few seconds suffice for all on 1,000 cells
    rules_share: float = 0.2
    # Effort of all models of cells, for each second of the time limit: a small part, as what they decide comes after
    goal_effort: float = 0.03
    # Effort, for each second of the time limit, of laying a closer level anew inside the domains of the level above
    inside_effort: float = 0.1
    # The same as for all models of cells for the objective, where soft terms count
    term_effort: float = 0.3
    # Effort of breaking ties, on which nothing depends but nodes left for others
    tie_effort: float = 0.02
    # Soft terms up to which each choice of them is tried as hard constraints: eight choices
    held_terms: int = 3
    # Cells up to which a gang goes the short way, where a caller reads the placement alone: above that the tables of
    # quick seating (fills x lines x domains) take longer than the rest
    plain_cells: int = 1024
    # Cells from which models with a number of rows, and skeletons, get slow and find nothing that bands do not
    many_cells: int = 3000
    # Choices (units x sites) up to which all cells are put into one model: built and searched in tenths of a second
    cell_choices: int = 3_000
    # Columns up to which components are listed and skeleton models are quick; wider views are searched only where no
    # view is narrow.  Up to twice as many skeleton models are of any use, and bands are split: with more there are
    # mostly few rows, and each that is shared counts
    narrow_columns: int = 20
    # Array elements of the knapsack over broader domains, for each family: hundredths of a second
    touch_table: float = 3e7
    # Effort of each question with how few touches a pod holds its rows: at first, and for those that this leaves open
    pod_efforts: tuple[float, ...] = (0.05, 0.2, 1.0)


DEFAULTS = ExactParams()  # The numbers with which every published result was made
