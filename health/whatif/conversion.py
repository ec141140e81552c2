"""A conversion and its files: op trace in Parquet, metadata in YAML, and what the source does and does not hold.

Profiles show more than the op trace: which rank is last at collectives, and where a rank's step goes.  That, and what
could not be recovered, is the statement of the conversion, which travels inside the Parquet file, so that the analysis
heeds it.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from math import comb
from pathlib import Path

from ground.errors import InvalidInput
from ground.files import write_file
from ground.quantities import percent, plural, seconds
from ground.records import JsonRecord, json_data, read_json, record_of
from health.whatif import optypes
from health.whatif.analysis_result import Analysis, Cause
from health.whatif.blame import verdict
from health.whatif.optypes import BACKWARD, FORWARD, GC, OPTYPES, PIPELINE
from health.whatif.trace import JobSizes, RankLayout, layout_of, metadata_file

NOTICED = 0.03  # Share of a step below which waiting for one rank is noise, as a slowdown of 1.03 is
MOST = 0.5  # Share of all waiting from which on one rank is its cause
LEAST = 0.0005  # Shares below this are printed as nothing
CHANCE = 0.05  # Probability below which so many last places are no accident


class Latecomer(JsonRecord):
    """A rank that others wait for in collectives."""

    rank: int
    """Its global rank."""
    last: int
    """Collectives to which it came last."""
    seconds: float
    """Seconds for which the others waited for it in a step, at their median, while they computed nothing."""
    share: float
    """Share of the step for which the others waited for it."""


class Arrivals(JsonRecord):
    """Ranks that come last to collectives that all ranks of a group wait in."""

    collectives: int
    """Collectives that were compared, over all steps."""
    ranks: int
    """Ranks that were compared."""
    workers: int
    """Workers of the job: where fewer ranks were compared, another may come later still."""
    steps: int
    """Steps."""
    step_seconds: float
    """Mean length of a step."""
    latecomers: tuple[Latecomer, ...]
    """Ranks that came last at least once, the costliest first."""

    @property
    def culprit(self) -> Latecomer | None:
        """Return the rank that causes most of the waiting, where that is worth a word."""
        worst = self.latecomers[0] if self.latecomers and self.ranks >= self.workers else None
        total = sum(latecomer.seconds for latecomer in self.latecomers)
        return worst if worst and worst.share >= NOTICED and worst.seconds >= MOST * total else None

    @property
    def chance(self) -> float:
        """Return the probability that any rank comes last as often as the culprit, were the order random."""
        worst = self.culprit
        if worst is None:
            return 1.0
        odds = 1.0 / self.ranks
        tail = sum(
            comb(self.collectives, k) * odds**k * (1 - odds) ** (self.collectives - k)
            for k in range(worst.last, self.collectives + 1)
        )
        return min(1.0, tail * self.ranks)


class StepBreakdown(JsonRecord):
    """Where the mean step of one rank goes, in seconds."""

    rank: int
    """Its global rank."""
    steps: int
    """Steps that were looked at."""
    step: float
    """Length of a step."""
    forward: float
    """Forward passes, without waits for other ranks."""
    backward: float
    """Backward passes, without waits for other ranks."""
    optimizer: float
    """Update of the parameters."""
    waiting: float | None
    """Collectives and transfers while nothing was computed; null = no device was recorded."""
    idle: float | None
    """Nothing ran on the device; null = no device was recorded."""


def whole_step(traced_seconds: float, breakdown: tuple[StepBreakdown, ...]) -> float | None:
    """Return how long a whole step is, the median over the ranks whose profiles know it, where it is noticeably longer
    than its traced operations; ``None`` = these are the step.
    """
    lengths = sorted(step.step for step in breakdown)
    whole = lengths[len(lengths) // 2] if lengths else 0.0
    return whole if whole > (1 + NOTICED) * traced_seconds else None


def sentence_on_arrivals(arrivals: Arrivals) -> str:
    """Return which rank comes last, how often and what it costs."""
    worst = arrivals.culprit
    compared = f"{plural(arrivals.collectives, 'collective')} of {plural(arrivals.steps, 'step')}"
    if arrivals.ranks < arrivals.workers:
        return f"which rank comes last is not known: {arrivals.ranks} of {arrivals.workers} workers have a profile"
    if worst is None:
        return f"no rank of {arrivals.ranks} keeps the others waiting: {compared} were compared"
    doubt = "" if arrivals.chance < CHANCE else "; so few collectives could show that by accident too"
    return (
        f"rank {worst.rank} comes last to {worst.last} of {compared}, and the others wait {seconds(worst.seconds)} "
        f"of a step of {seconds(arrivals.step_seconds)} for it ({percent(worst.share)}){doubt}"
    )


def with_arrivals(analysis: Analysis, arrivals: Arrivals) -> Analysis:
    """Return the analysis with the rank that others wait for as the cause, unless it found that rank by itself."""
    worst = arrivals.culprit
    if worst is None:
        return analysis
    blamed = analysis.slowest.workers if analysis.cause == "worker" and analysis.slowest else ()
    if {worker.dp for worker in blamed} == {worst.rank // analysis.tp}:
        return analysis
    return replace(analysis, cause="late-rank", why=f"{analysis.why}; {sentence_on_arrivals(arrivals)}")


def verdict_with(analysis: Analysis, arrivals: Arrivals | None, breakdown: tuple[StepBreakdown, ...]) -> str:
    """Return the finding in one sentence, with what profiles show beside the op trace."""
    if analysis.dp * analysis.pp == 1:
        return sentence_on_one_rank(analysis, breakdown)
    if arrivals is not None and analysis.cause == "late-rank":
        return sentence_on_arrivals(arrivals)
    return verdict(analysis)


def sentence_on_one_rank(analysis: Analysis, breakdown: tuple[StepBreakdown, ...]) -> str:
    """Return that one rank alone is there, and where its step goes."""
    alone = "one rank alone cannot be compared with others"
    chosen = next((step for step in breakdown if step.rank in analysis.dp_ranks), None) or (breakdown or (None,))[0]
    if chosen is None or chosen.step <= 0:
        return f"{alone}; a step takes {seconds(analysis.step_seconds)}"
    parts = {"forward": chosen.forward, "backward": chosen.backward, "optimizer": chosen.optimizer}
    shares = ", ".join(f"{name} {percent(part / chosen.step)}" for name, part in parts.items() if part)
    where = " on the host" if chosen.idle is None else ""
    device = ""
    if chosen.waiting is not None and chosen.idle is not None:
        device = f"has nothing to do for {percent(chosen.idle / chosen.step)}"
        if chosen.waiting > LEAST * chosen.step:
            device = f"waits in collectives for {percent(chosen.waiting / chosen.step)} of it and {device}"
        device = f"; its device {device}"
    return f"{alone}; a step of rank {chosen.rank} takes {seconds(chosen.step)}{where}: {shares or 'no pass'}{device}"


# What the analysis loses without each type of operation
DISABLES: dict[str, str] = {
    optypes.FORWARD: "everything: there is nothing to replay",
    optypes.BACKWARD: "everything: there is nothing to replay",
    optypes.GC: "the cause 'garbage collection': pauses stay inside other operations",
    optypes.OPTIMIZER: "the end of a step, so all step times",
    **dict.fromkeys(
        PIPELINE, "the replay across stages, so S, S_t, S_w, M_W and M_S: nothing ties a stage to its neighbours"
    ),
    optypes.ALL_GATHER: "its own S_t; data-parallel ranks start a step untied",
    optypes.REDUCE_SCATTER: "its own S_t; data-parallel ranks of a stage meet only at the end of the step",
    optypes.LAYERNORM: "its own S_t",
    optypes.EMBEDDING: "its own S_t; first and last stage do not wait for each other's embedding gradients",
    optypes.SEPARATE: "its own S_t, and the recognition of overlapped data-parallel communication",
    optypes.CLIP: (
        "its own S_t and the barrier at the end of a step: a slow worker delays the others only through transfers"
    ),
}
KEY = b"arnold.conversion"  # Key of the statement in the metadata of the Parquet schema
# Names and order of the columns, as in the public traces
COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id", "gmc")


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of one worker in one step: a row of the op trace before it is numbered."""

    rank: int
    step: int
    optype: str
    start: float  # seconds on a clock that all ranks share; of a transfer, when its rank was ready for it
    end: float  # seconds on the same clock
    microbatch: int = -1  # -1 = has none
    chunk: int = -1  # model chunk of the stage, -1 = has none


