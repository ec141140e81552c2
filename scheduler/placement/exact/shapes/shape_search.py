"""Shapes one choice after another: where the pattern bound leaves few, every choice of shapes is decided by itself.

With the numbers of columns and rows of every domain given, :mod:`scheduler.placement.exact.shapes.crossing_sets`
decides in hundredths of a second on few domains, and for R = 2 a model of the columns in about one.  So many choices
are looked at, and one of them mostly has a placement where there is one.  When none is left and each was excluded, by
two searches each, the pair is refuted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.exact.pairs.pair_search import GridView, PairSearch
from scheduler.placement.exact.profiles.realise import realise
from scheduler.placement.exact.profiles.skeleton import SkeletonModel
from scheduler.placement.exact.shapes.crossing_sets import CrossingSets, Shape
from scheduler.placement.exact.shapes.shape_counts import ShapeCounts
from scheduler.placement.types import Pair
from scheduler.work_clock import clock
from topology.cluster import IntArray

_OF_A_TURN = 4  # Choices: some take hundredths of a second and others seconds, so that two would wait for each other
_SEEDS_OF_A_SEARCH = 10_000  # Between the search of a verdict and its confirmation


def decide_shapes(search: PairSearch) -> None:
    """Decide choices of shapes by the sets of domains that columns and rows touch."""
    _decide_in_turn(search, search.params.crossing_share, two=False)


def decide_shapes_of_two(search: PairSearch) -> None:
    """Decide choices of shapes where a spread is 2, by a model of the columns."""
    _decide_in_turn(search, search.params.shape_share, two=True)


def _decide_in_turn(search: PairSearch, share: float, *, two: bool) -> None:
    """Decide choices of shapes of the open pairs in turn, a few choices at a time."""
    end = search.end_of(share)
    views = {pair: _view_of_columns(search, pair) for pair in search.lattice.open() if _few_shapes(search, pair)}
    waiting = [ShapeChoices(search, pair, view) for pair, view in views.items() if (view is not None) == two]
    while waiting and clock() < end:
        still = set(search.lattice.open())
        for choices in [one for one in waiting if one.pair in still]:
            search.say(f"choices of shapes for DP spread {choices.pair[0]}, PP spread {choices.pair[1]}")
            choices.decide(end)
        waiting = [one for one in waiting if not one.over and one.pair in search.lattice.open()]


def _few_shapes(search: PairSearch, pair: Pair) -> bool:
    bound = search.patterns.get(pair)
    return bound is not None and bound.number_of_shapes <= search.params.pattern_shapes


def _view_of_columns(search: PairSearch, pair: Pair) -> GridView | None:
    """Return the view in which R is 2 and columns are few, so that a model of them is a placement; mostly none is."""
    views = [view for view in search.views if view.problem.columns <= search.params.narrow_columns]
    return next((view for view in views if view.turn(pair)[1] == 2 < view.turn(pair)[0]), None)


class ShapeChoices:
    """The choices of shapes of one pair; ``view``: where R = 2, and its columns are looked for."""

    def __init__(self, search: PairSearch, pair: Pair, view: GridView | None) -> None:
        self.pair = pair
        self.used_up = False  # Whether there is none left to look at
        self._search, self._params = search, search.params
        self._counts = ShapeCounts(search.problem, pair, search.patterns[pair], patterns=self._params.pattern_cuts)
        self._skeleton: tuple[GridView, SkeletonModel] | None = None
        if view is not None:
            model = SkeletonModel(view.problem, view.turn(pair), spare_rows=view.problem.rows, params=self._params)
            self._skeleton = view, model
        self._looked_at: list[list[Shape]] = []
        self._again: list[list[Shape]] = []  # left undecided with little effort
        self._undecided = False  # Whether one was left so with all of it

    @property
    def over(self) -> bool:
        """Whether no choice is left to look at, or to look at again."""
        return self.used_up and not self._again

    def decide(self, end: float) -> None:
        """Look at some more choices, two at once: new ones with little effort, and once there are none at the rest.

        Where one choice takes long another one mostly does not, and one that has a placement is enough.
        """
        again = self.used_up
        if again:
            choices, self._again = self._again[:_OF_A_TURN], self._again[_OF_A_TURN:]
        else:
            choices = self._new_choices(end)
        effort = self._effort if again else self._params.choice_effort
        found = self._search.side_by_side([partial(self._decide, shapes, end, effort) for shapes in choices])
        for shapes, (answer, cells) in zip(choices, found, strict=True):
            if cells is not None:
                self._search.lattice.build(cells, "shapes")
            elif answer != "no" and again:
                self._undecided = True
            elif answer != "no":
                self._again.append(shapes)
        if self.over and not self._undecided and self._confirmed(end):
            sentence = (
                f"two complete searches went through all numbers of DP and PP groups that the domains may touch, and "
                f"found none with DP groups on at most {self.pair[0]} domains and PP groups on at most {self.pair[1]}"
            )
            self._search.lattice.refute(self.pair, "shapes", sentence)

    def _new_choices(self, end: float) -> list[list[Shape]]:
        choices: list[list[Shape]] = []
        while len(choices) < _OF_A_TURN and not self.used_up:
            number = len(self._looked_at)
            # every other one at random: on some clusters these have placements, on others those that come anyway
            draw = replace(self._limit(end, self._effort, number, light=True), random=number % 2 == 1)
            answer, shapes = self._counts.next(draw)
            self.used_up = answer != "yes"
            self._undecided |= answer == "unknown"
            if shapes is not None:
                choices.append(shapes)
                self._looked_at.append(shapes)
        return choices

    @property
    def _effort(self) -> float:
        """Most effort of one choice."""
        return self._params.crossing_effort if self._skeleton is None else self._params.shape_effort

    @staticmethod
    def _limit(end: float, effort: float, seed: int, *, light: bool) -> Slice:
        return Slice(effort, end - clock(), seed, light=light)

    def _decide(
        self, shapes: Sequence[Shape], end: float, effort: float, seed: int = 0, *, light: bool = False
    ) -> tuple[Answer, IntArray | None]:
        """Return ``"no"`` where no placement has the shapes, or the domain of each cell, shape [rows, columns]."""
        if clock() >= end:
            return "unknown", None
        problem, limit = self._search.problem, self._limit(end, effort, seed, light=light)
        most = self._params.crossing_sets if self._skeleton is None else self._params.crossing_sets_of_two
        alone = self._params.alone_sets
        sets = CrossingSets(problem, self.pair, shapes, most=most, alone=alone)
        if not sets.few and self._skeleton is None:
            self.used_up = True  # other choices have as many
        if sets.refuted_alone(limit):
            return "no", None
        answer, serves = sets.find(limit) if sets.few else ("unknown", None)
        if serves is not None:
            rounding = Slice(self._params.rounding_effort, end - clock(), seed)
            cells = realise(problem, serves, pp=self.pair[1], limit=rounding, params=self._params).cells
            return ("unknown" if cells is None else "yes"), cells
        if answer == "no" or self._skeleton is None:
            return answer, None
        view, model = self._skeleton
        answer, skeleton = model.find_shapes(limit, [view.turn(shape) for shape in shapes])
        return answer, None if skeleton is None or skeleton.cells is None else view.back(skeleton.cells)

    def _confirmed(self, end: float) -> bool:
        """Return whether a second search says "no" to every choice, and to there being another."""
        if self._counts.next(self._limit(end, self._effort, _SEEDS_OF_A_SEARCH, light=False))[0] != "no":
            return False
        again = [
            partial(self._decide, shapes, end, self._effort, _SEEDS_OF_A_SEARCH, light=True)
            for shapes in self._looked_at
        ]
        return all(answer == "no" for answer, _ in self._search.side_by_side(again))
