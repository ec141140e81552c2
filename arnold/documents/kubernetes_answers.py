"""Answers about a live Kubernetes cluster: of ``arnold kube``, and of ``arnold flags list``, ``apply``, ``clear`` and
``sync``, and of ``arnold watch``, which are about annotations of its nodes.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import numpy as np

from arnold.console.output import Console, ErrorDetails, plain, print_rows, print_sentences
from arnold.documents.answer_frame import print_levels, proof_clause
from arnold.documents.store_answers import RecordDocument
from extender.gangs.types import GangKey
from extender.node_flags import FlagChange, FlaggedNode
from extender.plans.gang_history import GangHistory, GangIncident
from extender.plans.gang_plan import GangPlan
from ground.errors import ArnoldError, few
from ground.quantities import decimal, percent, plural, utc_minute
from ground.records import AwareTime, Count, JsonRecord, Share, record_of
from scheduler.job import Family
from scheduler.objective import Spread, spread_by_level
from topology.cluster import Cluster
from topology.flags import FAULTY, HEALTHY, NodeFlag, in_words, parse_slowdown
from topology.kubernetes.nodes import SLOWDOWN
from topology.load import LoadedTopology


class GangSummary(JsonRecord, kw_only=True):
    """A gang and its plan.  What belongs to a placement is null when there is none."""

    namespace: str
    """Namespace of its pods."""
    gang: str
    """Its name, unique there."""
    phase: str
    """Waiting, Queued, Planned, Released, Bound, Expired or Invalid."""
    pods: Count
    """Pods that it has when it is complete; 0 = not known."""
    bound_pods: Count
    """Pods that are on their nodes."""
    gpus: Count
    """GPUs of all of them; 0 = not known."""
    level: str | None
    """The node label whose domains spread counts."""
    spread: Spread | None
    """Spread at that level."""
    objective: float | None
    """alpha * spread.dp + (1 - alpha) * spread.pp, plus soft constraints."""
    bound: float | None
    """No placement of the nodes that were free had a smaller objective."""
    gap: Share | None
    """(objective - bound) / objective, 0 when it is proved the least."""
    proved_to: str | None
    """How much of what is asked is proved: `objective`, a node label (EP spread and closer levels down to it), `all`;
    null = not even the objective."""
    reason: str
    """Why it is in its phase, in one word; empty = there is nothing to say."""
    message: str
    """Why it is in its phase, in sentences."""


class GangsDocument(JsonRecord):
    """What ``arnold kube gangs --json`` prints."""

    gangs: tuple[GangSummary, ...]
    """All gangs, by namespace and name."""


class GangCondition(JsonRecord):
    """A finding about a gang."""

    type: str
    """Valid, Complete, Planned, Released, Bound, Healthy or HintsRead."""
    status: str
    """True, False or Unknown."""
    reason: str
    """Why, in one word."""
    message: str
    """Why, in sentences."""
    since: AwareTime
    """When its status last changed."""


class PlacedRank(JsonRecord):
    """Where a rank of a gang is."""

    rank: Count
    """The rank of its pod."""
    dp: Count | None
    """Which PP group, as `dp` of `arnold place`; null = not known."""
    pp: Count | None
    """Which stage; null = not known."""
    node: str
    """Name of the node."""
    domains: Mapping[str, str]
    """Level or second hierarchy -> the domain that the node is in; empty where the node is in none, or not there."""


class IncidentLink(JsonRecord):
    """One link of a chain of evidence."""

    at: AwareTime
    """When it was seen or done."""
    did: str
    """StandsStill, Named, Advised, Evicted, Withheld, Moved, Resumed or Gone."""
    why: str
    """What was seen, done or left undone, in a sentence."""


class StandingGang(JsonRecord):
    """A gang that stands still, or did, and everything that followed."""

    namespace: str
    """Namespace of the gang."""
    gang: str
    """Name of the gang."""
    since: AwareTime
    """When it stood still."""
    nodes: tuple[str, ...]
    """Nodes that hold it up; empty = that cannot be told."""
    ranks: tuple[int, ...]
    """The first rank that was on each."""
    steps: tuple[IncidentLink, ...]
    """What was seen, done, and came of it, in order."""

    @classmethod
    def of(cls, namespace: str, incident: GangIncident) -> Self:
        """Return an incident that a history of a namespace keeps."""
        steps = tuple(record_of(IncidentLink, step) for step in incident.steps)
        return record_of(cls, incident, namespace=namespace, steps=steps)


class GangDocument(GangSummary, kw_only=True):
    """What ``arnold kube describe --json`` prints."""

    parallelism: str | None
    """Degrees, tp=8,cp=1,ep=1,dp=12,pp=8; null = not understood."""
    order: str | None
    """Dimensions from the fastest running rank to the slowest."""
    alpha: Share | None
    """DP affinity."""
    constraints: tuple[str, ...]
    """Constraints, a sentence each."""
    gpu_types: tuple[str, ...] | None
    """Types of GPU that its nodes may have; null = any."""
    conditions: tuple[GangCondition, ...]
    """What was found about it."""
    assignment: tuple[PlacedRank, ...]
    """One row for each rank; none while it has no nodes."""
    spread_by_level: Mapping[str, Mapping[Family, int]] | None
    """Largest spread of a group for every level and family, counted from the labels that the nodes have now; null = it
    has no nodes, or some are gone."""
    incidents: tuple[StandingGang, ...]
    """When it stood still, as `arnold watch` has kept it; that which changed last comes last."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""