class Missing(JsonRecord):
    """A type of operation, or a property of one, that the source does not hold."""

    optype: str
    """Type of operation, or property of one; several may share one entry, comma between them."""
    reason: str
    """Why it could not be recovered."""
    disables: str
    """Which part of the analysis cannot be done, or means nothing, without it."""


class ConversionStatement(JsonRecord, kw_only=True):
    """What a conversion says of itself; it travels inside the trace, so that the analysis heeds it."""

    source: str
    """Name of the format, such as ``kineto``."""
    recovered: Mapping[str, int]
    """Operations of each type."""
    missing: tuple[Missing, ...]
    """What could not be recovered, and what that disables."""
    notes: tuple[str, ...]
    """What was decided on the way, and what was dropped and why."""
    untold: tuple[Cause, ...] = ()
    """Causes of the analysis that rows from this source would only seem to show."""
    absent: tuple[int, ...] = ()
    """Workers of which nothing was given, by their rank."""
    arrivals: Arrivals | None = None
    """Ranks that come last to collectives; null = not recorded, or the job has a pipeline."""
    breakdown: tuple[StepBreakdown, ...] = ()
    """Where the steps of each rank go; empty = not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionSettings:
    """How the files of a job are converted."""

    microbatches: int | None = None  # of a step, for what does not say it
    align_clocks: bool = False  # whether the barrier at the end of a step is made to end at once on all ranks
    guessed: bool = False  # whether nobody said the layout, so that the files may refute it
    progress: Callable[[str], None] = lambda _: None  # is told each file before it is read


@dataclass(frozen=True, slots=True)
class Conversion:
    """An op trace made from something else."""

    source: str  # name of the format
    ops: Sequence[Op]  # rows, in any order
    missing: tuple[Missing, ...]  # these and the next as in ConversionStatement
    notes: tuple[str, ...]
    untold: tuple[Cause, ...] = ()
    absent: tuple[int, ...] = ()
    arrivals: Arrivals | None = None
    breakdown: tuple[StepBreakdown, ...] = ()
    v_schedule: bool = False  # whether every second chunk of a stage runs back along the pipeline
    # rank -> seconds that it computed, less those in collectives of its worker's ranks; empty = not recorded
    computed: Mapping[int, float] = field(default_factory=dict)

    def rank_of(self, worker: tuple[int, int], layout: RankLayout) -> int | None:
        """Return the rank that makes a worker, (dp rank, stage), slow; ``None`` = of several none is slower.

        Of several it is the one that computes longest, and that the others wait for in their collectives.
        """
        first = layout.representative(*worker)
        ranks = range(first, first + layout.tp * layout.dsp)
        if len(ranks) == 1:
            return first
        second, longest = sorted((self.computed.get(rank, 0.0), rank) for rank in ranks)[-2:]
        return longest[1] if second[0] > 0.0 and longest[0] >= (1 + NOTICED) * second[0] else None

    @property
    def recovered(self) -> dict[str, int]:
        """Rows of each type that was recovered, in the order of :data:`OPTYPES`."""
        counts = Counter(op.optype for op in self.ops)
        return {optype: counts[optype] for optype in OPTYPES if counts[optype]}


def missing_types(
    ops: Iterable[Op], layout: RankLayout, reason: str, *, besides: Collection[str] = ()
) -> list[Missing]:
    """Return the types of operation that a job of this shape has and its rows lack, in the order of :data:`OPTYPES`.

    :param besides: types that are left out.
    """
    # only jobs that overlap data-parallel communication reduce gradients separately
    left_out = {optypes.SEPARATE, optypes.WEIGHT, *optypes.INSIDE, *besides, *(op.optype for op in ops)}
    if layout.pp == 1:
        left_out |= {*PIPELINE, optypes.EMBEDDING}
    if layout.tp == 1:
        left_out.add(optypes.LAYERNORM)
    return [Missing(optype, reason, DISABLES[optype]) for optype in OPTYPES if optype not in left_out]


def read_statement(path: str | Path) -> ConversionStatement | None:
    """Return the statement of a converted trace; ``None`` of one that was recorded as such, and of standard input."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        text = (pq.read_schema(path).metadata or {}).get(KEY)
        return read_json(ConversionStatement, json.loads(text)) if text else None
    except (OSError, pa.ArrowException, ValueError, RecursionError):
        return None


