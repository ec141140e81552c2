"""The answer of ``arnold explain``, as JSON and as text: why a placement cannot be better, or why there is none."""

from collections.abc import Mapping, Sequence

from arnold.console.output import BAD, Console, plain
from arnold.documents.answer_frame import COLOURS, LONGEST, Frame, passed_over, print_head
from arnold.documents.place_answer import PlacementAnswer, flag_sentences, print_pareto
from ground.errors import few
from ground.quantities import capitalised
from ground.records import JsonRecord, record_of
from scheduler.explanation import (
    AvoidanceOption,
    CheaperPair,
    Misfit,
    TypeBinding,
    cheaper_pairs,
    comparison,
    left_over,
    what_binds,
    why_not,
)
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import Spread
from scheduler.outcome import Instance, Outcome, TypeOption
from scheduler.placement.types import ParetoPoint, PriceOption, Status
from scheduler.subproblems import in_words as types_in_words
from scheduler.unchecked import unchecked_claims
from scheduler.work_clock import End
from topology.flags import NodeFlag
from topology.node_names import spell_names
from topology.summary import ClusterSummary, summarise_cluster


class ExplainDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """Why a placement cannot be better, or why there is none."""

    status: Status
    """Status of the exact solver: optimal, feasible, infeasible or timeout."""
    proved_to: str | None
    unchecked: Mapping[str, str]
    stopped_at: End | None
    verdict: str
    """The answer in one sentence."""
    alpha: float
    beta: float
    level: str
    spread: Spread | None
    objective: float | None
    bound: float | None
    gap: float | None
    step_time: float | None
    step_time_bound: float | None
    cheaper: tuple[CheaperPair, ...]
    """Every pair that would cost less, dearest first, with what rules it out."""
    pareto: tuple[ParetoPoint, ...]
    prices: tuple[PriceOption, ...]
    types: tuple[TypeOption, ...]
    """What each type of GPU that the job may be on would give, each solved; the pairs and the trade are those of the
    chosen one.  Empty where nothing says the types of nodes."""
    binding: tuple[TypeBinding, ...]
    """What binds on each of these types; empty where there is nothing to choose."""
    options: tuple[AvoidanceOption, ...]
    """To avoid slow nodes against to use them, each solved; empty where no node that the job could use is slow."""
    flags: tuple[NodeFlag, ...]
    """Why: the flags of the nodes that the options name, and of faulty ones that are idle, by node."""
    diagnosis: Misfit | None
    """Why the job does not fit; null when it does."""
    solve_seconds: float
    """Wall time of the solver on the instance itself."""
    notes: tuple[str, ...]
    job: JobDocument
    cluster: ClusterSummary


