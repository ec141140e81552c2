"""``python -m benchmarks NAME``: run one benchmark and print its tables.

A benchmark is a function; its parameters are the options of its command, and their annotations say what each is.
"""

from __future__ import annotations

import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from benchmarks.ablation import FAMILIES, stage_names
from benchmarks.realistic import ROWS
from benchmarks.scale import HUGE_NODES, SIZES
from scheduler.placement.types import ALGORITHMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.rows import Campaign
    from tests.e2e.harness.plane import ControlPlane

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PICTURES = HERE.parent / "docs" / "how-it-works"
BEST = "exact"
OTHERS = [name for name in ALGORITHMS.names() if name != BEST]

KUBERNETES = ("binding", "filter", "waiting", "failover", "churn", "hostile", "page", "native")
SLURM = ("choices", "rules", "serve")
PEERS = ("speed", "quality")
# Each a module of :mod:`benchmarks.evidence`; those first that take seconds
EVIDENCE = ("hangs", "texts", "pairs", "replays", "strengths", "single_parts")

Instances = Annotated[int, "instances"]
Limit = Annotated[float, "limit of one instance, seconds"]
Processes = Annotated[int, "processes; each solver uses two threads"]
Folder = Annotated[Path, "folder of the rows"]
Fresh = Annotated[bool, "forget the rows that stand"]
Picture = Annotated[Path, "SVG or PNG"]

BENCHMARKS: list[Callable[..., str]] = []  # In the order of the help


def benchmark(run: Callable[..., str]) -> Callable[..., str]:
    """Register a benchmark by the name of its function."""
    BENCHMARKS.append(run)
    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="NAME")
    for run in BENCHMARKS:
        name, summary = run.__name__.replace("_", "-"), run.__doc__
        command = commands.add_parser(
            name, help=summary, description=summary, formatter_class=ArgumentDefaultsHelpFormatter
        )
        command.set_defaults(run=run)
        _add_options(command, run)
    options = vars(parser.parse_args(arguments))
    print(options.pop("run")(**options))
    return 0


def _add_options(command: ArgumentParser, run: Callable[..., str]) -> None:
    """Add an option for each parameter: a tuple in its annotation has the words that are taken, a text is its help."""
    hints = get_type_hints(run, include_extras=True)
    for name, parameter in signature(run).parameters.items():
        kind, *marks = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
        more: dict[str, Any] = {"help": " ", "default": parameter.default}
        for mark in marks:
            more |= {"help": mark} if isinstance(mark, str) else {"choices": mark, "metavar": name.upper()}
        if get_origin(kind) is Sequence:
            more |= {"nargs": "+", "type": get_args(kind)[0]}
        else:
            more |= {"action": "store_true"} if kind is bool else {"type": kind}
        command.add_argument(f"--{name.replace('_', '-')}", **more)


def _campaign(algorithm: str, *, n: int, seed: int, seconds: float, jobs: int, results: Path) -> Campaign:
    from benchmarks.rows import Campaign

    return Campaign(algorithm, n, seed, seconds, jobs, results)


@benchmark
def proofs(
    *,
    algorithm: Annotated[str, ALGORITHMS.names()] = BEST,
    n: Instances = 1_000,
    seed: int = 1,
    seconds: Limit = 10.0,
    jobs: Processes = 1,
    results: Folder = RESULTS,
    fresh: Fresh = False,
) -> str:
    """Share of proved placements over seeded instances."""
    from benchmarks.proofs import report

    campaign = _campaign(algorithm, n=n, seed=seed, seconds=seconds, jobs=jobs, results=results)
    return report(campaign, campaign.collect(fresh=fresh))


@benchmark
def against_exact(
    *,
    others: Annotated[Sequence[str], OTHERS] = OTHERS,
    others_seconds: Annotated[float, "time limit of the others"] = 1.0,
    n: Instances = 1_000,
    seed: int = 1,
    seconds: Limit = 10.0,
    jobs: Processes = 1,
    results: Folder = RESULTS,
    fresh: Fresh = False,
) -> str:
    """Whether another algorithm is ever better; uses the rows of `proofs`."""
    from benchmarks.against_exact import report

    rows = {BEST: _campaign(BEST, n=n, seed=seed, seconds=seconds, jobs=jobs, results=results).collect()}
    for name in others:
        campaign = _campaign(name, n=n, seed=seed, seconds=others_seconds, jobs=jobs, results=results)
        rows[name] = campaign.collect(fresh=fresh)
    return report(BEST, rows)


