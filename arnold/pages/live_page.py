"""The live page: a cluster as it is now, by the parts of the page of a replay, changed in place as news come.

A :class:`LiveLook` says what there is, whatever the system; its rows stand in tables by key (:class:`RowLedger`), and
a reader is sent the rows that changed since it was last told.  The drawing is made anew only where the tree is another:
then the page, which knows by ``shape`` what it draws, loads itself again.
"""

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from math import inf
from time import monotonic, time
from typing import Any, Protocol

import numpy as np

from ground.quantities import decimal, number, percent, plural
from topology.cluster import Cluster, State, node_states
from topology.drawing.layout import DETAIL, inventory, layout
from topology.drawing.page_kit import render, source
from topology.drawing.renderers import node_data, svg_drawing
from topology.flags import in_words

Row = tuple[Any, ...]  # of what JSON has
Tables = Mapping[str, Mapping[str, Row]]  # name of a table -> key -> row

LOOK_SECONDS = 0.5  # between two looks
FLAG_SECONDS = 10.0  # after which a look may say otherwise though nothing came
REDRAW_SECONDS = 10.0  # between two drawings, where nodes come one by one
MOST_GONE = 20_000  # rows that are gone and not forgotten
FINE, AWAY, SLOW = 0, 1, 2  # what may be said of a node


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGang:
    """A gang, or a job of Slurm's."""

    name: str
    phase: str  # in the words of its system
    gpus: int | None  # None = not known
    pods: str = ""  # such as 3/8, how many of how many are on their nodes
    placed: bool = False  # whether it has nodes, or is promised some
    priority: int = 0
    since: float | None = None  # when it came, seconds since 1970
    spread: tuple[int, int] | None = None  # DP and PP
    objective: float | None = None
    proof: str = ""
    message: str = ""  # why it waits, or what is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReservation:
    """Nodes that are kept for a gang that was announced."""

    name: str
    phase: str
    begin: float | None  # seconds since 1970, as the next
    end: float | None
    nodes: int | None
    others: int | None = None  # nodes of it that others have still; None = not known
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLook:
    """A cluster at one instant."""

    cluster: Cluster | None  # free of a node is what nobody has; None = there is no node with GPUs
    holders: Mapping[str, str] = field(default_factory=dict)  # node -> the gang that it is promised to
    gangs: Sequence[LiveGang] = ()
    reservations: Sequence[LiveReservation] = ()
    notes: Sequence[str] = ()  # what is not known, or is to be mended


