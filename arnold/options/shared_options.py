"""Options of several commands that no dataclass has, and their help: the same words wherever a name is used.

They name a time as people write times, a live Kubernetes cluster, the algorithm, the page to save or to serve.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import click

from arnold.console.output import PAGE
from arnold.options.field_options import DependentOption, F, complete_names, file_option
from ground.errors import InvalidInput
from scheduler.placement.types import ALGORITHMS

if TYPE_CHECKING:
    from arnold.pages.live_page import LiveSource

ALGORITHM_HELP = "Placement algorithm, one that `arnold compare --list` names."
AT_HELP = "Time that counts as now, such as 2026-11-17T14:00:00Z, or a day in UTC."
CLUSTER_HELP = "The cluster: a file in any known format, - for standard input; kube:[CONTEXT] or slurm: for a live one."
HOLD_HELP = "Hours for which a flag holds."
PAGE_HELP = "Save a page with tables and drawings: one file that needs no network."
PLACEMENT_HELP = "Placement that `arnold place --output` saved: the nodes of the job."
RUNNING_JOBS_HELP = (
    "Jobs that run: what squeue, scontrol show jobs or sacct print, placements that `arnold place` saved, or a file of "
    "your own (jobs:); a file or a pattern in quotes."
)
GRIDS_HELP = (
    "Grids of running jobs by pattern of their names: grids: [{name: 'pretrain-*', parallelism: {tp: 8, pp: "
    "4}}], each with the keys of a job file; dp is what the GPUs come to."
)
SAVE_HELP = "Folder to write files to; the answer names them."
SEED_HELP = "Seed of all that is drawn: same seed, same answer, where no clock ends a search."
STORE_HELP = "Flag store: the file that keeps flags and their history."

flags_out_option = file_option(
    "--flags-out", written=True, help="Write the flags of what was found to this file, for --flags of other commands."
)
"""Give a command ``--flags-out``."""

align_clocks_option = click.option(
    "--align-clocks", is_flag=True, help="Shift the clocks of ranks so that a step's barrier ends at once."
)
"""Give a command ``--align-clocks``."""

yes_option = click.option(
    "--yes", is_flag=True, help="Let the flags take out more than a quarter of the nodes, or half of a rack or minipod."
)
"""Give a command ``--yes``."""

at_option = click.option("--at", metavar="TIME", help=f"{AT_HELP}  [default: now]")
lenient_option = click.option(
    "--lenient/--strict",
    default=False,
    show_default="strict",
    help="Leave out what cannot be used and say how much, or stop at the first.",
)
own_page_option = file_option("--html", written=True, help=PAGE_HELP)  # ``--html`` of a command that draws its page


def html_option(command: F) -> F:
    """Give a command ``--html``, the page of what it answers: :func:`~arnold.console.output.answer` writes it."""

    @wraps(command)
    def call(*, html: str | None, **options: Any) -> Any:
        click.get_current_context().meta[PAGE] = html
        return command(**options)

    return own_page_option(cast("F", call))


def priority_option(*needs: str) -> Callable[[F], F]:
    """Return the option ``--priority``; ``needs``: as :class:`DependentOption` has it."""
    return click.option(
        "--priority",
        cls=DependentOption,
        needs=needs,
        type=float,
        metavar="NUMBER",
        help="Priority of the job: of the running jobs only those of a lower one are stopped, the lowest first, and at "
        "the least loss among these.  [default: any that is preemptible, at the least loss]",
    )


def policy_option(*needs: str, default: str = "fifo-backfill") -> Callable[[F], F]:
    """Return the option ``--policy``; ``needs``: as :class:`DependentOption` has it."""
    words = (
        "Queue policy, such as fifo, fifo-backfill, priority-age, fair-share or arnold; in replays also gavel or hadar."
    )
    return click.option(
        "--policy", cls=DependentOption, needs=needs, default=default, show_default=True, metavar="NAME", help=words
    )


def complete_algorithm(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return names of algorithms, for the shell."""
    return complete_names(ALGORITHMS.names(), incomplete)


def complete_policy(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return names of queue policies, for the shell."""
    from scheduler.queue.policy import POLICIES

    return complete_names(POLICIES.names(), incomplete)


def present(at: str | None) -> datetime:
    """Return the time at which something was found: that of ``--at``, or now.

    :raises InvalidInput: it is no time with a time zone, or lies in the future.
    """
    now = datetime.now(UTC)
    if at is None:
        return now
    instant = parse_time(at, option="--at")[0]
    if instant > now:
        fix = "give the time at which it was found; a flag that is to begin later says so itself (since)"
        raise InvalidInput(f"{at} lies in the future: nothing would be taken in before", where="--at", fix=fix)
    return instant


def parse_time(text: str, *, option: str) -> tuple[datetime, datetime]:
    """Return the first and last instant of what is named: a time with a time zone, or a day in UTC (``2026-11-17``).

    :raises InvalidInput: neither.
    """
    try:
        parsed = datetime.fromisoformat(text)
        if len(text) == len("2026-11-17"):
            first = parsed.replace(tzinfo=UTC)
            return first, first + timedelta(days=1) - timedelta(microseconds=1)
        if parsed.tzinfo is not None:
            parsed = parsed.astimezone(UTC)
            return parsed, parsed
    except (ValueError, OverflowError):
        pass
    fix = "write a time such as 2026-11-17T14:00:00Z, or a day such as 2026-11-17 (in UTC)"
    raise InvalidInput(f"{text[:40]!r} is no time with a time zone and no day", where=option, fix=fix)


def kubeconfig_options(command: F) -> F:
    """Give a command ``--kubeconfig`` and ``--context``, as one record ``which``."""

    @wraps(command)
    def call(*, kubeconfig: str | None, context: str | None, **options: Any) -> Any:
        from extender.cluster_api.connect import WhichCluster

        return command(which=WhichCluster(kubeconfig, context), **options)

    context_help = "Context of the kubeconfig.  [default: its current one]"
    file_help = "File that names cluster and user.  [default: $KUBECONFIG or ~/.kube/config]"
    with_context = click.option("--context", metavar="NAME", help=context_help)(call)
    return cast("F", file_option("--kubeconfig", help=file_help)(with_context))


def page_options(command: F) -> F:
    """Give a command ``--bind`` and ``--host-name``."""
    named = click.option(
        "--host-name",
        multiple=True,
        metavar="NAME",
        help="Name or address by which others open the page: it may then listen beyond this machine, without a login.",
    )(command)
    return click.option(
        "--bind",
        default="127.0.0.1:8890",
        show_default=True,
        metavar="HOST:PORT",
        help="Address and port to listen on.",
    )(named)


def show_live(source: LiveSource, *, bind: str, host_names: tuple[str, ...]) -> None:
    """Show the page of a cluster until SIGTERM or Ctrl-C.

    :raises InvalidInput: an option is wrong, or the address is taken; what ends the following of the cluster.
    """
    import asyncio

    from arnold.pages.live_page import ClusterPage
    from extender.service.page_server import known_by, serve_page
    from extender.service.settings import parse_address

    address = parse_address(bind)
    hosts = known_by(address, host_names)
    page = ClusterPage(source)
    asyncio.run(serve_page(page, address, hosts, said=lambda where: click.echo(f"{where} (Ctrl-C ends it)")))