class KubernetesNode(JsonRecord):
    """A node with GPUs, as gangs see it."""

    node: str
    """Its name."""
    domains: Mapping[str, str]
    """Level or second hierarchy -> the domain that it is in; empty = in none."""
    gpus: Count
    """GPUs that it has."""
    free_gpus: Count
    """GPUs that no pod holds; 0 on a node that is promised to a gang."""
    gpu_type: str
    """Type of its GPUs; empty = no label says it."""
    sharing: str
    """How it hands out GPUs in parts, such as time-slicing x4: no gang gets any of them; empty = whole ones."""
    kept_out: str
    """Why no job may have it that does not put up with that, such as a taint; empty = jobs may."""
    flag: NodeFlag | None
    """Why it is slow, or no new pod may use it; null = nothing is held against it."""
    gang: str | None
    """NAMESPACE/NAME of the gang that it is promised to; null = none."""


class KubernetesNodesDocument(JsonRecord):
    """What ``arnold kube nodes --json`` prints."""

    cluster: str
    """kube: and the context."""
    levels: tuple[str, ...]
    """Node labels that are the levels, from the broadest to the closest."""
    nodes: tuple[KubernetesNode, ...]
    """All nodes with GPUs."""
    notes: tuple[str, ...]
    """What the reader had to decide or leave out."""


def gang_summary(plan: GangPlan) -> GangSummary:
    """Return a gang as one row."""
    return record_of(GangSummary, plan, **_not_of_plan(plan))


def _not_of_plan(plan: GangPlan) -> dict[str, Any]:
    """Return the fields of :class:`GangSummary` that the plan itself has not, or otherwise."""
    return {
        "namespace": plan.key.namespace,
        "gang": plan.key.name,
        "phase": str(plan.phase),
        "pods": plan.size,
        "gpus": plan.spec.gpus,
        "level": plan.spec.level,
        "spread": None if plan.spread is None else Spread(*plan.spread),
    }


