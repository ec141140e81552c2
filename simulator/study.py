"""A study: many replays of a trace, each a row of plain values, kept in a file and compared.

Which runs there are is a grid (policy, algorithm, cluster, load, seed); a run is a row: what it was, what came out, two
curves.  Wall times are no part of it: the same run gives the same row wherever and whenever it is made.  Rows stand in
a Parquet file, and in a journal while the study goes on, so that no run is made twice or lost.  Runs that differ in the
seed alone are told together, with means and intervals.  Runs are made by processes here, or by the workers of a Dask
scheduler, which need this program in the same version: trace and clusters travel to them.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from annotated_types import Gt

from ground.errors import InvalidInput
from ground.files import not_writable, write_file
from ground.groups import grouped
from ground.quantities import Kind
from ground.records import Count, JsonRecord
from scheduler.queue.policy import POLICIES, QueuePolicy
from scheduler.study.executors import Executor, WorkerLost
from simulator.checkpoints import fingerprint, held_alone
from simulator.confidence import Band, half_width
from simulator.engine import Diverged
from simulator.history import run_history
from simulator.replay import prepare
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.results import NAMES, Distribution, RunSummary, run_summary, time_series
from simulator.traces import JobTrace, resampled, scale_load
from topology.cluster import Cluster, FloatArray

CURVE = 120  # Buckets of the curves, from the first submission to the last
_TIMES = tuple(field.name for field in fields(Distribution))


class StudyPoint(NamedTuple):
    """One run; its fields are the first columns of its row."""

    policy: str
    algorithm: str
    cluster: str  # name of the cluster among those of the study
    load: float  # scale of the load
    seed: int


COLUMNS: dict[str, type] = {
    **dict(zip(StudyPoint._fields, (str, str, str, float, int), strict=True)),
    "outcome": str,
    **dict.fromkeys(("jobs", "completed", "dropped"), int),
    "makespan_seconds": float,
    **{f"wait_{name}": float for name in _TIMES},
    **{f"jct_{name}": float for name in _TIMES},
    **{f"wait_mean_size_{i}": float for i in range(len(NAMES))},
    **dict.fromkeys(("utilization", "fragmentation", "dp_spread", "pp_spread", "throughput_lost"), float),
    **dict.fromkeys(("goodput", "ettr", "ettr_worst_hour"), float),
    **dict.fromkeys(("failures", "preemptions", "events"), int),
    "window_seconds": float,
    **dict.fromkeys(("waiting", "allocation"), list),
}
"""Columns of a row; ``wait_mean_size_0`` to ``_4`` are the classes of ``simulator.results``, the last two
the curves: jobs that wait, and the share of GPUs held, in :data:`CURVE` buckets of ``window_seconds``."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What all runs share; it travels to every process once."""

    trace: JobTrace
    clusters: Mapping[str, Cluster]
    settings: ReplaySettings = field(default=ReplaySettings())  # of each run, but for what a StudyPoint says
    lenient: bool = False  # leave out jobs that a cluster could never hold, and count them
    # seconds of the pieces from which each seed but 0 makes its own trace; None = all have the same
    resample: float | None = None


@dataclass(frozen=True, slots=True)
class StudyGrid:
    """Everything with everything."""

    policies: Sequence[str]
    algorithms: Sequence[str]
    clusters: Sequence[str]
    loads: Sequence[float] = (1.0,)
    seeds: Sequence[int] = (0,)

    @property
    def points(self) -> list[StudyPoint]:
        """All runs, in order; the seed changes fastest."""
        axes = self.policies, self.algorithms, self.clusters, self.loads, self.seeds
        return [StudyPoint(*point) for point in dict.fromkeys(product(*axes))]


def check_names(grid: StudyGrid) -> list[QueuePolicy]:
    """Load every policy and algorithm once, and return the policies.

    :raises UnknownName: one is not installed.
    """
    from scheduler.placement.types import ALGORITHMS

    for algorithm in grid.algorithms:
        if algorithm != COUNT_ONLY:
            ALGORITHMS.load(algorithm)
    return [POLICIES.load(policy) for policy in grid.policies]


def study_fingerprint(inputs: Inputs, *, version: str) -> str:
    """Return SHA-256 of what all runs of a study follow from, besides their points; with the program's version."""
    settings = replace(inputs.settings, policy="", algorithm="", seed=0)
    settings = replace(settings, cost=settings.cost_model)
    return fingerprint((version, settings, inputs.lenient, inputs.resample), inputs.trace, inputs.clusters)


