"""The options of commands that read a cluster, and the cluster that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import click

from topology.errors import InvalidInput

if TYPE_CHECKING:
    from topology.cluster import Cluster
    from topology.readers import LoadedTopology


FILE = click.Path()
"""Any file name; what is wrong with the file is said by its reader.  Shells complete it."""

F = TypeVar("F", bound=Callable[..., Any])


def finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse NaN and infinities, which click's ranges let through."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.", param=parameter)
    return value


def cluster_options(command: F) -> F:
    """Return ``--cluster`` and what lies over it."""
    return _with(
        command,
        click.option(
            "--cluster", required=True, type=FILE, metavar="FILE", help="The cluster, in any known format; - is stdin."
        ),
        state_options,
    )


def state_options(command: F) -> F:
    """Return how to read a cluster file, and what lies over it."""
    return _with(
        command,
        click.option("--format", metavar="NAME", help="Format of the cluster file  [default: recognised by content]"),
        overlay_options,
    )


def overlay_options(command: F) -> F:
    """Return what lies over a cluster file, for commands whose ``--format`` is that of another file."""
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
    """Return ``--gpus-per-node``, for the formats that do not say it."""
    return click.option(
        "--gpus-per-node",
        type=click.IntRange(min=1),
        metavar="N",
        help="GPUs of each node, where the cluster file does not say  [default: 8]",
    )(command)


def _with(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def read_cluster(*, cluster: str, **state: Any) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster that ``cluster_options`` describe, and notes about it.

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
    """Return a cluster file with what ``state_options`` lay over it.

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