class LiveSource(Protocol):
    """A cluster that is followed."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def seen(self) -> float | None:
        """When it was as it looks, seconds since 1970; ``None`` = it was never seen."""

    @property
    def lost(self) -> str:
        """Why it may look otherwise by now; empty = it does not."""

    @property
    def changes(self) -> int:
        """A number that is another when it looks otherwise, time aside."""

    def look(self) -> LiveLook:
        """Return what there is."""

    async def follow(self) -> None:
        """Follow it for ever."""


class RowLedger:
    """The rows of some tables as they are now, and what of them changed since any state, by its number."""

    def __init__(self) -> None:
        self.number = 0
        self._rows: dict[tuple[str, str], tuple[int, Row]] = {}
        self._gone: dict[tuple[str, str], int] = {}
        self._forgotten = 0  # rows that went up to this state are forgotten
        self._told: dict[int, dict[str, Any]] = {}

    def take(self, tables: Tables) -> bool:
        """Take these for all rows there are, and return whether any is another than before."""
        this, rows = self.number + 1, dict[tuple[str, str], tuple[int, Row]]()
        for name, of_table in tables.items():
            for key, row in of_table.items():
                old = self._rows.get((name, key))
                rows[name, key] = old if old is not None and old[1] == row else (this, row)
        gone = self._rows.keys() - rows.keys()
        if not gone and all(since != this for since, _ in rows.values()):
            return False
        self._gone = {key: at for key, at in self._gone.items() if key not in rows} | dict.fromkeys(gone, this)
        if len(self._gone) > MOST_GONE:
            self._gone, self._forgotten = {}, this
        self.number, self._rows, self._told = this, rows, {}
        return True

    def since(self, state: int) -> Mapping[str, Any]:
        """Return what changed since a state: ``rows`` by table and key, ``gone`` keys by table, and whether these are
        ``all`` rows, as nothing else can be said.
        """
        whole = not self._forgotten <= state <= self.number
        state = -1 if whole else state
        if state not in self._told:
            rows, gone = dict[str, dict[str, Row]](), dict[str, list[str]]()
            for (name, key), (at, row) in self._rows.items():
                if at > state:
                    rows.setdefault(name, {})[key] = row
            for (name, key), at in self._gone.items() if not whole else ():
                if at > state:
                    gone.setdefault(name, []).append(key)
            self._told[state] = {"all": whole, "rows": rows, "gone": gone}
        return self._told[state]


class GangNumbers:
    """Small numbers of gangs, by which the page colours them: each keeps its own, and gives it back at its end."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def keep(self, names: Sequence[str]) -> None:
        """Number these gangs, and no others."""
        kept = {*names}
        self.of = {name: number for name, number in self.of.items() if name in kept}
        taken = {*self.of.values()}
        free = (number for number in count(1) if number not in taken)
        self.of |= {name: next(free) for name in names if name not in self.of}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A page as long as the tree stays."""

    html: str
    policy: str  # of its security
    shape: str  # what tells it from others
    square: Mapping[str, str]  # node -> the number of its square


class ClusterPage:
    """The page of a source, for :func:`extender.service.page_server.serve_page`."""

    def __init__(self, source: LiveSource) -> None:
        self._source, self._ledger, self._numbers = source, RowLedger(), GangNumbers()
        self._drawing = draw(source.name, None)
        self._drawn: Cluster | None = None  # on the drawing
        self._drawn_at = self._looked_at = -inf
        self._changes, self._tables = -1, dict[str, Mapping[str, Row]]()
        self._came = asyncio.Event()  # set when there is a newer state than when it was made

    def html(self) -> tuple[str, str]:
        """Return the page and its content security policy."""
        return self._drawing.html, self._drawing.policy

    def news(self, since: int) -> tuple[int, str]:
        """Return the number of the newest state, and what another state lacks of it, as JSON."""
        about = {"shape": self._drawing.shape, "now": round(time(), 1), "seen": self._source.seen}
        news = {**about, **self._ledger.since(since)}
        return self._ledger.number, json.dumps(news, allow_nan=False, separators=(",", ":"))

    async def newer(self, than: int, *, seconds: float) -> None:
        """Return when there is a newer state, or so many seconds later."""
        if self._ledger.number == than:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._came.wait()

    async def follow(self) -> None:
        """Keep it up to date for ever."""
        await asyncio.gather(self._source.follow(), self._look_again())

    async def _look_again(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Take up what there is now, if it can be another: by news, or as time alone ends flags."""
        of, now = self._source, monotonic()
        if of.seen is not None and (of.changes != self._changes or now - self._looked_at >= FLAG_SECONDS):
            self._changes, self._looked_at = of.changes, now
            look = of.look()
            if not _same_tree(look.cluster, self._drawn) and now - self._drawn_at >= REDRAW_SECONDS:
                self._drawing = await asyncio.to_thread(draw, of.name, look.cluster)
                self._drawn, self._drawn_at = look.cluster, now
            self._numbers.keep([gang.name for gang in look.gangs if gang.placed])
            self._tables = tables(look, self._numbers.of, self._drawing.square)
        if self._ledger.take(self._tables | {"state": {"lost": (of.lost,)}}):
            self._came.set()
            self._came = asyncio.Event()


def _same_tree(here: Cluster | None, there: Cluster | None) -> bool:
    """Return whether two clusters are drawn alike, colours aside."""
    if here is None or there is None:
        return here is there
    pairs = [(here.gpus, there.gpus)]
    pairs += [(a.domain_of, b.domain_of) for a, b in zip(here.levels, there.levels, strict=False)]
    named = [(of.names, [(level.name, level.domains) for level in of.levels]) for of in (here, there)]
    return named[0] == named[1] and all(a is b or np.array_equal(a, b) for a, b in pairs)


SCRIPTS = ("zoom.js", "modes.js", "charts.js", "live.js")


def draw(name: str, cluster: Cluster | None) -> Drawing:
    """Return the page of a cluster; ``None`` = it is not known, or has no node with GPUs."""
    drawing, square, nodes, why = "", dict[str, str](), dict[str, Any](), ""
    if cluster is None:
        why = "No node with GPUs has been seen yet."
    elif len(cluster) > DETAIL:
        why = "The cluster has too many nodes to draw each of them: there is no map."
    else:
        bare = cluster.emptied().replace(flags={}, kept_out={})  # what changes comes with the news
        plan, paint = layout(bare), np.zeros(len(bare), dtype=np.int32)
        title, nodes = "The cluster now", node_data(bare, plan)
        drawing = svg_drawing(
            bare, plan, paint, ["idle"], title=title, note=lambda shape: f"{len(shape.nodes):,}", counted=False
        )
        square = {node: str(place) for place, node in enumerate(nodes["names"])}
    shape = hashlib.sha256(f"{name}\n{drawing}\n{json.dumps(nodes)}".encode()).hexdigest()[:16]
    script = hashlib.sha256(f"\n{source('arnold.pages', 'page.js', *SCRIPTS)}".encode()).digest()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{b64encode(script).decode()}'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    html = render(
        "arnold.pages",
        "live.html.j2",
        raw={"cluster": drawing},
        styles=("pages.css", "charts.css", "replay.css", "live.css"),
        scripts=SCRIPTS,
        policy=policy,
        title=name,
        about="" if cluster is None else inventory(cluster),
        why_no_map=why,
        tiles=[("-", tile, "") for tile in TILES],
        data={"shape": shape, **nodes},
    )
    return Drawing(html, f"{policy}; frame-ancestors 'none'", shape, square)


