"""Job files (docs: job.md): YAML (or JSON) in, jobs out, every mistake named with its line.

A job file may leave alpha to a model description; what was derived or assumed is said in ``notes``, for the user.  Some
of its parts also stand in annotations of pods and in cells of a trace: constraints and the model.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from annotated_types import Ge, Interval, Len

from ground.documents import load_document
from ground.errors import InvalidInput, InvalidJob, TooLarge, UnknownName, did_you_mean
from ground.files import Source
from ground.records import AsWritten, JsonRecord, Prepared, record_of
from scheduler.affinity import Gains, Model, Size, job_affinity, named_model
from scheduler.grid import filling
from scheduler.job import (
    DEGREES,
    MEGATRON_ORDER,
    Avoid,
    ContainerImage,
    Count,
    DataSet,
    Family,
    Hold,
    Job,
    LevelWeight,
    Overrides,
    Parallelism,
    Speed,
)
from scheduler.job_on_cluster import NodeSizes, named_in_full, node_sizes, within_the_tree
from scheduler.outcome import Instance
from scheduler.placement.admission import check_held_together
from topology.cluster import DEFAULT_GPUS, GIVE_LEVELS, SECOND, Cluster
from topology.taints import Toleration, parse_toleration

MOST_CONSTRAINTS = 256  # of a job: more than there are families and levels of any cluster; each takes time
Degree = Annotated[int, AsWritten(), Ge(1)]
Factor = Annotated[float, AsWritten(), Interval(ge=0.0, le=1e6)]
SpeedFactor = Annotated[float, AsWritten(), Interval(gt=0.0, le=1e6)]


class FiniteRecord(JsonRecord):
    """Part of a file that refuses NaN and infinities."""

    __pydantic_config__: ClassVar = {**JsonRecord.__pydantic_config__, "allow_inf_nan": False}


class ConstraintFile(FiniteRecord, kw_only=True):
    """A hard constraint (``within``) or a soft one (``level`` and ``weight``)."""

    family: Family
    """Kind of the groups."""
    within: str | None = None
    """Level inside one domain of which each group is kept; null = the constraint is soft."""
    level: str | None = None
    """Level whose domains are counted; null = the constraint is hard."""
    weight: Factor | None = None
    """What each domain that the widest group touches adds to the objective; null = the constraint is hard."""

    def __post_init__(self) -> None:
        soft = self.level is not None and self.weight is not None
        if (self.within is None) != soft or (self.within is not None and (self.level or self.weight is not None)):
            raise ValueError("give either within (hard), or level and weight (soft)")


ConstraintFiles = Annotated[tuple[ConstraintFile, ...], Len(0, MOST_CONSTRAINTS)]


def _by_name(given: Any) -> Any:
    """Return the model that a name stands for; anything else as it is."""
    try:
        return named_model(given) if isinstance(given, str) else given
    except InvalidJob as error:
        raise ValueError(f"{error.message}; {error.fix}") from None


NamedOrDescribed = Annotated[Model, Prepared(_by_name, Model | str)]
"""A model as a job file gives it: its shape, or a name of ``scheduler.affinity.NAMED_MODELS``."""


def _printable(name: Any) -> Any:
    """Return a name that may be printed on a terminal; raise ValueError where it has control characters."""
    if isinstance(name, str) and not name.isprintable():
        raise ValueError(f"it has control characters: {name[:60]!r}")
    return name


JobName = Annotated[str, Len(1, 253), Prepared(_printable)]


def _type_names(given: object) -> object:
    """Return what a file says of types of GPU; raise ValueError, in our words, where it is neither a list nor any."""
    named = isinstance(given, list | tuple) and given and all(isinstance(name, str) and name for name in given)
    if given is None or given == "any" or named:
        return given
    raise ValueError("give a list of names such as [H200, H100], or any")


GpuTypes = Annotated[Literal["any"] | Annotated[tuple[str, ...], Len(1)], Prepared(_type_names)]
DataSizes = Annotated[dict[str, Annotated[float, AsWritten(), Interval(gt=0.0, le=1e18)]], Len(0, 256)]


class TolerationFile(FiniteRecord, kw_only=True):
    """Taints that a job puts up with, as a pod's toleration says it."""

    key: str = ""
    """Key of the taints; empty = any, with the operator Exists."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal: of this value. Exists: of any value."""
    value: str = ""
    """Value of the taints."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Effect of the taints; empty = any."""

    def __post_init__(self) -> None:
        if not self.key and self.operator != "Exists":
            raise ValueError("give a key, or the operator Exists for taints of any key")
        if self.value and self.operator == "Exists":
            raise ValueError("Exists is of any value: leave value out, or write Equal")

    @property
    def toleration(self) -> Toleration:
        """What it says."""
        return Toleration(self.key, self.operator, self.value, self.effect)


