"""``arnold schema``: the JSON Schema of what a command prints."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from arnold.commands.command_table import arnold, offers
from arnold.options.command import Command, JsonCommand
from ground.errors import UnknownName, did_you_mean
from ground.plugins import object_at
from ground.records import json_schema

PRINTED: Mapping[str, str] = {
    "error": "arnold.console.output:ErrorDocument",
    "certificate": "scheduler.certificates.certificate:Certificate",
    "jobs": "arnold.documents.joint_answer:JointDocument",
    "study": "simulator.study:StudyDocument",
}
"""Documents beside those of the commands: errors, certificates, what `place` and `simulate` print for several jobs or
runs."""

FILES: Mapping[str, str] = {
    "job": "scheduler.job_files.job_file:JobDocument",
    "power": "simulator.power_file:PowerSettings",
    "records": "scheduler.job_files.records_file:RecordsDocument",
    "startup": "simulator.startup_settings:StartUpSettings",
    "data": "simulator.data_plan:DataPlan",
    "workload": "simulator.workload:WorkloadSpec",
}
"""What users write."""

ENTRY_POINTS = "arnold.files"
"""Entry points for files that other packages let users write: each names a table like :data:`FILES`."""


@click.command("schema", cls=Command)
@click.argument("command", nargs=-1)
def command(command: tuple[str, ...]) -> None:
    """Print the JSON Schema of a command's --json output; without a COMMAND, all names that have one.

    COMMAND is a command (`place`, `topology show`), or `error` for what any command prints when it fails, `jobs` for
    what `place` prints for several jobs, `study` for what `simulate` prints for several runs, `certificate` for what
    `place` saves for `verify`, or one of the files that you write: `job`, `power`, `records`, `startup`, `data`,
    `workload`.

    $ arnold schema place
    $ arnold schema topology validate
    $ arnold schema job
    """
    if not command:
        click.echo("\n".join(schema_names()))
        return
    name = " ".join(command)
    heading = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
    click.echo(json.dumps(heading | schema_of(name), indent=2))


def schema_names() -> list[str]:
    """Return what has a schema: commands, then the others."""
    return [*_documented(arnold), *PRINTED, *_files()]


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints, or of another document; raise UnknownName: of nothing."""
    files = _files()
    member: click.Command | None = arnold
    for word in name.split():
        member = member.get_command(click.Context(member), word) if isinstance(member, click.Group) else None
    target = PRINTED.get(name) or files.get(name) or (member.document if isinstance(member, JsonCommand) else None)
    if target is None:
        names = schema_names()
        fix = f"{did_you_mean(name, names)}use one of: {', '.join(names)}"
        raise UnknownName(f"there is no schema for {name!r}", where="arnold schema", fix=fix)
    return json_schema(object_at(target), written=name not in files)


def _files() -> dict[str, str]:
    """Return the files that users write, ours and those that other packages offer."""
    return {**FILES, **{name: target for table in offers(ENTRY_POINTS) for name, target in table.items()}}


def _documented(group: click.Group, prefix: str = "") -> Iterator[str]:
    """Yield names of all commands below a group that print a JSON document."""
    context = click.Context(group)
    for name in group.list_commands(context):
        member = group.get_command(context, name)
        if isinstance(member, JsonCommand):
            yield prefix + name
        elif isinstance(member, click.Group):
            yield from _documented(member, f"{prefix}{name} ")
