"""The group ``arnold`` and the table of its commands.

A command is named here with the place it is imported from and one line of help, so that listing commands imports none
of them.  Other packages add commands through the entry-point group ``arnold.commands``: each entry point names a table
like :data:`COMMANDS`, kept in a module that imports nothing heavy.  A package that cannot be imported is left out: it
takes neither ``arnold --help`` nor the commands of others down.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from arnold.options.command import Group
from ground.plugins import object_at

ENTRY_POINTS = "arnold.commands"


class CommandRow(NamedTuple):
    """Where a command is found, and its line in ``arnold --help``."""

    target: str  # module:attribute of a click.Command
    help: str


def command_row(target: str, words: str) -> CommandRow:
    """Return the row of a command of this package: ``module:name``, or a module whose command has its usual name."""
    module, _, name = target.partition(":")
    return CommandRow(f"arnold.commands.{module}:{name or 'command'}", words)


SECTIONS: Mapping[str, Mapping[str, CommandRow]] = {
    "Start": {"demo": command_row("demo", "See it work: 9,600 GPUs, every algorithm, one page. No input.")},
    "Place a job": {
        "place": command_row("place", "Find where a job goes, proved optimal or with its gap."),
        "explain": command_row("explain", "Say why it cannot be better, or why it does not fit."),
        "compare": command_row("compare", "Run every algorithm on one job and one cluster."),
        "verify": command_row("verify", "Check the certificate of a placement, without a search."),
    },
    "Change what runs": {
        "score": command_row("score", "Say how good a running job lies, and what it could have."),
        "repair": command_row("repair", "Replace lost nodes of a placement, moving little."),
        "defragment": command_row("defragment", "Move running jobs, at least cost, to make room for a new one."),
    },
    "Describe the cluster": {
        "topology": command_row("topology", "Convert, show or validate a cluster file."),
        "snapshot": command_row("snapshot", "Save a cluster with all that runs, or say what changed."),
        "use": command_row("use", "Say once which cluster it is: arnold place job.yaml."),
    },
    "Find slow and faulty nodes": {
        "stragglers": command_row("stragglers", "Say what a job loses to slow workers, and why."),
        "health": command_row("health", "Find faults in metrics, collectives and stacks, and decide."),
        "flags": command_row("flags", "Record, show and export which nodes are slow or faulty."),
    },
    "Look over time": {
        "simulate": command_row("simulate", "Replay a trace of jobs on a cluster."),
        "report": command_row("report", "Say what became of the GPU-hours: used, idle, lost, by team."),
        "calibrate": command_row("calibrate", "Say what spread costs your job, from its own step times."),
        "anonymise": command_row("anonymise", "Take the names out of a trace of jobs."),
    },
    "Plan": {
        "capacity": command_row("capacity", "Say what to buy, reserve and keep spare."),
        "study": command_row("study", "Compare algorithms and policies in many runs."),
    },
    "Run on Slurm": {"slurm": command_row("slurm", "Submit or serve jobs, every rank on its node.")},
    "Run on Kubernetes": {
        "extender": command_row("extender", "Schedule gangs: the scheduler extender."),
        "watch": command_row("watch", "Compare the nodes of running gangs, and annotate slow ones."),
        "kube": command_row("kube", "Show gangs and nodes of a live cluster; kubectl arnold."),
    },
    "Look up": {
        "formats": command_row("formats", "List the formats of files that are read."),
        "schema": command_row("schema", "Print the JSON Schema of a command's --json output."),
    },
}
"""Our own commands under the headings of ``arnold --help``, in the order in which a user meets them."""

COMMANDS: Mapping[str, CommandRow] = {name: row for rows in SECTIONS.values() for name, row in rows.items()}


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


class LazyGroup(Group):
    """A group that knows its commands by name and imports one when it is called."""

    def __init__(
        self,
        *,
        table: Mapping[str, CommandRow],
        plugins: str = "",
        sections: Mapping[str, Collection[str]] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        """Make the group.

        :param plugins: group of entry points through which other packages add commands; empty = none can.
        :param sections: heading -> names of commands that stand below it in the help; the others come last.
        """
        super().__init__(**settings)
        self._own = table
        self._plugins = plugins
        self._sections = sections

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
        """Find the command that the arguments name; ``version`` is said at once."""
        if args == ["version"] and self.get_command(ctx, "version") is None:
            _print_version(ctx, None, wanted=True)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands' lines of the help, from the table, all in one column."""
        left = self.table()
        width = max(map(len, left), default=0)
        for heading, names in (*self._sections.items(), ("More commands" if self._sections else "Commands", left)):
            rows = [(name.ljust(width), left.pop(name).help) for name in tuple(names) if name in left]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _print_version(ctx: click.Context, _: click.Parameter | None, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"arnold {version('arnold-scheduler')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    sections=SECTIONS,
    plugins=ENTRY_POINTS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 ok, 2 usage or bad input, 3 infeasible, 4 out of time with nothing valid, "
    "5 a certificate that is wrong. "
    "Each command explains itself: arnold place --help.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version.",
)
def arnold() -> None:
    """Place large GPU training jobs on a cluster, proved optimal or with a certified gap."""
