"""Rivals: whatever would be better than the answer must be ruled out, on all nodes that the job may use.

Better is what has a smaller objective; with types of GPU, a smaller objective for the speed there; and where slow nodes
have a price, what has a shorter step.  So every choice of nodes, and every slowdown up to which they may be used, is a
question of its own: what do the pairs that are not ruled out on these nodes cost at least?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from scheduler.certificates.certificate import Certificate
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, slowest_in_use, step_time
from scheduler.verification.counted_grid import counted_grid, counted_out
from scheduler.verification.pair_bounds import Costs, least_costs
from scheduler.verification.question_choices import NodeChoice, node_choices
from scheduler.verification.recounted_parts import RecountedPart
from topology.cluster import Cluster
from topology.flags import HEALTHY

LONGEST = 5  # Pairs that a sentence names


@dataclass(frozen=True, slots=True)
class RivalsLeft:
    """What would be better than the answer and is not ruled out on some nodes."""

    bound: float  # no placement on these nodes costs less, at the speed of the answer
    fault: str = ""  # what the certificate should rule out, and does not; empty = nothing
    untold: str = ""  # what goes beyond it; empty = nothing


@dataclass(frozen=True)
class Rivals:
    """The placements that might be better than the one of a certificate."""

    certificate: Certificate
    cluster: Cluster
    job: Job
    worth: Evaluation
    parts: Sequence[RecountedPart]

    def left(self) -> list[RivalsLeft]:
        """Return for every choice of nodes what is not ruled out."""
        return [
            found
            for choice in self._choices
            for slowest in self._slowdowns(choice)
            if (found := self._left(choice, slowest)) is not None
        ]

    @cached_property
    def _choices(self) -> tuple[NodeChoice, ...]:
        return node_choices(self.cluster, self.job)

    @cached_property
    def _several_types(self) -> bool:
        return len({(one.gpu_types, one.job.gpus_per_node) for one in self._choices}) > 1

    def _by_time(self, choice: NodeChoice) -> bool:
        """Return whether step times are compared: slow nodes have a price, and the answer has such types of GPU.

        Types are compared with each other by objective and speed alone, whatever the slow nodes among them.
        """
        if self.job.avoid != "price" or self.certificate.status != "optimal":
            return False
        return choice.speed == self._speed and set(self.worth.gpu_types) <= {*choice.gpu_types}

    @cached_property
    def _slowest(self) -> float:
        """Slowdown of the slowest node of the answer."""
        return slowest_in_use(self.cluster, self.worth)

    def _slowdowns(self, choice: NodeChoice) -> tuple[float, ...]:
        """Return the slowdowns up to which nodes are looked at, one question each."""
        if self.job.avoid != "price" or self._by_time(choice):
            return choice.slowdowns(self.cluster)
        if self.certificate.status == "feasible":
            return (inf if self.certificate.slowest is None else self.certificate.slowest,)
        return (inf,)

    def _left(self, choice: NodeChoice, slowest: float) -> RivalsLeft | None:
        """Return what is left on some nodes; ``None`` = no placement, by counting."""
        cluster, job = self.cluster, choice.job
        nodes = choice.nodes(cluster, slowest)
        if counted_out(cluster, job, nodes):
            return None
        # what is ruled out on more nodes is ruled out on these
        widest = float(cluster.slowdown[nodes].max())
        parts = [one for one in self.parts if one.slowest >= widest and self._is_about(one, choice)]
        levels = {self.certificate.level, *(one.part.level for one in parts)}
        grids = {level: grid for level in levels if (grid := counted_grid(cluster, job, nodes, level)) is not None}
        refuted = {
            level: [
                pair for one in parts if one.part.level == level for pair, found in one.pairs if found.told == "holds"
            ]
            for level in grids
        }
        # what a placement there costs, as if it ran at the speed of the answer
        costs = least_costs(cluster, job, nodes, grids, refuted) / choice.speed * self._speed
        bound = min(float(costs.min()), self.worth.objective)
        by_time = self._by_time(choice)
        better = self._better(costs, slowest if by_time else None)
        if not better.any():
            return RivalsLeft(bound)
        where = self._in_words(choice, slowest)
        # which slowdown has the shortest step may be left open where the pair of the answer is not
        other_question = by_time and slowest != self._slowest
        plain = bool(parts) and len(grids) == 1 and not other_question and not self._more_than_pairs
        if not plain:
            why = "the groups of the job make no grid there"
            if grids:
                why = "the rest was not proved by pairs of spreads alone" if parts else "it has no part on them"
            return RivalsLeft(bound, untold=f"{where} it shows no more than the bound {bound:.6g}: {why}")
        return self._pairs_left(np.argwhere(better) + 1, parts, bound, where)

    def _pairs_left(
        self, left: npt.NDArray[np.int64], parts: Sequence[RecountedPart], bound: float, where: str
    ) -> RivalsLeft:
        """Return pairs that are left as what a solver would have to tell, or as what is missing."""
        open_ = [pair for one in parts for pair, found in one.pairs if found.told == "not told"]
        pairs = [(int(s), int(r)) for s, r in left]
        missing = [(s, r) for s, r in pairs if not any(s <= one.dp and r <= one.pp for one in open_)]
        if missing:
            return RivalsLeft(bound, fault=f"{where} nothing in it rules out {_listed(missing)}")
        needed = [(one.dp, one.pp) for one in open_ if any(s <= one.dp and r <= one.pp for s, r in pairs)]
        return RivalsLeft(bound, untold=f"{where} pairs {_listed(needed)} need a solver")

    def _is_about(self, one: RecountedPart, choice: NodeChoice) -> bool:
        """Return whether a part is about the nodes of a choice, up to some slowdown."""
        part, size = one.part, choice.job.gpus_per_node
        return (part.gpu_types, part.gpus_per_node, part.trunk) == (choice.gpu_types, size, self._trunk(choice))

    def _better(self, costs: Costs, slowest: float | None) -> npt.NDArray[np.bool_]:
        """Return which costs would be better than the answer, or than its bound.

        :param slowest: on nodes up to this slowdown, by the time of a step, and by the bound where slower ones than
            those of the answer are among them; ``None`` = times are not compared.
        """
        own = self.certificate
        if slowest is None or slowest == self._slowest:
            claimed = self.worth.objective if own.status == "optimal" else own.bound
            return costs < (-inf if claimed is None else claimed) - TOLERANCE
        bounded = own.bound is not None and (own.slowest is None or slowest <= own.slowest)
        cheaper: npt.NDArray[np.bool_] = costs < (own.bound or 0.0) - TOLERANCE if bounded else costs < -inf
        least = float(costs.min())
        step = step_time(self.job, objective=self.worth.objective, slowest=self._slowest)
        # the more it costs the longer its step, so the cheapest says whether there is any
        quicker = step_time(self.job, objective=least, slowest=slowest) < step - TOLERANCE
        return cheaper | (costs <= least) if quicker else cheaper

    @cached_property
    def _speed(self) -> float:
        """Relative speed of the answer."""
        return self.job.speed_on(self.worth.gpu_types)

    @cached_property
    def _more_than_pairs(self) -> bool:
        """Whether a bound on the pairs at one level may be less than what was proved."""
        job, cluster = self.job, self.cluster
        beside = {level.name for level in cluster.second_levels}
        depth = cluster.level_index(job.level)
        broader = any(one.level in beside or cluster.level_index(one.level) < depth for one in job.holds)
        # one bound for several choices of nodes, each with its own slowdowns
        apart = len(self._choices) > 1 and job.avoid == "price"
        return bool(job.soft) or broader or apart

    def _trunk(self, choice: NodeChoice) -> str:
        return "" if choice.trunk is None else self.cluster.levels[0].domains[choice.trunk]

    def _in_words(self, choice: NodeChoice, slowest: float) -> str:
        types = " and ".join(choice.gpu_types) if self._several_types and any(choice.gpu_types) else ""
        trunk = f"in {self._trunk(choice)}" if choice.trunk is not None else ""
        slow = "" if self.job.avoid != "price" or slowest in (HEALTHY, inf) else f"with nodes up to {slowest:g} x slow"
        said = " ".join(word for word in (types and f"on {types}", trunk, slow) if word)
        return f"{said}," if said else "on the nodes of the job"


def _listed(pairs: Sequence[tuple[int, int]]) -> str:
    more = f" and {len(pairs) - LONGEST} more" if len(pairs) > LONGEST else ""
    # the dearest in both first: ruling these out rules out the others
    some = sorted(pairs, key=lambda pair: (-pair[0] * pair[1], pair))[:LONGEST]
    return ", ".join(f"({s}, {r})" for s, r in some) + more