TILES = (
    "GPUs in use",
    "nodes free for gangs",
    "gangs with nodes",
    "gangs that wait",
    "mean DP spread",
    "nodes flagged",
)


def tables(look: LiveLook, numbers: Mapping[str, int], square: Mapping[str, str]) -> dict[str, Mapping[str, Row]]:
    """Return the rows of the page.

    :param numbers: of the gangs that have nodes.
    :param square: node -> the number of its square; without those that are not drawn yet.
    """
    placed = [gang for gang in look.gangs if gang.placed]
    waiting = [gang for gang in look.gangs if not gang.placed]
    notes = list(look.notes)
    nodes, flags = dict[str, Row](), dict[str, Row]()
    in_use = all_gpus = free_nodes = 0
    if (cluster := look.cluster) is not None:
        states, used = node_states(cluster), (cluster.gpus - cluster.free_gpus).tolist()
        in_use, all_gpus = sum(used), int(cluster.gpus.sum())
        free_nodes = sum(
            bool(idle) and name not in look.holders for name, idle in zip(cluster.names, cluster.idle, strict=True)
        )
        kinds = np.where(states >= State.SLOW, SLOW, FINE)
        kinds[(states == State.KEPT_OUT) | (states == State.FAULTY)] = AWAY
        for i, (name, kind) in enumerate(zip(cluster.names, kinds.tolist(), strict=True)):
            if name in square:
                nodes[square[name]] = (numbers.get(look.holders.get(name, ""), 0), used[i], kind)
        for i in sorted({*cluster.flags, *cluster.kept_out}):
            flags[cluster.names[i]] = (*_against(cluster, i), look.holders.get(cluster.names[i], ""))
        if square and (new := len(cluster) - len(nodes)):
            notes.append(f"{plural(new, 'node')} came since the map was drawn; it is drawn anew in a moment")
    spreads = [gang.spread[0] for gang in placed if gang.spread is not None]
    facts = (
        (percent(in_use / all_gpus) if all_gpus else "-", f"{in_use:,} of {all_gpus:,}"),
        (f"{free_nodes:,}", "idle, promised to nobody, nothing against them"),
        (f"{len(placed):,}", f"{sum(gang.gpus or 0 for gang in placed):,} GPUs"),
        (f"{len(waiting):,}", f"{sum(gang.gpus or 0 for gang in waiting):,} GPUs asked for"),
        (number(sum(spreads) / len(spreads)) if spreads else "-", f"of {plural(len(spreads), 'gang')}"),
        (f"{len(flags):,}", f"{sum(row[0] == 'faulty' for row in flags.values()):,} faulty"),
    )
    return {
        "facts": {str(i): fact for i, fact in enumerate(facts)},
        "nodes": nodes,
        "placed": {
            gang.name: (
                numbers[gang.name],
                gang.phase,
                gang.pods,
                gang.gpus,
                "-" if gang.spread is None else "{}/{}".format(*gang.spread),
                "-" if gang.objective is None else decimal(gang.objective),
                gang.proof,
                gang.message,
            )
            for gang in placed
        },
        "waiting": {
            gang.name: (gang.phase, gang.message, gang.pods, gang.gpus, gang.priority, gang.since) for gang in waiting
        },
        "flags": flags,
        "reservations": {
            held.name: (held.phase, held.message, held.nodes, held.others, held.begin, held.end)
            for held in look.reservations
        },
        "notes": dict.fromkeys(notes, ()),
    }


def _against(cluster: Cluster, node: int) -> tuple[str, str, float | None]:
    """Return what is said against a node, why, and until when, in seconds since 1970 (``None`` = open)."""
    flag = cluster.flags.get(node)
    if flag is None:
        return "kept out", cluster.kept_out[node], None
    why = "; ".join(
        filter(None, (flag.evidence, f"by {flag.source}" if flag.source else "", cluster.kept_out.get(node)))
    )
    return in_words(flag), why, None if flag.until is None else flag.until.timestamp()
