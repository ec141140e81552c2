"""The answer of ``arnold compare``, as JSON and as text; ``arnold demo`` shows it too."""

from collections.abc import Sequence
from math import inf

from arnold.console.fitted_table import Wrapped
from arnold.console.output import BAD, GOOD, Console, print_sentences
from arnold.documents.answer_frame import COLOURS, SHORT, Frame, passed_over, print_head
from arnold.documents.place_answer import PlacementAnswer
from ground.errors import few
from ground.quantities import decimal, plural
from ground.records import AtLeastOne, JsonRecord, NotNegative, record_of
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import Spread, slowest_in_use, step_time
from scheduler.outcome import Instance, Outcome, status_words
from scheduler.placement.types import ALGORITHMS, Status
from scheduler.work_clock import End
from topology.summary import ClusterSummary, summarise_cluster


class ComparedAlgorithm(PlacementAnswer, JsonRecord, kw_only=True):
    """What one algorithm made of the instance.  Numbers of a placement are null when there is none."""

    algorithm: str
    status: Status
    """optimal, feasible, infeasible, timeout, gave-up (found, proved nothing), refused (its placement is invalid)."""
    proved_to: str | None
    stopped_at: End | None
    reason: str | None
    spread: Spread | None
    objective: float | None
    bound: float | None
    """What this algorithm proved: no placement has a smaller objective."""
    gap: float | None
    ratio: float | None
    """Objective over the best objective of all algorithms here; 1 = the best."""
    domains: int | None
    """Number of domains in use."""
    used_flagged: int | None
    """Number of flagged nodes in use."""
    gpu_types: tuple[str, ...]
    """Types of GPU of its nodes; empty where nothing says the types, or there is no placement."""
    solve_seconds: NotNegative
    notes: tuple[str, ...]
    """What the algorithm has to say."""


class CompareDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """Every algorithm on one instance, best objective first."""

    job: JobDocument
    cluster: ClusterSummary
    level: str
    best: float | None
    """Smallest objective found; null = no algorithm found a placement."""
    bound: float | None
    """Best bound that any of the algorithms proved."""
    results: tuple[ComparedAlgorithm, ...]
    """One for each algorithm."""
    notes: tuple[str, ...]
    """What is worth knowing about how the input was read."""

    @property
    def best_algorithms(self) -> list[str]:
        """Those with the smallest objective, first `exact`, which `arnold place` asks unless told otherwise."""
        best = [result.algorithm for result in self.results if result.ratio == 1.0]
        return sorted(best, key=lambda name: name != "exact")


def compare_document(instance: Instance, outcomes: Sequence[Outcome]) -> CompareDocument:
    """Return the document of several outcomes on one instance."""
    best = min((outcome.objective for outcome in outcomes if outcome.objective is not None), default=None)
    results = []
    for outcome in sorted(outcomes, key=lambda outcome: inf if outcome.objective is None else outcome.objective):
        worth, objective = outcome.evaluation, outcome.objective
        result = record_of(
            ComparedAlgorithm,
            outcome,
            outcome.proposal,
            reason=outcome.reason or None,
            ratio=None if objective is None or best is None else objective / best,
            domains=len(worth.domains) if worth else None,
            used_flagged=len(worth.flagged) if worth else None,
            gpu_types=next((option.gpu_types for option in outcome.types if option.chosen), ()),
        )
        results.append(result)
    return CompareDocument(
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
        level=instance.level.name,
        best=best,
        bound=max((outcome.bound for outcome in outcomes if outcome.bound is not None), default=None),
        results=tuple(results),
        notes=instance.notes,
    )


SHOWN = 5  # Algorithms, the best, without -v


def print_comparison(out: Console, instance: Instance, document: CompareDocument, *, then: str) -> None:
    """Print what `arnold compare` says; ``then`` is the command to go on with."""
    many = plural(len(document.results), "algorithm")
    if document.best is None:
        frame = Frame(out, f"none of {many} found a placement", BAD)
    else:
        best = next(result for result in document.results if result.algorithm == document.best_algorithms[0])
        sure = status_words(best.status, best.stopped_at)
        if best.status != "optimal":
            sure += (
                ", of no known bound" if document.bound is None else f", none has less than {decimal(document.bound)}"
            )
        verdict = (
            f"best of {many}: objective {decimal(document.best)} by {few(document.best_algorithms, most=1)}, {sure}"
        )
        frame = Frame(out, verdict, COLOURS.get(best.status, BAD))
    print_head(out, instance)
    print_results(frame, document, most=SHOWN)
    frame.end([*passed_over(instance), *document.notes], then)


