"""What flags lead to in Slurm: nothing, a weight, a reservation or a drain, by their kind.

All that is remembered is in the controller: the reason of a drain, and the comment of a node, ``arnold: weight=1
drained=1790000000``: its weight before, and when it was drained last.  So never more nodes go than may, whoever asks
and how often, and only what we drained comes back: a reason or comment of somebody else is left alone.  Changes are
lines for the program ``manifests/slurm/node_keeper``, which alone runs as SlurmUser, and which checks each again.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Literal, Self, get_args

from ground.errors import InvalidInput
from ground.quantities import DAY, utc_minute
from slurm.live import LiveSlurm
from topology.cluster import Cluster
from topology.flags import FAULTY, NodeFlag, in_words, merge_by_node, severity
from topology.node_names import NodeNames, fold_hostlist
from topology.slurm_nodes import OWN_REASON, SlurmNode, Use, by_slurm, use_of

Measure = Literal["price", "weight", "reserve", "drain"]
SUSPECT = "arnold_suspect"  # the reservation of nodes that checks may use, and jobs may not
SHARE = 0.02  # of the nodes of the cluster, and of a minipod, that may be drained or reserved in a day; one always may
MOST_WEIGHT = 10_000  # that is added to a node's own; the slower the node, the later Slurm gives it away
LONGEST_REASON = 200
_MEMORY = re.compile(rf"{OWN_REASON}(?:weight=(\d{{1,9}}))? ?(?:drained=(\d{{1,12}}))?\b")


@dataclass(frozen=True, slots=True)
class EvidencePolicy:
    """What is done about a node, by the kind of its flag; ``price``: nothing in Slurm, plans alone avoid it."""

    straggler: Measure = "price"
    degraded: Measure = "price"
    faulty: Measure = "price"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the policy of ``faulty=drain,straggler=weight``; raise InvalidInput for what is none."""
        kinds, chosen = [field.name for field in fields(cls)], dict[str, Measure]()
        for part in filter(None, text.split(",")):
            kind, _, name = (word.strip() for word in part.partition("="))
            measure = next((known for known in get_args(Measure) if known == name), None)
            if kind not in kinds or kind in chosen or measure is None:
                fix = f"write KIND=MEASURE of {', '.join(kinds)} and {', '.join(get_args(Measure))}, each kind once"
                raise InvalidInput(f"{part[:60]!r} is no policy", where="--measures", fix=fix)
            chosen[kind] = measure
        return cls(**chosen)


@dataclass(frozen=True, slots=True)
class KeeperChange:
    """One change of a node; of ``suspect`` all nodes of the reservation, none = it goes."""

    verb: Literal["drain", "resume", "weight", "suspect"]
    node: str
    value: str = ""  # the reason of a drain, or a weight
    comment: str = ""  # of the node from then on

    def line(self) -> str:
        """Return the line that the program reads."""
        return "\t".join((self.verb, self.node or "-", self.value or "-", self.comment or "-"))


@dataclass(frozen=True, slots=True)
class EvidenceDecision:
    """What is to be done, and what is not, though the policy asks for it."""

    changes: tuple[KeeperChange, ...]
    passed_over: Mapping[str, str]  # node -> why


@dataclass(frozen=True, slots=True)
class Memory:
    """What the comment of a node says of what we did to it."""

    weight: int | None = None  # before ours
    drained: int | None = None  # seconds since 1970, when we did last
    foreign: bool = False  # whether the comment is somebody else's

    @classmethod
    def of(cls, node: SlurmNode) -> Self:
        """Return that of a node."""
        found = _MEMORY.match(node.comment)
        if found is None:
            return cls(foreign=bool(node.comment))
        weight, drained = (None if word is None else int(word) for word in found.groups())
        return cls(weight, drained)

    def comment(self, *, weight: int | None, drained: int | None) -> str:
        """Return the comment that remembers."""
        words = {"weight": weight, "drained": drained}
        said = " ".join(f"{key}={value}" for key, value in words.items() if value is not None)
        return f"{OWN_REASON}{said}" if said else ""


