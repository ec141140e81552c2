"""The answer of ``arnold place`` about several jobs at once, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from arnold.console.output import BAD, Console, plain
from arnold.documents.answer_frame import COLOURS, Frame, passed_over, proof_clause
from arnold.documents.place_answer import PlaceDocument, PlacementAnswer, place_document, slow_nodes
from ground.quantities import decimal, plural
from ground.records import JsonRecord, NotNegative, Share, record_of
from scheduler.outcome import Instance, TurnResult, status_words
from scheduler.witnesses import NOT_TO_BE_CHECKED
from scheduler.work_clock import End
from topology.node_names import spell_names

if TYPE_CHECKING:
    from scheduler.several.together import JointOutcome


class JointDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """Where several jobs go, no two on one node; or which of them do not fit."""

    status: Literal["optimal", "feasible", "infeasible", "timeout", "gave-up"]
    """Status of all jobs together. optimal: no placement of all has a smaller sum, where slow nodes have a price on
    nodes that are no slower than each job takes alone; infeasible: they do not all fit."""
    proved_to: str | None
    """How much of what is asked is proved: `objective`: the sum; `all`: besides, no job could have a smaller EP spread,
    or lie better at a closer level, on the whole cluster; null = not even the sum."""
    unchecked: Mapping[str, str]
    stopped_at: End | None
    """Seconds of the time limit that ended the search, or `interrupted`; null = it ended by itself, or proved its
    answer."""
    jobs: Mapping[str, PlaceDocument]
    """Name of the job -> its placement.  Its bound and its status are those of the job alone on the cluster, so a job
    may be feasible where the sum is optimal.  Empty without a placement of all."""
    objective: float | None
    """Sum of weight * objective / speed over the jobs; speed is 1 where a job names none.  null = no placement."""
    bound: float | None
    """No placement of all jobs has a smaller sum, slow nodes and all."""
    gap: Share | None
    """(objective - bound) / objective, 0 when it is proved the least of all."""
    weights: Mapping[str, float]
    """Name of the job -> weight of its objective."""
    left_out: tuple[str, ...]
    """Where not all fit: a smallest set of jobs without which the others do; empty where none is known."""
    reason: str | None
    one_after_the_other: tuple[TurnResult, ...]
    """What the jobs would get one after the other: in the order given, and in reverse."""
    solve_seconds: NotNegative
    """Wall time of the whole search."""
    notes: tuple[str, ...]


def joint_document(instances: Sequence[Instance], weights: Sequence[float], outcome: JointOutcome) -> JointDocument:
    """Return the document of a joint placement; notes of reading a job stand in the document of that job."""
    names = [instance.job.name for instance in instances]
    placed = zip(names, instances, outcome.outcomes, strict=False)
    jobs = {name: place_document(instance, alone) for name, instance, alone in placed}
    unchecked = dict[str, str]()
    if outcome.status == "infeasible":
        counted = sum(instance.job.grid.cells for instance in instances) > _idle(instances)
        unchecked = {} if counted else {"objective": f"not all jobs fit: {NOT_TO_BE_CHECKED}"}
    elif outcome.bound is not None and any(job.gap or "objective" in job.unchecked for job in jobs.values()):
        # where each job has what the certificate of it alone says that it costs at least, that is the least sum
        what = "sum" if outcome.status == "optimal" else "bound"
        unchecked = {"objective": f"{what} {decimal(outcome.bound)}: {NOT_TO_BE_CHECKED}"}
    return record_of(
        JointDocument,
        outcome,
        unchecked=unchecked,
        status=outcome.status if outcome.status != "refused" else "gave-up",
        jobs=jobs,
        weights=dict(zip(names, weights, strict=True)),
        left_out=tuple(names[j] for j in outcome.left_out),
        reason=outcome.reason or None,
        one_after_the_other=outcome.turns,
    )


def _idle(instances: Sequence[Instance]) -> int:
    """Return how many nodes are idle to any of the jobs, each as its tolerations and its length admit it."""
    seen = [instance.cluster.tolerating(instance.job.tolerations).idle for instance in instances]
    return int(np.any(seen, axis=0).sum())


def print_joint_placement(out: Console, instances: Sequence[Instance], document: JointDocument, *, then: str) -> None:
    """Print where several jobs go, or which of them to leave out; ``then`` is the command to go on with."""
    verdict = status_words(document.status, document.stopped_at)
    if document.gap:
        verdict += f", gap {document.gap:.1%}"
    worth = document.reason
    if document.objective is not None:
        proved = f"proved bound {decimal(document.bound or 0.0)}{proof_clause(document.proved_to)}"
        worth = f"sum {decimal(document.objective)}, {proved}"
    timing = f"{document.solve_seconds:.2f} s"
    frame = Frame(out, f"{verdict}: {worth}", COLOURS.get(document.status, BAD), timing=timing)
    for sentence in document.unchecked.values():
        out.print(plain(sentence))
    if document.left_out:
        out.print(f"Fewest jobs to leave out: {', '.join(document.left_out)}")
    source, nodes = instances[0].source, len(instances[0].cluster)
    idle = _idle(instances)
    out.print(f"{plural(len(instances), 'job')} at once on {source}: {nodes:,} nodes, {idle:,} idle")
    rows = list[tuple[object, ...]]()
    for name, placed in document.jobs.items():
        if placed.spread is not None and placed.objective is not None:
            numbers = placed.spread.dp, placed.spread.pp, decimal(placed.objective), decimal(placed.bound or 0.0)
            where = spell_names(placed.domains, most=frame.longest_names)
            rows.append((name, decimal(document.weights[name]), len(placed.assignment), *numbers, where))
    headers = ("job", "weight", "nodes", "DP spread", "PP spread", "objective", "alone", "where")
    frame.rows(headers, rows, title="Jobs", left=["where"])
    if document.objective is not None:
        objective = document.objective
        proofs = [f"{name}: {why}" for name, job in document.jobs.items() for why in job.unchecked.values()]
        frame.details("what of each job is not to be checked", proofs)
        frame.details("one job after the other", [*_turns_in_words(document.one_after_the_other, objective)])
    # what is assumed of a job once, with the names of its jobs unless it is of all
    jobs_of = dict[str, list[str]]()
    for instance in instances:
        own = passed_over(instance)
        if (answer := document.jobs.get(instance.job.name)) is not None:
            own += [*slow_nodes(answer), *answer.notes]
        for line in own:
            jobs_of.setdefault(line, []).append(instance.job.name)
    lines = [line if len(names) == len(instances) else f"{', '.join(names)}: {line}" for line, names in jobs_of.items()]
    frame.end([*lines, *document.notes], then)


def joint_cards(document: JointDocument) -> list[tuple[str, list[str]]]:
    """Return a card of the pages: the sum and how sure it is, each job, and what one after the other would give."""
    if (objective := document.objective) is None:
        return []
    bound = f"proved bound {decimal(document.bound or 0.0)}{proof_clause(document.proved_to)}"
    jobs = [
        f"{name}: {plural(len(placed.assignment), 'node')}, objective {decimal(placed.objective or 0.0)}, alone "
        f"{decimal(placed.bound or 0.0)}, weight {decimal(document.weights[name])}."
        for name, placed in document.jobs.items()
    ]
    turns = [f"One after the other, {words}." for words in _turns_in_words(document.one_after_the_other, objective)]
    return [("Placed at once", [f"Weighted sum of objectives {decimal(objective)}, {bound}.", *jobs, *turns])]


def _turns_in_words(turns: Iterable[TurnResult], objective: float) -> Iterator[str]:
    for turn in turns:
        worth = f"{turn.stuck} finds no place any more"
        if turn.objective is not None:
            more = turn.objective / objective - 1.0
            worth = f"sum {decimal(turn.objective)}, {f'{more:.1%} more' if more > 1e-9 else 'as good'}"
        yield f"{', '.join(turn.order)}: {worth}"
