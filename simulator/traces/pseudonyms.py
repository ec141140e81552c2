"""Traces without names: users, groups and job names become pseudonyms, every other byte stays as it is.

The same name has the same pseudonym everywhere in the file, and in every file that is made with the same key: the first
48 bits of HMAC-SHA-256 (RFC 2104) of the kind and the name.  Without the key nobody can try names to see which one it
was.  What repeats names in running text (paths, command lines, comments) becomes a pseudonym as a whole.

Known are CSV with a header, ``sacct --parsable2``, and JSON of ``sacct --json``, of Philly and of our own lines.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from simulator.traces.column_names import plain
from simulator.traces.sacct import BAR, XDMOD
from topology.errors import TraceFormatError
from topology.files import Source

_KINDS = {
    "user": "user username user_name user_id owner uid",
    "group": "group group_name groupname account organization department gid",
    "job": "jobname job_name",
    "text": "workdir submitline comment admincomment systemcomment stdin stdout stderr extra container wckey",
}
KINDS = {column: kind for kind, columns in _KINDS.items() for column in columns.split()}
"""Columns, in small letters, that become pseudonyms -> what they hold."""

_JSON = {
    "user": "user association.user kill_request_user steps.kill_request_user",
    "group": "group account association.account",
    "job": "name steps.step.name",
    "text": "working_directory submit_line script container extra stdin stdout stderr stdin_expanded stdout_expanded "
    "stderr_expanded comment.administrator comment.job comment.system wckey.wckey steps.step.stdin steps.step.stdout "
    "steps.step.stderr",
}
JSON_KINDS = {path: kind for kind, paths in _JSON.items() for path in paths.split()}
"""Keys of a job in JSON, the path below it between points -> what they hold."""

_ASKED = {"meta.client.user": "user", "meta.client.group": "group", "meta.command": "text"}
"""Who asked Slurm for the file, and how."""

_KEPT = frozenset({"", "unknown", "none", "(null)", "n/a", "none assigned"})
_CELL = re.compile(r'"(?:[^"]|"")*"|[^,\r\n]*')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]')
_CANCELLED_BY = re.compile(r"(CANCELLED by )(\S+)", re.IGNORECASE)
_DIGITS = 12  # Of a pseudonym: 48 bits, so that ten million names collide with a chance of one in six
_NUMBER_BITS = 32  # Of the pseudonym of a number: as many as ids of users have


@dataclass(slots=True)
class Pseudonyms:
    """Gives pseudonyms, and counts how many names of each kind there were."""

    key: bytes
    given: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, name: str, kind: str) -> str:
        """Return the pseudonym of a name; of the number of a user or group a number, and of nothing nothing."""
        if name.lower() in _KEPT:
            return name
        known = self.given.get((kind, name))
        if known is None:
            digest = hmac.new(self.key, f"{kind}\0{name}".encode(), "sha256").hexdigest()
            number = str(int(digest[: _NUMBER_BITS // 4], 16))
            known = number if name.isdecimal() and kind in ("user", "group") else f"{kind}-{digest[:_DIGITS]}"
            self.given[kind, name] = known
        return known

    def counts(self) -> dict[str, int]:
        """Return how many names of each kind became pseudonyms."""
        kinds = [kind for kind, _ in self.given]
        return {kind: kinds.count(kind) for kind in _KINDS}


def anonymised(source: Source, pseudonyms: Pseudonyms) -> str:
    """Return the text of a trace with pseudonyms.

    :raises TraceFormatError: nothing in it is known to be a user, a group or the name of a job.
    """
    text = source.text
    if text.lstrip().startswith(("{", "[")):
        made = "".join(_json(text, pseudonyms))
    else:
        header = next((line for line in text.splitlines() if line.strip()), "")
        made = "".join(_bars(source, pseudonyms) if BAR in header else _commas(source, pseudonyms))
    if not pseudonyms.given:
        raise _unknown(source)
    return made


def _unknown(source: Source) -> TraceFormatError:
    fix = f"give a file with one of the columns {', '.join(sorted(KINDS))}, or the JSON of sacct or Philly"
    return TraceFormatError("names no users, groups or jobs that are known", where=source.name, fix=fix)


def _kinds(source: Source, names: Sequence[str]) -> list[str | None]:
    kinds = [KINDS.get(plain(name)) for name in names]
    if not any(kinds):
        raise _unknown(source)
    return kinds


def _bars(source: Source, pseudonyms: Pseudonyms) -> Iterator[str]:
    kinds: list[str | None] = []
    names: list[str] = []
    state = -1
    named = last = False
    for line in source.lines():
        cells = line.rstrip("\r\n").split(BAR)
        if not kinds and line.strip():
            names = [cell.strip().lower() for cell in cells]
            named = "jobid" in names or "jobidraw" in names
            names = names if named else list(XDMOD)
            kinds, state = _kinds(source, names), names.index("state") if "state" in names else -1
            last = names[-1] == "jobname"
            if named:
                yield line
                continue
        if named and [cell.strip().lower() for cell in cells] == names:  # several exports one after the other
            yield line
            continue
        if last and len(cells) > len(kinds):  # the bar belongs to the name of the job
            cells[len(kinds) - 1 :] = [BAR.join(cells[len(kinds) - 1 :])]
        for i, cell in enumerate(cells[: len(kinds)]):
            if kind := kinds[i]:
                cells[i] = _replaced(cell, kind, pseudonyms)
            elif i == state:
                cells[i] = _CANCELLED_BY.sub(lambda found: found[1] + pseudonyms.of(found[2], "user"), cell)
        yield BAR.join(cells) + line[len(line.rstrip("\r\n")) :]


def _replaced(cell: str, kind: str, pseudonyms: Pseudonyms) -> str:
    """Return a cell with a pseudonym in the place of its text; space and quotes around it are kept."""
    name = cell.strip()
    if name.startswith('"') and name.endswith('"') and len(name) > 1:
        name = name[1:-1].strip()
    return cell.replace(name, pseudonyms.of(name.replace('""', '"'), kind), 1) if name else cell


def _commas(source: Source, pseudonyms: Pseudonyms) -> Iterator[str]:
    """Yield the pieces of a CSV text; cells keep their quotes."""
    text, here, column = source.text, 0, 0
    kinds: list[str | None] = []
    names: list[str] = []
    while here < len(text):
        match = _CELL.match(text, here)
        cell, here = ("", here) if match is None else (match[0], match.end())
        end = text[here : here + 1]
        kind = kinds[column] if kinds and column < len(kinds) else None
        if not kinds:
            names.append(cell.strip().strip('"'))
        yield _replaced(cell, kind, pseudonyms) if kind else cell
        yield end
        here += len(end)
        column = column + 1 if end == "," else 0 if end in ("\n", "\r") else column
        if end in ("\n", "\r", "") and not kinds and any(names):
            kinds = _kinds(source, names)


def _json(text: str, pseudonyms: Pseudonyms) -> Iterator[str]:
    """Yield the pieces of a JSON text, or of JSON lines."""
    path: list[str | None] = []  # keys of the objects around; None = a list
    is_key = False
    before = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            path.append("" if token == "{" else None)
            is_key = token == "{"
        elif token in "}]":
            path, is_key = path[:-1], False
        elif token == ",":
            is_key = bool(path) and path[-1] is not None
        elif is_key and token != ":":
            path[-1], is_key = _string(token), False
        elif token != ":" and (kind := _kind_at(path)):
            yield text[before : match.start()] + json.dumps(pseudonyms.of(_string(token), kind), ensure_ascii=False)
            before = match.end()
    yield text[before:]


def _kind_at(path: Sequence[str | None]) -> str | None:
    keys = [key for key in path if key is not None]
    if keys[:1] == ["jobs"]:
        return JSON_KINDS.get(".".join(keys[1:]))
    return JSON_KINDS.get(keys[0]) if len(keys) == 1 and keys[0] != "name" else _ASKED.get(".".join(keys))


def _string(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:  # a control character or a wrong escape: as it stands
        return token.strip('"')
