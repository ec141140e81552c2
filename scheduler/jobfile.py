"""Job files and characterisation files (docs/job.md): YAML (or JSON) in, jobs out, every mistake named with its line.

A job file may leave alpha to a model description; what was derived or assumed is said in ``notes``, for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from scheduler.affinity import Model, Record, Size
from scheduler.job import DEFAULT_SPREAD_COST, MEGATRON_ORDER, Avoid, Job, LevelWeight, Overrides, Parallelism, Speed
from scheduler.job_affinity import job_affinity
from scheduler.job_parts import ConstraintFile, Factor, NamedOrDescribed, StrictModel, constraints_of
from scheduler.node_grid import filling
from scheduler.outcome import Instance
from scheduler.placement.admission import check_held_together
from topology.cluster import Cluster
from topology.documents import load_document
from topology.errors import InvalidInput, InvalidJob, TooLarge, UnknownName, did_you_mean
from topology.field_types import AtLeastOne, Share
from topology.files import Source

MAX_CELLS = 1_000_000  # Most nodes of one job; ten times the largest cluster that is known


class ParallelismFile(StrictModel):
    """Degrees of parallelism."""

    tp: AtLeastOne = 1
    cp: AtLeastOne = 1
    ep: AtLeastOne = 1
    dp: AtLeastOne = 1
    pp: AtLeastOne = 1
    etp: Annotated[AtLeastOne | None, Field(description="Tensor parallelism of the experts; null = tp.")] = None
    order: str | None = None


GpuTypes = Literal["any"] | Annotated[tuple[str, ...], Field(min_length=1, strict=False)]


def _type_names(given: object) -> object:
    """Return what a file says of types of GPU; raise ValueError, in our words, where it is neither a list nor any."""
    named = isinstance(given, list | tuple) and given and all(isinstance(one, str) and one for one in given)
    if given is None or given == "any" or named:
        return given
    raise ValueError("give a list of names such as [H200, H100], or any")


class JobDocument(StrictModel):
    """The whole file."""

    parallelism: ParallelismFile
    name: Annotated[str, Field(min_length=1, max_length=253)] = "job"
    gpus_per_node: Size = 8
    order: str | None = None
    alpha: Share | None = None
    model: NamedOrDescribed | None = None
    level: str | None = None
    tp_level: Annotated[
        str | None, Field(description="Level whose domains hold a TP group that takes several nodes; null = closest.")
    ] = None
    avoid: Avoid = "price"
    gpu_types: Annotated[GpuTypes | None, BeforeValidator(_type_names)] = None
    speed: dict[str, Annotated[float, Field(gt=0.0, le=1e6)]] | None = None
    constraints: tuple[ConstraintFile, ...] = Field(default=(), strict=False)
    levels: dict[str, Factor] | None = None
    microbatches: Size | None = None
    spread_cost: Factor | None = None


class RecordFile(StrictModel):
    """One measurement of a characterisation file."""

    name: str
    gpu: str
    model: Model
    parallelism: ParallelismFile
    dp_gain: Factor
    pp_gain: Factor
    published: str = ""

    @model_validator(mode="after")
    def _some_gain(self) -> RecordFile:
        if self.dp_gain == self.pp_gain == 0.0:
            raise ValueError("one of dp_gain and pp_gain must be above 0; such a job tells nothing about alpha")
        return self


class RecordsDocument(StrictModel):
    """A characterisation file."""

    records: tuple[RecordFile, ...] = Field(min_length=1, strict=False)


Where = Callable[..., str]  # File and line of a key: where("parallelism", "tp") is "job.yaml:3"


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job with the levels and types of GPU that it names (and the option or line that names each), and how it was
    read.
    """

    job: Job
    levels: tuple[tuple[str, str], ...]
    gpu_types: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]  # one sentence each, for the user
    where: Where  # of a key such as parallelism.tp

    def check_names(self, cluster: Cluster) -> None:
        """Make sure that the cluster has every level and every type of GPU that the job names, and that its groups can
        be held where it says.

        :raises UnknownName: one is missing; says where the job names it.
        :raises InvalidJob: as :func:`scheduler.placement.admission.check_held_together`.
        """
        types = [*cluster.nodes_of_type]
        for name, where in self.gpu_types:
            if name not in types:
                none = "none; give --gpu-type NAME if all nodes are of one, or leave gpu_types and speed out"
                fix = f"{did_you_mean(name, types)}types of this cluster: {', '.join(types) or none}"
                raise UnknownName(f"the cluster has no GPUs of the type {name!r}", where=where, fix=fix)
        known = [level.name for level in cluster.levels]
        for name, where in self.levels:
            if name not in known:
                raise UnknownName(
                    f"the cluster has no level {name!r}",
                    where=where,
                    fix=f"{did_you_mean(name, known)}levels of this cluster: {', '.join(known) or 'none'}",
                )
        try:
            check_held_together(cluster, self.job)
        except InvalidJob as error:
            raise InvalidJob(error.message, where=self.where(*error.where.split(".")), fix=error.fix) from None


def load_job(source: Source, *, overrides: Overrides | None = None, records: Sequence[Record] = ()) -> JobFile:
    """Read a job; options of the command line win over the file, records add to the built-in characterisation.

    :raises InvalidInput: not YAML or JSON.
    :raises InvalidJob: unknown keys, impossible values, groups that do not cut into nodes; says the line.
    :raises TooLarge: more than :data:`MAX_CELLS` nodes.
    """
    document = load_document(source)
    content = document.parse(JobDocument, error=InvalidJob)
    return job_of(content, document.where, overrides=overrides, records=records)


