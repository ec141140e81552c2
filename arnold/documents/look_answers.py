"""Answers of ``arnold health look`` and ``pairs``: who is suspected, by which lines, and what to do next."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arnold.console.output import GOOD, SO_SO, print_rows, print_sentences
from ground.quantities import decimal, plural
from ground.records import JsonRecord
from health.collectives.diagnosis import Certainty
from health.look.evidence import Clue, Suspect
from health.look.folder import Look

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class LookedAtFile(JsonRecord):
    """What one file of the folder is."""

    name: str
    """Its name below the folder."""
    kind: str
    """What it is: a name, or several with commas; unknown = nothing that is known."""
    read: bool
    """Whether it was read."""
    note: str
    """What was passed over, or why it was not read and what to give instead; empty = nothing."""


@dataclass(frozen=True, slots=True)
class SaidLines(JsonRecord):
    """Lines of a file that say something of a suspect."""

    file: str
    """Name of the file."""
    lines: tuple[int, ...]
    """Numbers of the lines, from 1, the first of many; empty = the file as a whole."""
    says: str
    """What they say."""


@dataclass(frozen=True, slots=True)
class NamedSuspect(JsonRecord):
    """Somebody who is suspected."""

    node: str | None
    """Name of the node, as the files call it; null = not known."""
    rank: int | None
    """Global rank; null = not known, or none in particular."""
    gpu: int | str | None
    """Index of the GPU on its node, or its PCI address where the index is not known; null = not known, or none in
    particular."""
    kind: str
    """What is wrong: gpu-error, not-launched, slow, ...; program-...: it is the program's, and no node is flagged."""
    sure: Certainty
    """certain: it is shown; likely: it points there; possible: one of several."""
    factor: float | None
    """Times as long as usual that it takes; null = it has stopped, or is not known."""
    why: tuple[SaidLines, ...]
    """What speaks against it, the surest first."""
    contradicts: tuple[SaidLines, ...]
    """What speaks for it."""


@dataclass(frozen=True, slots=True)
class LookDocument(JsonRecord):
    """What ``arnold health look --json`` prints."""

    verdict: str
    """The finding in a sentence."""
    files: tuple[LookedAtFile, ...]
    """Every file, by name."""
    suspects: tuple[NamedSuspect, ...]
    """Who is suspected, the surest first; empty = nobody."""
    next: tuple[str, ...]
    """What to collect or do next."""


def look_document(look: Look) -> LookDocument:
    """Return the document of a look."""
    suspects = tuple(_named(suspect) for suspect in look.suspects)
    read = sum(file.read for file in look.files)
    of_files = f"{read:,} of {plural(len(look.files), 'file')} read"
    verdict = f"Nobody is suspected; {of_files}"
    if suspects:
        others = f", and {plural(len(suspects) - 1, 'other')}" if len(suspects) > 1 else ""
        verdict = f"{suspects[0].sure.capitalize()}: {who(suspects[0])} ({suspects[0].kind}){others}; {of_files}"
    files = tuple(LookedAtFile(file.name, file.kind, file.read, file.note) for file in look.files)
    return LookDocument(verdict, files, suspects, look.next)


def _named(suspect: Suspect) -> NamedSuspect:
    return NamedSuspect(
        suspect.node,
        suspect.rank,
        suspect.gpu,
        suspect.kind,
        suspect.sure,
        suspect.factor,
        tuple(map(_said, suspect.against)),
        tuple(map(_said, suspect.contradicts)),
    )


def _said(clue: Clue) -> SaidLines:
    return SaidLines(clue.file, clue.lines, clue.says)


def who(suspect: NamedSuspect) -> str:
    """Return a suspect in words: ``node07, GPU 3, rank 19``."""
    parts = [suspect.node or ""]
    parts += [f"GPU {suspect.gpu}"] if suspect.gpu is not None else []
    parts += [f"rank {suspect.rank}"] if suspect.rank is not None else []
    return ", ".join(filter(None, parts)) or "somebody whose name no file says"


def print_look(out: Console, document: LookDocument) -> None:
    """Print who is suspected and why, what the files are, and what to do next."""
    out.print(document.verdict, style=SO_SO if document.suspects else GOOD)
    for suspect in document.suspects:
        factor = f", {decimal(suspect.factor)} times as long" if suspect.factor is not None else ""
        title = f"{who(suspect)}: {suspect.sure}, {suspect.kind}{factor}"
        says = [_with_place(said) for said in suspect.why]
        says += [f"but {_with_place(said)}" for said in suspect.contradicts]
        print_sentences(out, title, says)
    kinds: dict[tuple[str, bool, str], list[str]] = defaultdict(list)
    for file in document.files:
        kinds[file.kind, file.read, file.note].append(file.name)
    rows = [
        (names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more", kind, "yes" if read else "no", note)
        for (kind, read, note), names in kinds.items()
    ]
    print_rows(out, ("file", "is", "read", "note"), rows, title="Files", left=("is", "read", "note"))
    print_sentences(out, "Next", document.next)


def _with_place(said: SaidLines) -> str:
    lines = f":{','.join(map(str, said.lines[:5]))}{',...' if len(said.lines) > 5 else ''}" if said.lines else ""
    return f"{said.file}{lines}: {said.says}"