@benchmark
def every_level(n: Instances = 100, seed: int = 1, seconds: Limit = 10.0) -> str:
    """Soft terms and closer levels against all quick rules, and their price."""
    from benchmarks.every_level import measure, measure_price, report

    return report(measure(n, seed=seed, seconds=seconds), measure_price(n, seed=seed, seconds=seconds))


@benchmark
def ablation(
    *,
    families: Annotated[Sequence[str], tuple(FAMILIES)] = tuple(FAMILIES),
    stages: Annotated[Sequence[str], stage_names()] = stage_names(),
    together: Annotated[bool, "all these stages off at once"] = False,
    n: Annotated[int, "questions of each family at most"] = 2_000,
    sample: Annotated[int, "of those that a stage touched"] = 40,
    seconds: Annotated[float, "of counted work for each"] = 10.0,
    results: Folder = RESULTS,
) -> str:
    """Each stage of the search off in turn: proofs lost, and work."""
    from benchmarks.ablation import Ablation, report

    return report(Ablation(tuple(families), n, seconds, results), stages, sample=sample, together=together)


@benchmark
def certificates(n: Instances = 150, seed: int = 1, seconds: Limit = 2.0) -> str:
    """Share of proofs that are verified without a solver, and how soon."""
    from benchmarks.certificates import measure, report

    return report(measure(n, seed=seed, seconds=seconds), seed=seed, seconds=seconds)


@benchmark
def realistic(
    rows: Annotated[Sequence[str], tuple(ROWS)] = tuple(ROWS),
    n: Annotated[int, "questions of each row"] = 100,
    seed: int = 1,
    seconds: Annotated[float, "of counted work for each"] = 10.0,
) -> str:
    """What is proved of published jobs on clusters with a packing history."""
    from benchmarks.realistic import measure, report

    return report(measure(rows, n, seed=seed, seconds=seconds), seed=seed, seconds=seconds)


@benchmark
def starts(most: Annotated[int, "predictions of each trace and kind"] = 40) -> str:
    """Predicted starts of jobs, against replays."""
    from benchmarks.starts import report

    return report(most=most)


@benchmark
def speed(
    clusters: Annotated[int, "seeded clusters, each at three affinities"] = 5,
    seconds: Annotated[float, "limit of exact"] = 10.0,
    mip_seconds: Annotated[float, "limit of the MIP"] = 60.0,
) -> str:
    """150 x 8 cells on 22 minipods, against the literal MIP."""
    from benchmarks.speed import measure, report

    return report(measure(clusters, seconds=seconds, mip_seconds=mip_seconds), mip_seconds=mip_seconds)


@benchmark
def large(seeds: int = 3) -> str:
    """12,500 free nodes in 50 domains."""
    from benchmarks.scale import measure_large, report_large

    return report_large(measure_large(seeds))


@benchmark
def growth(seeds: int = 3, sizes: Sequence[int] = SIZES, plot: Picture = PICTURES / "time-against-nodes.svg") -> str:
    """Time against nodes up to 100,000, with a plot, and nine affinities there."""
    from benchmarks import scale

    points = scale.measure_growth(seeds, sizes)
    scale.plot(points, plot)
    return f"{scale.report_growth(points)}\n{scale.report_weights(scale.measure_weights(nodes=max(sizes)))}"


@benchmark
def memory(nodes: int = HUGE_NODES) -> str:
    """Peak memory of `arnold place` on 100,000 nodes."""
    from benchmarks.memory import measure, report

    return report(measure(nodes))


@benchmark
def startup(
    runs: Annotated[int, "of the two"] = 60,
    places: Annotated[int, "runs of each placement, of which the least counts"] = 3,
) -> str:
    """`arnold --help` against `python -c pass`; processor time of `arnold place`."""
    from benchmarks.startup import measure, measure_place, report

    return report(measure(runs), measure_place(places))


