"""``python -m benchmarks NAME``: run one benchmark and print its tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from benchmarks import against_exact, every_level, flags, memory, proofs, scale, speed, startup, table1, whatif
from benchmarks.ablation import add_ablation
from benchmarks.certificates import add_certificates
from benchmarks.gangs import add_gangs
from benchmarks.kubernetes.parts import add_kubernetes
from benchmarks.realistic import add_realistic
from benchmarks.rows import Campaign
from benchmarks.simulation import add_simulation
from benchmarks.slurm.parts import add_slurm
from benchmarks.starts import add_starts
from scheduler.placement.types import ALGORITHMS

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PLOT = HERE.parent / "docs" / "how-it-works" / "time-against-nodes.svg"
BEST = "exact"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], str] = options.run
    print(run(options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="NAME")
    add = partial(_add, commands)

    command = add("proofs", _proofs, "share of proved placements over seeded instances")
    _add_campaign(command)
    command.add_argument("--algorithm", default=BEST, choices=ALGORITHMS.names(), metavar="NAME")

    command = add(
        "against-exact", _against_exact, "whether another algorithm is ever better; uses the rows of `proofs`"
    )
    _add_campaign(command)
    others = [name for name in ALGORITHMS.names() if name != BEST]
    command.add_argument("--others", nargs="+", default=others, choices=others, metavar="NAME")
    command.add_argument("--others-seconds", type=float, default=1.0, help="time limit of the others (default 1)")

    command = add("every-level", _every_level, "soft terms and closer levels against all quick rules, and their price")
    _add_instances(command, n=100, seconds=10.0)

    add_ablation(add, RESULTS)
    add_certificates(add)
    add_realistic(add)
    add_starts(add)

    command = add("speed", _speed, "150 x 8 cells on 22 minipods, against the literal MIP")
    command.add_argument("--clusters", type=int, default=5, help="seeded clusters, each at three affinities")
    command.add_argument("--seconds", type=float, default=10.0, help="limit of exact")
    command.add_argument("--mip-seconds", type=float, default=60.0, help="limit of the MIP")

    _add_scale(add)
    add_kubernetes(add)
    add_slurm(add)
    add_gangs(add)
    _add_evidence(add)
    add_simulation(add)
    add("quick", _quick, "a short run of most of these, to see that they work")
    return parser


def _add_scale(add: Callable[..., argparse.ArgumentParser]) -> None:
    """The benchmarks of large clusters, of the paper's table and of several jobs."""
    command = add("large", _large, "12,500 free nodes in 50 domains")
    command.add_argument("--seeds", type=int, default=3)

    command = add("growth", _growth, "time against nodes up to 100,000, with a plot, and nine affinities there")
    command.add_argument("--seeds", type=int, default=3)
    command.add_argument("--sizes", type=int, nargs="+", default=list(scale.SIZES))
    command.add_argument("--plot", type=Path, default=PLOT, help="SVG or PNG")

    command = add("memory", _memory, "peak memory of `arnold place` on 100,000 nodes")
    command.add_argument("--nodes", type=int, default=scale.HUGE_NODES)

    command = add("startup", _startup, "`arnold --help` against `python -c pass`; processor time of `arnold place`")
    command.add_argument("--runs", type=int, default=60, help="of the two")
    command.add_argument("--places", type=int, default=3, help="runs of each placement, of which the least counts")

    command = add("table1", _table1, "the paper's Table 1 against the values it must have")
    command.add_argument("--seconds", type=float, default=60.0, help="limit of each algorithm")

    command = add("several", _several, "2, 4 and 8 jobs at once on 1,200 fragmented nodes, against one after the other")
    command.add_argument("--seeds", type=int, default=5)
    command.add_argument("--counts", type=int, nargs="+", default=[2, 4, 8], help="of jobs")

    command = add("defragment", _defragment, "fewest moves for 128 nodes on a full cluster, against KAI's rule")
    command.add_argument("--seeds", type=int, default=3)


