"""What the files of a dead or slow job say about whom, and one ranked list of suspects from it.

A form of text is read by a pair: what its lines look like, and what they say.  What one line proves is a clue at once;
what only many lines together show, such as who is behind in a group, is a fact that is judged when all files are read.

Precision comes first.  A rank that speaks, or that merely reports that time ran out, is a witness.  Of two ends of a
path that is slow, neither is named unless other paths clear one of them.  In flags what a process did makes a node
dearer, and what its hardware did takes it out.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from ground.records import JsonRecord
from health.collectives.diagnosis import ORDER, Certainty
from topology.flags import FALSE_ALARMS, FAULTY, WARNING, FlagKind, NodeFlag

LEVELS: tuple[Certainty, ...] = tuple(ORDER)  # From the surest on
HARDWARE = {"gpu-error", "nvswitch", "node-failure"}  # Kinds of clues that are about a device
MOST_LINES = 20  # Lines of a file that a clue names


class Line(NamedTuple):
    """A line of a text, without what colours it."""

    number: int
    text: str
    file: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """The lines of a file that are of one form."""

    name: str
    lines: Sequence[Line]
    node: str | None = None  # the node that it is of, where its name says so


@dataclass(frozen=True, slots=True)
class Clue:
    """Something that speaks against a node, GPU or rank, or for it."""

    kind: str  # what is wrong, in a word or two with hyphens
    sure: Certainty
    says: str  # the sentence that convicts
    file: str
    lines: tuple[int, ...]
    node: str | None = None
    rank: int | None = None
    gpu: int | str | None = None  # index on its node, or PCI address where the index is not known
    factor: float | None = None  # times as long as usual that it takes; None = it has stopped, or is not known
    domain: str | None = None  # uplink or domain of the network, in place of a node
    clears: bool = False  # whether it speaks for it


class LineRule(NamedTuple):
    """What a line proves by itself."""

    kind: str
    sure: Certainty
    says: str  # with names of the pattern's groups in braces
    pattern: re.Pattern[str]  # its groups node, rank and gpu say who it is


def line_rules(table: str) -> tuple[LineRule, ...]:
    """Return the rules of a table that has two lines for each: ``kind sure: what it says``, and the pattern."""
    rows = [row.strip() for row in table.strip().splitlines()]
    rules = []
    for head, pattern in zip(rows[::2], rows[1::2], strict=True):
        kind, sure, says = re.split(": | ", head, maxsplit=2)
        rules.append(LineRule(kind, cast("Certainty", sure), says, re.compile(pattern)))
    return tuple(rules)


def clue_by(
    rules: Iterable[LineRule], line: Line, *, node: str | None = None, gpu: int | str | None = None
) -> Clue | None:
    """Return what a line proves by the first rule that it matches; who it is of where the line does not say so."""
    for rule in rules:
        if match := rule.pattern.search(line.text):
            who = match.groupdict()
            rank, of_gpu = (None if who.get(name) is None else int(who[name]) for name in ("rank", "gpu"))
            of_node = who.get("node") or node
            says = rule.says.format_map(who)
            return Clue(rule.kind, rule.sure, says, *where(line), of_node, rank, gpu if of_gpu is None else of_gpu)
    return None


def gathered(items: Iterable[object]) -> list[object]:
    """Return what a file says, with one clue for all lines of it that say the same of the same."""
    facts, same = [], defaultdict[Clue, set[int]](set)
    for item in items:
        if isinstance(item, Clue):
            same[replace(item, lines=())].update(item.lines)
        else:
            facts.append(item)
    return [*facts, *(replace(clue, lines=tuple(sorted(numbers))[:MOST_LINES]) for clue, numbers in same.items())]


class Seat(NamedTuple):
    """Where a rank of the whole job runs."""

    rank: int
    ranks: int  # of its communicator
    node: str
    gpu: int | None
    pci: str | None


class NodeAddress(NamedTuple):
    """A node has this address."""

    address: str
    node: str


class GpuName(NamedTuple):
    """The index of a GPU on its node, and its PCI address."""

    node: str  # or the file that is of it, where its name is not known
    pci: str
    gpu: int


class Seen(NamedTuple):
    """A rank wrote something into a log, so that its log is there."""

    rank: int


class NextStep(NamedTuple):
    """What should be collected or done next."""

    words: str


class Note(NamedTuple):
    """What a user should know of a file."""

    words: str


@dataclass
class Whereabouts:
    """What is known beside the clues: who is where."""

    ranks: int | None = None  # of the job
    seats: dict[int, Seat] = field(default_factory=dict)  # by rank
    names: dict[str, str] = field(default_factory=dict)  # address, or name without the domain -> node
    gpus: dict[tuple[str, str], int] = field(default_factory=dict)  # node, PCI address -> index
    seen: set[int] = field(default_factory=set)
    spell: Callable[[str], str] = str  # a node as its cluster calls it

    def learn(self, facts: Iterable[object]) -> None:
        """Take in where ranks run; the largest communicator is the whole job."""
        seats = []
        for fact in facts:
            match fact:
                case Seat():
                    seats.append(fact)
                    short = fact.node.partition(".")[0]
                    alone = self.names.setdefault(short, fact.node) == fact.node
                    self.names[short] = fact.node if alone else short
                    if fact.pci is not None and fact.gpu is not None:
                        self.gpus[fact.node, fact.pci] = fact.gpu
                case NodeAddress():
                    self.names[fact.address] = fact.node
                case GpuName():
                    self.gpus[fact.node, fact.pci] = fact.gpu
                case Seen():
                    self.seen.add(fact.rank)
        self.ranks = max((seat.ranks for seat in seats), default=None)
        for seat in seats:
            if seat.ranks == self.ranks:
                # a log of two jobs seats a rank twice: then nothing is known of it
                known = self.seats.setdefault(seat.rank, seat)
                if known.node != seat.node:
                    self.seats[seat.rank] = Seat(seat.rank, seat.ranks, "", None, None)
        self.seats = {rank: seat for rank, seat in self.seats.items() if seat.node}

    def called(self, name: str) -> str:
        """Return the one name of a node, by its address or by another form of its name."""
        if name in self.names:
            return self.names[name]
        known = self.names.get(name.partition(".")[0], name)
        return known if same_node(known, name) else name

    def placed(self, clue: Clue) -> Clue:
        """Return a clue with what is known of where its rank runs, or which rank runs on its GPU."""
        node = self.spell(self.called(clue.node)) if clue.node else None
        if isinstance(clue.gpu, str):
            clue = replace(clue, gpu=self.gpus.get((node or clue.file, clue.gpu), clue.gpu))
        if clue.rank is not None:
            seat = self.seats.get(clue.rank)
            if seat is None:
                return replace(clue, node=node)
            return replace(clue, node=node or self.spell(seat.node), gpu=seat.gpu if clue.gpu is None else clue.gpu)
        fits = [
            seat
            for seat in self.seats.values()
            if node is not None and same_node(seat.node, node) and clue.gpu is not None and clue.gpu in seat[3:]
        ]
        return replace(clue, node=node, rank=fits[0].rank if len(fits) == 1 else None)


class TextForm(NamedTuple):
    """A form of text: how it is known and read."""

    kind: str
    marks: str  # a pattern that stands in every line of it, or, where it is a document, in its beginning
    read: Callable[[TextFile], Iterator[object]]
    judge: Callable[[Sequence[object], Whereabouts], Iterator[object]] | None = None  # what all files together show
    document: bool = False  # whether all lines of a file belong to it, and not those with marks alone
    sign: str = ""  # stands in one of the lines at least


def same_node(one: str, other: str) -> bool:
    """Return whether two names are of one node: with the domain and without."""
    if one[:1].isdigit() or other[:1].isdigit():
        return one == other
    short = one.partition(".")[0] == other.partition(".")[0] and ("." in one) != ("." in other)
    return one == other or short


class SaidLines(JsonRecord):
    """Lines of a file that say something of a suspect."""

    file: str
    """Name of the file."""
    lines: tuple[int, ...]
    """Numbers of the lines, from 1, the first of many; empty = the file as a whole."""
    says: str
    """What they say."""


class Suspect(JsonRecord):
    """Somebody who is suspected, with all that speaks against and for it."""

    node: str | None
    """Name of the node, as the files call it; null = not known."""
    rank: int | None
    """Global rank; null = not known, or none in particular."""
    gpu: int | str | None
    """Index of the GPU on its node, else its PCI address; null = not known, or none in particular."""
    domain: str | None
    """Uplink, switch or domain of the network that is suspected in place of a node; null = none is."""
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

    @property
    def of_program(self) -> bool:
        """Whether the program did it, so that no node is to be flagged."""
        return self.kind.startswith("program")


def suspects_of(clues: Iterable[Clue], case: Whereabouts) -> list[Suspect]:
    """Return one suspect for all clues that can be of one, the surest first.

    Hardware that failed, and a process there that did, are a step surer together than either.  What speaks for a
    suspect takes it a step back where it is not certain: a test that passes does not unsay what was seen.
    """
    groups: list[list[Clue]] = []
    placed = [case.placed(clue) for clue in clues]
    # those that say most exactly who it is first, and of these the surer
    against_some = sorted((clue for clue in placed if not clue.clears), key=lambda clue: ORDER[clue.sure])
    for clue in sorted(against_some, key=lambda clue: (clue.node, clue.rank, clue.gpu).count(None)):
        home = next((group for group in groups if all(_of_one(clue, other) for other in group)), None)
        if home is None:
            groups.append([clue])
        else:
            home.append(clue)
    suspects = []
    for group in groups:
        group.sort(key=lambda clue: ORDER[clue.sure])
        node, rank, gpu = (
            next((value for clue in group if (value := getattr(clue, name)) is not None), None)
            for name in ("node", "rank", "gpu")
        )
        domain = group[0].domain
        whole = Clue("", "possible", "", "", (), node, rank, gpu)
        against = [clue for clue in placed if clue.clears and _of_one(clue, whole)]
        kinds = {clue.kind for clue in group}
        step = ORDER[group[0].sure] - bool(kinds & HARDWARE and kinds - HARDWARE)
        step += bool(against) and step > 0
        sure = LEVELS[min(max(step, 0), len(LEVELS) - 1)]
        why, contradicts = (
            tuple(SaidLines(c.file, c.lines, c.says) for c in clues_of) for clues_of in (group, against)
        )
        suspects.append(Suspect(node, rank, gpu, domain, group[0].kind, sure, group[0].factor, why, contradicts))
    return sorted(suspects, key=lambda suspect: (ORDER[suspect.sure], suspect.of_program, -len(suspect.why)))


def _of_one(one: Clue, other: Clue) -> bool:
    """Return whether two clues can be about one GPU, rank or node, and have something in common that says so."""
    if one.domain != other.domain or one.kind.startswith("program") != other.kind.startswith("program"):
        return False
    ranks, gpus = (one.rank, other.rank), (one.gpu, other.gpu)
    if None not in ranks and ranks[0] != ranks[1]:
        return False
    nodes = (one.node, other.node)
    if one.node is not None and other.node is not None:
        return same_node(one.node, other.node) and (None in gpus or gpus[0] == gpus[1])
    if None not in ranks:
        return True
    return nodes == (None, None) and ranks == (None, None) and gpus[0] == gpus[1] and one.file == other.file


def where(*lines: Line) -> tuple[str, tuple[int, ...]]:
    """Return the file of the first of lines, and the numbers of those that are of it, the first of many."""
    file = lines[0].file
    return file, tuple(sorted({line.number for line in lines if line.file == file}))[:MOST_LINES]


SOURCE = "look"
HOLD = timedelta(hours=24)  # How long a flag holds that is not of hardware
SLOW = {"slow", "slow-link", "slow-node", "metrics-straggler", "throttled"}
MOST_SLOWDOWN = 10.0  # Largest slowdown that is written: beyond it a node is as good as out


def look_flags(suspects: Iterable[Suspect], *, now: datetime) -> tuple[NodeFlag, ...]:
    """Return a flag for each node with a suspect that is at least likely, and is not the program's; the surest first.

    A node whose hardware is certain to be at fault is faulty until it is lifted, others cost a price for a day.
    """
    flags: dict[str, NodeFlag] = {}
    for suspect in suspects:
        if suspect.node is None or suspect.sure == "possible" or suspect.of_program:
            continue
        broken = suspect.kind in HARDWARE and suspect.sure == "certain"
        kind: FlagKind = "faulty" if broken else "straggler" if suspect.kind in SLOW and suspect.factor else "degraded"
        price = min(max(suspect.factor or WARNING, WARNING), MOST_SLOWDOWN)
        flag = NodeFlag(
            suspect.node,
            kind,
            slowdown=FAULTY if broken else price,
            source=SOURCE,
            since=now,
            until=None if broken else now + HOLD,
            evidence=f"{suspect.why[0].file}: {suspect.why[0].says}",
            rank=suspect.rank if suspect.kind not in HARDWARE | SLOW else None,
            hardware=broken,
            probability=FALSE_ALARMS[SOURCE].probability if kind == "straggler" else None,
        )
        flags.setdefault(suspect.node, flag)
    return tuple(flags.values())
