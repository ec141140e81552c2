"""The context: a file ``.arnold.yaml`` with the options of the cluster, so that no command need be told them.

.. code-block:: yaml

    cluster: slurm:
    partition: gpu
    levels: core,pod,rack
    flags: [flags.yaml, /shared/flags.db]

Its keys are the fields of :class:`ClusterFiles`.  The nearest file counts, from the working directory up to the home
directory or the root, or the one that ``ARNOLD_CONTEXT`` names; empty, the variable says that none does.  Files in it
are named from where it stands.  A command that requires a cluster takes what its command line leaves open from it, as
if it stood there, and says so among the notes of its answer.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arnold.options.cluster_options import CONTEXT_NOTES, KUBERNETES, SLURM, ClusterFiles
from arnold.options.field_options import PLACES, FieldOption, option_names
from ground.errors import InvalidInput, did_you_mean
from ground.files import STDIN, read_source

if TYPE_CHECKING:
    from ground.documents import Document

NAME, VARIABLE = ".arnold.yaml", "ARNOLD_CONTEXT"
OPTIONS = option_names(ClusterFiles)  # Key of the file -> the option whose value it is
_FILES = ("cluster", "busy", "flags", "exclude")  # Keys whose values name files, or may
_SEVERAL = ("tolerate", "busy", "flags")  # Keys of options that may be repeated: a list
_LISTED = ("levels", "level_names", "domains", "exclude")  # Keys of options with commas between parts: a list, too
_NONE = (
    *_SEVERAL,
    "domains",
    "exclude",
)  # Keys of which there may be none: an empty list is as if the key was not there

_LIVE = re.compile(r"^(cluster:[ \t]+)(slurm:|kube:)(?=[ \t]*(?:#.*)?$)", re.MULTILINE)
"""A live cluster as people write it, which YAML would take for a key without a value."""

_PLAIN = re.compile(r"(?!(?:null|true|false)\b)[A-Za-z_./][\w./@=+,-]*", re.IGNORECASE)
"""Text that YAML reads as itself, without quotes."""


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """What a context file says."""

    file: Path
    values: Mapping[str, str | tuple[str, ...]]  # key -> value as the option takes it; names of files from here
    lines: Mapping[str, int] = field(default_factory=dict)  # key -> line of the file

    def where(self, key: str) -> str:
        """Return where a key stands: ``.arnold.yaml:3``."""
        return f"{shown(self.file)}:{self.lines[key]}" if key in self.lines else shown(self.file)


def shown(file: Path) -> str:
    """Return what a file is called in messages: by its name alone in the working directory."""
    return file.name if file.parent == Path.cwd() else str(file)


def find_context() -> Path | None:
    """Return the file of the context that counts here; ``None`` = there is none."""
    if (named := os.environ.get(VARIABLE)) is not None:
        return Path(named).absolute() if named else None
    here, home = Path.cwd(), Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111  (Path.home may raise)
    for folder in (here, *here.parents):
        if (folder / NAME).is_file():
            return folder / NAME
        if folder == home:
            return None
    return None


def read_context(file: Path) -> ClusterContext:
    """Read a context file; raise InvalidInput, with the line, for what is none."""
    from ground.documents import load_document

    source = read_source(file)
    name = shown(file)
    document = load_document(type(source)(name, _LIVE.sub(r'\1"\2"', source.text)), syntax="yaml")
    if not isinstance(document.data, dict):
        raise InvalidInput("keys with values are expected here", where=document.where(), fix="write cluster: FILE")
    said = [key for key, value in document.data.items() if value != [] or key not in _NONE]
    return ClusterContext(
        file,
        {key: _value(document, key, file.parent) for key in said},
        {key: document.locate([key]) for key in said},
    )


def _value(document: Document, key: str, folder: Path) -> str | tuple[str, ...]:
    """Return the value of a key as its option takes it, with names of files from the working directory."""
    if key not in OPTIONS:
        fix = f"{did_you_mean(key.replace('-', '_'), OPTIONS)}known keys: {', '.join(OPTIONS)}"
        raise InvalidInput(f"unknown key {key!r}", where=document.where(key), fix=fix)
    written = document.data[key]
    listed = written if isinstance(written, list) else [written]
    if not listed and key in _LISTED:
        fix = f"name them, as {OPTIONS[key]} takes them, or leave the key out"
        raise InvalidInput(f"{key} is an empty list", where=document.where(key), fix=fix)
    if isinstance(written, list) and key not in (*_SEVERAL, *_LISTED):
        fix = f"write {key}: VALUE, as {OPTIONS[key]} takes it"
        raise InvalidInput(f"{key} is one value, and not a list of {len(listed)}", where=document.where(key), fix=fix)
    parts: list[str] = []
    for part in listed:
        if not isinstance(part, str | int | float) or isinstance(part, bool):
            fix = f"write {key}: VALUE, as {OPTIONS[key]} takes it, or leave the key out"
            raise InvalidInput(f"{key} has no text as its value", where=document.where(key), fix=fix)
        elsewhere = folder != Path.cwd() and not Path(str(part)).is_absolute()
        is_elsewhere = elsewhere and key in _FILES and _is_file(key, str(part))
        parts.append(os.path.relpath(folder / str(part)) if is_elsewhere else str(part))
    return tuple(parts) if key in _SEVERAL else ",".join(parts)


def _is_file(key: str, value: str) -> bool:
    if key == "exclude":
        return "/" in value
    return value != STDIN and not (key == "cluster" and value.startswith((KUBERNETES, SLURM)))


def missing_file(key: str, value: str | tuple[str, ...]) -> str | None:
    """Return the first file among the values of a key that is not there; ``None`` = there is none."""
    files = value if isinstance(value, tuple) else (value,)
    named = (file for file in files if key in _FILES and _is_file(key, file))
    return next((file for file in named if not Path(file).exists()), None)


def take_from_context(command: click.Command, context: click.Context, given: Collection[str]) -> str:
    """Let the options of the cluster that a command line leaves open have the values of the context, if there is one.

    :param given: names of the parameters that the command line has.
    :returns: what was taken, for a user; empty = nothing.
    :raises InvalidInput: the file is none, or a value of it is none of its option; with file and line.
    """
    takers = dict(_takers(command))
    if not takers or (file := find_context()) is None:
        return ""
    from_file = read_context(file)
    taken = {key: takers[key] for key in from_file.values if key in takers and takers[key].name not in given}
    values: dict[str, Any] = {}
    for key, parameter in taken.items():
        value = from_file.values[key]
        if (missing := missing_file(key, value)) is not None:
            fix = "correct the path, which is from where this file stands, or leave the key out"
            raise InvalidInput(f"{key}: there is no file {missing}", where=from_file.where(key), fix=fix)
        values[parameter.name or key] = (value,) if parameter.multiple and isinstance(value, str) else value
        try:
            parameter.type_cast_value(context, values[parameter.name or key])
        except click.BadParameter as error:
            raise InvalidInput(f"{key}: {error.message}", where=from_file.where(key), fix=f"correct {key}") from None
    context.default_map = {**(context.default_map or {}), **values}
    if not taken:
        return ""
    note = f"from the context {shown(file)}: {in_words({key: from_file.values[key] for key in taken})}"
    context.meta[CONTEXT_NOTES] = (note,)
    context.meta[PLACES] = {OPTIONS[key]: f"{from_file.where(key)}: {OPTIONS[key]}" for key in taken}
    return note


def _takers(command: click.Command) -> Iterator[tuple[str, click.Parameter]]:
    """Yield key and parameter of what a command may take from a context: all or nothing, where it requires a cluster.

    A replay takes several clusters, a command about a file one as its argument.
    """
    cluster = next(
        (option for option in command.params if option.name in ("cluster", "clusters") and option.required), None
    )
    if cluster is not None:
        yield "cluster", cluster
        for option in command.params:
            if isinstance(option, FieldOption) and option.record is ClusterFiles and option is not cluster:
                yield str(option.name), option


def in_words(values: Mapping[str, str | tuple[str, ...]]) -> str:
    """Return the values as options: ``--cluster slurm:, --partition gpu``."""
    parts = {key: value if isinstance(value, tuple) else (value,) for key, value in values.items()}
    return ", ".join(f"{OPTIONS[key]} {part}" for key, of_key in parts.items() for part in of_key)


def context_text(values: Mapping[str, str | tuple[str, ...]]) -> str:
    """Return the text of a context file, a line for each key."""
    plain = {
        key: isinstance(value, str) and (value in (KUBERNETES, SLURM) or bool(_PLAIN.fullmatch(value)))
        for key, value in values.items()
    }
    return "".join(
        f"{key}: {value if plain[key] else json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()
    )