@benchmark
def table1(seconds: Annotated[float, "limit of each algorithm"] = 60.0) -> str:
    """The paper's Table 1 against the values it must have."""
    from benchmarks.table1 import measure, report

    return report(measure(seconds))


@benchmark
def several(seeds: int = 5, counts: Annotated[Sequence[int], "of jobs"] = (2, 4, 8)) -> str:
    """2, 4 and 8 jobs at once on 1,200 fragmented nodes, against one after the other."""
    from benchmarks.several_jobs import measure, report

    return report(measure(seeds, counts))


@benchmark
def defragment(seeds: int = 3) -> str:
    """Fewest moves for 128 nodes on a full cluster, against KAI's rule."""
    from benchmarks.defragmentation import measure, report

    return report(measure(seeds))


@benchmark
def kubernetes(
    *,
    parts: Annotated[Sequence[str], KUBERNETES] = KUBERNETES,
    nodes: int = 5_000,
    gang: Annotated[int, "pods of the gang, a multiple of 8"] = 1_200,
    rounds: Annotated[int, "of binding, each way in turn"] = 3,
    seconds: Annotated[float, "of each kind of Filter question"] = 10.0,
    minutes: Annotated[float, "of waiting and of churn"] = 10.0,
    rate: Annotated[float, "gangs a second that leave and come in churn"] = 2.0,
    requests: Annotated[int, "of hostile"] = 20_000,
    kills: Annotated[int, "of the leader"] = 3,
) -> str:
    """Gangs on a real control plane: speed, latency, memory, fail-over."""
    from benchmarks.kubernetes import binding, failover, filtering, hostile, live_page, waiting
    from benchmarks.kubernetes.stage import measured_cluster, stage

    cluster = measured_cluster(nodes)

    def run(part: str, plane: ControlPlane) -> str:
        match part:
            case "binding":
                return binding.report(binding.measure(plane, cluster, size=gang, rounds=rounds))
            case "filter":
                return filtering.report(filtering.measure(plane, cluster, size=gang, seconds=seconds))
            case "failover":
                return failover.report(failover.measure(plane, cluster, kills=kills))
            case "hostile":
                return hostile.report(hostile.measure(plane, cluster, requests=requests, seed=5))
            case "page":
                return live_page.report(live_page.measure(plane, cluster, rate=60.0, seconds=6 * seconds))
        churn = part == "churn"
        traffic = waiting.Traffic(10, 1.0 / rate, minutes) if churn else waiting.Traffic(100, 3.0, minutes)
        with _kubelets(plane) if churn else nullcontext():
            return waiting.report(waiting.measure(plane, cluster, traffic))

    def native() -> str:
        with stage(cluster, native=True) as plane:
            return binding.report_native(binding.measure_native(plane, cluster, size=gang, rounds=rounds))

    reports = []
    if stock := [part for part in parts if part != "native"]:
        with stage(cluster, kubelets="churn" in parts) as plane:
            reports = [run(part, plane) for part in stock]
    return "\n".join([*reports, *([native()] if "native" in parts else [])])


@benchmark
def peers_on_kubernetes(cases: Annotated[Sequence[int], "of the twelve"] = tuple(range(1, 13))) -> str:
    """Twelve gangs by kube-scheduler, Kueue, Volcano and Arnold on a real control plane."""
    from benchmarks.kubernetes import against_peers

    chosen = [against_peers.cases()[number - 1] for number in cases]
    return against_peers.report(chosen, against_peers.measure(chosen))


@contextmanager
def _kubelets(plane: ControlPlane) -> Iterator[None]:
    plane.kwok.start()
    try:
        yield
    finally:
        plane.kwok.stop()


@benchmark
def slurm(
    *,
    parts: Annotated[Sequence[str], SLURM] = SLURM,
    root: Annotated[str, "chroot of the Slurm, of ARNOLD_SLURM_ROOTS; else the newest Slurm here"] = "",
    seed: Annotated[int, "of the busy nodes"] = 1,
    shapes: Annotated[int, "of the table, the first"] = 20,
    seconds: Annotated[float, "of the idle daemon"] = 600.0,
    rounds: Annotated[int, "jobs that wait for room, of serve"] = 10,
    states: Annotated[int, "of rules"] = 100,
) -> str:
    """20 shapes on a real Slurm: its nodes and ranks, Arnold's, and our copy of its rules."""
    from benchmarks.slurm import choices, serving

    install, some = choices.newest(root or None), choices.SHAPES[:shapes]
    run: dict[str, Callable[[], str]] = {
        "choices": lambda: choices.report(install, choices.measure(install, seed=seed, shapes=some)),
        "rules": lambda: choices.compare_rules(install, states=states, seed=seed, shapes=some),
        "serve": lambda: serving.report(install, seconds=seconds, rounds=rounds),
    }
    return "\n".join(run[part]() for part in parts)


