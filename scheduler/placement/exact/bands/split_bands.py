"""Split bands: fewer bands than R, some of which are cut into more parts in some of their rows.

R bands have S R slots, and rows without an end in common: more domains than that have no place in them, nor have many
sizes.  So the columns are cut into b < R bands.  In its *split rows* a band lies in two domains side by side, or two
bands lie in three.  A column then touches the wide domains of its band and those of its own part, at most S; a group of
bands with y slots in each part has y slots more than S for each band.

The rows of a group can be put in any order.  So split rows of different groups are laid apart, and where there are at
most (R - b) D of them in all a row touches at most R domains.  Domains are laid row after row, and where two share a
row that counts like a split row.  With R - b = 1 no row can be both: parts then hold whole rows of a domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from math import inf

import numpy as np

from scheduler.placement.exact.bands.column_bands import partitions
from scheduler.placement.exact.bands.split_swaps import BANDS, CUTS, SplitGroup, SplitSwaps
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import IntArray

HeldCells = Sequence[tuple[int, int]]
"""Domains, and the cells of each."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The groups of columns, and how many rows they touch at least with the largest domains in the widest slots."""

    touches: int
    groups: tuple[SplitGroup, ...]

    @property
    def bands(self) -> int:
        """Parts of a row that is split nowhere."""
        return sum(len(group.bands) for group in self.groups)

    def shared(self, *, whole: bool) -> int:
        """Return rows that two domains may share at most, one more where wide domains begin."""
        parts = [(width, group.wide) for group in self.groups for width in group.bands]
        if not whole:
            parts += [(width, group.narrow) for group in self.groups for width in group.cuts]
        return sum(slots for width, slots in parts if width > 1)


_NARROW = 2  # Columns of a band up to which it is not split together with another

_PLAN_SECONDS = 2e-5  # Of work: to make a plan


def split_bands(
    problem: GridProblem, pair: Pair, *, seed: int, params: ExactParams = DEFAULTS, end: float = inf
) -> IntArray | None:
    """Return a placement of split bands; shape [rows, columns], the domain of each cell.

    :param end: when to stop, by ``scheduler.work_clock``.
    :returns: ``None`` when none was found, which proves nothing.
    """
    for joined in (False, True):
        plans = enumerate(_plans(problem, pair, params, joined=joined))
        left: Iterator[tuple[SplitPlan, SplitSwaps]] = (
            (plan, _search(problem, pair, plan, np.random.default_rng([seed, i]))) for i, plan in plans
        )
        for steps, kept in params.split_steps:
            near = []
            for plan, search in islice(left, kept):
                if clock() > end:
                    return None
                if search.run(steps):
                    cells = lay_split(problem, plan.groups, search, whole=_whole(plan, pair))
                    if problem.pair_of(cells)[1] <= pair[1]:
                        return cells
                    search.tighten()
                    near.append((plan, search))
                # what is far off after some swaps stays so: its groups ask for other sizes than there are
                elif search.best <= params.split_near * problem.cells:
                    near.append((plan, search))
            left = iter(sorted(near, key=lambda one: one[1].best))
    return None


def _whole(plan: SplitPlan, pair: Pair) -> bool:
    """Return whether split rows must not be shared."""
    return pair[1] - plan.bands == 1


def _search(problem: GridProblem, pair: Pair, plan: SplitPlan, rng: np.random.Generator) -> SplitSwaps:
    """Return the search for a plan; shared rows are allowed for, as far as there is room for them."""
    shared = plan.shared(whole=_whole(plan, pair))
    room = pair[1] * problem.rows - plan.touches
    most = (pair[1] - plan.bands) * problem.rows - min(shared, room) // 2
    return SplitSwaps(problem.rows, plan.groups, problem.capacities, most_split=most, whole=_whole(plan, pair), rng=rng)