def heed(analysis: Analysis, statement: ConversionStatement | None) -> tuple[Analysis, list[str]]:
    """Return the analysis without a cause that the source cannot tell, and what to know about the source."""
    if statement is None:
        return analysis, []
    notes = [f"The trace was made from {statement.source}."] + [
        f"Not in it: {entry.optype}; that disables {entry.disables}." for entry in statement.missing
    ]
    if statement.arrivals is not None:
        analysis = with_arrivals(analysis, statement.arrivals)
        notes.append(f"Of collectives: {sentence_on_arrivals(statement.arrivals)}.")
    traced = analysis.traced_step_seconds
    if (whole := whole_step(traced, statement.breakdown)) is not None:
        outside = seconds(whole - traced)
        notes.append(f"Of a step of {seconds(whole)}, {outside} lie outside of its passes and its update, as data do.")
    if analysis.cause in statement.untold:
        why = f"{analysis.why}; but a trace made from {statement.source} cannot tell that"
        return replace(analysis, cause="unknown", why=why), notes
    return analysis, notes


def write_conversion(conversion: Conversion, sizes: JobSizes, folder: str | Path) -> list[Path]:
    """Write the trace, its metadata and the statement of the conversion, and say where they are."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "choose another folder"
        raise InvalidInput(f"cannot be made: {error.strerror}", where=str(folder), fix=fix) from None
    stated = json_data(ConversionStatement, record_of(ConversionStatement, conversion))
    statement = json.dumps(stated, indent=2) + "\n"
    layout = layout_of(sizes)
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"step": pa.int64(), "optype": pa.string(), "start_ts": pa.float64(), "duration": pa.float64()}
    fields = [(name, kinds.get(name, pa.int32())) for name in COLUMNS]
    schema = pa.schema(fields, metadata={KEY: statement.encode()})
    # times are from the start of their step, and seq_id counts by time within worker, step and type
    groups: dict[tuple[int, int, str], list[Op]] = defaultdict(list)
    first: dict[int, float] = {}
    for op in conversion.ops:
        groups[op.step, op.rank, op.optype].append(op)
        first[op.step] = min(first.get(op.step, op.start), op.start)
    rows: list[tuple[int | float | str, ...]] = []
    for (step, rank, optype), group in sorted(groups.items()):
        dp, stage = layout.worker(rank)
        for number, op in enumerate(sorted(group, key=lambda op: (op.start, op.microbatch))):
            start, duration = op.start - first[step], op.end - op.start
            microbatch = 0 if optype == GC else op.microbatch
            chunk_of_job = op.chunk * layout.pp + stage if optype in (FORWARD, BACKWARD) else -1
            whose = (dp, stage, layout.representative(dp, stage), step, optype)
            rows.append((*whose, start, duration, number, op.chunk, microbatch, chunk_of_job))
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema)
    out = BytesIO()
    pq.write_table(table, out, use_dictionary=["optype"])
    files: dict[str, str | bytes] = {
        "trace.parquet": out.getvalue(),
        "meta.yaml": metadata_file(replace(sizes, v_schedule=conversion.v_schedule)),
        "conversion.json": statement,
    }
    for name, content in files.items():
        write_file(target / name, content)
    return [target / name for name in files]