def print_results(frame: Frame, document: CompareDocument, *, most: int) -> None:
    """Print the table, best objective first; below it those that found no placement, with the reason.

    :param most: algorithms without ``-v``.
    """
    gpus = ("GPUs",) if len(document.cluster.gpu_types) > 1 else ()
    worth_of = ("objective", "x best", "DP spread", "PP spread", "domains", "flagged", "seconds")
    spare = ("domains", "flagged", "seconds", "x best")
    rows, bold, names, without = list[tuple[str, ...]](), list[int](), list[str](), list[str]()
    for result in document.results:
        status = status_words(result.status, result.stopped_at)
        if result.spread is None or result.objective is None or result.ratio is None:
            names.append(result.algorithm)
            without.append(f"{result.algorithm}: {status}: {result.reason}")
            continue
        worth = decimal(result.objective), f"{result.ratio:.2f}", str(result.spread.dp), str(result.spread.pp)
        counts = str(result.domains), str(result.used_flagged), f"{result.solve_seconds:.3f}"
        types = [" + ".join(result.gpu_types)] if gpus else []
        bold += [len(rows)] if result.ratio == 1.0 else []
        rows.append((result.algorithm, *worth, *counts, *types, status))
    headers = ("algorithm", *worth_of, *gpus, "status")
    frame.rows(headers, rows, title="Algorithms, best first", left=["status"], spare=spare, bold=bold, most=most)
    if len(without) <= SHORT or frame.shows("why these found no placement", without):
        print_sentences(frame.out, "Without a placement", without)
    else:
        frame.out.print(Wrapped(f"{len(without)} found no placement: {', '.join(names)}"))


class JobSize(PlacementAnswer, JsonRecord, kw_only=True):
    """What a job gets at one size.  Numbers of a placement are null when there is none."""

    dp: AtLeastOne
    """Replicas."""
    gpus: AtLeastOne
    """GPUs in all."""
    status: Status
    """As of `arnold place`."""
    reason: str | None
    objective: float | None
    spread: Spread | None
    bound: float | None
    """No placement at this size has a smaller objective."""
    step_time: float | None
    """Predicted step time by the job's spread_cost, 1 = no spread and no slow node."""
    worth: float | None
    """GPUs without spread and slow nodes that do as much: GPUs over the step time."""


class SizesDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """One job at several sizes."""

    sizes: tuple[JobSize, ...]
    """The smallest first."""
    best: AtLeastOne | None
    """Replicas at which it does most; null = it fits at none."""
    job: JobDocument
    """The job at the first of the sizes."""
    cluster: ClusterSummary
    level: str
    notes: tuple[str, ...]


def sizes_document(instances: Sequence[Instance], outcomes: Sequence[Outcome]) -> SizesDocument:
    """Return the document of a job at several sizes."""
    sizes = []
    for instance, outcome in zip(instances, outcomes, strict=True):
        job, worth, time = instance.job, outcome.evaluation, None
        if worth is not None:
            time = step_time(job, objective=worth.objective, slowest=slowest_in_use(instance.cluster, worth))
        gpus = job.parallelism.gpus
        of_time = None if time is None else gpus / time
        reason, dp = outcome.reason or None, job.parallelism.dp
        sizes.append(record_of(JobSize, outcome, dp=dp, gpus=gpus, reason=reason, step_time=time, worth=of_time))
    first, fitting = instances[0], [size for size in sizes if size.worth is not None]
    return SizesDocument(
        sizes=tuple(sizes),
        best=max(fitting, key=lambda size: size.worth or 0.0).dp if fitting else None,
        job=job_document(first),
        cluster=summarise_cluster(first.cluster, first.source),
        level=first.level.name,
        notes=first.notes,
    )


def print_sizes(out: Console, document: SizesDocument) -> None:
    """Print what a job gets at each size."""
    sizes = document.sizes
    if document.best is None:
        frame = Frame(out, f"it fits at none of {plural(len(sizes), 'size')}", BAD)
    else:
        frame = Frame(out, f"dp {document.best} does most, of {plural(len(sizes), 'size')}", GOOD)
    out.print(f"{document.cluster.source}: {document.cluster.nodes:,} nodes; spread counts by {document.level}")
    rows = [
        (size.dp, size.gpus, decimal(size.objective), size.spread.dp, size.spread.pp,
         None if size.bound is None else decimal(size.bound), f"{size.step_time:.3f}", f"{size.worth:,.1f}",
         status_words(size.status))
        if size.objective is not None and size.spread is not None and size.step_time and size.worth
        else (size.dp, size.gpus, *[None] * 6, size.reason or status_words(size.status))
        for size in sizes
    ]  # fmt: skip
    headers = ("dp", "GPUs", "objective", "DP spread", "PP spread", "bound", "step", "worth in GPUs", "")
    frame.rows(headers, rows, title="Sizes", left=("",))
    frame.end(["steps by the job's spread_cost", *document.notes], "")


class InstalledAlgorithm(JsonRecord):
    """An installed algorithm."""

    name: str
    """Name for --algorithm."""
    summary: str
    """What it does, in one line."""


class AlgorithmsDocument(JsonRecord):
    """What ``arnold compare --list --json`` prints."""

    algorithms: tuple[InstalledAlgorithm, ...]
    """All installed algorithms."""


def algorithms_document() -> AlgorithmsDocument:
    """Return all installed algorithms."""
    names = ALGORITHMS.names()
    return AlgorithmsDocument(tuple(InstalledAlgorithm(name, ALGORITHMS.load(name).summary) for name in names))


CompareOutput = CompareDocument | SizesDocument | AlgorithmsDocument  # One of these


class DemoDocument(JsonRecord):
    """What ``arnold demo --json`` prints: what the demonstration wrote, and the comparison it shows."""

    page: str
    """The HTML page."""
    files: tuple[str, ...]
    """Files to try other commands on, with --save: cluster and job first."""
    comparison: CompareDocument
    """Every algorithm on the demonstration's instance."""