class PodToleration(TolerationFile, kw_only=True):
    """Taints that a pod puts up with."""

    tolerationSeconds: Annotated[int, AsWritten()] | None = None  # noqa: N815  (its name in a pod)
    """How long a pod puts up with NoExecute; taken for ever."""


def _toleration(given: Any) -> Any:
    """Return what a short form ``KEY[=VALUE]`` stands for, and that of a pod without its tolerationSeconds."""
    if isinstance(given, dict):
        if type(given.get("tolerationSeconds")) not in (int, NoneType):
            raise ValueError("tolerationSeconds is a whole number of seconds")
        return {key: value for key, value in given.items() if key != "tolerationSeconds"}
    if not isinstance(given, str):
        return given
    short = parse_toleration(given)
    return {"key": short.key, "operator": short.operator, "value": short.value, "effect": short.effect}


TolerationFiles = Annotated[
    tuple[Annotated[TolerationFile, Prepared(_toleration, PodToleration | str)], ...], Len(0, MOST_CONSTRAINTS)
]


class Constraints(NamedTuple):
    """What constraints of a job file come to."""

    holds: tuple[Hold, ...] = ()
    counts: tuple[Count, ...] = ()


def constraints_of(written: Iterable[ConstraintFile]) -> Constraints:
    """Return the hard ones, each once, and the soft ones."""
    holds: dict[Hold, None] = {}
    counts: list[Count] = []
    for constraint in written:
        if constraint.within is not None:
            holds[Hold(constraint.family, constraint.within)] = None
        if constraint.level is not None and constraint.weight is not None:
            counts.append(Count(constraint.family, constraint.level, constraint.weight))
    return Constraints(tuple(holds), tuple(counts))


@lru_cache(1024)  # jobs of a trace, and pods of a gang, say the same
def read_constraints(text: str) -> Constraints:
    """Return what a text says as under ``constraints`` in a job file; raise InvalidJob: not such a list."""
    with _refused_as("constraints"):
        return constraints_of(load_document(Source("constraints", text)).parse(ConstraintFiles))


@lru_cache(1024)
def read_model(text: str) -> Model:
    """Return the model of a text as under ``model`` in a job file: its shape, or a name; raise InvalidJob: neither."""
    if not text.strip():
        return named_model("")
    with _refused_as("model"):
        document = load_document(Source("model", text))
        return named_model(document.data) if isinstance(document.data, str) else document.parse(Model)


