"""The answers of ``arnold explain --when`` and ``--stop``, as JSON and as text."""

from arnold.console.output import BAD, GOOD, SO_SO, Console
from arnold.documents.answer_frame import Frame, passed_over, print_head
from arnold.documents.explain_answer import ExplainDocument
from arnold.documents.place_answer import PlacementAnswer
from arnold.documents.snapshot_answer import iso
from ground.errors import some
from ground.quantities import decimal, plural
from ground.records import JsonRecord, NotNegative, record_of
from scheduler.job_files.job_file import JobDocument, job_document
from scheduler.objective import Spread
from scheduler.outcome import Instance, Outcome, status_words
from scheduler.placement.types import Status
from scheduler.start_times import StartTimes, StopProposal
from scheduler.work_clock import End
from topology.node_names import spell_names
from topology.summary import ClusterSummary, summarise_cluster


class StartRange(JsonRecord):
    """When a job starts; ISO 8601, null = not before a running job ends of which no end is known."""

    earliest: str | None
    """Not before that, if every job with a time limit ended at once."""
    p10: str | None
    """One start in ten is earlier."""
    p50: str | None
    """Half of all starts are earlier."""
    p90: str | None
    """Nine starts in ten are earlier."""


class PlaceThen(PlacementAnswer, JsonRecord):
    """What the job has if it starts at an instant."""

    at: str
    """ISO 8601."""
    status: Status
    """As of `arnold place`."""
    objective: float | None
    """Objective of the placement; null = there is none."""
    bound: float | None
    """No placement then has a smaller objective; null = there is none."""
    spread: Spread | None
    reason: str | None


class WhenDocument(PlacementAnswer, JsonRecord, kw_only=True):
    """When a job starts, and whether waiting gives it a better place."""

    start: StartRange
    """When it starts, as a range over what is not known of the ends of running jobs."""
    now: PlaceThen
    """What it has at once, if nobody who waits goes first."""
    stopped_at: End | None
    """Seconds of the time limit that ended the search for the range, or `interrupted`; null = it ended by itself."""
    never: str | None
    """Why it does not fit, whatever ends; null = it does, or that is not known."""
    after: tuple[str, ...]
    """Running jobs at whose end it starts, where all end in the middle of what is possible; empty = at none's."""
    later: PlaceThen
    """The best that waiting for ends that are known gives, and from when on; as now = waiting gives nothing."""
    notes: tuple[str, ...]
    """What was counted and what was not, one sentence each."""
    job: JobDocument
    cluster: ClusterSummary


class StoppedJob(JsonRecord):
    """A running job that is to be stopped."""

    name: str
    """Its name."""
    gpu_hours_lost: NotNegative
    """GPUs times hours since its last checkpoint, else since its start."""
    owner: str | None
    """Whose it is; null = not said."""
    priority: float | None
    """The higher, the more it counts; null = not said."""
    last_checkpoint: str | None
    """When it wrote its last checkpoint, ISO 8601; null = not said, so that all since its start is lost."""
    nodes: tuple[str, ...]
    """Its nodes."""


class StopAnswer(JsonRecord, kw_only=True):
    """Whom to stop so that a job starts at once."""

    status: Status
    """optimal: by the rule no other choice of jobs loses less; feasible: one may; infeasible: the job does not fit
    either way."""
    below_priority: float | None
    """The rule: only jobs of lower priorities are stopped, the highest among them as low as can be; null = any that are
    preemptible."""
    stop: tuple[StoppedJob, ...]
    """The jobs to stop; empty = none need be, or it does not help."""
    gpu_hours_lost: NotNegative | None
    """GPU-hours that they lose in all; null = the job does not fit."""
    bound: NotNegative | None
    """No choice loses less, by the rule; null = the job does not fit, whoever is stopped."""
    notes: tuple[str, ...]
    """Who was not to be stopped, and why, one sentence each."""


class StopDocument(StopAnswer, kw_only=True):
    """Whom to stop so that a job starts at once, and where it goes."""

    stopped_at: End | None
    """Seconds of the time limit that ended the search, or `interrupted`; null = it ended by itself."""
    placement: PlaceThen
    """What the job has then."""
    job: JobDocument
    """The job as it was understood."""
    cluster: ClusterSummary
    """The cluster as it was read."""


ExplainOutput = ExplainDocument | WhenDocument | StopDocument  # One of the three


def _then(outcome: Outcome, at: float) -> PlaceThen:
    reason = outcome.reason or None
    return PlaceThen(iso(at) or "", outcome.status, outcome.objective, outcome.bound, outcome.spread, reason)