def gang_document(
    plan: GangPlan, cluster: Cluster | None, history: GangHistory | None, notes: tuple[str, ...]
) -> GangDocument:
    """Return all there is to know of a gang.

    :param cluster: the nodes as their labels are now; ``None`` = they cannot be read, as a note says.
    :param history: of its namespace; ``None`` = it cannot be read, as a note says.
    """
    spec = plan.spec
    hard = (f"every {hold.family} group inside one {hold.level}" for hold in spec.holds or ())
    soft = (f"{count.weight:g} times the {count.family} spread at {count.level}" for count in spec.counts)
    # the job that was planned, on nodes; none where it cannot be made again, or has another number of them
    try:
        job = spec.job(plan.key.name)
    except ArnoldError:
        job = None
    if job is not None:
        job = job.replace(gpus_per_node=job.gpus_per_node * plan.pods_per_node)
    cells: list[tuple[int | None, int | None]] = [(None, None)] * len(plan.node_names)
    spread_now = None
    if job is not None and job.grid.cells == len(plan.node_names):
        row, column = job.grid.cell_of_rank
        cells = list(zip((row // job.grid.parts).tolist(), column.tolist(), strict=True))
        if cluster is not None and all(node in cluster.index_of for node in plan.node_names):
            of_rank = np.array([cluster.index_of[node] for node in plan.node_names], dtype=np.int32)
            spread_now = spread_by_level(cluster, job.grid, of_rank[job.grid.node_rank])
    domains = {} if cluster is None else _domains_of(cluster, {*plan.node_names})
    return record_of(
        GangDocument,
        plan,
        spec,
        **_not_of_plan(plan),
        constraints=(*hard, *soft),
        conditions=tuple(record_of(GangCondition, condition) for condition in plan.conditions),
        assignment=tuple(
            PlacedRank(rank, *cells[rank // plan.pods_per_node], node, domains.get(node, {}))
            for rank, node in plan.node_of_rank.items()
        ),
        spread_by_level=spread_now,
        incidents=tuple(
            StandingGang.of(plan.key.namespace, incident)
            for incident in (() if history is None else history.incidents)
            if incident.gang == plan.key.name
        ),
        notes=notes,
    )


def _worth(gang: GangSummary) -> tuple[str, str, str, str]:
    """Return spread, objective, gap and what is proved, in words."""
    spread = "-" if gang.spread is None else f"{gang.spread.dp}/{gang.spread.pp}"
    proved_to = (gang.proved_to or "-").rpartition("/")[2]  # of a label the name
    return spread, "-" if gang.objective is None else decimal(gang.objective), percent(gang.gap), proved_to


def print_gangs(out: Console, document: GangsDocument) -> None:
    """Print a row for each gang."""
    if not document.gangs:
        out.print("no gangs")
        return
    headers = ("gang", "phase", "pods", "GPUs", "DP/PP spread", "objective", "gap", "proved", "message")
    rows = []
    for gang in document.gangs:
        pods = f"{gang.bound_pods}/{gang.pods}" if gang.pods else "-"
        message = plain(gang.message.partition("\n")[0])
        gpus = f"{gang.gpus:,}" if gang.gpus else "-"
        rows.append((f"{gang.namespace}/{gang.gang}", gang.phase, pods, gpus, *_worth(gang), message))
    left, spare = ("phase", "proved", "message"), ("GPUs", "objective")
    print_rows(out, headers, rows, title="Gangs", left=left, spare=spare, gap=False)


def print_gang(out: Console, gang: GangDocument) -> None:
    """Print what a gang asks, what was found about it, and where its ranks are."""
    spread, objective, gap, _ = _worth(gang)
    out.print(f"{gang.namespace}/{gang.gang}: {gang.phase}", style="bold")
    if gang.parallelism is not None:
        alpha = "" if gang.alpha is None else f", alpha {decimal(gang.alpha)}"
        out.print(f"{gang.parallelism}, order {gang.order}{alpha}")
        out.print(f"{gang.bound_pods} of {gang.pods} pods on their nodes")
    if gang.spread is not None:
        out.print(
            f"DP/PP spread {spread} at {gang.level}, objective {objective}, gap {gap}{proof_clause(gang.proved_to)}"
        )
    if gang.message:
        out.print(_in_line(gang.message), soft_wrap=True)
    types = [f"GPUs of the type {' or '.join(gang.gpu_types)}"] if gang.gpu_types else []
    print_sentences(out, "Asked", [*gang.constraints, *types])
    conditions = [
        (condition.type, condition.status, condition.reason, _in_line(condition.message))
        for condition in gang.conditions
    ]
    headers = ("condition", "status", "reason", "message")
    print_rows(out, headers, conditions, title="Conditions", left=headers)
    for incident in gang.incidents:
        steps = [(f"{step.at:%Y-%m-%dT%H:%M:%SZ}", step.did, _in_line(step.why)) for step in incident.steps]
        title, links = f"Stood still at {incident.since:%Y-%m-%dT%H:%M:%SZ}", ("at", "step", "why")
        print_rows(out, links, steps, title=title, left=links)
    if gang.spread_by_level is not None:
        print_levels(out, gang.spread_by_level)
    names = list(gang.assignment[0].domains if gang.assignment else ())
    places = [
        (placed.rank, placed.dp, placed.pp, placed.node, *(placed.domains.get(name) or "-" for name in names))
        for placed in gang.assignment
    ]
    print_rows(out, ("rank", "dp", "pp", "node", *names), places, title="Ranks", left=["node", *names])
    print_sentences(out, "Notes", gang.notes)


def _in_line(message: str) -> str:
    """Return a message of several lines on one."""
    return plain(message.replace("\n", "; "))


def _domains_of(cluster: Cluster, wanted: set[str]) -> dict[str, dict[str, str]]:
    """Return the domains of some nodes, by node and level."""
    named = [(level.name, level.own_names()) for level in (*cluster.levels, *cluster.second_levels)]
    return {
        node: {name: of_nodes[i] for name, of_nodes in named} for i, node in enumerate(cluster.names) if node in wanted
    }


def nodes_document(loaded: LoadedTopology, promised: Mapping[str, GangKey]) -> KubernetesNodesDocument:
    """Return the nodes of a cluster, with the gangs that they are promised to."""
    cluster = loaded.cluster
    domains = _domains_of(cluster, {*cluster.names})
    return KubernetesNodesDocument(
        loaded.source,
        tuple(level.name for level in cluster.levels),
        tuple(
            record_of(
                KubernetesNode,
                row,
                node=row.name,
                domains=domains[row.name],
                flag=cluster.flags.get(i),
                gang=str(promised[row.name]) if row.name in promised else None,
            )
            for i, row in enumerate(cluster)
        ),
        loaded.notes,
    )


def print_nodes(out: Console, document: KubernetesNodesDocument) -> None:
    """Print a row for each node."""
    free = sum(node.free_gpus == node.gpus and node.flag is None and not node.kept_out for node in document.nodes)
    out.print(f"{document.cluster}: {len(document.nodes):,} nodes with GPUs, {free:,} free and without a flag")
    names = list(document.nodes[0].domains)
    said = {"type": "gpu_type", "sharing": "sharing"}
    said = {header: name for header, name in said.items() if any(getattr(node, name) for node in document.nodes)}
    rows = [
        (
            node.node,
            *(node.domains[name] or "-" for name in names),
            f"{node.free_gpus}/{node.gpus}",
            *(getattr(node, name) or "-" for name in said.values()),
            plain("; ".join(filter(None, (_held_against(node.flag), "" if node.sharing else node.kept_out)))) or "-",
            node.gang or "-",
        )
        for node in document.nodes
    ]
    headers = ("node", *names, "free GPUs", *said, "flag", "gang")
    print_rows(out, headers, rows, title="Nodes", left=[*names, "type", "sharing", "flag", "gang"])
    print_sentences(out, "Notes", document.notes)


def _held_against(flag: NodeFlag | None) -> str:
    return "" if flag is None else ": ".join(filter(None, (in_words(flag), flag.evidence)))


class TopDomain(JsonRecord, kw_only=True):
    """A domain of a level, and what its GPUs do."""

    level: str
    """Name of the level."""
    domain: str
    """Name of the domain."""
    nodes: Count
    """Nodes with GPUs."""
    gpus: Count
    """Their GPUs, each in one of the next four."""
    free: Count
    """GPUs that a job may have."""
    promised: Count
    """GPUs of nodes that are promised to a gang, where no pod of it is yet."""
    in_use: Count
    """GPUs that pods have."""
    unusable: Count
    """GPUs that nobody uses and no job may have: of faulty nodes, and of those that are kept out."""
    fragmented: Count
    """GPUs among the free ones on nodes of which others are in use: no gang of whole nodes gets them."""
    gangs: tuple[str, ...]
    """Gangs to which nodes of it are promised, whether their pods are there yet or not."""


class TopDocument(JsonRecord, kw_only=True):
    """What ``arnold kube top --json`` prints."""

    cluster: str
    """The cluster."""
    domains: tuple[TopDomain, ...]
    """The domains of all levels, the broadest level first, in the order of the cluster."""
    notes: tuple[str, ...]
    """What a user should know of how the cluster was read."""


def top_document(loaded: LoadedTopology, promised: Mapping[str, GangKey]) -> TopDocument:
    """Return what the GPUs of each domain do.

    :param loaded: the cluster in which pods alone hold GPUs.
    :param promised: node -> the gang that it is promised to, whether its pods are there yet or not.
    """
    cluster = loaded.cluster
    is_promised = np.array([name in promised for name in cluster.names], dtype=np.bool_)
    usable = np.where(is_promised, 0, cluster.usable_gpus)
    ahead = np.where(is_promised, cluster.free_gpus, 0)
    counted = {
        "gpus": cluster.gpus,
        "free": usable,
        "promised": ahead,
        "in_use": cluster.gpus - cluster.free_gpus,
        "unusable": cluster.free_gpus - usable - ahead,
        "fragmented": np.where(cluster.free_gpus < cluster.gpus, usable, 0),
    }
    domains = []
    for level in cluster.levels:
        gangs: dict[int, dict[str, None]] = {}
        for node in np.flatnonzero(is_promised).tolist():
            gangs.setdefault(int(level.domain_of[node]), {})[str(promised[cluster.names[node]])] = None
        for number, name in enumerate(level.domains):
            inside = level.domain_of == number
            sums = {key: int(gpus[inside].sum()) for key, gpus in counted.items()}
            told, nodes = tuple(sorted(gangs.get(number, ()))), int(np.count_nonzero(inside))
            domains.append(TopDomain(level=level.name, domain=name, nodes=nodes, gangs=told, **sums))
    return TopDocument(cluster=loaded.source, domains=tuple(domains), notes=loaded.notes)


def print_top(out: Console, document: TopDocument) -> None:
    """Print a table for each level."""
    headers = ("domain", "nodes", "GPUs", "free", "promised", "in use", "unusable", "fragmented", "gangs")
    for level in dict.fromkeys(domain.level for domain in document.domains):
        rows = [
            (
                *(domain.domain, domain.nodes, domain.gpus, domain.free, domain.promised, domain.in_use),
                *(domain.unusable, domain.fragmented, few(domain.gangs, most=3) or "-"),
            )
            for domain in document.domains
            if domain.level == level
        ]
        print_rows(out, headers, rows, title=f"{level} of {document.cluster}, GPUs", left=["gangs"])
    print_sentences(out, "Notes", document.notes)


class AnnotatedFlag(JsonRecord):
    """The annotations of one node, and what they mean."""

    node: str
    """Name of the node."""
    slowdown: str | None
    """Annotation arnold.dev/slowdown: a factor, or faulty; null = none."""
    until: str | None
    """Annotation arnold.dev/slowdown-until; null = open end."""
    faulty: bool
    """Whether no new pod may use the node because of them."""
    active: bool
    """Whether they hold now."""
    begins: AwareTime | None
    """When they will hold; null = they do, or did, or never will."""
    problem: str | None
    """Why they cannot be read; null = they can."""


class FlagsDocument(JsonRecord):
    """What ``arnold flags list --json`` prints."""

    nodes: int
    """Nodes of the cluster."""
    flags: tuple[AnnotatedFlag, ...]
    """Nodes with annotations of ours, by name."""


class FlagsChangedDocument(JsonRecord):
    """What ``arnold flags apply --json`` and ``arnold flags clear --json`` print."""

    changes: tuple[FlagChange, ...]
    """One entry for each node that was asked for, by name."""
    expired: int
    """Flags of the file that do not hold now and were left out."""


class FlagsSyncedDocument(JsonRecord):
    """What ``arnold flags sync --json`` prints."""

    changes: tuple[FlagChange, ...]
    """One entry for each node of the cluster that the store has heard of, by name."""
    strangers: tuple[str, ...]
    """Nodes that the store has flagged and the cluster does not have."""


class WatchedGang(JsonRecord):
    """The comparison of one gang's nodes."""

    namespace: str
    """Namespace of the gang."""
    gang: str
    """Name of the gang."""
    nodes: int
    """How many nodes it has."""
    verdict: str
    """What was found, in words, or why nothing could be judged."""
    judged: bool
    """Whether its nodes could be compared."""
    notes: tuple[str, ...] = ()
    """What was left out of the comparison, and what limits the verdict."""


class GangsWatchedDocument(JsonRecord):
    """One line of what ``arnold watch --json`` prints: one round, or one look at gangs that stand still."""

    at: AwareTime
    """When the round began."""
    gangs: tuple[WatchedGang, ...]
    """All bound gangs whose nodes were compared, by namespace and name."""
    stalls: tuple[StandingGang, ...]
    """Gangs that stand still, or did, of which something is new."""
    recorded: RecordDocument | None
    """What was written to --store; null = nothing could be judged."""
    changes: tuple[FlagChange, ...]
    """Nodes whose annotations were changed, by name."""
    strangers: tuple[str, ...]
    """Nodes that the store has flagged and the cluster does not have."""
    notes: tuple[str, ...]
    """What of the answers of Prometheus, or of dumps, was left out for all gangs, and what it warns of."""
    error: ErrorDetails | None
    """Why the round is not whole; null = it is."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """All notes, those of a gang with its name."""
        return (*self.notes, *(f"{it.namespace}/{it.gang}: {note}" for it in self.gangs for note in it.notes))

    @property
    def line(self) -> str:
        """The round on one line, for a person."""
        judged = sum(gang.judged for gang in self.gangs)
        words = [f"{judged} of {plural(len(self.gangs), 'gang')} compared"] if self.gangs or not self.stalls else []
        words += [f"{gang.namespace}/{gang.gang}: {gang.verdict}" for gang in self.gangs if not gang.judged][:3]
        words += [f"{it.namespace}/{it.gang} {it.steps[-1].did}: {it.steps[-1].why}" for it in self.stalls]
        words += [f"{change.node} {change.done}: {change.slowdown or 'no flag'}" for change in self.changes]
        if self.error is not None:
            words.append(f"cannot go on: {self.error.where}: {self.error.message}")
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} {'; '.join(words)}"


def flags_document(nodes: Mapping[str, FlaggedNode], now: datetime) -> FlagsDocument:
    """Return the flags of a cluster."""
    flags = []
    for _, node in sorted(nodes.items()):
        if not node.bare:
            flag, problem = node.flag, node.problem or None
            active = flag is not None and flag.active(now)
            faulty = active and flag is not None and flag.slowdown == FAULTY
            begins = flag.since if flag is not None and flag.since is not None and flag.since > now else None
            flags.append(AnnotatedFlag(node.node, node.slowdown, node.until, faulty, active, begins, problem))
    return FlagsDocument(len(nodes), tuple(flags))


def print_flags(out: Console, document: FlagsDocument) -> None:
    """Print the nodes that have annotations of ours."""
    if not document.flags:
        out.print(f"none of {document.nodes} nodes is flagged")
        return
    rows = []
    for flag in document.flags:
        if flag.problem or flag.active:
            state = flag.problem or ""
        elif flag.begins is not None:
            state = f"begins {utc_minute(flag.begins)}"
        elif flag.slowdown is None:
            state = f"says nothing without {SLOWDOWN}"
        else:
            state = "not slow" if parse_slowdown(flag.slowdown) == HEALTHY else "has ended"
        rows.append((flag.node, flag.slowdown or "-", flag.until or "-", state))
    headers = ("node", "slowdown", "until", "")
    print_rows(out, headers, rows, title="Flags", left=headers, gap=False)


def print_changed(out: Console, document: FlagsChangedDocument | FlagsSyncedDocument) -> None:
    """Print what was done to each node, and what was left out."""
    if document.changes:
        rows = [(change.node, change.done, change.slowdown or "-", change.until or "-") for change in document.changes]
        headers = ("node", "", "slowdown", "until")
        print_rows(out, headers, rows, title="Flags", left=headers, gap=False)
    else:
        out.print("nothing to do")
    if isinstance(document, FlagsSyncedDocument):
        if document.strangers:
            out.print(f"flagged in the store and no nodes of the cluster: {', '.join(document.strangers[:5])}")
    elif document.expired:
        out.print(f"left out, as they do not hold now: {document.expired}")