def _add_evidence(add: Callable[..., argparse.ArgumentParser]) -> None:
    """The benchmarks of what finds slow and faulty nodes."""
    command = add("whatif", _whatif, "`arnold stragglers`: the published traces, and one of 1,024 workers")
    command.add_argument("--rounds", type=int, default=5, help="of the published traces; 0 leaves them out")
    command.add_argument("--dp", type=int, default=128, help="data-parallel ranks of the synthetic trace")
    command.add_argument("--pp", type=int, default=8)
    command.add_argument("--microbatches", type=int, default=32)
    command.add_argument("--steps", type=int, default=100)

    command = add("flags", _flags, "a flag store of many events: record, show, why")
    command.add_argument("--nodes", type=int, default=100)
    command.add_argument("--rounds", type=int, default=1_000)

    command = add("peers", _peers, "machines compared by their metrics: faults found, false alarms, seconds")
    command.add_argument("--cases", type=int, default=150, help="recordings with a fault, and as many without")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--machines", type=int, default=1_500, help="of the recordings that are timed")
    command.add_argument("--parts", nargs="+", default=list(PEERS), choices=PEERS, metavar="PART")

    command = add("collectives", _collectives, "faults in simulated collectives: seen and named how soon")
    command.add_argument("--seeds", type=int, default=20, help="runs of each fault on each fabric (default 20)")
    command.add_argument("--windows", type=float, nargs="+", default=[10.0, 5.0], help="seconds that a look spans")

    command = add(
        "evidence", _evidence, "who is named as slow, faulty or hung, against known faults, beside other tools"
    )
    command.add_argument("--tables", nargs="+", default=list(EVIDENCE), choices=EVIDENCE, metavar="TABLE")
    command.add_argument("--seeds", type=int, default=12, help="made cases of each kind and shape")
    command.add_argument(
        "--torch", metavar="PYTHON", help="an interpreter with PyTorch: its own runs, and its fr_trace"
    )
    command.add_argument("--runs", default="runs", help="folder of these runs, kept for the next time (default runs)")
    command.add_argument("--public", action="store_true", help="also the public data in ARNOLD_DATA")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], str],
    summary: str,
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    command.set_defaults(run=run)
    return command


def _add_instances(command: argparse.ArgumentParser, *, n: int, seconds: float) -> None:
    command.add_argument("--n", type=int, default=n, help=f"instances (default {n:,})")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--seconds", type=float, default=seconds, help=f"limit of one instance (default {seconds:g})")


def _add_campaign(command: argparse.ArgumentParser) -> None:
    _add_instances(command, n=1000, seconds=10.0)
    command.add_argument("--jobs", type=int, default=1, help="processes; each solver uses two threads (default 1)")
    command.add_argument("--results", type=Path, default=RESULTS, help="folder of the rows")
    command.add_argument("--fresh", action="store_true", help="forget the rows that stand")


def _campaign(options: argparse.Namespace, algorithm: str, seconds: float) -> Campaign:
    return Campaign(algorithm, options.n, options.seed, seconds, options.jobs, options.results)


def _proofs(options: argparse.Namespace) -> str:
    campaign = _campaign(options, options.algorithm, options.seconds)
    return proofs.report(campaign, campaign.collect(fresh=options.fresh))


def _against_exact(options: argparse.Namespace) -> str:
    rows = {BEST: _campaign(options, BEST, options.seconds).collect()}
    for name in options.others:
        rows[name] = _campaign(options, name, options.others_seconds).collect(fresh=options.fresh)
    return against_exact.report(BEST, rows)


def _every_level(options: argparse.Namespace) -> str:
    rows = every_level.measure(options.n, seed=options.seed, seconds=options.seconds)
    price = every_level.measure_price(options.n, seed=options.seed, seconds=options.seconds)
    return every_level.report(rows, price)


def _speed(options: argparse.Namespace) -> str:
    races = speed.measure(options.clusters, seconds=options.seconds, mip_seconds=options.mip_seconds)
    return speed.report(races, mip_seconds=options.mip_seconds)