@contextmanager
def _refused_as(name: str) -> Iterator[None]:
    """Turn what is wrong with a text into an error of the job, at this key."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidJob(error.message, where=name, fix=error.fix) from None


class ParallelismFile(FiniteRecord, kw_only=True):
    """Degrees of parallelism: the job has tp * cp * pp * dp GPUs."""

    tp: Degree = 1
    """Tensor parallelism, GPUs of a group."""
    cp: Degree = 1
    """Context parallelism."""
    ep: Degree = 1
    """Expert parallelism, which is cut out of tp * cp * dp."""
    dp: Degree = 1
    """Data parallelism, replicas."""
    pp: Degree = 1
    """Pipeline parallelism, stages."""
    etp: Degree | None = None
    """Tensor parallelism of the experts; null = tp."""
    order: str | None = None
    """How ranks run, the fastest first; null = tp-cp-ep-dp-pp. May stand here or beside `parallelism`."""

    def in_order(self, order: str | None) -> Parallelism:
        """Return the degrees with an order, ``None`` = the usual one; raise InvalidJob as they do."""
        degrees = {name: getattr(self, name) for name in DEGREES}
        return Parallelism(**degrees, order=MEGATRON_ORDER if order is None else order)


LONGEST_HOURS = 100_000.0  # Of a job: eleven years, beyond it is a slip


class JobDocument(FiniteRecord, kw_only=True):
    """What a job file says; job.md of the docs explains each key."""

    parallelism: ParallelismFile
    """Degrees of parallelism."""
    name: JobName = "job"
    """Name for people."""
    gpus_per_node: Size | None = None
    """GPUs of each of its nodes; null = what the nodes of the cluster have."""
    order: str | None = None
    """How ranks run, the fastest first; null = tp-cp-ep-dp-pp."""
    alpha: Annotated[float, AsWritten(), Interval(ge=0.0, le=1.0)] | None = None
    """DP affinity, the weight of DP spread in the objective; PP spread has 1 - alpha. null = from `model`, else 0.3."""
    model: NamedOrDescribed | None = None
    """Model that it trains, by shape or name, from which alpha is derived; null = not known."""
    level: str | None = None
    """Level of the cluster whose domains spread counts; null = the broadest with more than one domain."""
    tp_level: str | None = None
    """Level whose domains hold a TP group of several nodes; null = the closest."""
    avoid: Avoid = "price"
    """Slow nodes: `strict` uses none, `price` weighs their slowdown against spread, `ignore` takes no notice."""
    gpu_types: GpuTypes | None = None
    """Types of GPU allowed, or `any` to mix them; null = any one of them."""
    speed: dict[str, SpeedFactor] | None = None
    """Relative speed of the job by type of GPU; null = 1 for all."""
    constraints: ConstraintFiles = ()
    """Hard and soft constraints on groups."""
    levels: dict[str, Factor] | None = None
    """Level -> weight of Eq. 2, counted there, in the objective; null = none."""
    microbatches: Size | None = None
    """Microbatches of a step; null = from `model`, else not known."""
    spread_cost: Factor | None = None
    """Share of the step time that one unit of the objective costs; null = from `model`, else 0.0257."""
    data_sets: DataSizes | None = None
    """Data set -> what the job reads of it, samples or bytes, for all jobs alike; null = not known."""
    data_level: str | None = None
    """Level whose domains have a cache in common; null = the closest."""
    images: dict[str, Factor] | None = None
    """Image that every node needs -> GB to pull; null = none are named."""
    tolerations: TolerationFiles = ()
    """Taints that it puts up with, so that their nodes are its too: those of Kubernetes, or KEY, or KEY=VALUE."""
    expected_hours: Annotated[float, AsWritten(), Interval(gt=0.0, le=LONGEST_HOURS)] | None = None
    """Hours that it runs: nodes that go away before it ends are not used; null = not known."""
    interruptible: Annotated[bool, AsWritten()] = False
    """Whether it may lose nodes before it ends: such nodes then have a price, as slow ones have."""


MAX_CELLS = 1_000_000  # Most nodes of one job; ten times the largest cluster that is known


Where = Callable[..., str]  # File and line of a key: where("parallelism", "tp") is "job.yaml:3"


Named = tuple[tuple[str, str], ...]  # Names of a cluster, each with the option or line that says it


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job, the levels and types of GPU that it names (with the option or line of each), and how it was read."""

    job: Job
    # levels that must be of the tree: where spread counts, `tp_level`, weighed ones
    in_tree: Named
    levels: Named  # of constraints and caches
    gpu_types: Named
    notes: tuple[str, ...]  # one sentence each, for the user
    where: Where  # of a key such as parallelism.tp

    def check_names(self, cluster: Cluster) -> None:
        """Make sure that the cluster has every level and every type of GPU that the job names, and that its groups can
        be held where it says.

        :raises UnknownName: one is missing; says where the job names it.
        :raises InvalidTopology: the cluster has no levels at all.
        :raises InvalidJob: as :func:`scheduler.placement.admission.check_held_together`.
        """
        types = [*cluster.nodes_of_type]
        for name, where in self.gpu_types:
            if name not in types:
                none = "none; give --gpu-type NAME if all nodes are of one, or leave gpu_types and speed out"
                fix = f"{did_you_mean(name, types)}types of this cluster: {', '.join(types) or none}"
                raise UnknownName(f"the cluster has no GPUs of the type {name!r}", where=where, fix=fix)
        tree, beside = ([level.name for level in some] for some in (cluster.levels, cluster.second_levels))
        for name, where in (*self.in_tree, *self.levels):
            if (name in beside or f"{SECOND}{name}" in beside) and (name, where) in self.in_tree:
                second = f"spread counts at a level of the tree, and {name!r} is a second hierarchy"
                fix = f"name one of {', '.join(tree) or 'none'}; {name} may stand in constraints"
                raise UnknownName(second, where=where, fix=fix)
            if name not in (levels := [*tree, *beside]) and f"{SECOND}{name}" not in beside:
                known = f"levels of this cluster: {', '.join(levels)}; --level-names renames them"
                fix = f"{did_you_mean(name, levels)}{known}" if levels else GIVE_LEVELS
                raise UnknownName(f"the cluster has no level {name!r}", where=where, fix=fix)
        cluster.default_level(where="--cluster")  # raises where there are no levels
        try:
            check_held_together(cluster, within_the_tree(cluster, self.job))
        except InvalidJob as error:
            raise InvalidJob(error.message, where=self.where(*error.where.split(".")), fix=error.fix) from None


