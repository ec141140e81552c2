"""Answers of ``arnold health look`` and ``pairs``: who is suspected, by which lines, and what to do next."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from arnold.console.output import GOOD, SO_SO, Console, print_rows, print_sentences
from ground.errors import few
from ground.quantities import decimal, plural
from ground.records import JsonRecord
from health.collectives.diagnosis import Certainty
from health.look.evidence import SaidLines, Suspect, look_flags
from health.look.folder import FolderLook, LookedAt
from health.pairs.group_testing import Findings, Pair
from health.pairs.rounds import Rounds
from topology.cluster import Cluster
from topology.flags import NodeFlag

MOST_PAIRS = 8  # Pairs of a round that are shown as text; --json has all


class LookDocument(JsonRecord):
    """What ``arnold health look --json`` prints."""

    verdict: str
    """The finding in a sentence."""
    files: tuple[LookedAt, ...]
    """Every file, by name."""
    suspects: tuple[Suspect, ...]
    """Who is suspected, the surest first; empty = nobody."""
    flags: tuple[NodeFlag, ...]
    """Flags of nodes that are at least likely: faulty where hardware is certain to be, else a price."""
    next: tuple[str, ...]
    """What to collect or do next."""


def look_document(look: FolderLook, folder: str, *, now: datetime) -> LookDocument:
    """Return the document of a look at a folder."""
    suspects = look.suspects
    read = sum(file.read for file in look.files)
    of_files = f"{read:,} of {plural(len(look.files), 'file')} read"
    verdict = f"Nobody is suspected; {of_files}"
    if suspects:
        others = f", and {plural(len(suspects) - 1, 'other')}" if len(suspects) > 1 else ""
        verdict = f"{suspects[0].sure.capitalize()}: {who(suspects[0])} ({suspects[0].kind}){others}; {of_files}"
    flags, steps = look_flags(look.suspects, now=now), list(look.next)
    if flags:
        record = f"arnold health look {folder} --flags-out flags.json; arnold flags record --store flags.db flags.json"
        steps.insert(0, f"keep the next job off {few(flag.node for flag in flags)}: {record}")
    return LookDocument(verdict, look.files, suspects, flags, tuple(steps))


def who(suspect: Suspect) -> str:
    """Return a suspect in words: ``node07, GPU 3, rank 19``."""
    parts = [suspect.node or ""]
    parts += [f"GPU {suspect.gpu}"] if suspect.gpu is not None else []
    parts += [f"rank {suspect.rank}"] if suspect.rank is not None else []
    parts += [suspect.domain or ""]
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
        (
            names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more",
            kind,
            "yes" if read else "no",
            note,
        )
        for (kind, read, note), names in kinds.items()
    ]
    print_rows(out, ("file", "is", "read", "note"), rows, title="Files", left=("is", "read", "note"))
    print_sentences(out, "Next", document.next)


def _with_place(said: SaidLines) -> str:
    lines = f":{','.join(map(str, said.lines[:5]))}{',...' if len(said.lines) > 5 else ''}" if said.lines else ""
    return f"{said.file}{lines}: {said.says}"


class PairsPlanDocument(JsonRecord):
    """What ``arnold health pairs plan --json`` prints."""

    verdict: str
    """The plan in a sentence."""
    rounds: tuple[tuple[tuple[str, str], ...], ...]
    """Rounds, one after another; the pairs of a round run at once, each node in one at most. Empty = none says more."""
    nodes: int
    """Nodes that can be tested."""
    notes: tuple[str, ...]
    """What was passed over, and what was assumed."""


def plan_document(
    rounds: Rounds, cluster: Cluster, *, nodes: int, measured: int, notes: Sequence[str]
) -> PairsPlanDocument:
    """Return the document of a plan."""
    pairs = sum(map(len, rounds))
    verdict = f"{plural(len(rounds), 'round')}, {plural(pairs, 'pair')} of {nodes:,} nodes"
    if not rounds:
        verdict = f"No other round would say more than the {plural(measured, 'pair')} that were measured"
    if len(cluster) > nodes:
        notes = [*notes, f"{len(cluster) - nodes:,} of {len(cluster):,} nodes are in use and are not tested"]
    return PairsPlanDocument(verdict, tuple(map(tuple, rounds)), nodes, tuple(notes))


def print_plan(out: Console, document: PairsPlanDocument) -> None:
    """Print the rounds."""
    out.print(document.verdict)
    for number, pairs in enumerate(document.rounds, 1):
        rows = [(a, b) for a, b in pairs]
        print_rows(out, ("node", "with"), rows, title=f"Round {number}", left=("with",), most=MOST_PAIRS)
    print_sentences(out, "Notes", document.notes)


class SlowPlace(JsonRecord):
    """A part of the network that is suspected: one of node, link and domain, the others are null."""

    node: str | None
    """Name of a node, whose own link may be at fault."""
    link: str | None
    """An uplink: the domain, a dash, and the domain that it leads to."""
    domain: str | None
    """A domain whose switch is slow, or all of whose nodes are."""
    sure: Certainty
    """certain, likely, or possible: one of several that these pairs do not tell apart."""
    factor: float
    """Times as long as usual that a transfer over it takes."""
    pairs: tuple[tuple[str, str], ...]
    """Tested pairs that it slows."""


class PairsDocument(JsonRecord):
    """What ``arnold health pairs read --json`` prints."""

    verdict: str
    """The finding in a sentence."""
    suspects: tuple[SlowPlace, ...]
    """What makes pairs slow, the surest first; empty = nothing does."""
    cleared: tuple[str, ...]
    """Nodes of a pair as fast as any."""
    unknown: tuple[str, ...]
    """Nodes of which no pair says anything, as each leads over a suspect."""
    unexplained: tuple[tuple[str, str], ...]
    """Tested pairs that are slow by more than chance and lead over no suspect."""
    notes: tuple[str, ...]
    """What pairs cannot tell."""


def pairs_document(findings: Findings, pairs: Sequence[Pair]) -> PairsDocument:
    """Return the document of what tests of pairs show."""
    suspects = []
    for suspect in findings.suspects:
        kind = suspect.place.kind
        suspects.append(
            SlowPlace(
                node=str(suspect.place) if kind == "node" else None,
                link=str(suspect.place) if kind == "link" else None,
                domain=str(suspect.place) if kind in ("switch", "domain") else None,
                sure=suspect.sure,
                factor=suspect.factor,
                pairs=tuple((pairs[row].a, pairs[row].b) for row in suspect.pairs),
            )
        )
    unexplained = tuple((pairs[row].a, pairs[row].b) for row in findings.unexplained)
    verdict = f"No pair of {len(pairs):,} is slow by more than chance"
    if len(pairs) == 1:
        verdict = "It cannot be told whether the one pair is slow: there is no other to compare it with"
    if unexplained:
        verdict = f"{len(unexplained):,} of {plural(len(pairs), 'pair')} slow by more than chance, and no one place why"
    if suspects:
        names = " or ".join(place_in_words(place) for place in suspects[:4] if place.sure == suspects[0].sure)
        verdict = f"{suspects[0].sure.capitalize()}: {names}, by {plural(len(pairs), 'pair')}"
    notes = list(findings.notes)
    if unexplained:
        slow = few(" with ".join(pair) for pair in unexplained)
        notes.append(f"slow, and over nothing that is suspected: {slow}")
    return PairsDocument(verdict, tuple(suspects), findings.cleared, findings.unknown, unexplained, tuple(notes))


def place_in_words(place: SlowPlace) -> str:
    """Return a suspect in words: ``node n0017``, ``link leaf3 - spine1``."""
    return next(f"{kind} {name}" for kind in ("node", "link", "domain") if (name := getattr(place, kind)) is not None)


def print_pairs(out: Console, document: PairsDocument) -> None:
    """Print what makes pairs slow, and what they cannot tell."""
    out.print(document.verdict, style=SO_SO if document.suspects else GOOD)
    rows = [
        (
            place_in_words(place),
            place.sure,
            f"{decimal(place.factor)}x",
            few(" with ".join(pair) for pair in place.pairs),
        )
        for place in document.suspects
    ]
    print_rows(out, ("suspect", "sure", "slower", "slow pairs"), rows, title="Suspects", left=("sure", "slow pairs"))
    print_sentences(out, "Notes", document.notes)