def _large(options: argparse.Namespace) -> str:
    return scale.report_large(scale.measure_large(options.seeds))


def _growth(options: argparse.Namespace) -> str:
    points = scale.measure_growth(options.seeds, options.sizes)
    scale.plot(points, options.plot)
    weights = scale.measure_weights(nodes=max(options.sizes))
    return "\n".join([scale.report_growth(points), scale.report_weights(weights)])


def _memory(options: argparse.Namespace) -> str:
    return memory.report(memory.measure(options.nodes))


def _startup(options: argparse.Namespace) -> str:
    return startup.report(startup.measure(options.runs), startup.measure_place(options.places))


def _table1(options: argparse.Namespace) -> str:
    return table1.report(table1.measure(options.seconds))


def _whatif(options: argparse.Namespace) -> str:
    parts = []
    if options.rounds:
        parts.append(whatif.report_published(whatif.measure_published(options.rounds)))
    large = whatif.measure_large(dp=options.dp, pp=options.pp, microbatches=options.microbatches, steps=options.steps)
    return "\n".join([*parts, whatif.report_large(large)])


def _flags(options: argparse.Namespace) -> str:
    size, runs = flags.measure(nodes=options.nodes, rounds=options.rounds)
    return flags.report(size, runs, nodes=options.nodes, rounds=options.rounds)


def _collectives(options: argparse.Namespace) -> str:
    from benchmarks import collectives

    return collectives.report(
        [(window, collectives.measure(options.seeds, window=window)) for window in options.windows]
    )


EVIDENCE = ("hangs", "texts", "pairs")  # The tables of `evidence`, each a module of :mod:`benchmarks.evidence`


def _evidence(options: argparse.Namespace) -> str:
    modules = (import_module(f"benchmarks.evidence.{name}") for name in options.tables)
    return "\n".join(module.table(options) for module in modules)


def _several(options: argparse.Namespace) -> str:
    from benchmarks import several_jobs

    return several_jobs.report(several_jobs.measure(options.seeds, options.counts))


def _defragment(options: argparse.Namespace) -> str:
    from benchmarks import defragmentation

    return defragmentation.report(defragmentation.measure(options.seeds))


PEERS = ("speed", "quality")  # The parts of `peers`


def _peers(options: argparse.Namespace) -> str:
    from benchmarks.peers import evaluate
    from benchmarks.peers import speed as peers_speed

    parts: dict[str, Callable[[], str]] = {
        "speed": lambda: peers_speed.report(options.machines),
        "quality": lambda: evaluate.report(evaluate.measure(options.cases, options.seed)),
    }
    return "\n".join(parts[part]() for part in options.parts)


QUICK = (
    ["proofs", "--n", "20", "--seconds", "5"],
    ["against-exact", "--n", "20", "--seconds", "5", "--others-seconds", "0.5"],
    ["every-level", "--n", "4", "--seconds", "1"],
    ["certificates", "--n", "10"],
    ["ablation", "--families", "small", "realistic", "--n", "20", "--seconds", "1"],
    ["gangs", "--n", "40", "--whole", "4"],
    ["speed", "--clusters", "1", "--mip-seconds", "10"],
    ["large", "--seeds", "1"],
    ["memory", "--nodes", "20000"],
    ["startup", "--runs", "15", "--places", "1"],
    ["table1", "--seconds", "5"],
    ["peers", "--cases", "6"],
    ["collectives", "--seeds", "2", "--windows", "10"],
    ["evidence", "--seeds", "2"],
    ["cost", "--rounds", "5"],
    ["workload", "--seeds", "2"],
)
"""The benchmarks of ``quick``, and how small each is made."""


def _quick(options: argparse.Namespace) -> str:  # noqa: ARG001
    for arguments in QUICK:
        main(arguments)
    return "This was the short run; benchmarks/README.md has the long ones."


if __name__ == "__main__":
    sys.exit(main())