def load_job(
    source: Source,
    *,
    overrides: Overrides | None = None,
    records: Sequence[Gains] = (),
    cluster: Cluster | None = None,
    gpus_per_node: int = DEFAULT_GPUS,
) -> JobFile:
    """Read a job; options of the command line win over the file, records add to the built-in characterisation.

    :param cluster: where the job is to go: its nodes say how many GPUs they have where the job does not.
    :param gpus_per_node: of a job that does not say it, where no cluster is known.
    :raises InvalidInput: not YAML or JSON.
    :raises InvalidJob: unknown keys, impossible values, groups that do not cut into nodes; says the line.
    :raises TooLarge: more than :data:`MAX_CELLS` nodes.
    """
    document = load_document(source)
    content = document.parse(JobDocument, error=InvalidJob)
    return job_of(
        content, document.where, overrides=overrides, records=records, cluster=cluster, gpus_per_node=gpus_per_node
    )


def expected_hours(source: Source) -> float | None:
    """Return how long a job says that it runs, before all of it can be read; ``None`` = not said, or not as a number.

    :raises InvalidInput: not YAML or JSON.
    """
    data = load_document(source).data
    hours = data.get("expected_hours") if isinstance(data, dict) else None
    return float(hours) if isinstance(hours, int | float) and 0 < hours <= LONGEST_HOURS else None