@benchmark
def gangs(
    n: Annotated[int, "gangs on each cluster"] = 5_000,
    seed: int = 1,
    whole: Annotated[int, "of these also placed with all to tell"] = 200,
) -> str:
    """Gangs of 1 to 128 nodes on 2,000 and 25,000 nodes: milliseconds, and the same pairs."""
    from benchmarks.gangs import measure, report

    return report(measure(n, seed=seed, whole=whole))


@benchmark
def whatif(
    rounds: Annotated[int, "of the published traces; 0 leaves them out"] = 5,
    dp: Annotated[int, "data-parallel ranks of the synthetic trace"] = 128,
    pp: int = 8,
    microbatches: int = 32,
    steps: int = 100,
) -> str:
    """`arnold stragglers`: the published traces, and one of 1,024 workers."""
    from benchmarks.whatif import measure_large, measure_published, report_large, report_published

    published = f"{report_published(measure_published(rounds))}\n" if rounds else ""
    return published + report_large(measure_large(dp=dp, pp=pp, microbatches=microbatches, steps=steps))


@benchmark
def flags(nodes: int = 100, rounds: int = 1_000) -> str:
    """A flag store of many events: record, show, why."""
    from benchmarks.flags import measure, report

    size, runs = measure(nodes=nodes, rounds=rounds)
    return report(size, runs, nodes=nodes, rounds=rounds)


@benchmark
def peers(
    cases: Annotated[int, "recordings with a fault, and as many without"] = 150,
    seed: int = 1,
    machines: Annotated[int, "of the recordings that are timed"] = 1_500,
    parts: Annotated[Sequence[str], PEERS] = PEERS,
) -> str:
    """Machines compared by their metrics: faults found, false alarms, seconds."""
    from benchmarks.peers import evaluate
    from benchmarks.peers.speed import report

    run: dict[str, Callable[[], str]] = {
        "speed": lambda: report(machines),
        "quality": lambda: evaluate.report(evaluate.measure(cases, seed)),
    }
    return "\n".join(run[part]() for part in parts)


@benchmark
def standstill(
    patience: Annotated[Sequence[float], "seconds without progress that are a standstill"] = (180.0, 300.0),
    seed: int = 1,
    days: float = 7.0,
) -> str:
    """A week of faults of a gang of 1,200 nodes under `arnold watch --policy act`, in simulated time."""
    from benchmarks.standstill import measure, report

    return report([measure(stall_after, days=days, seed=seed) for stall_after in patience])


@benchmark
def collectives(
    seeds: Annotated[int, "runs of each fault on each fabric"] = 20,
    windows: Annotated[Sequence[float], "seconds that a look spans"] = (10.0, 5.0),
) -> str:
    """Faults in simulated collectives: seen and named how soon."""
    from benchmarks.collectives import measure, report

    return report([(window, measure(seeds, window=window)) for window in windows])


@benchmark
def evidence(
    *,
    tables: Annotated[Sequence[str], EVIDENCE] = EVIDENCE[:-1],
    seeds: Annotated[int, "made cases of each kind and shape"] = 12,
    torch: Annotated[str, "an interpreter with PyTorch: its own runs, and its fr_trace"] = "",
    runs: Annotated[Path, "folder of these runs, kept for the next time"] = Path("runs"),
    nvrx: Annotated[str, "source of github.com/NVIDIA/nvidia-resiliency-ext: its analyser, its dumps"] = "",
    public: Annotated[bool, "also the public data in ARNOLD_DATA"] = False,
) -> str:
    """Who is named as slow, faulty or hung, against known faults, beside other tools."""
    modules = [import_module(f"benchmarks.evidence.{name}") for name in tables]
    return "\n".join(module.table(seeds=seeds, torch=torch, runs=runs, nvrx=nvrx, public=public) for module in modules)