def explain_document(
    instance: Instance, outcome: Outcome, *, options: Sequence[AvoidanceOption], diagnosis: Misfit | None
) -> ExplainDocument:
    """Return the document of an explanation."""
    return record_of(
        ExplainDocument,
        outcome,
        outcome.proposal,
        instance.job,
        unchecked=unchecked_claims(instance, outcome),
        level=instance.level.name,
        cheaper=cheaper_pairs(instance.cluster, instance.job, outcome),
        pareto=outcome.proposal.corners,
        binding=what_binds(instance.cluster, outcome),
        options=tuple(options),
        flags=instance.flags,
        diagnosis=diagnosis,
        notes=(
            *instance.notes,
            *outcome.notes,
            *(f"{sentence}." for sentence in left_over(instance.cluster, instance.job)),
        ),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


BINDS = {
    "nodes": "There are too few nodes, whatever the shape of the job.",
    "hold": "There are enough nodes; a hard constraint of the job binds.",
    "unknown": "There are enough nodes.",
}
EMPTY = {
    True: "If the cluster were empty, the job would fit.",
    False: "Even if the cluster were empty, the job would not fit.",
    None: "Whether it would fit on the empty cluster was not settled in time.",
}


def print_explanation(
    out: Console, instance: Instance, outcome: Outcome, document: ExplainDocument, *, then: str
) -> None:
    """Print why a placement cannot be better, or why there is none; ``then`` is the command to go on with."""
    frame = Frame(out, document.verdict, COLOURS.get(outcome.status, BAD), timing=f"{document.solve_seconds:.2f} s")
    for sentence in document.unchecked.values():
        out.print(plain(sentence))
    print_head(out, instance)
    if outcome.evaluation is not None:
        title = "Nothing can be cheaper"
        if document.cheaper:
            avoided = any(option.chosen and option.way == "avoid" for option in document.options)
            where = " without slow nodes" if avoided else ""
            if len(document.types) > 1:
                where += "".join(f" on {types_in_words(kind.gpu_types)}" for kind in document.types if kind.chosen)
            why = "why it cannot be" if document.status == "optimal" else "what is known of it"
            pairs = "1 pair" if len(document.cheaper) == 1 else f"{len(document.cheaper):,} pairs"
            title = f"What would be cheaper, and {why}{where}: {pairs} of (DP spread, PP spread)"
        # a line for each pair that no other exceeds, with -v followed by the smaller ones that go with it
        reasons = []
        for reason in why_not(document.cheaper):
            reasons.append(reason.line)
            if reason.with_it and frame.whole:
                names = [f"({pair.dp}, {pair.pp})" for pair in reason.with_it]
                reasons.append(f"{few(names, most=LONGEST)}: {reason.rest}")
        frame.sentences(title, reasons or ["every group touches one domain"])
        if frame.shows("the trade", outcome.proposal.corners):
            print_pareto(out, instance, outcome)
    compared = comparison(document.options)
    for card, sentences in explanation_cards(document, names=frame.whole):
        # what there is to say of the ways is said in a sentence, or before where the job does not fit
        if card == FLAGGED or (card == WAYS and (compared or document.diagnosis is not None)):
            frame.details(card.lower(), sentences)
        else:
            frame.sentences(card, sentences)
    frame.details("types of GPU", [option.sentence for option in document.types if len(document.types) > 1])
    frame.end([*passed_over(instance), *([compared] if compared and not frame.whole else []), *document.notes], then)


FLAGGED, WAYS = "Why nodes are flagged", "Slow nodes avoided or used"


def explanation_cards(document: ExplainDocument, *, names: bool = True) -> list[tuple[str, Sequence[str]]]:
    """Return title and sentences of what is said besides the cheaper pairs; some have no sentence.

    :param names: whether nodes are named that are slow.
    """
    cards: list[tuple[str, Sequence[str]]] = []
    if document.diagnosis is not None:
        changes = [change.sentence for change in document.diagnosis.changes]
        none = "No single change that was tried: a smaller dp, fewer constraints, nodes freed, slow nodes, taints."
        cards = [
            ("Why", [BINDS[document.diagnosis.constraint], EMPTY[document.diagnosis.would_fit_if_empty]]),
            ("Any one of these would help", changes) if changes else ("What would help", [none]),
        ]
    # what avoiding slow nodes costs against using them, and which they are
    ways = []
    for option in document.options:
        named = {"in use": option.used, "left out" if option.way == "avoid" else "not needed": option.left_out}
        parts = (f"{words} {spell_names(slow)}" for words, slow in named.items() if names and slow)
        ways.append("; ".join([capitalised(option.sentence), *parts]))
    if compared := comparison(document.options):
        ways.append(compared)
    prices = document.prices if len(document.prices) > len(document.options) else ()
    binding = [f"{types_in_words(option.gpu_types)}: {option.sentence}" for option in document.binding]
    return [
        *cards,
        (WAYS, ways),
        (FLAGGED, flag_sentences(document.flags)),
        ("Slow nodes, by how slow", [price.sentence for price in prices]),
        ("What binds on each type", binding),
    ]