def run_point(inputs: Inputs, point: StudyPoint) -> Row:
    """Make one run.

    :raises ArnoldError: it cannot begin.  One that diverges is a row that says so.
    """
    trace = inputs.trace if inputs.resample is None else resampled(inputs.trace, inputs.resample, point.seed)
    if point.load != 1.0:
        trace = scale_load(trace, point.load)
    settings = replace(inputs.settings, policy=point.policy, algorithm=point.algorithm, seed=point.seed)
    replay = prepare(trace, inputs.clusters[point.cluster], settings, lenient=inputs.lenient)
    engine = replay.engine
    row: Row = dict.fromkeys(COLUMNS) | point._asdict()
    row |= {"jobs": len(engine.jobs), "dropped": sum(replay.trace.dropped.values()), "outcome": "ended"}
    try:
        engine.run()
    except Diverged as error:
        return row | {"outcome": error.message, "completed": engine.completed, "events": engine.events}
    history = run_history(engine, replay.log, replay.places)
    summary = run_summary(history)
    window = history.jobs[-1].submitted - history.origin or history.length
    curves = time_series(history, edges=np.linspace(0.0, window, CURVE + 1))
    return row | {
        # the allocation of a row is a curve, below
        **{field.name: getattr(summary, field.name) for field in fields(RunSummary) if field.name in COLUMNS},
        **_distribution("wait", summary.wait_seconds),
        **_distribution("jct", summary.jct_seconds),
        **{f"wait_mean_size_{i}": waits and waits.wait.mean for i, waits in enumerate(summary.waits_by_size)},
        "dp_spread": summary.spread.dp if summary.spread else None,
        "pp_spread": summary.spread.pp if summary.spread else None,
        "events": engine.events,
        "window_seconds": window,
        "waiting": _rounded(curves.jobs_waiting),
        "allocation": _rounded(curves.utilization),
    }


def _distribution(name: str, found: Distribution | None) -> Row:
    return {f"{name}_{which}": None if found is None else getattr(found, which) for which in _TIMES}


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


class ComparedMetric(NamedTuple):
    """A number of a run that is worth comparing."""

    column: str  # of the study's rows
    title: str
    kind: Kind
    better: Literal["less", "more"]  # which way is better


METRICS = (
    ComparedMetric("wait_mean", "Mean wait", "seconds", "less"),
    ComparedMetric("wait_p95", "Wait, 95th percentile", "seconds", "less"),
    ComparedMetric("jct_mean", "Mean completion time", "seconds", "less"),
    ComparedMetric("makespan_seconds", "Makespan", "seconds", "less"),
    ComparedMetric("utilization", "Utilization", "share", "more"),
    ComparedMetric("fragmentation", "Fragmentation", "share", "less"),
    ComparedMetric("dp_spread", "Mean DP spread", "count", "less"),
    ComparedMetric("throughput_lost", "Throughput lost to slower steps", "share", "less"),
    ComparedMetric("ettr", "ETTR", "share", "more"),
)
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """The same over time, shape [buckets]; NaN = no run has a value."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, runs: Sequence[FloatArray]) -> Self:
        """Return the bands of runs over the same buckets."""
        means, halves = [], []
        for column in np.array(runs, dtype=np.float64).T:
            values = column[~np.isnan(column)].tolist()
            means.append(fmean(values) if values else np.nan)
            halves.append(half_width(values) if values else np.nan)
        mean, half = np.array(means), np.array(halves)
        return cls(mean, np.maximum(mean - half, 0.0), mean + half)


class ComparedRuns(JsonRecord, kw_only=True):
    """Runs that differ in their seed alone."""

    name: str
    """What tells it from the others of its load."""
    policy: str
    """Queue policy."""
    algorithm: str
    """Placement algorithm; `none` = GPUs were only counted."""
    cluster: str
    """Name of its file, without folder and suffix where that tells it from the others."""
    load: Annotated[float, Gt(0)]
    """Scale of the load."""
    runs: Count
    """Runs that came to an end."""
    diverged: Count
    """Runs that were ended because they would not end."""
    metrics: Mapping[str, Band]
    """Column of the rows -> mean with its band; a number that no run has is left out."""
    against: Mapping[str, Band]
    """Differences from the first group of this load, seed by seed; empty in the first group."""


class RunGroup(ComparedRuns, kw_only=True, eq=False):
    """The same runs, with their curves."""

    waiting: Bands | None  # jobs that wait, over time; None = no run came to an end
    allocation: Bands | None  # share of GPUs held, over time


class StudyDocument(JsonRecord, kw_only=True):
    """Many replays of a trace."""

    title: str
    """Name of the trace."""
    runs: Count
    """Runs that were asked for."""
    made: Count
    """Runs that were made now; the others were there."""
    groups: tuple[ComparedRuns, ...]
    """In order of policy, algorithm, cluster, load."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What a study found."""

    title: str
    groups: tuple[RunGroup, ...]  # in order of policy, algorithm, cluster and load as they first appear
    windows: Mapping[float, float]  # load -> seconds that its time series span

    @property
    def loads(self) -> list[float]:
        """Scales of load, ascending."""
        return sorted({group.load for group in self.groups})

    @property
    def differing(self) -> list[ComparedMetric]:
        """Metrics that are not the same in all groups."""
        return [metric for metric in METRICS if len(self._values(metric)) > 1]

    @property
    def same(self) -> list[tuple[ComparedMetric, float]]:
        """Metrics that are, with what they are."""
        by_metric = [(metric, self._values(metric)) for metric in METRICS]
        return [(metric, next(iter(values))) for metric, values in by_metric if len(values) == 1]

    def _values(self, metric: ComparedMetric) -> set[float]:
        """Return different values of a metric, those on the ends of its intervals included."""
        bands = [band for group in self.groups if (band := group.metrics.get(metric.column)) is not None]
        return {round(end, 9) for band in bands for end in band.ends}

    @property
    def names(self) -> list[str]:
        """Names of groups, without the load."""
        return list(dict.fromkeys(group.name for group in self.groups))