@benchmark
def predictions(seconds: Annotated[float, "limit of each solve"] = 10.0) -> str:
    """Gains of production runs as the models of communication predict them."""
    from benchmarks.predictions import alpha_study, cases, published_runs, table

    gains = table.report(table.lines_of(cases.cases(seconds)))
    alphas = alpha_study.report(list(alpha_study.rows(seconds)))
    return "\n".join([table.HEAD, gains, alphas, published_runs.report()]).rstrip()


@benchmark
def cost(rounds: int = 25) -> str:
    """What a question to the models of communication costs."""
    from benchmarks.cost import measure_alone, measure_crowds, report

    return report(measure_alone(rounds), measure_crowds(rounds))


@benchmark
def simulate(
    *,
    loads: Annotated[Sequence[float], "times the load of the trace"] = (1.0, 6.0),
    rounds: Annotated[int, "of the run that counts GPUs; the fastest counts"] = 5,
    jobs: Sequence[int] = (10_000, 20_000, 40_000, 80_000),
    nodes: Sequence[int] = (313, 626, 1_252, 2_504, 5_008),
    policy: Annotated[str, "of the runs against jobs and nodes"] = "fifo-backfill",
    plot: Picture = PICTURES / "replay-growth.svg",
) -> str:
    """All Philly jobs replayed: seconds, memory, events a second, growth."""
    from benchmarks import simulate as bench

    whole, rate = bench.measure_whole(loads), bench.measure_rate(rounds)
    by_jobs, by_nodes = bench.measure_jobs(jobs, policy), bench.measure_nodes(nodes, policy)
    if len(by_jobs) > 1 and len(by_nodes) > 1:
        bench.plot(by_jobs, by_nodes, plot)
    return bench.report(whole, rate, by_jobs, by_nodes)


@benchmark
def backlog(jobs: Sequence[int] = (750, 1_500, 4_500)) -> str:
    """4,500 jobs that come faster than they end, under fair-share and priority-age."""
    from benchmarks.backlog_order import measure, report

    return report(measure(jobs))


@benchmark
def year(
    days: float = 365.0,
    algorithm: Annotated[str, ALGORITHMS.names()] = BEST,
    check: Annotated[int, "placement calls that the whole search is asked too"] = 0,
) -> str:
    """A year of 2,046 nodes with failures, replayed."""
    from benchmarks.year import measure, report

    return report(measure(days, algorithm, check=check))


@benchmark
def traces(jobs: Annotated[int, "of the trace that is made"] = 1_000_000) -> str:
    """Reading traces: jobs a second, memory."""
    from benchmarks.traces import measure, report

    return report(measure(jobs))


@benchmark
def workload(seeds: int = 10) -> str:
    """The made LLM workload beside the published figures of Kalos."""
    from benchmarks.workload import measure, report

    return report(measure(seeds))


@benchmark
def prediction(seed: int = 1) -> str:
    """Prediction of run times, beside the published errors."""
    from benchmarks.prediction import measure, report

    return report(measure(seed))


@benchmark
def sweeps(
    trace_jobs: Annotated[int, "of each run"] = 12_000, seeds: Annotated[int, "each under two policies"] = 8
) -> str:
    """A study on four Dask workers against one process."""
    from benchmarks.sweeps import measure, report

    return report(measure(trace_jobs, seeds))


QUICK = """
proofs --n 20 --seconds 5
against-exact --n 20 --seconds 5 --others-seconds 0.5
every-level --n 4 --seconds 1
certificates --n 10
ablation --families small realistic --n 20 --seconds 1
gangs --n 40 --whole 4
speed --clusters 1 --mip-seconds 10
large --seeds 1
memory --nodes 20000
startup --runs 15 --places 1
table1 --seconds 5
peers --cases 6
collectives --seeds 2 --windows 10
evidence --seeds 2
cost --rounds 5
workload --seeds 2
"""


@benchmark
def quick() -> str:
    """A short run of most of these, to see that they work."""
    for line in QUICK.strip().splitlines():
        main(line.split())
    return "This was the short run; benchmarks/README.md has the long ones."


if __name__ == "__main__":
    sys.exit(main())
