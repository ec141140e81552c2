"""The job file: YAML (or JSON) in, :class:`~scheduler.job.Job` out, every mistake named with its line.

The format is described for users in docs/job.md.  A job file may leave alpha to a model description; what was derived
or assumed is said in ``notes``, which commands pass on to the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.affinity import Affinity, Record, affinity, microbatches
from scheduler.documents.job import JobDocument, RecordsDocument
from scheduler.job import MEGATRON_ORDER, Avoid, Count, Hold, Job, Parallelism
from topology.cluster import Cluster
from topology.documents import Document, load_document
from topology.errors import InvalidJob, TooLarge, UnknownName, did_you_mean
from topology.files import Source

MAX_CELLS = 1_000_000
"""Most nodes of one job; ten times the largest cluster that is known."""

DEFAULT_ALPHA = 0.5


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the job file; ``None`` = nothing."""

    alpha: float | None = None
    level: str | None = None
    avoid: Avoid | None = None


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job with what is worth saying about how it was read.

    :param affinity: how alpha was derived; ``None`` = it was given, or the default taken.
    :param notes: one sentence each, for the user.
    """

    job: Job
    affinity: Affinity | None
    notes: tuple[str, ...]
    document: Document
    overrides: Overrides

    def check_levels(self, cluster: Cluster) -> None:
        """Make sure that the cluster has every level that the job names.

        :raises UnknownName: it has not; says where the job names it.
        """
        job = self.job
        named = [] if job.level is None else [(job.level, "--level" if self.overrides.level else self._at("level"))]
        constraints = self.document.data.get("constraints", ())
        for i, constraint in enumerate(constraints):
            key = "within" if "within" in constraint else "level"
            named.append((constraint[key], self._at("constraints", i, key)))
        known = [level.name for level in cluster.levels]
        for name, where in named:
            if name not in known:
                raise UnknownName(
                    f"the cluster has no level {name!r}",
                    where=where,
                    fix=f"{did_you_mean(name, known)}levels of this cluster: {', '.join(known) or 'none'}",
                )

    def _at(self, *path: str | int) -> str:
        return self.document.where(*path)


def load_job(source: Source, *, overrides: Overrides = Overrides(), records: Sequence[Record] = ()) -> JobFile:
    """Read a job.

    :param overrides: command-line options that win over the file.
    :param records: characterisation besides the built-in table.
    :raises InvalidInput: not YAML or JSON.
    :raises InvalidJob: unknown keys, impossible values, groups that do not cut into nodes; says the line.
    :raises TooLarge: more than :data:`MAX_CELLS` nodes.
    """
    document = load_document(source)
    content = document.parse(JobDocument, error=InvalidJob)
    parallelism = _parallelism(content, document)
    notes: list[str] = []
    alpha, derived = _alpha(content, parallelism, records=records, notes=notes, given=overrides.alpha)
    try:
        job = Job(
            name=content.name,
            parallelism=parallelism,
            alpha=alpha,
            gpus_per_node=content.gpus_per_node,
            level=overrides.level or content.level,
            avoid=overrides.avoid or content.avoid,
            holds=tuple(Hold(c.family, c.within) for c in content.constraints if c.within is not None),
            counts=tuple(
                Count(c.family, c.level, c.weight)
                for c in content.constraints
                if c.level is not None and c.weight is not None
            ),
            microbatches=_microbatches(content, parallelism),
        )
        if content.spread_cost is not None:
            job = job.replace(spread_cost=content.spread_cost)
        _ = job.grid
    except InvalidJob as error:
        raise _placed(error, document, overrides) from None
    return JobFile(job, derived, tuple(notes), document, overrides)


def load_records(source: Source) -> tuple[Record, ...]:
    """Read a characterisation file: measurements that extend the built-in table.

    :raises InvalidInput: not YAML or JSON, unknown keys, impossible values; says the line.
    """
    content = load_document(source).parse(RecordsDocument)
    return tuple(
        Record(
            name=row.name,
            gpu=row.gpu,
            model=row.model.to_model(),
            parallelism=Parallelism(**row.parallelism.model_dump(exclude_none=True)),
            dp_gain=row.dp_gain,
            pp_gain=row.pp_gain,
            published=row.published,
        )
        for row in content.records
    )


def _parallelism(content: JobDocument, document: Document) -> Parallelism:
    degrees = content.parallelism.model_dump(exclude={"order"})
    if content.order is not None and content.parallelism.order is not None:
        raise InvalidJob("order is given twice", where=document.where("order"), fix="keep one of the two")
    order = content.order or content.parallelism.order or MEGATRON_ORDER
    try:
        parallelism = Parallelism(**degrees, order=order)
    except InvalidJob as error:
        raise _placed(error, document, Overrides()) from None
    nodes = parallelism.gpus // content.gpus_per_node
    if nodes > MAX_CELLS:
        raise TooLarge(
            f"the job has {nodes:,} nodes; Arnold places up to {MAX_CELLS:,}",
            where=document.where("parallelism"),
            fix="lower dp or pp, or check the degrees for a slip",
        )
    return parallelism


def _alpha(
    content: JobDocument,
    parallelism: Parallelism,
    *,
    records: Sequence[Record],
    notes: list[str],
    given: float | None,
) -> tuple[float, Affinity | None]:
    said = content.alpha if given is None else given
    if said is not None:
        return said, None
    if content.model is None:
        notes.append(f"alpha {DEFAULT_ALPHA} by default: the job gives neither alpha nor model.")
        return DEFAULT_ALPHA, None
    from scheduler.characterisation import RECORDS

    derived = affinity(content.model.to_model(), parallelism, (*records, *RECORDS))
    notes.append(derived.reason + ".")
    return derived.alpha, derived


def _microbatches(content: JobDocument, parallelism: Parallelism) -> int | None:
    if content.microbatches is not None or content.model is None:
        return content.microbatches
    return microbatches(content.model.to_model(), parallelism)


def _placed(error: InvalidJob, document: Document, overrides: Overrides) -> InvalidJob:
    """The same error with the line of the file, or the option, that it speaks of."""
    if error.where == "alpha" and overrides.alpha is not None:
        where = "--alpha"
    elif error.where == "parallelism.order" and "order" in document.data:
        where = document.where("order")
    else:
        where = document.where(*error.where.split("."))
    return InvalidJob(error.message, where=where, fix=error.fix)
