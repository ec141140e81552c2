"""The search, ablated: what each of its stages is worth, family by family, with every stage off in turn.

The search of pairs alone is run, on the clock of counted work, so that the same question has the same answer on any
machine at any load.  A run without a stage can differ from the whole one only where the stage changed what is known
(the lattice, or prices that others read), or took time that others lacked.  So the whole search is run everywhere, and
a stage is left out where it did one of the two; elsewhere the answer stands, less the work of the stage.
"""

import json
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks import gangs, instances, scale
from benchmarks.realistic import draw_question
from benchmarks.report import section, table
from benchmarks.rows import watched
from scheduler.placement.exact import schedule
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.solve import usable_part
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import clock, on_clock

NEVER_OFF = "count_edges"  # it gives the placement to begin with
OPEN_SHARE = 0.1  # Part of the limit from which a stage may have kept others from proving what is left open
WON, FASTER = 2, 2.0  # What a stage must do on some family to stay: proofs of 1,000, or a factor of all work
SMALL = ((3, 3), (4, 3), (3, 4), (5, 2), (2, 6), (6, 2), (2, 4))  # Rows and columns that brute force manages
HUGE_SEEDS = LARGE_SEEDS = 3

Numbered = Iterator[tuple[int, GridProblem, float]]  # The number of a question, its grid, and alpha


def _seeded(count: int, *, seed: int) -> Numbered:
    for instance in instances.instances(count, seed=seed):
        capacities = tuple(sorted(instance.free, reverse=True))
        yield instance.number, GridProblem(instance.rows, instance.columns, capacities), instance.alpha


def _realistic(count: int) -> Numbered:
    for number in range(count):
        question = draw_question(number, seed=1)
        capacities = tuple(sorted((nodes for nodes in question.free if nodes), reverse=True))
        yield number, GridProblem(question.rows, question.columns, capacities), question.alpha


def _large(count: int) -> Numbered:
    cases = [(seed, place) for seed in range(1, LARGE_SEEDS + 1) for place in range(len(scale.LARGE_ROWS))]
    for number, (seed, place) in enumerate(cases[:count]):
        job = instances.grid_job(scale.LARGE_ROWS[place], scale.COLUMNS, alpha=0.5)
        alpha = scale.ALPHAS[(seed + place) % len(scale.ALPHAS)]
        yield number, GridReduction(scale.large_cluster(seed), job, 1.0).problem, alpha


def _huge(count: int) -> Numbered:
    number = 0
    for seed in range(1, HUGE_SEEDS + 1):
        cluster = scale.growing_cluster(scale.HUGE_NODES, seed)
        rows = int(scale.JOB_SHARE * np.count_nonzero(cluster.idle)) // scale.COLUMNS
        problem = GridReduction(cluster, instances.grid_job(rows, scale.COLUMNS, alpha=0.5), 1.0).problem
        for alpha in scale.WEIGHTS:
            if number < count:
                yield number, problem, alpha
            number += 1