def decide_evidence(live: LiveSlurm, flags: Sequence[NodeFlag], policy: EvidencePolicy) -> EvidenceDecision:
    """Decide what flags that hold now lead to; nothing is asked and nothing written.

    What Slurm itself said is no evidence here: its nodes are out of work already.
    """
    nodes = {node.name: node for node in live.said.nodes or () if node.name in live.base.index_of}
    names = NodeNames(nodes)
    of_others = (replace(flag, node=names.any(flag.node)) for flag in flags if not by_slurm(flag))
    held = {flag.node: flag for flag in merge_by_node(of_others)}
    wanted = {name: getattr(policy, held[name].kind) if name in held else "price" for name in nodes}
    suspects = {name for other in live.said.reservations or () if other.name == SUSPECT for name in other.nodes}
    kept = {name for name in suspects if wanted.get(name) == "reserve"}
    changes, passed = list[KeeperChange](), dict[str, str]()
    for name, node in nodes.items():
        ours, memory = drained_by_us(node), Memory.of(node)
        weight = node.weight if memory.weight is None else memory.weight
        if ours and wanted[name] != "drain":
            if use_of(word for word in node.state if "DRAIN" not in word.upper()) is Use.UNUSABLE:
                passed[name] = f"was drained by us, and is {node.in_words}"
            else:
                changes.append(KeeperChange("resume", name))
        heavy = None if weight is None or wanted[name] != "weight" else weight + _added(held[name])
        if memory.foreign and heavy is not None:
            passed[name] = "its comment is somebody else's"
        elif heavy is not None and node.weight != heavy:
            comment = memory.comment(weight=weight, drained=memory.drained)
            changes.append(KeeperChange("weight", name, str(heavy), comment))
        elif heavy is None and memory.weight is not None:
            changes.append(
                KeeperChange("weight", name, str(weight), memory.comment(weight=None, drained=memory.drained))
            )
    budget = Budget(live.base, {name for name, node in nodes.items() if _counts(node, live.now)} | kept)
    for flag in sorted(held.values(), key=lambda flag: (*severity(flag)[:2], flag.node), reverse=True):
        name, measure = flag.node, wanted.get(flag.node, "price")
        if measure not in ("drain", "reserve") or name in kept or drained_by_us(nodes[name]):
            continue
        memory = Memory.of(nodes[name])
        if use_of(nodes[name].state) is Use.UNUSABLE:
            passed[name] = f"is out of work already: {nodes[name].reason.text or nodes[name].in_words}"
        elif memory.foreign and measure == "drain":
            passed[name] = "its comment is somebody else's"
        elif refusal := budget.take(name):
            passed[name] = refusal
        elif measure == "reserve":
            kept.add(name)
        else:
            comment = memory.comment(weight=memory.weight, drained=int(live.now))
            changes.append(KeeperChange("drain", name, reason_of(flag), comment))
    if kept != suspects:
        changes.append(KeeperChange("suspect", fold_hostlist(sorted(kept))))
    return EvidenceDecision(tuple(changes), passed)


def drained_by_us(node: SlurmNode) -> bool:
    """Return whether a node is drained, and by us."""
    if not node.reason.text.startswith(OWN_REASON):
        return False
    return any("DRAIN" in word.upper() or word.lower().startswith("drng") for word in node.state)


def reason_of(flag: NodeFlag) -> str:
    """Return the reason of a drain: ``arnold: WHAT since WHEN``."""
    what = " ".join((flag.evidence or in_words(flag)).split())
    since = f" since {utc_minute(flag.since)}" if flag.since is not None else ""
    shown = "".join(sign if sign.isascii() and sign.isprintable() else "?" for sign in what)
    return f"{OWN_REASON}{shown[: LONGEST_REASON - len(since) - len(OWN_REASON)]}{since}"


def _added(flag: NodeFlag) -> int:
    return MOST_WEIGHT if flag.slowdown == FAULTY else min(MOST_WEIGHT, ceil(round((flag.slowdown - 1) * 100, 6)))


def _counts(node: SlurmNode, now: float) -> bool:
    """Return whether a node counts as taken out: it is still drained by us, or was within a day."""
    drained = Memory.of(node).drained
    return drained_by_us(node) or (drained is not None and drained > now - DAY)


class Budget:
    """How many nodes may still be taken out, of the cluster and of each minipod."""

    def __init__(self, cluster: Cluster, taken: Collection[str]) -> None:
        self._cluster, self._level, self._taken = cluster, cluster.level(None), len(taken)
        self._in_domain = Counter(self._domain(name) for name in taken)
        self._sizes = Counter(self._level.domain_of.tolist())

    def _domain(self, name: str) -> int:
        return int(self._level.domain_of[self._cluster.index_of[name]])

    def take(self, name: str) -> str:
        """Take a node out; return why not, empty = it may go."""
        domain = self._domain(name)
        if self._taken >= allowed(len(self._cluster)):
            return f"{self._taken} of {len(self._cluster)} nodes were taken out within a day"
        if self._in_domain[domain] >= allowed(self._sizes[domain]):
            where = f"{self._level.name} {self._level.domains[domain]}"
            return f"{self._in_domain[domain]} of {self._sizes[domain]} nodes of {where} were taken out within a day"
        self._taken += 1
        self._in_domain[domain] += 1
        return ""


def allowed(nodes: int) -> int:
    """Return how many of some nodes may be taken out within a day."""
    return max(1, int(SHARE * nodes))