def compare(rows: Sequence[Row], *, title: str) -> Comparison:
    """Return what rows of a study say together."""
    by_key = grouped(((row["policy"], row["algorithm"], row["cluster"], row["load"]), row) for row in rows)
    varies = [len({key[i] for key in by_key}) > 1 for i in range(3)]
    first: dict[float, list[Row]] = {}
    groups = []
    for key, members in by_key.items():
        policy, algorithm, cluster, load = key
        name = ", ".join(part for part, several in zip(key[:3], varies, strict=True) if several)
        compared_with = first.setdefault(load, members)
        ended = [row for row in members if row["outcome"] == "ended"]
        metrics, against = dict[str, Band](), dict[str, Band]()
        for column in (metric.column for metric in METRICS):
            own = {row["seed"]: row[column] for row in ended if row[column] is not None}
            # runs of one seed have the same jobs: differences are known better than means
            others = [row for row in compared_with if row["outcome"] == "ended" and row[column] is not None]
            differences = [own[row["seed"]] - row[column] for row in others if row["seed"] in own]
            if own:
                metrics[column] = Band.of([*own.values()])
            if differences and compared_with is not members:
                against[column] = Band.of(differences)
        curves = {
            curve: Bands.of([np.array(row[curve], dtype=np.float64) for row in ended]) if ended else None
            for curve in ("waiting", "allocation")
        }
        groups.append(
            RunGroup(
                name=name or policy,
                policy=policy,
                algorithm=algorithm,
                cluster=cluster,
                load=load,
                runs=len(ended),
                diverged=len(members) - len(ended),
                metrics=metrics,
                against=against,
                **curves,
            )
        )
    windows: dict[float, float] = {}
    for row in rows:
        windows.setdefault(row["load"], row["window_seconds"] or 1.0)
    return Comparison(title, tuple(groups), windows)


# Keys of the metadata of a file
INPUTS = "arnold.inputs"
TITLE = "arnold.title"
LARGEST = 1e18  # No run makes a larger number, in seconds or jobs; the sum of squares of what is smaller is a float too
_FIX = "give what --runs-out of a study wrote"


def point_of(row: Mapping[str, Any]) -> StudyPoint:
    """Return which run a row is of."""
    return StudyPoint(*(row[name] for name in StudyPoint._fields))


