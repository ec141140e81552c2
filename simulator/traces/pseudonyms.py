"""Traces and snapshots without names: users, groups and job names become pseudonyms.

Of a trace every other byte stays as it is.  A snapshot has the texts of many tools, in which names stand anywhere: it
is written anew from what was read of it, nodes and domains under pseudonyms too, and nothing else is in it.

The same name has the same pseudonym everywhere in the file, and in every file that is made with the same key: the first
48 bits of HMAC-SHA-256 (RFC 2104) of the kind and the name.  Without the key nobody can try names to see which one it
was.  What repeats names in running text (paths, command lines, comments) becomes a pseudonym as a whole.

Known are CSV with a header, ``sacct --parsable2``, and JSON of ``sacct --json``, of Philly and of our own lines.
"""

import hmac
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ground.errors import TraceFormatError
from ground.files import Source
from ground.records import json_data
from simulator.traces.readers.slurm_accounting import BAR, XDMOD
from simulator.traces.trace_loading import plain
from topology.cluster import Level
from topology.flag_sources import FlagFile
from topology.flags import NodeFlag
from topology.load import LoadedTopology
from topology.running_jobs import LiveJob, LiveJobs, own_file
from topology.snapshot import SnapshotFile, Text
from topology.writers import ClusterCsvWriter

_KINDS = {
    "user": "user users username user_name user_id owner uid email mail_user submitted_by created_by kill_request_user "
    "associd",
    "group": "group groups members group_name groupname group_id gid account organization department project team "
    "tenant app_name",
    "job": "jobname job_name",
    "text": "workdir submitline comment admincomment admin_comment systemcomment system_comment stdin stdout stderr "
    "extra container wckey mcslabel reservation reqreservation working_directory current_working_directory cwd command "
    "cmd submit_line script description stdin_expanded stdout_expanded stderr_expanded standard_input standard_output "
    "standard_error mcs_label resv_name",
}
KINDS = {column: kind for kind, columns in _KINDS.items() for column in columns.split()}
"""Columns, and keys of JSON at any depth, in small letters, that become pseudonyms -> what they hold.

A reservation without a name of its own is called after its user, the label of multi-category security is a user or a
group, an id of an association stands for a user: reservation.c and data_parser/v0.0.46 of Slurm.
"""

_STATES = {"state": "state", "status": "state"}  # Columns that may say who cancelled a job

_PAIRS: dict[tuple[str, ...], str] = {
    ("jobs", "name"): "job",
    ("step", "name"): "job",
    ("mcs", "label"): "text",
    ("association", "id"): "user",
}
"""Keys of JSON that hold a name below another key alone -> what they hold."""

