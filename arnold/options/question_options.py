"""The options of a question of capacity planning: its fields, and the cluster that it may be asked of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from arnold.console.verbosity import note
from arnold.options.cluster_options import OF_SLURM, ClusterFiles
from arnold.options.field_options import file_option, options_of, take
from arnold.options.shared_options import CLUSTER_HELP
from ground.errors import InvalidInput

if TYPE_CHECKING:
    from simulator.capacity.question import CapacityQuestion

F = TypeVar("F", bound=Callable[..., Any])
READING = ("format", "levels", "level_names", "domains", "gpu_type", "gpu_resource", "shared_gpus")
"""Options of how a cluster file is read."""


def question_options(kind: type[CapacityQuestion[Any]]) -> Callable[[F], F]:
    """Return a decorator that gives a command the options of a question, and hands it the ``question``.

    What lies over a cluster file counts where jobs are placed on it; elsewhere its levels alone do.  Notes about the
    file go to standard error.
    """
    from simulator.capacity.cluster_question import ClusterQuestion

    over = ("gpus_per_node", "busy", *OF_SLURM, "flags") if issubclass(kind, ClusterQuestion) else ()
    reading = (*READING, *over) if hasattr(kind, "cluster") else ()

    def decorate(command: F) -> F:
        @wraps(command)
        def call(**values: Any) -> Any:
            if not reading:
                return command(question=take(kind, values), **values)
            file = values.pop("cluster")
            files = take(partial(ClusterFiles, file), values)
            if file is None:
                # refused, rather than lost
                for option in _given(reading):
                    raise InvalidInput(
                        f"{option} belongs to a cluster file", where=option, fix="give --cluster FILE too"
                    )
                return command(question=take(kind, values), **values)
            for option in _given(("made", "busy_share")):
                fix = f"leave --cluster or {option} away"
                raise InvalidInput("is of a cluster that is made, and one is given", where=option, fix=fix)
            loaded = files.read()
            note(*loaded.notes)
            made: Callable[..., CapacityQuestion[Any]] = kind
            question = take(partial(made, cluster=loaded.cluster, source=file), values)
            return command(question=question, **values)

        asked = options_of(kind)(cast("F", call))
        if not reading:
            return asked
        return file_option("--cluster", help=CLUSTER_HELP)(options_of(ClusterFiles, only=reading)(asked))

    return decorate


def _given(names: Iterable[str]) -> list[str]:
    """Return the options of the command line among those of the names."""
    context = click.get_current_context()
    given = (name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    return [f"--{name.replace('_', '-')}" for name in given]
