"""One gang on one state: a plan, or the reason why not.  And the order in which gangs are planned.

Three steps, so that the solver runs in a thread while the event loop answers:

1. :class:`Round` (or :func:`repair_question`), in the loop: which gang comes next and what the solver is asked; quick.
2. :func:`solve`, in a thread: pure, touches no state.
3. The loop puts ``answer.plan`` into the state and writes it, and tells the round.

The solver and the evaluator are those of ``arnold place``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from time import perf_counter

import numpy as np

from scheduler.extender.gangs import GangKey
from scheduler.extender.plan import Phase, Plan, Spec, canonical_uid
from scheduler.extender.question import Question, question_of, repair_question
from scheduler.extender.queue_policy import Blocked, PriorityAge, QueuePolicy, Waiting
from scheduler.extender.state import State
from scheduler.job import Job
from scheduler.outcome import Outcome, run
from scheduler.placement.admission import admissible, shortage
from scheduler.placement.registry import load_algorithm
from scheduler.placement.repair import repair
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.remedies import fits, nodes_to_free, shares
from topology.cluster import Cluster, IntArray
from topology.errors import ArnoldError

__all__ = ["Answer", "Question", "Round", "question_of", "repair_question", "solve"]

_FITS_SHARE = 0.2
"""Part of the time limit that each of the questions behind a refusal may take."""


@dataclass(frozen=True)
class Answer:
    """What came of a question.

    :param found: whether there is a placement.
    :param plan: found: phase Planned (``expires`` is left to whoever writes it), or of a repair the phase before, with
        the new nodes.  Not found: phase Queued with the reason, or of a repair the plan before with condition Healthy
        false.
    :param moved: of a repair, ranks that have another node now.
    :param usable: of a gang that has no room, names of the nodes that it could use if the cluster were empty; none when
        it would not fit even then.
    """

    key: GangKey
    found: bool
    plan: Plan
    moved: tuple[int, ...] = ()
    usable: frozenset[str] = frozenset()
    solve_seconds: float = 0.0


class Round:
    """One pass over the queue, one gang after the other in the order of a policy.

    ``while (question := round.next(state, now)) is not None: answer = solve(question); ...; round.tell(answer)``

    The state may change in between; a gang that is not complete any more, or has nodes now, is passed over.

    :param keys: the gangs to ask about; ``None`` = all of the state.
    """

    def __init__(self, keys: Iterable[GangKey] | None = None, policy: QueuePolicy | None = None) -> None:
        self._keys = None if keys is None else set(keys)
        self._done: set[GangKey] = set()
        self._policy = policy or PriorityAge()
        self._asked: Waiting | None = None
        self._blocked: list[Blocked] = []
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def next(self, state: State, now: datetime) -> Question | None:
        """What to ask next; ``None`` = everybody was asked."""
        keys = (gang.key for gang in state.gangs()) if self._keys is None else self._keys
        waiting = [one for key in keys if key not in self._done and (one := _waiting(state, key)) is not None]
        if not waiting:
            return None
        candidate = self._policy.order(waiting)[0]
        self._done.add(candidate.key)
        gang = state.gang(candidate.key)
        assert gang is not None
        self._asked = candidate
        ahead = tuple(one.waiting.key for one in self._blocked if one.usable)
        withheld = self._policy.withheld(candidate, self._blocked)
        return question_of(state, gang, now, withheld=withheld, ahead=ahead)

    def tell(self, answer: Answer) -> None:
        """What came of the last question."""
        if not answer.found and self._asked is not None and self._asked.key == answer.key:
            usable = self._known.setdefault(answer.usable, answer.usable)
            self._blocked.append(Blocked(self._asked, usable))


_LIMITS = Limits()


def solve(question: Question, limits: Limits = _LIMITS, *, algorithm: str = "exact") -> Answer:
    """Ask the solver.

    Never raises for what a gang, a plan or a cluster is: reasons become the plan's.

    :param algorithm: name of the placement algorithm.
    """
    started = perf_counter()
    try:
        answer = _mended(question, limits) if question.lost else _placed(question, limits, algorithm)
    except ArnoldError as error:
        answer = _unplaced(question, str(error))
    return replace(answer, solve_seconds=perf_counter() - started)


def _waiting(state: State, key: GangKey) -> Waiting | None:
    """A gang in the queue; ``None`` = it is not, or not any more."""
    gang, plan = state.gang(key), state.plans.get(key)
    if gang is None or gang.over or not gang.complete or (plan is not None and plan.holding):
        return None
    return Waiting(key, gang.priority, gang.created, gang.size or 0)


def _placed(question: Question, limits: Limits, algorithm: str) -> Answer:
    job, cluster = question.job, question.cluster
    if question.refused or job is None or cluster is None:
        return _unplaced(question, question.refused)
    outcome = run(_algorithm(algorithm), _without(cluster, question), job, limits)
    if outcome.evaluation is None or outcome.proposal.nodes is None:
        return _no_room(question, cluster, job, outcome, limits)
    evaluation = outcome.evaluation
    nodes = _by_rank(cluster, job, outcome.proposal.nodes)
    notes = (f"uses {len(evaluation.flagged)} flagged nodes",) if evaluation.flagged else ()
    plan = _base(question, job).replace(
        phase=Phase.PLANNED,
        nodes=nodes,
        pods=tuple(None if uid is None else canonical_uid(uid) for uid in question.gang.uids),
        spread=(evaluation.dp, evaluation.pp),
        objective=outcome.objective,
        bound=outcome.bound,
        gap=outcome.gap,
        expires=None,
        bound_pods=0,
        would_fit_if_empty=None,
        reason="Planned",
        message="; ".join(notes),
    )
    plan = plan.with_condition("Complete", True, "Complete", "", question.now)
    plan = plan.with_condition("Planned", True, "Planned", plan.message, question.now)
    return Answer(question.gang.key, True, plan)


def _base(question: Question, job: Job | None) -> Plan:
    """The plan before, or a new one, with what is asked now."""
    gang, before = question.gang, question.before or Plan(question.gang.key, Phase.QUEUED)
    if job is None:
        return before.replace(spec=replace(before.spec, dialect=gang.dialect, size=gang.size, priority=gang.priority))
    return before.replace(spec=Spec.of(job, dialect=gang.dialect, priority=gang.priority))


@cache
def _algorithm(name: str) -> PlacementAlgorithm:
    """Looking through what is installed takes longer than a small gang."""
    return load_algorithm(name)


def _without(cluster: Cluster, question: Question) -> Cluster:
    """The cluster in which what is withheld is in use."""
    if not question.withheld:
        return cluster
    return cluster.with_busy(i for i, name in enumerate(cluster.names) if name in question.withheld)


def _by_rank(cluster: Cluster, job: Job, nodes: IntArray) -> tuple[str, ...]:
    """Names of the nodes in the order of ranks.

    :param nodes: shape [rows, columns].
    """
    order = np.empty(job.grid.cells, dtype=np.int32)
    order[job.grid.node_rank.ravel()] = nodes.ravel()
    return tuple(cluster.names[i] for i in order)


def _by_cell(cluster: Cluster, job: Job, nodes: Iterable[str]) -> IntArray:
    """Indices of nodes, shape [rows, columns], from names in the order of ranks."""
    order = np.array([cluster.index_of[name] for name in nodes], dtype=np.int32)
    found: IntArray = order[job.grid.node_rank]
    return found


def _no_room(question: Question, cluster: Cluster, job: Job, outcome: Outcome, limits: Limits) -> Answer:
    """Why a gang has no room, and what would give it some."""
    part = replace(limits, seconds=_FITS_SHARE * limits.seconds)
    solver = _algorithm("exact")
    fits_now = fits(cluster, job, solver=solver, limits=part) if question.withheld else False
    fits_empty = fits(cluster.emptied(), job, solver=solver, limits=part)
    sentences = []
    if fits_now:
        first = f"gang {question.ahead[0]}" if question.ahead else "a gang"
        others = f"{first} is" if len(question.ahead) < 2 else f"{first} and {len(question.ahead) - 1} more are"
        sentences.append(f"it would fit, but {others} before it and could use the same nodes")
    else:
        sentences.append(shortage(cluster, job) or outcome.reason)
        if left_out := ", ".join(f"{count} {why}" for why, count in question.left_out.items()):
            sentences.append(f"nodes that its pods cannot use: {left_out}")
        if fits_empty is False:
            sentences.append("it would not fit even if the cluster were empty")
        elif fits_empty:
            sentences.append("it fits if the cluster were empty" + _leaving(cluster, job))
    usable: frozenset[str] = frozenset()
    if fits_empty is not False:
        usable = frozenset(cluster.names[i] for i in np.flatnonzero(admissible(cluster.emptied(), job)))
    reason = "BehindOthers" if fits_now else "TooLarge" if fits_empty is False else "NoRoom"
    answer = _unplaced(question, "; ".join(sentences), reason=reason, fits_empty=fits_empty)
    return replace(answer, usable=usable)


def _leaving(cluster: Cluster, job: Job) -> str:
    """What would have to leave."""
    nodes = nodes_to_free(cluster, job)
    return f"; {len(nodes)} nodes in use would have to be freed: {shares(cluster, job, nodes)}" if len(nodes) else ""


def _unplaced(question: Question, why: str, *, reason: str = "", fits_empty: bool | None = None) -> Answer:
    """No placement: the reason becomes the plan's."""
    key = question.gang.key
    if question.lost and question.before is not None:
        plan = question.before.replace(message=why)
        return Answer(key, False, plan.with_condition("Healthy", False, "CannotBeRepaired", why, question.now))
    plan = _base(question, question.job).replace(
        phase=Phase.QUEUED,
        nodes=(),
        pods=(),
        spread=None,
        objective=None,
        bound=None,
        gap=None,
        expires=None,
        bound_pods=0,
        would_fit_if_empty=fits_empty,
        reason=reason or "CannotBePlanned",
        message=why,
    )
    plan = plan.with_condition("Complete", True, "Complete", "", question.now)
    return Answer(key, False, plan.with_condition("Planned", False, plan.reason, why, question.now))


