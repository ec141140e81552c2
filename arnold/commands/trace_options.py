"""Which jobs a run replays, on the command line: a trace, others merged into it, and the part of it that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from arnold.commands.instance import FILE, finite

if TYPE_CHECKING:
    from simulator.traces import Trace

F = TypeVar("F", bound=Callable[..., Any])


def trace_options(command: F) -> F:
    """``--trace`` and what is done to it before it is replayed."""
    options = (
        click.option(
            "--trace", required=True, type=FILE, metavar="FILE", help="The jobs, in any known format; - is stdin."
        ),
        click.option("--format", metavar="NAME", help="Format of the trace  [default: recognised by content]"),
        click.option(
            "--lenient/--strict", default=False, help="Count rows and jobs that cannot be, or stop at the first."
        ),
        click.option(
            "--merge", type=FILE, multiple=True, metavar="FILE", help="Another trace on the same clock; repeat it."
        ),
        click.option(
            "--window",
            metavar="START..END",
            help="Only jobs submitted then: 0..86400, 2017-10-01..2017-10-08, +1d..+8d (after the first).",
        ),
        click.option("--max-gpus", type=float, callback=finite, metavar="N", help="Only jobs of at most N GPUs."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def take_trace(options: dict[str, Any]) -> Trace:
    """The trace among the options of a command, read, merged and cut; ``lenient`` stays among them.

    :raises ArnoldError: a file is unusable, or nothing of it is left.
    """
    from simulator.traces import max_gpus, merge, parse_window, read_trace, window

    path, lenient = options.pop("trace"), options["lenient"]
    merged, span, most = options.pop("merge"), options.pop("window"), options.pop("max_gpus")
    trace = read_trace(path, format=options.pop("format"), lenient=lenient)
    if merged:
        trace = merge([trace, *(read_trace(other, lenient=lenient) for other in merged)])
    if span is not None:
        trace = window(trace, *parse_window(span, trace))
    return trace if most is None else max_gpus(trace, most)