def _gangs(count: int) -> Numbered:
    for part, nodes in enumerate(gangs.NODES):
        clusters, chance = gangs.states(nodes), random.Random(f"gangs 1 {nodes}")
        for number in range(part * count // 2, (part + 1) * count // 2):
            cluster = clusters[chance.choice(gangs.BUSY_SHARES), chance.randrange(gangs.STATES)]
            job = gangs.gang(chance)
            reduction = GridReduction(cluster, job, 1.0)
            if not reduction.refusal:
                yield number, usable_part(job.grid.rows, job.grid.columns, reduction.problem.capacities), job.alpha


def _small(count: int) -> Numbered:
    """Hardly a cell to spare, on two to six domains."""
    for number in range(count):
        rng = random.Random(f"small {number}")
        rows, columns = rng.choice(SMALL)
        capacities = [1] * rng.randint(2, 6)
        for _ in range(rows * columns + rng.randint(0, 2) - len(capacities)):
            capacities[rng.randrange(len(capacities))] += 1
        alpha = rng.choice((0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0))
        yield number, GridProblem(rows, columns, tuple(sorted(capacities, reverse=True))), alpha


@dataclass(frozen=True, slots=True)
class Family:
    """Questions of one kind, how many there are, and the seed that the search is run with."""

    draw: Callable[[int], Numbered]
    count: int
    seed: int = 0


FAMILIES = {
    "seed-1": Family(lambda count: _seeded(count, seed=1), 1000, seed=1),
    "seed-2": Family(lambda count: _seeded(count, seed=2), 1000, seed=2),
    "realistic": Family(_realistic, 1000),
    "gangs": Family(_gangs, 2000),
    "small": Family(_small, 1000),
    "12,500-nodes": Family(_large, LARGE_SEEDS * len(scale.LARGE_ROWS)),
    "100,000-nodes": Family(_huge, HUGE_SEEDS * len(scale.WEIGHTS)),
}


@dataclass(frozen=True, slots=True)
class StageRun:
    """What one stage did in a search."""

    name: str
    work: float  # counted seconds
    seconds: float  # of the processor
    refuted: int  # refutations that it added
    built: int  # pairs that it built
    told: bool  # whether it left prices that later stages read

    @property
    def changed(self) -> bool:
        """Whether the search might have gone on otherwise without it."""
        return bool(self.refuted or self.built or self.told)


@dataclass(frozen=True, slots=True)
class Run:
    """One search, with some stages off."""

    family: str
    number: int
    off: tuple[str, ...]
    limit: float  # counted seconds
    proved: bool
    pair: Pair
    cost: float
    bound: float
    work: float
    seconds: float
    stages: tuple[StageRun, ...]

    def of(self, stage: str) -> StageRun | None:
        """What a stage did; ``None`` = its turn did not come."""
        return next((run for run in self.stages if run.name == stage), None)

    def touched_by(self, stages: Collection[str]) -> bool:
        """Whether leaving some stages out may change the answer."""
        some = [run for run in self.stages if run.name in stages]
        lacked = not self.proved and sum(run.work for run in some) >= OPEN_SHARE * self.limit
        return lacked or any(run.changed for run in some)


def search(problem: GridProblem, alpha: float, *, limit: float, seed: int, off: Collection[str]) -> dict[str, object]:
    """Search the pairs of a grid with some stages off; return the fields of a run."""
    stages = list[StageRun]()

    def run(stage: schedule.Stage, pairs: PairSearch) -> None:
        if (name := stage.__name__) in off:
            return
        lattice = pairs.lattice
        known = len(lattice.refutations), len(lattice.built), len(pairs.patterns)
        begun = clock(), process_time()
        stage(pairs)
        stages.append(
            StageRun(
                name,
                round(clock() - begun[0], 6),
                round(process_time() - begun[1], 4),
                len(lattice.refutations) - known[0],
                len(lattice.built) - known[1],
                len(pairs.patterns) != known[2],
            )
        )

    with on_clock("work", limit) as timer:
        begun = process_time()
        # its limit is from now on, by the clock that it is made on
        lattice = Lattice(problem, alpha, 1.0 - alpha)
        schedule.search_pairs(PairSearch(lattice, Limits(seconds=limit, seed=seed, workers=1)), run)
        return {
            "proved": lattice.proved,
            "pair": lattice.best,
            "cost": lattice.cost(lattice.best),
            "bound": lattice.bound(),
            "work": round(timer.seconds, 6),
            "seconds": round(process_time() - begun, 4),
            "stages": tuple(stages),
        }


@dataclass(frozen=True, slots=True)
class Ablation:
    """Runs of some families, kept as JSON lines so that a long benchmark stops and resumes."""

    families: tuple[str, ...]
    count: int  # Questions of each family at most; `limit`: counted seconds of each
    limit: float
    folder: Path

    def collect(self, family: str, off: Sequence[str] = (), *, some: Collection[int] | None = None) -> dict[int, Run]:
        """All runs of a family with some stages off, by number, running what is missing.

        :param some: numbers that are asked for; ``None`` = all.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        file, off = self.folder / f"ablation-{family}-{self.limit:g}s.jsonl", tuple(sorted(off))
        runs = {run.number: run for run in _read(file) if run.off == off and (some is None or run.number in some)}
        asked = FAMILIES[family]
        missing = [
            question
            for question in _questions(family, min(self.count, asked.count))
            if question[0] not in runs and (some is None or question[0] in some)
        ]
        with file.open("a", encoding="utf-8") as out:
            for number, problem, alpha in watched(
                missing, label=f"{family} without {off or 'nothing'}", total=len(missing)
            ):
                fields = search(problem, alpha, limit=self.limit, seed=asked.seed, off=off)
                run = Run(family=family, number=number, off=off, limit=self.limit, **fields)  # type: ignore[arg-type]
                out.write(json.dumps(asdict(run)) + "\n")
                out.flush()
                runs[number] = run
        return runs


@cache
def _questions(family: str, count: int) -> tuple[tuple[int, GridProblem, float], ...]:
    return tuple(FAMILIES[family].draw(count))


def _read(file: Path) -> Iterator[Run]:
    """The runs of a file, but for a last line that an interruption cut off."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    for line in lines:
        if line.endswith("\n"):
            fields = json.loads(line)
            stages = tuple(StageRun(**stage) for stage in fields["stages"])
            yield Run(**{**fields, "off": tuple(fields["off"]), "pair": tuple(fields["pair"]), "stages": stages})


@dataclass(frozen=True, slots=True)
class Worth:
    """What stages are worth on one family."""

    ran: int  # questions where their turn came
    settled: int  # questions that were proved after the last of them, and not before
    sampled: int  # questions that were searched again without them
    touched: int  # questions that had to be
    lost: float  # proofs lost of 1,000, less those won; of a sample as of all that were touched
    factor: float  # all work without them, by all work with them

    @property
    def earned(self) -> bool:
        """Whether that is enough to stay."""
        return self.lost >= WON or self.factor >= FASTER


def weigh(ablation: Ablation, family: str, stages: Sequence[str], *, sample: int) -> Worth:
    """Leave some stages out of the questions of a family that they touched, or of so many of these."""
    whole = ablation.collect(family)
    touched = [number for number, run in sorted(whole.items()) if run.touched_by(stages)]
    some = touched[:: -(-len(touched) // sample)] if touched else []
    without = ablation.collect(family, stages, some=some)
    scaled = len(touched) / max(1, len(some))
    lost = sum(whole[number].proved - run.proved for number, run in without.items()) * scaled
    spared = sum(run.work for run in whole.values()) - sum(
        part.work for run in whole.values() for part in run.stages if part.name in stages and run.number not in touched
    )
    more = sum(run.work - whole[number].work for number, run in without.items()) * scaled
    return Worth(
        ran=sum(any(run.of(stage) for stage in stages) for run in whole.values()),
        settled=sum(run.proved and run.stages[-1].name in stages for run in whole.values()),
        sampled=len(some),
        touched=len(touched),
        lost=1000 * lost / len(whole),
        factor=(spared + more) / max(1e-9, sum(run.work for run in whole.values())),
    )


def report(ablation: Ablation, stages: Sequence[str], *, sample: int, together: bool) -> str:
    """Each stage off in turn (or all of them together), over the families, and what earns its place."""
    parts = [_whole(ablation)]
    groups = [tuple(stages)] if together else [(stage,) for stage in stages]
    rows, header = [], ["off", *ablation.families, "stays"]
    for group in groups:
        worths = [weigh(ablation, family, group, sample=sample) for family in ablation.families]
        cells = [
            f"{worth.lost:+.1f}, x {worth.factor:.2f} ({worth.settled} / {worth.ran})" if worth.ran else "-"
            for worth in worths
        ]
        rows.append([" ".join(group), *cells, "yes" if any(worth.earned for worth in worths) else "no"])
    words = (
        "Proofs lost of 1,000 without it, all work by that of the whole search, and in brackets the questions that it "
        "settled and those where its turn came."
    )
    return section("Stages of the search, each off in turn", *parts, table(header, rows), words)


def _whole(ablation: Ablation) -> str:
    header, rows = ["family", "questions", "proved", "share", "work, s", "processor, s"], []
    for family in ablation.families:
        runs = ablation.collect(family).values()
        proved = sum(run.proved for run in runs)
        work, seconds = (sum(values) for values in zip(*((run.work, run.seconds) for run in runs), strict=True))
        rows.append([family, len(runs), proved, f"{proved / len(runs):.1%}", f"{work:.0f}", f"{seconds:.0f}"])
    return table(header, rows)


def stage_names() -> list[str]:
    """All stages that can be left out, in order."""
    stages = schedule.STAGES
    return [stage.__name__ for stage in stages if stage.__name__ != NEVER_OFF]