def _mended(question: Question, limits: Limits) -> Answer:
    """A repair with the fewest moves, in which pods that run stay."""
    job, cluster, before = question.job, question.cluster, question.before
    if question.refused or job is None or cluster is None or before is None:
        return _unplaced(question, question.refused)
    found = repair(cluster, job, _by_cell(cluster, job, before.nodes), question.lost, limits=limits)
    nodes = _by_rank(cluster, job, found.nodes)
    moved = tuple(rank for rank, (old, new) in enumerate(zip(before.nodes, nodes, strict=True)) if old != new)
    if running := [rank for rank in moved if rank in question.fixed]:
        ranks = ", ".join(map(str, running[:5])) + (", ..." if len(running) > 5 else "")
        return _unplaced(
            question, f"pods that run would have to move: rank {ranks}; delete the gang's pods to move all"
        )
    bound = min(found.objective_bound, found.after.objective)
    plan = before.replace(
        nodes=nodes,
        spread=(found.after.dp, found.after.pp),
        objective=found.after.objective,
        bound=bound,
        gap=(found.after.objective - bound) / found.after.objective,
    )
    moves = f"{len(moved)} of {len(nodes)} ranks have another node"
    return Answer(
        question.gang.key, True, plan.with_condition("Healthy", True, "Repaired", moves, question.now), moved=moved
    )