def job_of(
    content: JobDocument,
    where: Where,
    *,
    overrides: Overrides | None = None,
    records: Sequence[Gains] = (),
    cluster: Cluster | None = None,
    gpus_per_node: int = DEFAULT_GPUS,
) -> JobFile:
    """Return the job that a document describes; see :func:`load_job`."""
    overrides = overrides or Overrides()
    gpu_types = tuple(dict.fromkeys(content.gpu_types)) if isinstance(content.gpu_types, tuple) else None
    try:
        if content.order is not None and content.parallelism.order is not None:
            raise InvalidJob("order is given twice", where="order", fix="keep one of the two")
        given = content.parallelism.order if content.order is None else content.order
        parallelism = content.parallelism.in_order(given)
        parallelism = parallelism if overrides.dp is None else replace(parallelism, dp=overrides.dp)
        if content.gpus_per_node is None and cluster is not None:
            sizes = node_sizes(cluster, parallelism, gpu_types)
        else:
            sizes = NodeSizes(content.gpus_per_node or gpus_per_node, (), (), "")
        # before so many nodes are laid out
        nodes = parallelism.gpus // sizes.usual
        if nodes > MAX_CELLS:
            problem = f"the job has {nodes:,} nodes; Arnold places up to {MAX_CELLS:,}"
            raise TooLarge(problem, where=where("parallelism"), fix="lower dp or pp, or check the degrees for a slip")
        alpha = content.alpha if overrides.alpha is None else overrides.alpha
        affinity = job_affinity(
            parallelism, alpha=alpha, model=content.model, microbatches=content.microbatches, records=records
        )
        holds, counts = constraints_of(content.constraints)
        job = Job(
            name=content.name,
            parallelism=parallelism,
            alpha=affinity.alpha,
            gpus_per_node=sizes.usual,
            node_sizes=sizes.by_type,
            level=overrides.level or content.level,
            tp_level=content.tp_level,
            avoid=overrides.avoid or content.avoid,
            gpu_types=sizes.fitting or gpu_types,
            mix_types=content.gpu_types == "any",
            speed=tuple(Speed(name, factor) for name, factor in (content.speed or {}).items()),
            holds=holds,
            counts=counts,
            levels=tuple(LevelWeight(name, weight) for name, weight in (content.levels or {}).items()),
            microbatches=affinity.microbatches,
            spread_cost=affinity.spread_cost if content.spread_cost is None else content.spread_cost,
            data_sets=tuple(DataSet(name, size) for name, size in (content.data_sets or {}).items()),
            data_level=content.data_level,
            images=tuple(ContainerImage(name, gb) for name, gb in (content.images or {}).items()),
            tolerations=tuple(toleration.toleration for toleration in content.tolerations),
            expected_hours=content.expected_hours,
            interruptible=content.interruptible,
        )
        if cluster is not None:
            tree, beside = ([level.name for level in some] for some in (cluster.levels, cluster.second_levels))
            job = named_in_full(job, tree, beside)
        _ = job.grid
    except InvalidJob as error:
        # file and line, or option, of what the error calls by its key
        if error.where == "alpha" and overrides.alpha is not None:
            at = "--alpha"
        elif error.where == "parallelism.order" and content.order is not None:
            at = where("order")
        else:
            at = where(*error.where.split("."))
        raise InvalidJob(error.message, where=at, fix=error.fix) from None
    sentences = (affinity.reason, *filling(parallelism.dense, sizes.usual), sizes.note)
    return JobFile(
        job, *_named(content, where, overrides), tuple(f"{sentence}." for sentence in sentences if sentence), where
    )


def _named(content: JobDocument, where: Where, overrides: Overrides) -> tuple[Named, Named, Named]:
    """Return names that must be levels of the tree; names of levels in constraints, and of caches; and types of GPU."""
    in_tree: list[tuple[str, str]] = []
    if overrides.level is not None:
        in_tree.append((overrides.level, "--level"))
    elif content.level is not None:
        in_tree.append((content.level, where("level")))
    if content.tp_level is not None:
        in_tree.append((content.tp_level, where("tp_level")))
    in_tree += [(name, where("levels", name)) for name in content.levels or ()]
    levels = [
        (name, where("constraints", i, key))
        for i, constraint in enumerate(content.constraints)
        for key in ("within", "level")
        if (name := getattr(constraint, key)) is not None
    ]
    if content.data_level is not None:
        levels.append((content.data_level, where("data_level")))
    listed = content.gpu_types if isinstance(content.gpu_types, tuple) else ()
    types = [(name, where("gpu_types", i)) for i, name in enumerate(listed)]
    types += [(name, where("speed", name)) for name in content.speed or ()]
    return tuple(in_tree), tuple(levels), tuple(types)


def job_document(instance: Instance) -> JobDocument:
    """Return the job as a file that says everything: defaults, overrides and derived values filled in."""
    return document_of(instance.job, level=instance.level.name)


def document_of(job: Job, *, level: str | None) -> JobDocument:
    """Return a job as a file that says everything; ``level``: whose domains spread counts."""
    degrees = job.parallelism
    hard = [ConstraintFile(family=hold.family, within=hold.level) for hold in job.holds]
    soft = [ConstraintFile(family=count.family, level=count.level, weight=count.weight) for count in job.counts]
    return record_of(
        JobDocument,
        job,
        parallelism=record_of(ParallelismFile, degrees, etp=degrees.degree("etp"), order=None),
        order=degrees.order,
        model=None,
        level=level,
        gpu_types="any" if job.mix_types else job.gpu_types,
        speed={speed.gpu_type: speed.factor for speed in job.speed} or None,
        constraints=(*hard, *soft),
        levels={level.level: level.weight for level in job.levels} or None,
        data_sets=dict(job.data_sets) or None,
        images={image.name: image.gb for image in job.images} or None,
        tolerations=tuple(record_of(TolerationFile, toleration) for toleration in job.tolerations),
    )
