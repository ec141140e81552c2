"""The options that say what to place where, shared by all commands that do, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import click

from topology.errors import InvalidInput

if TYPE_CHECKING:
    from scheduler.job import Job
    from scheduler.placement.types import Limits
    from topology.cluster import Cluster
    from topology.readers import LoadedTopology

FILE = click.Path()
"""Any file name; what is wrong with the file is said by its reader.  Shells complete it."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Instance:
    """A job and the cluster it is to be placed on.

    :param source: name of the cluster's file.
    :param notes: what is worth knowing about how the two were read.
    """

    cluster: Cluster
    job: Job
    source: str
    notes: tuple[str, ...]


def finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse NaN and infinities, which click's ranges let through."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.", param=parameter)
    return value


def cluster_options(command: F) -> F:
    """``--cluster`` and what lies over it."""
    return _with(
        command,
        click.option(
            "--cluster", required=True, type=FILE, metavar="FILE", help="The cluster, in any known format; - is stdin."
        ),
        state_options,
    )


def state_options(command: F) -> F:
    """How to read a cluster file, and what lies over it."""
    return _with(
        command,
        click.option("--format", metavar="NAME", help="Format of the cluster file  [default: recognised by content]"),
        overlay_options,
    )


def overlay_options(command: F) -> F:
    """What lies over a cluster file, for commands whose ``--format`` is that of another file."""
    return _with(
        command,
        click.option("--levels", metavar="A,B,..", help="Labels to take as levels, broad to close (Kubernetes)."),
        gpus_option,
        click.option(
            "--busy",
            type=FILE,
            multiple=True,
            metavar="FILE",
            help="Which nodes are in use: a node or Slurm hostlist a line, or what sinfo or scontrol say of nodes; "
            "may be repeated.",
        ),
        click.option(
            "--flags",
            type=FILE,
            multiple=True,
            metavar="FILE",
            help="Slow and faulty nodes besides: YAML, JSON, flag store; may be repeated.",
        ),
    )


def gpus_option(command: F) -> F:
    """``--gpus-per-node``, for the formats that do not say it."""
    return click.option(
        "--gpus-per-node",
        type=click.IntRange(min=1),
        metavar="N",
        help="GPUs of each node, where the cluster file does not say  [default: 8]",
    )(command)


def job_options(command: F) -> F:
    """``--job`` and what wins over it."""
    return _with(
        command,
        click.option(
            "--job", "job_file", required=True, type=FILE, metavar="FILE", help="The job, YAML or JSON; - is stdin."
        ),
        click.option(
            "--alpha", type=float, callback=finite, metavar="SHARE", help="DP affinity, instead of the job's."
        ),
        click.option("--level", metavar="NAME", help="Level whose domains spread counts, instead of the job's."),
        click.option(
            "--avoid",
            type=click.Choice(["strict", "price", "ignore"]),
            help="Slow nodes: never, at a price, or freely.",
        ),
        click.option(
            "--records", type=FILE, metavar="FILE", help="Own measurements, where the job leaves alpha to its model."
        ),
    )


def limit_options(*, seconds: float = 10.0) -> Callable[[F], F]:
    """``--time-limit``, ``--seed``, ``--workers``.

    :param seconds: default of the time limit.
    """

    def decorate(command: F) -> F:
        return _with(
            command,
            click.option(
                "--time-limit",
                type=click.FloatRange(min=0, min_open=True),
                callback=finite,
                default=seconds,
                show_default=True,
                metavar="SECONDS",
                help="Then the best placement so far and its bound.",
            ),
            click.option(
                "--seed",
                type=click.IntRange(0, 2**31 - 1),
                default=0,
                show_default=True,
                metavar="N",
                help="Same seed, same answer.",
            ),
            click.option(
                "--workers",
                type=click.IntRange(1, 1024),
                default=2,
                show_default=True,
                metavar="N",
                help="Threads of a solver.",
            ),
        )

    return decorate


def _with(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def read_cluster(*, cluster: str, **state: Any) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster that ``cluster_options`` describe, and notes about it.

    :param state: as of :func:`load_state`.
    :raises ArnoldError: a file is unusable.
    """
    loaded = load_state(cluster, **state)
    return loaded.cluster, loaded.notes


def load_state(
    path: str,
    *,
    format: str | None = None,
    levels: str | None = None,
    gpus_per_node: int | None = None,
    busy: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> LoadedTopology:
    """A cluster file with what ``state_options`` lay over it.

    :raises ArnoldError: a file is unusable.
    """
    from topology.readers import load_topology

    named: Sequence[str] | None = None if levels is None else [level.strip() for level in levels.split(",")]
    return load_topology(path, format=format, levels=named, gpus_per_node=gpus_per_node, busy=busy, flags=flags)


def check_stdin(inputs: Mapping[str, str | Sequence[str] | None]) -> None:
    """Make sure that at most one file is standard input.

    :param inputs: option -> file, or files.
    :raises InvalidInput: it would be read twice.
    """
    from_stdin: list[str] = []
    for option, given in inputs.items():
        files = [given] if isinstance(given, str) else given or ()
        from_stdin += [option for file in files if file == "-"]
    if len(from_stdin) > 1:
        raise InvalidInput(
            f"{' and '.join(from_stdin)} both read standard input",
            where=from_stdin[1],
            fix="give a file for all but one",
        )


def read_instance(
    *,
    cluster: str,
    job_file: str,
    alpha: float | None,
    level: str | None,
    avoid: Any,
    records: str | None,
    **state: Any,
) -> Instance:
    """The instance that ``cluster_options`` and ``job_options`` describe.

    :raises ArnoldError: a file is unusable, or the job names a level that the cluster does not have.
    """
    from scheduler.jobfile import Overrides, load_job, load_records
    from topology.files import read_source

    files = {"--cluster": cluster, "--job": job_file, "--busy": state["busy"], "--flags": state["flags"]}
    check_stdin({**files, "--records": records})
    overrides = Overrides(alpha=alpha, level=level, avoid=avoid)
    measured = () if records is None else load_records(read_source(records))
    job = load_job(read_source(job_file), overrides=overrides, records=measured)
    tree, notes = read_cluster(cluster=cluster, **state)
    job.check_levels(tree)
    return Instance(tree, job.job, cluster, (*notes, *job.notes))


def limits_of(*, time_limit: float, seed: int, workers: int, progress: Callable[[str], None] | None = None) -> Limits:
    """The limits that ``limit_options`` describe."""
    from scheduler.placement.types import Limits

    return Limits(seconds=time_limit, seed=seed, workers=workers, progress=progress)
