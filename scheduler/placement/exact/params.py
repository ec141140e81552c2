"""Tuning numbers of the exact search: how long each method may run, in what sizes it pays, how hard it tries.

No number here can make an answer wrong: what is refuted is proved and what is built is counted, whatever they are.
They decide what is tried, in which order of effort, and hence how much is proved in the time that a user gives.

*Effort* is CP-SAT's deterministic time, about seconds on one core: a limit that is the same on every machine.  *Share*
is a part of the user's time limit, by the wall clock.  Numbers without another source were set on the seeded instances
of ``benchmarks/instances.py``, where the results are published (docs: benchmarks.md).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TabuEffort:
    """How long a tabu search for bands goes on."""

    partitions: int  # partitions of the columns that are searched, those with the fewest cells without room first
    steps: int  # swaps in each of them


@dataclass(frozen=True, slots=True)
class FlowEffort:
    """How long searches for interval flows go on."""

    programs: int  # linear programs of each, so that the limit is the same on every machine
    roundings: int  # times that whole rows are looked for in each: where there are none other intervals are better
    seeds: int  # rounds over all open pairs, each with another seed


@dataclass(frozen=True, slots=True)
class PeelEffort:
    """How long flows beside peeled bands are looked for."""

    flows: int  # of each pair, two beside each choice of bands
    programs: int  # linear programs of each flow
    share: float  # part of the time limit that they may take for all pairs
    least: int  # domains of a band from which they are looked for


@dataclass(frozen=True, slots=True)
class SkeletonAttempt:
    """One way to look for a skeleton."""

    share: float  # part of the effort that a skeleton may take
    linearization: int  # CP-SAT's linearization level, 0 = no linear program, 2 = all of it
    light: bool  # little presolve


@dataclass(frozen=True, slots=True)
class ExactParams:
    """All tuning numbers of the algorithm ``exact``, in the order in which the search comes to them."""

    # Cells up to which a gang goes the short way, where a caller reads the placement alone: above that the tables of
    # quick seating (fills x lines x domains) take longer than the rest
    plain_cells: int = 1024
    # Multipliers on each axis of the coverage bound's table besides zero, spaced geometrically
    coverage_points: int = 24
    # Least multiplier but zero, in cells for one row touched: below it a touch is as good as free
    coverage_least: float = 0.02
    # Times that the coverage bound zooms in on its best multipliers before a pair counts as not refuted
    coverage_zooms: int = 2
    # Multipliers on each axis of a zoom, so that each is about four times as fine as the one before
    coverage_zoom_points: int = 9
    # Partitions of the columns that a tabu search looks at, the most even first: all of them up to P = 16
    tabu_listed: int = 240
    # Swaps that a tabu search compares at once, in all its partitions: arrays that stay in a processor's cache
    tabu_elements: int = 30_000
    # First try of a pair: bands that can be had at all mostly take a handful of swaps, and this takes 1-2 ms
    quick_tabu: TabuEffort = TabuEffort(partitions=8, steps=8)
    # Counts looked at before the packing of domains into groups is left: some hundredths of a second; 500 mostly do
    group_nodes: int = 20_000
    # Part of the free nodes in use from which a cluster is full: whole rows of bands waste more than is to spare, and
    # bands are split
    full: float = 0.97
    # Cells up to which bands are not split all the same: components settled 12 of 13 such grids
    few_cells: int = 256
    # Cells of slack of the coverage bound up to which regrets are tried: with 6 on 50 domains their table takes 0.03 s,
    # with 13 on 124 domains 0.4 s
    regret_slack: float = 8.0
    regret_entries: int = 20_000_000  # Of all tables of one pair together
    # Columns up to which bands are split: with more there are mostly few rows, and each that is shared counts
    split_columns: int = 40
    # Split bands: partitions of the columns for each number of groups, the most even first, and how many domains more
    # than suffice are in use
    split_partitions: int = 6
    split_domains: int = 2
    split_plans: int = 24  # Choices of groups that are searched, those that touch fewest rows
    # Swaps of each of these, then of the best: on 50 domains a quarter of a millisecond each, and up to 250 of them
    split_steps: tuple[tuple[int, int], ...] = ((20, 24), (100, 6), (300, 2))
    split_near: float = 0.005  # Part of the cells that may be without room after each of these rounds
    # Array elements up to which the rectangle table is made before any sweep: 0.4 s by ``table_speed``
    quick_table: float = 1e8
    # Array elements of the rectangle table per second, measured on one core of a 2.x GHz server
    table_speed: float = 2.5e8
    # Cells from which models with a number of rows, and width profiles, get slow and find nothing that bands do not
    many_cells: int = 3000
    # Rows or columns up to which prices of patterns are looked for: a knapsack takes their square for each segment
    pattern_lines: int = 300
    pattern_rounds: int = 80  # Linear programs for one pair, milliseconds each; those that refute took up to 60
    pattern_share: float = 0.1  # Part of the time limit that these may take
    # Shapes, and ways to cut a line, up to which choices of shapes are looked at: on 48 x 12 cells choices of 990
    # shapes had a placement
    pattern_shapes: int = 1000
    pattern_cuts: int = 5000
    # Part of the time limit that choices of shapes may take: on 62 x 12 cells they take four seconds
    shape_share: float = 0.5
    # Effort of one choice at first: most are decided in a tenth of it, some that have a placement take 1.1
    choice_effort: float = 1.2
    shape_effort: float = 2.0  # Effort of one choice in the end: most that have a placement, or none, are decided in it
    # Sets of domains of a column times those of a row up to which they are compared: with more a choice takes seconds
    crossing_sets: int = 400_000
    # The same where a spread is 2, and the model of the columns decides most choices in a third of a second
    crossing_sets_of_two: int = 20_000
    # Sets of a column, or of a row, up to which they are looked at alone first: milliseconds, which refute most choices
    alone_sets: int = 5000
    # Columns of a view up to which components with S = 2 are listed: with more they have columns in parallel, and too
    # many sets of domains have little waste
    component_columns: int = 20
    component_share: float = 0.3  # Part of the time limit that packing components may take
    quick_component_share: float = 0.02  # The same of a first try, with the least effort
    component_sets: int = 100_000  # Sets of domains that may be listed, as numpy does in tenths of a second
    component_nodes: int = 20_000  # Nodes of the search for packings, each about a tenth of a millisecond
    # Packings looked at in one turn, most of which take a millisecond, as they share components with others
    component_looks: int = 240
    component_rounding: float = 0.1  # Effort of whole rows for one: where it takes longer another packing may do
    component_trees: int = 8  # Domains of a tree up to which its least row touches take milliseconds
    # Widths and heights of a component's domains that are compared at a time, turn by turn: milliseconds, then a second
    component_states: tuple[int, ...] = (20_000, 200_000, 1_000_000)
    # Array elements that the least row touches of a tree may take, exactly, for each of those: as long as these take
    tree_elements: int = 100
    # Graphs that are looked for with given widths and heights, for each thousand of those: tenths of a millisecond
    component_graphs: int = 5
    # Columns up to which interval flows are looked for: with 150 of them a search for two segments took seconds
    flow_columns: int = 16
    # Intervals of all different capacities up to which interval flows are looked for: seconds for models of that size
    flow_intervals: int = 6000
    # Part of the time limit that split bands, short flows and long flows may take each: width profiles come after them,
    # and refute as well, in some seconds on a few hundred cells
    construction_share: float = 0.35
    many_cells_share: float = 0.2  # The same above ``many_cells``, where they hardly ever find anything
    # Intervals up to which flows come before the longer methods, and how many: two segments on eight columns, with
    # domains of twenty capacities. On gangs of 16 to 128 nodes they build nearly all that quick bands do not
    first_intervals: int = 400
    first_flows: FlowEffort = FlowEffort(programs=40, roundings=1, seeds=1)
    # Flows: on 150 x 8 cells a dive that succeeds takes 15 to 18 linear programs, a hundredth of a second each
    quick_flows: FlowEffort = FlowEffort(programs=40, roundings=1, seeds=2)
    # Of 14 instances where no short dive succeeded one of these did in four. One of twelve seeds mostly finds what
    # is there, of sixty the first twenty all there was
    long_flows: FlowEffort = FlowEffort(programs=200, roundings=3, seeds=20)
    # Peeled bands: domains of one up to which all sets of them are listed, and how many sets times widths, tenths of a
    # second: on loose clusters each set has many widths
    peel_domains: int = 4
    peel_sets: int = 100_000
    peel_bands: int = 1000  # Bands that are put together, those that leave most to the others
    peel_kept: int = 100  # Choices of as many bands that are kept, for each number of bands
    # Segments of a row beside the bands: each of these was the first to build some pair
    peel_parts: tuple[int, ...] = (2, 3, 4)
    # First tries, before flows over all columns: of 31 pairs that peeled bands built most took a tenth of a second
    quick_peel: PeelEffort = PeelEffort(flows=16, programs=30, share=0.05, least=1)
    # Offsets d, the largest useful ones, from which weights of column covers are made: each adds four constraints
    cover_offsets: int = 12
    # Numerators m of the rounded weights: 1 counts domains, 2 and 3 see a domain that does half or a third of it
    cover_scales: tuple[int, ...] = (1, 2, 3)
    # Domains that enter the lexicographic order of columns: its weights are powers of two, and small integers
    ordered_domains: int = 20
    # Columns up to which skeleton models are quick; wider views are searched only where no view is narrow
    narrow_columns: int = 20
    widest_columns: int = 40  # Columns up to which skeleton models are of any use
    first_effort: float = 0.25  # Effort of the first round over all open pairs, in the unit of ``profiles_per_effort``
    # Factor on the effort from round to round: all rounds before one cost together no more than it
    effort_growth: float = 2.0
    # New profiles looked at for each unit of a round's effort: eight in the first round, with an effort of 0.25 each.
    # Of 18 instances left open before, such looks settled eight, shorter ones five
    profiles_per_effort: int = 32
    # Effort of finding the next profile, for each unit of the round's: hardly ever needed, they take hundredths
    profile_effort: float = 4.0
    retry_effort: float = 4.0  # Effort for a profile that was left undecided, for each unit of the round's
    # Effort of confirming one verdict, for each unit of the round's: a proof that is nearly there should not fail
    confirm_effort: float = 16.0
    confirm_least: float = 1.0  # Effort added to that, so that verdicts of the first round are confirmed in it
    # How a skeleton is looked for, one way after another: by search alone, with a linear program, with presolve. They
    # succeed on different instances. Verdicts are confirmed in the opposite order
    skeleton_attempts: tuple[SkeletonAttempt, ...] = (
        SkeletonAttempt(share=0.2, linearization=0, light=True),
        SkeletonAttempt(share=1.0, linearization=2, light=True),
        SkeletonAttempt(share=1.0, linearization=1, light=False),
    )
    # Skeletons that may fail to be realised, each with a row asked for, before the profile is left undecided
    skeletons_per_profile: int = 12
    # Effort of the integer program that makes whole rows of fractions: little, for another skeleton may do as well
    rounding_effort: float = 0.5
    # Sets of domains kept for column generation; where there are more a skeleton is realised with some of them
    most_covers: int = 20_000
    pricing_rounds: int = 60  # Rounds of pricing before column generation gives up
    # Patterns that one round of pricing adds, the cheapest: a few make the prices settle in fewer rounds
    patterns_per_round: int = 24
    # Integer price of the dearest cell of a domain: fine enough to tell rows apart, and small integers for CP-SAT
    price_unit: int = 1000
    # Array elements of the knapsack over broader domains, for each family: hundredths of a second
    touch_table: float = 3e7
    # Seconds for each question whether a pod holds its rows at a pair: at first, and for those that this leaves open
    pod_seconds: tuple[float, ...] = (0.1, 1.0)
    band_choices: int = 600  # Racks times bands up to which they are made: to presolve more takes seconds
    band_effort: float = 0.3  # Effort of one model of bands in two levels
    band_share: float = 0.1  # Part of the time limit that these may take for one pair of the level above
    # Choices (units x sites) up to which all cells are put into one model: built and searched in tenths of a second
    cell_choices: int = 3_000
    # Effort of all models of cells, for each second of the time limit: a small part, as what they decide comes after
    goal_effort: float = 0.03
    # The same for the objective, where soft terms count
    term_effort: float = 0.3
    # Effort of laying one part of a large placement anew: as long as most of them take to be proved least
    part_effort: float = 0.02
    part_cost: float = 0.05  # Effort that making the model of a part is counted as
    tie_effort: float = 0.02  # Effort of breaking ties after that: nothing depends on it but nodes left for others
    fruitless_parts: int = 40  # Parts in turn that change nothing, after which a goal is left as it is
    # Part of the time that the search of pairs has where soft terms count: the rest is for these
    pair_share: float = 0.4
    # Part of the time left that the model of repairs has where stages share nodes; the rest is for parts
    shared_share: float = 0.7
    # Part of the time limit that the search with expert groups held together may take
    expert_share: float = 0.1
    # Soft terms up to which each choice of them is tried as hard constraints: eight choices
    held_terms: int = 3
    seating_share: float = 0.05  # Part of the time limit that exact searches below the job's level may use
    # Part of the time limit after which no further quick rule is asked: a few seconds suffice for all on 1,000 cells
    rules_share: float = 0.2
    rules_least: float = 0.05  # The same where the limit is up: they are still asked, as none may be better in the end
    # The same for rules that go pod by pod, so that placements of hundreds of cells take hardly longer for them
    pod_rules_share: float = 0.02
    # Part of the time limit that corners of the Pareto front may take which the best pair did not need
    front_share: float = 0.05
    front_least: float = 0.01  # The same where the limit is up
    # Seconds for the search of one threshold of slowdown, however little time is left: bounds and quick bands
    least_seconds: float = 0.05


DEFAULTS = ExactParams()  # The numbers with which every published result was made