def _plans(problem: GridProblem, pair: Pair, params: ExactParams, *, joined: bool) -> list[SplitPlan]:
    """Return the plans that touch fewest rows, of those that may touch no more than the pair allows.

    :param joined: whether some bands are split together.
    """
    dp, pp = pair
    # cells of the largest domains, so many of them; the last ones are partly used
    held = [0, *(min(problem.cells, total) for total in accumulate(problem.capacities))]
    enough = held.index(problem.cells)
    found: dict[tuple[SplitGroup, ...], SplitPlan] = {}
    for count in range(-(-pp // 2), pp):
        # more slots than S each, and fewer than twice as many
        last = min(len(problem.capacities), enough + params.split_domains, (2 * dp - 1) * count)
        for domains in range(max(enough, dp * count + 1), last + 1):
            for widths in islice(partitions(problem.columns, count), params.split_partitions):
                extra = domains - dp * count
                for groups in (_joined if joined else _groups)(widths, dp, extra):
                    if groups not in found:
                        found[groups] = SplitPlan(_least_touches(held, groups), groups)
    spend(_PLAN_SECONDS * len(found))
    fitting = [plan for plan in found.values() if plan.touches <= pp * problem.rows]
    return sorted(fitting, key=lambda plan: plan.touches)[: params.split_plans]


def _groups(widths: Sequence[int], dp: int, extra: int) -> Iterator[tuple[SplitGroup, ...]]:
    """Yield groups of columns of given widths with so many slots more than S each: the first or the last are split."""
    several = sum(width > 1 for width in widths)
    for count in range(1, several + 1):
        # columns of one do not split; widths descend
        for first in {0, several - count}:
            if more := _shares(extra, len(widths), range(first, first + count), dp):
                yield tuple(_group((width,), dp, y) for width, y in zip(widths, more, strict=True))


def _joined(widths: Sequence[int], dp: int, extra: int) -> Iterator[tuple[SplitGroup, ...]]:
    """Yield the same with one or two pairs of equal widths split together, and some of the others."""
    for pairs in (1, 2):
        # bands of two columns would have parts of one and two: hardly narrower than they are
        left, together = list(widths), list[int]()
        for width in sorted({width for width in widths if width > _NARROW}, reverse=True):
            while left.count(width) > 1 and len(together) < pairs:
                together.append(width)
                left.remove(width)
                left.remove(width)
        if len(together) < pairs:
            return
        several = sum(width > 1 for width in left)
        for narrow in range(1, dp):
            joined = tuple(_group((width, width), dp, narrow) for width in together)
            rest = extra - pairs * narrow
            if rest == 0:
                yield (*joined, *(_group((width,), dp, 0) for width in left))
            for first in range(several):
                for last in range(first + 1, several + 1):
                    if more := _shares(rest, len(left), range(first, last), dp):
                        yield (*joined, *(_group((width,), dp, y) for width, y in zip(left, more, strict=True)))


def _shares(extra: int, size: int, some: range, dp: int) -> list[int]:
    """Return narrow slots of each group, so many shared out evenly to some; nothing where that cannot be."""
    if not len(some) <= extra <= (dp - 1) * len(some):
        return []
    more = [0] * size
    for i, at in enumerate(some):
        more[at] = (extra + len(some) - 1 - i) // len(some)
    return more


@lru_cache(maxsize=4096)
def _group(bands: tuple[int, ...], dp: int, narrow: int) -> SplitGroup:
    """Return a group that is split so that its parts have so many slots, and one not split with 0."""
    cuts: tuple[int, ...] = ()
    if narrow and len(bands) == 1:
        cuts = ((bands[0] + 1) // 2, bands[0] // 2)
    elif narrow:
        left, right = (-(-band * 2 // 3) for band in bands)
        cuts = (left, sum(bands) - left - right, right)
    return SplitGroup(bands, cuts, dp - narrow, narrow)


def _least_touches(held: Sequence[int], groups: Sequence[SplitGroup]) -> int:
    """Return a lower bound on the rows touched: the largest domains in the widest slots.

    :param held: cells of the largest domains, by how many they are.
    """
    slots: Counter[int] = Counter()
    for group in groups:
        for width in group.bands:
            slots[width] += group.wide
        for width in group.cuts:
            slots[width] += group.narrow
    touches, first = 0.0, 0
    for width in sorted(slots, reverse=True):
        last = min(first + slots[width], len(held) - 1)
        touches += (held[last] - held[first]) / width
        first = last
    return int(touches)


def lay_split(problem: GridProblem, groups: Sequence[SplitGroup], search: SplitSwaps, *, whole: bool) -> IntArray:
    """Return the domain of each cell: rows of a group that touch most where the other groups touch fewest."""
    split = search.split_rows()
    blocks = [
        _lay_group(problem.rows, group, search.inside(i), int(split[i]), whole=whole) for i, group in enumerate(groups)
    ]
    touches = [(np.diff(np.sort(block, axis=1), axis=1) != 0).sum(axis=1) for block in blocks]
    first = [0, *accumulate(group.width for group in groups)]
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    touched = np.zeros(problem.rows, dtype=np.int64)
    for i in sorted(range(len(blocks)), key=lambda i: -int(touches[i].max())):
        fewest, most = np.argsort(touched, kind="stable"), np.argsort(-touches[i], kind="stable")
        cells[fewest, first[i] : first[i + 1]] = blocks[i][most]
        touched[fewest] += touches[i][most]
    return cells


def _lay_group(rows: int, group: SplitGroup, parts: Sequence[HeldCells], split: int, *, whole: bool) -> IntArray:
    """Return the domain of each cell of a group, shape [rows, width]: split rows first."""
    cells = np.full((rows, group.width), -1, dtype=np.int32)
    # the cuts in split rows, then the bands in what these leave
    for split_part, numbers, widths in ((True, CUTS, group.cuts), (False, BANDS, group.bands)):
        for part, width, at in zip(numbers, widths, accumulate(widths, initial=0), strict=False):
            region = cells[: split if split_part else rows, at : at + width]
            free = region < 0
            room = int(free.sum())
            spare = rows * width if split_part and whole else max(0, sum(held for _, held in parts[part]) - room)
            begun = 0 if split_part else int(free[:split].sum())
            laid = _in_turn(parts[part], width, spare, begun)[:room]
            free[free] = np.arange(room) < len(laid)
            region[free] = laid
    return cells


def _in_turn(domains: HeldCells, width: int, spare: int, above: int) -> IntArray:
    """Return the domain of each cell, one domain after another, such that few rows are shared.

    After each comes, if there is one, a domain that ends with a row.  While there are cells to spare a domain leaves
    out what would share a row.

    :param above: cells that go to rows that others have begun.
    """
    waiting, laid, length = list(domains), [], -above
    while waiting:
        ends = [i for i, (_, held) in enumerate(waiting) if (length + held) % width == 0]
        domain, held = waiting.pop(ends[0] if ends else 0)
        beyond = (length + held) % width
        if beyond <= min(spare, held):
            held, spare = held - beyond, spare - beyond
        laid.append(np.full(held, domain, dtype=np.int32))
        length += held
    return np.concatenate(laid) if laid else np.empty(0, dtype=np.int32)
