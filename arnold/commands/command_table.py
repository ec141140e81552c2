"""The group ``arnold`` and the table of its commands.

A command is named here with the place it is imported from and one line of help, so that listing commands imports none
of them.  Other packages add commands through the entry-point group ``arnold.commands``: each entry point names a table
like :data:`COMMANDS`, kept in a module that imports nothing heavy.  A package that cannot be imported is left out: it
takes neither ``arnold --help`` nor the commands of others down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import click

from arnold.commands.command import object_at
from topology.errors import UnknownName, did_you_mean

ENTRY_POINTS = "arnold.commands"


class CommandRow(NamedTuple):
    """Where a command is found, and its line in ``arnold --help``."""

    target: str  # module:attribute of a click.Command
    help: str


COMMANDS: Mapping[str, CommandRow] = {
    "demo": CommandRow("arnold.commands.demo:command", "See it work: 9,600 GPUs, every algorithm, one page. No input."),
    "place": CommandRow("arnold.commands.place:command", "Find where a job goes, proved optimal or with its gap."),
    "explain": CommandRow(
        "arnold.commands.explain_placement:command", "Say why it cannot be better, or why it does not fit."
    ),
    "verify": CommandRow("arnold.commands.verify:command", "Check the certificate of a placement, without a search."),
    "compare": CommandRow("arnold.commands.compare:command", "Run every algorithm on one job and one cluster."),
    "repair": CommandRow("arnold.commands.repair:command", "Replace lost nodes of a placement, moving little."),
    "defragment": CommandRow(
        "arnold.commands.defragment:command", "Move running jobs, at the least cost, to make room for a new one."
    ),
    "recover": CommandRow("arnold.commands.recover:command", "Decide after a fault: evict, replay, standby, peers."),
    "study": CommandRow("arnold.commands.study:command", "Run a placement study, the paper's table among them."),
    "stragglers": CommandRow("arnold.commands.stragglers:command", "Say what a job loses to slow workers, and why."),
    "topology": CommandRow("arnold.commands.topology:command", "Convert, show or validate a cluster file."),
    "traces": CommandRow("arnold.commands.traces:command", "Make op traces of profiles; take names out of job traces."),
    "extender": CommandRow("arnold.commands.extender:command", "Schedule gangs on Kubernetes: the scheduler extender."),
    "kube": CommandRow("arnold.commands.kube:command", "Gangs and nodes of a live Kubernetes cluster; kubectl arnold."),
    "flags": CommandRow("arnold.commands.flags:command", "Slow and faulty nodes: who says so, since when, why."),
    "health": CommandRow("arnold.commands.health:command", "Find slow and faulty nodes in what was measured."),
    "simulate": CommandRow("arnold.commands.simulate:command", "Replay a trace of jobs on a cluster, over time."),
    "calibrate": CommandRow(
        "arnold.commands.calibrate:command", "Say what spread costs your job, from its own step times."
    ),
    "capacity": CommandRow("arnold.commands.capacity_questions:command", "Say what to buy, reserve and keep spare."),
    "formats": CommandRow("arnold.commands.formats:command", "List the formats of files that are read."),
    "schema": CommandRow("arnold.commands.schema:command", "Print the JSON Schema of a command's --json output."),
}


def offers(group: str) -> Iterator[Any]:
    """Yield what other packages offer through a group of entry points, in the order of their names.

    One that cannot be imported, whatever the reason, is left out with a warning on stderr.
    """
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            offered = point.load()
        except Exception as error:
            _warn_once(f"{point.name} ({group}) is left out: {type(error).__name__}: {error}")
        else:
            yield offered


@cache
def _warn_once(sentence: str) -> None:
    """Say it on stderr; tables are read several times in a run."""
    click.echo(f"Warning: {sentence}", err=True)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def __init__(self, *, table: Mapping[str, CommandRow], plugins: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._own = table
        self._plugins = plugins

    def table(self) -> dict[str, CommandRow]:
        """Return rows of all commands: our own first, then those of other packages."""
        rows = dict(self._own)
        if self._plugins:
            for offered in offers(self._plugins):
                for name, row in offered.items():
                    rows.setdefault(name, CommandRow(*row))
        return rows

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return names of all commands, without importing one."""
        return list(self.table())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        row = self._own.get(cmd_name) or self.table().get(cmd_name)
        if row is None:
            return None
        command: click.Command = object_at(row.target)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name.

        :raises UnknownName: there is none; with the closest name.
        """
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and not name.startswith("-"):
            raise UnknownName(
                f"there is no command {name!r}",
                where=ctx.command_path,
                fix=f"{did_you_mean(name, self.table())}commands: {', '.join(self.table())}",
            )
        return (name, command, args[1:]) if command else super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands' lines of the help, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in self.table().items()])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"arnold {version('arnold-scheduler')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    plugins=ENTRY_POINTS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 ok, 2 usage or bad input, 3 infeasible, 4 out of time with nothing valid, "
    "5 a certificate that is wrong. "
    "Each command explains itself: arnold place --help.",
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show the version."
)
def arnold() -> None:
    """Place large GPU training jobs on a cluster, proved optimal or with an honest gap."""