def job_of(
    content: JobDocument, where: Where, *, overrides: Overrides | None = None, records: Sequence[Record] = ()
) -> JobFile:
    """Return the job that a document describes; see :func:`load_job`."""
    overrides = overrides or Overrides()
    try:
        parallelism = _parallelism(content, where)
        known = job_affinity(
            parallelism,
            alpha=content.alpha if overrides.alpha is None else overrides.alpha,
            model=content.model,
            microbatches=content.microbatches,
            records=records,
        )
        holds, counts = constraints_of(content.constraints)
        job = Job(
            name=content.name,
            parallelism=parallelism,
            alpha=known.alpha,
            gpus_per_node=content.gpus_per_node,
            level=overrides.level or content.level,
            tp_level=content.tp_level,
            avoid=overrides.avoid or content.avoid,
            gpu_types=tuple(dict.fromkeys(content.gpu_types)) if isinstance(content.gpu_types, tuple) else None,
            mix_types=content.gpu_types == "any",
            speed=tuple(Speed(name, factor) for name, factor in (content.speed or {}).items()),
            holds=holds,
            counts=counts,
            levels=tuple(LevelWeight(name, weight) for name, weight in (content.levels or {}).items()),
            microbatches=known.microbatches,
            spread_cost=DEFAULT_SPREAD_COST if content.spread_cost is None else content.spread_cost,
        )
        _ = job.grid
    except InvalidJob as error:
        raise InvalidJob(error.message, where=_place(error.where, content, where, overrides), fix=error.fix) from None
    said = (known.reason, *filling(parallelism.dense, content.gpus_per_node))
    notes = tuple(f"{one}." for one in said if one)
    levels, types = _named_levels(content, where, overrides), _named_types(content, where)
    return JobFile(job, tuple(levels), tuple(types), notes, where)


def _named_levels(content: JobDocument, where: Where, overrides: Overrides) -> Iterator[tuple[str, str]]:
    """Yield names of levels, and where each stands."""
    if overrides.level is not None:
        yield overrides.level, "--level"
    elif content.level is not None:
        yield content.level, where("level")
    if content.tp_level is not None:
        yield content.tp_level, where("tp_level")
    for i, constraint in enumerate(content.constraints):
        for key in ("within", "level"):
            if (name := getattr(constraint, key)) is not None:
                yield name, where("constraints", i, key)
    for name in content.levels or ():
        yield name, where("levels", name)


def _named_types(content: JobDocument, where: Where) -> Iterator[tuple[str, str]]:
    """Yield names of types of GPU, and where each stands."""
    for i, name in enumerate(content.gpu_types if isinstance(content.gpu_types, tuple) else ()):
        yield name, where("gpu_types", i)
    for name in content.speed or ():
        yield name, where("speed", name)


def job_document(instance: Instance) -> JobDocument:
    """Return the job as a file that says everything: defaults, overrides and derived values filled in."""
    job = instance.job
    degrees = job.parallelism
    hard = [ConstraintFile(family=hold.family, within=hold.level) for hold in job.holds]
    soft = [ConstraintFile(family=count.family, level=count.level, weight=count.weight) for count in job.counts]
    return JobDocument(
        name=job.name,
        gpus_per_node=job.gpus_per_node,
        parallelism=ParallelismFile(
            tp=degrees.tp, cp=degrees.cp, ep=degrees.ep, dp=degrees.dp, pp=degrees.pp, etp=degrees.degree("etp")
        ),
        order=degrees.order,
        alpha=job.alpha,
        level=instance.level.name,
        tp_level=job.tp_level,
        avoid=job.avoid,
        gpu_types="any" if job.mix_types else job.gpu_types,
        speed={one.gpu_type: one.factor for one in job.speed} or None,
        constraints=(*hard, *soft),
        levels={one.level: one.weight for one in job.levels} or None,
        microbatches=job.microbatches,
        spread_cost=job.spread_cost,
    )


def load_records(source: Source) -> tuple[Record, ...]:
    """Read a characterisation file: measurements that extend the built-in table.

    :raises InvalidInput: not YAML or JSON, unknown keys, impossible values; says the line.
    """
    document = load_document(source)
    records: list[Record] = []
    for i, row in enumerate(document.parse(RecordsDocument).records):
        try:
            parallelism = Parallelism(**row.parallelism.model_dump(exclude_none=True))
        except InvalidJob as error:
            where = document.where("records", i, *error.where.split("."))
            raise InvalidInput(error.message, where=where, fix=error.fix) from None
        measured = row.name, row.gpu, row.model, parallelism
        records.append(Record(*measured, dp_gain=row.dp_gain, pp_gain=row.pp_gain, published=row.published))
    return tuple(records)


def _parallelism(content: JobDocument, where: Where) -> Parallelism:
    degrees = content.parallelism.model_dump(exclude={"order"})
    if content.order is not None and content.parallelism.order is not None:
        raise InvalidJob("order is given twice", where="order", fix="keep one of the two")
    parallelism = Parallelism(**degrees, order=content.order or content.parallelism.order or MEGATRON_ORDER)
    nodes = parallelism.gpus // content.gpus_per_node
    if nodes > MAX_CELLS:
        raise TooLarge(
            f"the job has {nodes:,} nodes; Arnold places up to {MAX_CELLS:,}",
            where=where("parallelism"),
            fix="lower dp or pp, or check the degrees for a slip",
        )
    return parallelism


def _place(key: str, content: JobDocument, where: Where, overrides: Overrides) -> str:
    """Return file and line, or option, of what an error calls by its key."""
    if key == "alpha" and overrides.alpha is not None:
        return "--alpha"
    if key == "parallelism.order" and content.order is not None:
        return where("order")
    return where(*key.split("."))
