"""The benchmarks of the simulator, for the table of ``python -m benchmarks``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from scheduler.placement.types import ALGORITHMS

PLOT = Path(__file__).parents[1] / "docs" / "how-it-works" / "replay-growth.svg"

PREDICTIONS = """# Predictions

Printed by `python -m benchmarks predictions > docs/how-it-works/predictions.md`.
[simulation-cost.md](simulation-cost.md) has the models and what to make of these tables.
"""
"""Head of the page that ``predictions`` prints."""


def add_simulation(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add them."""
    command = add("predictions", _predictions, "gains of production runs as the models of communication predict them")
    command.add_argument("--seconds", type=float, default=10.0, help="limit of each solve")

    command = add("cost", _cost, "what a question to the models of communication costs")
    command.add_argument("--rounds", type=int, default=25)

    command = add("simulate", _simulate, "all Philly jobs replayed: seconds, memory, events a second, growth")
    command.add_argument("--loads", type=float, nargs="+", default=[1.0, 6.0], help="times the load of the trace")
    command.add_argument("--rounds", type=int, default=5, help="of the run that counts GPUs; the fastest counts")
    command.add_argument("--jobs", type=int, nargs="+", default=[10_000, 20_000, 40_000, 80_000])
    command.add_argument("--nodes", type=int, nargs="+", default=[313, 626, 1_252, 2_504, 5_008])
    command.add_argument("--policy", default="fifo-backfill", help="of the runs against jobs and nodes")
    command.add_argument("--plot", type=Path, default=PLOT, help="SVG or PNG")

    command = add("backlog", _backlog, "4,500 jobs that come faster than they end, under fair-share and priority-age")
    command.add_argument("--jobs", type=int, nargs="+", default=[750, 1_500, 4_500])

    command = add("year", _year, "a year of 2,046 nodes with failures, replayed")
    command.add_argument("--days", type=float, default=365.0)
    command.add_argument("--algorithm", default="exact", choices=ALGORITHMS.names(), metavar="NAME")
    command.add_argument("--check", type=int, default=0, help="placement calls that the whole search is asked too")

    command = add("traces", _traces, "reading traces: jobs a second, memory")
    command.add_argument("--jobs", type=int, default=1_000_000, help="of the trace that is made")

    command = add("workload", _workload, "the made LLM workload beside the published figures of Kalos")
    command.add_argument("--seeds", type=int, default=10)

    command = add("prediction", _prediction, "prediction of run times, beside the published errors")
    command.add_argument("--seed", type=int, default=1)

    command = add("sweeps", _sweeps, "a study on four Dask workers against one process")
    command.add_argument("--trace-jobs", type=int, default=12_000, help="of each run")
    command.add_argument("--seeds", type=int, default=8, help="each under two policies")


def _predictions(options: argparse.Namespace) -> str:
    from benchmarks.predictions import alpha_study, cases, published_runs, table

    gains = table.report(table.lines_of(cases.cases(options.seconds)))
    alphas = alpha_study.report(list(alpha_study.rows(options.seconds)))
    return "\n".join([PREDICTIONS, gains, alphas, published_runs.report()]).rstrip()


def _cost(options: argparse.Namespace) -> str:
    from benchmarks import cost

    return cost.report(cost.measure_alone(options.rounds), cost.measure_crowds(options.rounds))


def _simulate(options: argparse.Namespace) -> str:
    from benchmarks import simulate

    whole, rate = simulate.measure_whole(options.loads), simulate.measure_rate(options.rounds)
    jobs = simulate.measure_jobs(options.jobs, options.policy)
    nodes = simulate.measure_nodes(options.nodes, options.policy)
    if len(jobs) > 1 and len(nodes) > 1:
        simulate.plot(jobs, nodes, options.plot)
    return simulate.report(whole, rate, jobs, nodes)


def _backlog(options: argparse.Namespace) -> str:
    from benchmarks import backlog_order

    return backlog_order.report(backlog_order.measure(options.jobs))


def _year(options: argparse.Namespace) -> str:
    from benchmarks import year

    return year.report(year.measure(options.days, options.algorithm, check=options.check))


def _traces(options: argparse.Namespace) -> str:
    from benchmarks import traces

    return traces.report(traces.measure(options.jobs))


def _workload(options: argparse.Namespace) -> str:
    from benchmarks import workload

    return workload.report(workload.measure(options.seeds))


def _prediction(options: argparse.Namespace) -> str:
    from benchmarks import prediction

    return prediction.report(prediction.measure(options.seed))


def _sweeps(options: argparse.Namespace) -> str:
    from benchmarks import sweeps

    return sweeps.report(sweeps.measure(options.trace_jobs, options.seeds))
