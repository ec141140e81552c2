"""Every file of a folder: what it is, what reads it, and whom all of them together suspect."""

from __future__ import annotations

import os
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ground.errors import ArnoldError, InvalidInput
from ground.files import ByteStream, opened
from health.look.evidence import Clue, Line, NextStep, Note, Suspect, TextFile, TextForm, Whereabouts, suspects_of
from health.look.job_logs import JOB_LOGS
from health.look.node_reports import NODE_REPORTS

FORMS: tuple[TextForm, ...] = (*JOB_LOGS, *NODE_REPORTS)
"""All forms of text that are read line by line."""

MOST_FILES = 20_000  # Of a folder: more than a log, a dump and a profile of each of 5,000 ranks
MOST_KEPT = 10_000  # Lines of one form of one file that are kept of its beginning, and as many of its end
LONGEST = 4_000  # Bytes of a line that are looked at
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_NODE = re.compile(r"(?:^|[-_.@])((?:node|host|nid|worker|dgx|hgx|cn)-?[a-z]*\d[\w-]*?)(?=[_.@]|$)", re.IGNORECASE)
"""Names of nodes in names of files: a name of another kind, such as that of a case or an Xid, is none."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What one file is."""

    name: str
    kind: str
    read: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class FolderLook:
    """What a folder holds, and who is suspected."""

    files: tuple[LookedAt, ...]
    suspects: tuple[Suspect, ...]
    next: tuple[str, ...]


def look_at_folder(folder: str) -> FolderLook:
    """Read every file of a folder and of those in it.

    :raises InvalidInput: it is no folder, or has no file, or more than can be looked at.
    """
    files, facts = [], defaultdict[str, list[object]](list)
    for path, name in _files(folder):
        looked, found = _read_text(path, name)
        files.append(looked)
        for kind, items in found.items():
            facts[kind] += items
    case = Whereabouts()
    case.learn(chain.from_iterable(facts.values()))
    clues, wanted = list[Clue](), dict[str, None]()
    for form in FORMS:
        items = facts[form.kind]
        for item in chain(items, form.judge(items, case) if form.judge else ()):
            match item:
                case Clue():
                    clues.append(item)
                case NextStep():
                    wanted[item.words] = None
    return FolderLook(tuple(files), tuple(suspects_of(clues, case)), tuple(wanted))


def _files(folder: str) -> Iterator[tuple[Path, str]]:
    """Yield each file with its name below the folder, in order of names; what is hidden is left out."""
    root = Path(folder)
    if not root.is_dir():
        problem = "this is a file" if root.exists() else "there is no such folder"
        fix = "give the folder that holds everything of the job: logs, dumps, dmesg, tests"
        raise InvalidInput(problem, where=folder, fix=fix)
    names = []
    for here, folders, of_folder in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names += [Path(here) / name for name in of_folder if not name.startswith(".")]
        if len(names) > MOST_FILES:
            raise InvalidInput(f"holds more than {MOST_FILES:,} files", where=folder, fix="give a folder of one job")
    if not names:
        raise InvalidInput("holds no file", where=folder, fix="put the job's logs, dumps and reports into it")
    for path in sorted(names):
        yield path, str(path.relative_to(root))


def _read_text(path: Path, name: str) -> tuple[LookedAt, dict[str, list[object]]]:
    """Read a file as lines of all forms that it holds."""
    kept: dict[str, tuple[list[Line], deque[Line]]] = {}
    note = ""
    try:
        if not path.is_file():
            return LookedAt(name, "no file", read=False), {}
        with opened(path) as (_, raw):
            stream = ByteStream(name, raw)
            documents = [form for form in FORMS if form.document and form.marks.search(_decoded(stream.head))]
            for number, data in stream.raw_lines(LONGEST):
                text = _STYLE.sub("", data.decode("utf-8", errors="replace")).rstrip()
                for form in documents or FORMS:
                    if documents or (not form.document and form.marks.search(text)):
                        first, last = kept.setdefault(form.kind, ([], deque(maxlen=MOST_KEPT)))
                        (first if len(first) < MOST_KEPT else last).append(Line(number, text))
            if stream.damaged:
                note = "cut off or damaged: what came before was read"
    except ArnoldError as error:
        return LookedAt(name, "unknown", read=False, note=error.message), {}
    found: dict[str, list[object]] = {}
    for form in FORMS:
        if form.kind in kept:
            lines = list(chain(*kept[form.kind]))
            found[form.kind] = list(form.read(TextFile(name, lines, node_in(name))))
    notes = [note, *(item.words for items in found.values() for item in items if isinstance(item, Note))]
    if found:
        return LookedAt(name, ", ".join(found), read=True, note="; ".join(filter(None, notes))), found
    return LookedAt(name, "unknown", read=False, note="; ".join(filter(None, (note, "no form that is known")))), {}


def node_in(name: str) -> str | None:
    """Return the node that the name of a file or of its folder is of; ``None`` = it names none, or several."""
    for part in reversed(Path(name).parts):
        found = {match[1] for match in _NODE.finditer(Path(part).stem if part == Path(name).name else part)}
        if len(found) == 1:
            return found.pop()
    return None


def _decoded(head: bytes) -> str:
    return head.decode("utf-8", errors="replace")