_KEPT = frozenset({"", "unknown", "none", "(null)", "n/a", "none assigned"})
_CELL = re.compile(r'"(?:[^"]|"")*"|[^,\r\n]*')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|-?[0-9][0-9.eE+-]*')
_WORDS = tuple(map(re.compile, (r"[\w.@-]+", r"[A-Za-z0-9-]+", r"[A-Za-z0-9]+")))  # Whole, and as parts of names
_CANCELLED_BY = re.compile(r"(CANCELLED by )([^\s\"]+)", re.IGNORECASE)
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
        pseudonym = self.given.get((kind, name))
        if pseudonym is None:
            digest = hmac.new(self.key, f"{kind}\0{name}".encode(), "sha256").hexdigest()
            number = str(int(digest[: _NUMBER_BITS // 4], 16))
            pseudonym = number if name.isdecimal() and kind in ("user", "group") else f"{kind}-{digest[:_DIGITS]}"
            self.given[kind, name] = pseudonym
        return pseudonym

    def counts(self) -> dict[str, int]:
        """Return how many names of each kind became pseudonyms."""
        return dict.fromkeys(_KINDS, 0) | Counter(kind for kind, _ in self.given)


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


def anonymised_snapshot(loaded: LoadedTopology, pseudonyms: Pseudonyms) -> str:
    """Return a cluster with its jobs and flags as a snapshot with pseudonyms, also of nodes and domains.

    Left out are partitions, reservations and taints: nodes that they keep out are faulty ones in it.  Names of levels
    and of types of GPU stay.
    """

    def of_nodes(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(pseudonyms.of(name, "node") for name in names)

    def of_level(level: Level) -> Level:
        return replace(level, domains=tuple(pseudonyms.of(f"{level.name} {name}", "domain") for name in level.domains))

    def of_job(job: LiveJob) -> LiveJob:
        # what numbers a job says nothing of whose it is: Slurm's accounting has it, too
        number, blank, name = job.name.partition(" ") if job.name[:1].isdigit() else ("", "", job.name)
        return replace(
            job, name=number + blank + pseudonyms.of(name, "job"), nodes=of_nodes(job.nodes),
            owner=pseudonyms.of(job.owner, "user"), group=pseudonyms.of(job.group, "group"),
        )  # fmt: skip

    cluster, jobs = loaded.cluster, loaded.jobs
    bare = cluster.replace(
        names=of_nodes(cluster.names), flags={}, cached={}, taints={}, blocks=None,
        levels=tuple(map(of_level, cluster.levels)), second_levels=tuple(map(of_level, cluster.second_levels)),
    )  # fmt: skip
    flags = [
        NodeFlag(of_nodes([flag.node])[0], flag.kind, flag.slowdown, since=flag.since, until=flag.until)
        for flag in (*cluster.flags.values(), *cluster.upcoming)
    ]
    of_flags = json.dumps(json_data(FlagFile, FlagFile(tuple(flags))))
    running = None
    if jobs is not None:
        pseudonymous = LiveJobs(tuple(map(of_job, jobs.running)), tuple(map(of_job, jobs.waiting)), ())
        running = [Text(name="jobs.json", text=own_file(pseudonymous))]
    return SnapshotFile(
        time=loaded.now, utc_offset=0, source="snapshot.json", format=ClusterCsvWriter.name,
        cluster=Text(name="cluster.csv", text=ClusterCsvWriter().write(bare).text),
        running=running, flags=[Text(name="flags.json", text=of_flags)] if flags else [],
    ).text()  # fmt: skip


def still_named(made: str, pseudonyms: Pseudonyms) -> list[str]:
    """Return users and groups that stand as words in what was made: columns that are kept may be called after them.

    A partition ``def-ada_gpu`` is found by the account ``def-ada``; names of digits alone are not looked for.
    """
    names = {name for kind, name in pseudonyms.given if kind in ("user", "group") and not name.isdecimal()}
    return sorted({match[0] for words in _WORDS for match in words.finditer(made)} & (names - _KEPT))


def _unknown(source: Source) -> TraceFormatError:
    fix = "give a file with a column user, account, group or job_name, or the JSON of sacct or Philly"
    return TraceFormatError("names no users, groups or jobs that are known", where=source.name, fix=fix)


def _kinds(source: Source, names: Sequence[str]) -> list[str | None]:
    kinds = [KINDS.get(plain(name)) or _STATES.get(plain(name)) for name in names]
    if not any(KINDS.get(plain(name)) for name in names):
        raise _unknown(source)
    return kinds


def _bars(source: Source, pseudonyms: Pseudonyms) -> Iterator[str]:
    kinds: list[str | None] = []
    names: list[str] = []
    named = False
    for number, line in enumerate(source.lines(), 1):
        cells = line.rstrip("\r\n").split(BAR)
        if not line.strip():
            yield line
            continue
        if not kinds:
            names = [cell.strip().lower() for cell in cells]
            named = "jobid" in names or "jobidraw" in names
            if not named and len(names) != len(XDMOD):
                raise _unknown(source)
            names = names if named else list(XDMOD)
            kinds = _kinds(source, names)
        if named and [cell.strip().lower() for cell in cells] == names:  # also of exports one after the other
            yield line
            continue
        last = len(kinds) - 1 - (names[-1] == "")  # --parsable ends each line with a bar
        if names[last] == "jobname" and len(cells) > len(kinds):  # the bar belongs to the name of the job
            end = last + 1 + len(cells) - len(kinds)
            cells[last:end] = [BAR.join(cells[last:end])]
        if len(cells) != len(kinds):
            raise _shifted(source, number, len(cells), len(kinds))
        made = (_replaced(cell, kind, pseudonyms) if kind else cell for cell, kind in zip(cells, kinds, strict=True))
        yield BAR.join(made) + line[len(line.rstrip("\r\n")) :]


def _shifted(source: Source, line: int, cells: int, columns: int) -> TraceFormatError:
    """Return the error of a row that has other cells than the header, so that names may stand in any of them."""
    fix = "export without SubmitLine and comments, which may hold bars and lines, and JobName last; or quote such cells"
    problem = f"the row has {cells} cells, the header {columns}: a name might stay in it"
    return TraceFormatError(problem, where=source.at(line), fix=fix)


def _replaced(cell: str, kind: str, pseudonyms: Pseudonyms) -> str:
    """Return a cell with a pseudonym in the place of its text; space and quotes around it are kept."""
    if kind == "state":
        return _CANCELLED_BY.sub(lambda match: match[1] + pseudonyms.of(match[2], "user"), cell)
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
        if end in ("\n", "\r", "") and kinds and (column or cell.strip()) and column + 1 != len(kinds):
            raise _shifted(source, text.count("\n", 0, here) + 1, column + 1, len(kinds))
        here += len(end)
        column = column + 1 if end == "," else 0 if end in ("\n", "\r") else column
        if end in ("\n", "\r", "") and not kinds and any(names):
            kinds = _kinds(source, names)


def _json(text: str, pseudonyms: Pseudonyms) -> Iterator[str]:
    """Yield the pieces of a JSON text, or of JSON lines."""
    path: tuple[str | None, ...] = ()  # keys of the objects around, as KINDS has them; None = a list
    is_key = False
    before = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            path = (*path, "" if token == "{" else None)
            is_key = token == "{"
        elif token in "}]":
            path, is_key = path[:-1], False
        elif token == ",":
            is_key = bool(path) and path[-1] is not None
        elif is_key and token != ":":
            path, is_key = (*path[:-1], _key(token)), False
        elif token != ":" and (kind := _kind_at(path, number=token[0] != '"')):
            name = pseudonyms.of(_string(token), kind)
            made = name if token[0] != '"' and name.isdecimal() else json.dumps(name, ensure_ascii=False)
            yield text[before : match.start()] + made
            before = match.end()
    yield text[before:]


@lru_cache(maxsize=4096)
def _key(token: str) -> str:
    return plain(_string(token))


@lru_cache(maxsize=4096)
def _kind_at(path: tuple[str | None, ...], *, number: bool) -> str | None:
    """Return what a value holds: by its key; a text also by the nearest key above, a number if it stands for a name."""
    keys = [key for key in path if key is not None]
    own = _PAIRS.get((*keys[-2:-1], *keys[-1:])) or (KINDS.get(keys[-1]) if keys else None)
    if number:
        return None if own == "text" else own
    return own or next((KINDS[key] for key in reversed(keys) if key in KINDS), None)


def _string(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:  # a control character or a wrong escape: as it stands
        return token.strip('"')
