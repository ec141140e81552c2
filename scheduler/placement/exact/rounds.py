"""Width profiles in rounds: each open pair gets a slice of time, two searches side by side, then longer slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from scheduler.placement.exact import sentences
from scheduler.placement.exact.cpsat import Answer
from scheduler.placement.exact.walk import View, Walk
from scheduler.placement.exact.workshop import Workshop
from scheduler.placement.types import Pair
from topology.cluster import IntArray

_NARROW, _WIDEST = 20, 40
"""Columns up to which skeleton models are quick, and up to which they are of any use."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A search for one pair on one view, to be run beside another; it is told how many seconds are left."""

    pair: Pair
    view: View
    search: Callable[..., tuple[Answer, IntArray | None]]


class Rounds:
    """The rounds of one walk."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._workshops: dict[tuple[Pair, bool], Workshop] = {}

    def run(self) -> None:
        """Skeleton searches in growing slices, open pairs from the dearest down, two at a time."""
        effort, turn = 0.25, 0
        while self._walk.left > 0 and not self._walk.lattice.proved:
            tasks = [task for pair in reversed(self._walk.lattice.open()) for task in self._tasks(pair, effort, turn)]
            if not tasks:
                return
            self._side_by_side(tasks)
            effort, turn = effort * 2, turn + 1

    def _tasks(self, pair: Pair, effort: float, turn: int) -> Iterable[_Task]:
        """What one round tries for a pair: more of its width profiles, on each narrow view."""
        narrow = [v for v in self._walk.views if v.problem.columns <= _NARROW] or [
            v for v in self._walk.views if v.problem.columns <= _WIDEST
        ]
        for view in narrow:
            yield _Task(pair, view, partial(self._workshop(view, pair).search, effort=effort, seed=turn))

    def _workshop(self, view: View, pair: Pair) -> Workshop:
        if (pair, view.transposed) not in self._workshops:
            spare = self._walk.spare_rows(view, pair)
            self._workshops[pair, view.transposed] = Workshop(view.problem, view.turn(pair), spare_rows=spare)
        return self._workshops[pair, view.transposed]

    def _side_by_side(self, tasks: Sequence[_Task]) -> None:
        """Run searches two at a time; results are taken in the order of the tasks."""
        waiting = list(tasks)
        while waiting and self._walk.left > 0:
            batch, rest = waiting[:2], waiting[2:]
            self._walk.limits.say(f"skeletons for DP spread {batch[0].pair[0]}, PP spread {batch[0].pair[1]}")
            results = self._walk.side_by_side([partial(task.search, wall=self._walk.left) for task in batch])
            for task, (answer, cells) in zip(batch, results, strict=True):
                if answer == "no":
                    self._walk.lattice.refute(task.pair, "skeleton", sentences.skeleton(task.pair))
                elif cells is not None:
                    self._walk.build(task.view, cells, "skeleton")
            still = set(self._walk.lattice.open())
            waiting = [task for task in rest if task.pair in still]