def when_document(instance: Instance, starts: StartTimes, *, now: float) -> WhenDocument:
    """Return the document of the start of a job; ``now``: seconds since 1970."""
    return record_of(
        WhenDocument,
        starts,
        start=StartRange(*map(iso, (starts.earliest, starts.p10, starts.p50, starts.p90))),
        now=_then(starts.now, now),
        never=starts.never or None,
        later=_then(starts.later, starts.later_at),
        notes=(*instance.notes, *starts.notes),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


def stop_answer(stopping: StopProposal) -> StopAnswer:
    """Return whom to stop."""
    fits = stopping.outcome.evaluation is not None
    jobs = (
        record_of(
            StoppedJob, other, gpu_hours_lost=stopping.lost[other.name], owner=other.owner or None,
            last_checkpoint=iso(other.last_checkpoint),
        )
        for other in stopping.jobs
    )  # fmt: skip
    return record_of(
        StopAnswer,
        stopping,
        below_priority=stopping.priority,
        stop=tuple(jobs),
        gpu_hours_lost=stopping.gpu_hours if fits else None,
        bound=stopping.bound if fits else None,
    )


def stop_document(instance: Instance, stopping: StopProposal, *, now: float) -> StopDocument:
    """Return the document of whom to stop, and where the job goes; ``now``: seconds since 1970."""
    return record_of(
        StopDocument,
        stop_answer(stopping),
        stopping,
        placement=_then(stopping.outcome, now),
        notes=(*instance.notes, *stopping.notes),
        job=job_document(instance),
        cluster=summarise_cluster(instance.cluster, instance.source),
    )


def print_when(out: Console, instance: Instance, document: WhenDocument) -> None:
    """Print when a job starts."""
    start, now, later = document.start, document.now, document.later
    if now.objective is not None and start.p50 == now.at:
        frame = Frame(out, f"starts now: objective {decimal(now.objective)} ({status_words(now.status)})", GOOD)
    elif start.p50 is None:
        unknown = "it waits for jobs of which no end is known" if document.stopped_at is None else "time ran out"
        never = f"it does not fit, whoever ends: {document.never}"
        frame = Frame(out, never if document.never else f"no start can be told: {unknown}", BAD)
    else:
        between = "" if start.p10 == start.p90 else f", likely {start.p10} to {start.p90 or 'not known'}"
        when = f" when {some(document.after)} {'ends' if len(document.after) == 1 else 'end'}" if document.after else ""
        frame = Frame(out, f"starts {start.p50}{when}{between}, not before {start.earliest}", SO_SO)
    print_head(out, instance)
    rows = [
        (words, then.at, None if then.objective is None else decimal(then.objective),
         then.reason or status_words(then.status))
        for words, then in (("now", now), ("later", later))
    ]  # fmt: skip
    frame.rows(("start", "at", "objective", ""), rows, title="Whether waiting gives a better place", left=("at", ""))
    frame.end([*passed_over(instance), *document.notes], "")


def loss(status: Status, hours: float, bound: float | None) -> str:
    """Return what stopped jobs lose, in GPU-hours, and how sure it is that no choice of jobs loses less."""
    sure = "no other choice loses less" if status == "optimal" else f"no less than {bound:,.1f}"
    return f"losing {hours:,.1f} GPU-hours ({sure})"


def print_stop(out: Console, instance: Instance, document: StopDocument) -> None:
    """Print whom to stop."""
    then, hours = document.placement, document.gpu_hours_lost
    if then.objective is None or hours is None:
        frame = Frame(out, f"it does not fit, whoever is stopped: {then.reason or status_words(then.status)}", BAD)
    elif not document.stop:
        frame = Frame(out, f"nobody need be stopped: objective {decimal(then.objective)}", GOOD)
    else:
        lost = loss(document.status, hours, document.bound)
        frame = Frame(
            out, f"stop {plural(len(document.stop), 'job')}, {lost}: objective {decimal(then.objective)}", SO_SO
        )
    print_head(out, instance)
    rows = [
        (job.name, job.owner, job.priority, f"{job.gpu_hours_lost:,.1f}", job.last_checkpoint, len(job.nodes),
         spell_names(job.nodes, most=60))
        for job in document.stop
    ]  # fmt: skip
    headers = ("job", "owner", "priority", "GPU-hours lost", "checkpoint", "nodes", "")
    frame.rows(headers, rows, title="Jobs to stop", left=("owner", "checkpoint", ""))
    frame.end([*passed_over(instance), *document.notes], "")