def read_rows(path: str) -> tuple[dict[StudyPoint, Row], Mapping[str, str]]:
    """Return rows of a file, and its metadata.

    :raises InvalidInput: it is no file of rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from ground.columns import open_parquet

    if not Path(path).exists():
        raise InvalidInput("there is no such file", where=path, fix="check the path")
    with open_parquet(path, name=path, fix=_FIX) as file:
        table = file.read()
    if missing := [name for name in COLUMNS if name not in table.column_names]:
        raise InvalidInput(f"is no file of a study: column {missing[0]!r} is missing", where=path, fix=_FIX)
    for name in COLUMNS:
        column = table.column(name)
        numbers = pc.list_flatten(column) if pa.types.is_list(column.type) else column
        largest = pc.max(pc.abs(numbers)).as_py() if pa.types.is_floating(numbers.type) else None
        if largest is not None and largest > LARGEST:
            raise InvalidInput(f"is no file of a study: column {name!r} holds {largest:g}", where=path, fix=_FIX)
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return {point_of(row): row for row in table.select(list(COLUMNS)).to_pylist()}, metadata


def write_rows(path: str, rows: Iterable[Row], *, inputs: str, title: str) -> None:
    """Write all rows, in order of their points: the same rows make the same bytes.

    :raises InvalidInput: the place cannot be written to.
    """
    from ground.columns import parquet_bytes

    write_file(path, parquet_bytes(sorted(rows, key=point_of), COLUMNS, {INPUTS: inputs, TITLE: title}))


def read_comparison(path: str) -> Comparison:
    """Return what a study found, from its file.

    :raises InvalidInput: it is no file of rows, or has none.
    """
    rows, metadata = read_rows(path)
    if not rows:
        raise InvalidInput("has no rows", where=path, fix="run the study first")
    return compare(list(rows.values()), title=metadata.get(TITLE, Path(path).stem))


@dataclass(frozen=True, slots=True)
class Journal:
    """Rows that are done while a study goes on: a line of JSON each, on disk before the next run ends."""

    out: str  # the Parquet file beside which it lies
    inputs: str  # fingerprint; rows of others are not taken

    @property
    def path(self) -> Path:
        """The file of the journal."""
        return Path(f"{self.out}.unfinished")

    def read(self) -> dict[StudyPoint, Row]:
        """Return rows of earlier studies and of a broken one, of which a line that was cut off is left out.

        :raises InvalidInput: the file has rows of other inputs.
        """
        rows: dict[StudyPoint, Row] = {}
        if Path(self.out).exists():
            rows, metadata = read_rows(self.out)
            if metadata.get(INPUTS) != self.inputs:
                problem = "has rows of another trace, cluster or setting, or of another version of this program"
                raise InvalidInput(problem, where=self.out, fix="name another file, or remove this one")
        text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.is_file() else ""
        for line in text.splitlines():
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if isinstance(document, dict) and document.get("inputs") == self.inputs:
                rows[point_of(document["row"])] = document["row"]
        return rows

    def add(self, row: Row) -> None:
        """Add the row of a run that is done.

        :raises InvalidInput: the place cannot be written to.
        """
        line = json.dumps({"inputs": self.inputs, "row": row}, allow_nan=False)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                # the line before may have been cut off; an empty one is passed over
                file.write(f"\n{line}\n")
        except OSError as error:
            raise not_writable(self.path, error) from error


@dataclass(frozen=True, slots=True)
class Swept:
    """A study that is over."""

    rows: Sequence[Row]  # of the runs that were asked for, in their order
    made: int  # runs that were made now; the others were there


def sweep(
    inputs: Inputs,
    points: Sequence[StudyPoint],
    executor: Executor,
    *,
    title: str,
    version: str,
    out: str | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> Swept:
    """Make all runs that are not there yet, and call ``step`` with a short sentence after each.

    :param out: Parquet file of rows; with it a broken study goes on where it was.  Rows of other runs on the same
        inputs stay in it.
    :raises ArnoldError: the file has other inputs or another writer, a run cannot begin, or a worker died; rows that
        are done are kept in the journal.
    """
    mark = study_fingerprint(inputs, version=version)
    with nullcontext() if out is None else held_alone(out):
        journal = None if out is None else Journal(out, mark)
        done = {} if journal is None else journal.read()
        todo = [point for point in points if point not in done]
        for row in executor.run(run_point, inputs, todo) if todo else ():
            done[point_of(row)] = row
            if journal is not None:
                journal.add(row)
            step("{policy}, {algorithm}, {cluster}, load {load:g}, seed {seed}".format_map(row))
        if journal is not None:
            write_rows(journal.out, done.values(), inputs=mark, title=title)
            journal.path.unlink(missing_ok=True)
    return Swept([done[point] for point in points], len(todo))


S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

SECONDS = 10  # How long a scheduler may take to answer


class OnDask:
    """Workers of a Dask scheduler at an address such as ``tcp://host:8786``.

    :raises InvalidInput: the extra is not installed.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            fix = "in a clone of Arnold: pip install '.[dask]', or run on this machine with --jobs"
            raise InvalidInput("the library for Dask is not installed", where="--dask", fix=fix) from None
        self._address = address

    def run(self, work: Callable[[S, T], R], shared: S, items: Sequence[T]) -> Iterator[R]:
        """Yield results as they come.

        :raises InvalidInput: no scheduler answers at the address.
        :raises WorkerLost: runs were lost with their workers again and again.
        """
        from distributed import Client, KilledWorker, as_completed

        try:
            client = Client(self._address, timeout=SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            fix = "start one with `dask scheduler` and workers with `dask worker ADDRESS`, then give its address"
            raise InvalidInput(f"no Dask scheduler answers at {self._address}", where="--dask", fix=fix) from error
        with client:
            client.wait_for_workers(1, timeout=6 * SECONDS)
            given = client.scatter(shared, broadcast=True, hash=False)
            futures = [client.submit(work, given, item, pure=False) for item in items]
            try:
                for future in as_completed(futures, loop=client.loop):
                    yield future.result()
            except KilledWorker as error:
                fix = "if memory ran out, give workers more of it; the rows that are done are kept"
                raise WorkerLost(f"workers died with a run: {error}", where="--dask", fix=fix) from error
            finally:
                client.cancel(futures)
