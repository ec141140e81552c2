"""Which cluster a question is about: a file, or one that is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from arnold.commands.instance import FILE, finite, read_cluster, state_options
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from simulator.capacity.shape import JobShape
    from topology.cluster import Cluster

F = TypeVar("F", bound=Callable[..., Any])


def cluster_or_made_options(command: F) -> F:
    """``--cluster`` with what lies over it, or the sizes of one that is made."""
    for option in (
        click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, metavar="N"),
        click.option(
            "--busy-share",
            type=click.FloatRange(0, 1),
            callback=finite,
            default=0.6,
            show_default=True,
            metavar="SHARE",
            help="Of a made cluster: nodes in use, as running jobs leave them.",
        ),
        click.option(
            "--made",
            default="22x93",
            show_default=True,
            metavar="MxN",
            help="Without --cluster: so many minipods of so many nodes.",
        ),
        state_options,
        click.option("--cluster", type=FILE, metavar="FILE", help="The cluster, in any known format; - is stdin."),
    ):
        command = option(command)
    return command


def cluster_of(*, cluster: str | None, made: str, busy_share: float, seed: int, **state: Any) -> tuple[Cluster, str]:
    """The cluster that the options describe, and what to call it.

    :raises ArnoldError: a file is unusable, or the sizes make no cluster.
    """
    if cluster is not None:
        return cluster_with_notes(cluster, state), cluster
    check_no_state(state)
    from topology.generate import fragment, minipods

    pods, size = sizes_of(made)
    empty = minipods(minipods=pods, nodes=pods * size)
    words = f"{pods} minipods of {size} nodes, {busy_share:.0%} of them busy (made, seed {seed})"
    return fragment(empty, busy_share, seed), words


def cluster_with_notes(path: str, state: Mapping[str, Any]) -> Cluster:
    """The cluster of a file with what lies over it; what is worth knowing about it is said on standard error.

    :param state: what ``state_options`` give.
    :raises ArnoldError: a file is unusable.
    """
    cluster, notes = read_cluster(cluster=path, **state)
    for note in notes:
        click.echo(note, err=True)
    return cluster


def check_no_state(state: Mapping[str, Any]) -> None:
    """Refuse what lies over a cluster file where there is none, rather than lose it.

    :param state: what ``state_options`` give.
    :raises InvalidInput: one of them was given.
    """
    if given := [f"--{name.replace('_', '-')}" for name, value in state.items() if value not in (None, ())]:
        raise InvalidInput(f"{given[0]} belongs to a cluster file", where=given[0], fix="give --cluster FILE too")


def shapes_of(shapes: Sequence[str], cluster: Cluster) -> tuple[JobShape, ...]:
    """The shapes that were named, or the usual ones, on nodes of the usual size.

    :raises InvalidJob: one is no shape.
    """
    from simulator.capacity.shape import parse_shape, usual_shapes
    from simulator.shapes import node_size

    gpus = node_size(cluster)
    return tuple(parse_shape(shape, gpus_per_node=gpus) for shape in shapes) or usual_shapes(gpus)


def sizes_of(made: str, *, where: str = "--made") -> tuple[int, int]:
    """Minipods and nodes of each.

    :raises InvalidInput: not two numbers.
    """
    parts = made.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and 0 < int(part) <= 1_000_000 for part in parts):
        raise InvalidInput(
            f"{made[:40]!r} is no size", where=where, fix="give minipods and the nodes of each, for example 22x93"
        )
    return int(parts[0]), int(parts[1])
