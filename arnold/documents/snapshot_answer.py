"""The answer of ``arnold snapshot``, as JSON and as text: what runs on a cluster, and what changed since another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite

from arnold.console.output import GOOD, SO_SO, Console, print_sentences
from arnold.documents.answer_frame import Frame
from ground.quantities import plural
from ground.records import AtLeastOne, JsonRecord
from topology.cluster import Cluster, legend, node_states
from topology.load import LoadedTopology
from topology.node_names import spell_names
from topology.running_jobs import EndsBy, LiveJob, gpus_held
from topology.slurm_snapshot import SlurmReservation
from topology.snapshot import Differences
from topology.summary import ClusterSummary, summarise_cluster


def iso(time: float | None) -> str | None:
    """Return an instant, in seconds since 1970, as ISO 8601 in UTC; of none, or of one beyond all times, ``None``."""
    if time is None or not isfinite(time):
        return None
    return datetime.fromtimestamp(round(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class RunningAnswer(JsonRecord, kw_only=True):
    """A job that runs; null = not said."""

    name: str
    """Its name; of a job of Slurm the number and the name."""
    owner: str | None
    """Whose it is."""
    group: str | None
    """Its account or namespace."""
    nodes: tuple[str, ...]
    """Its nodes, in the order of its ranks where `ranked`."""
    ranked: bool
    """Whether the order of its nodes is that of its ranks."""
    gpus: AtLeastOne
    """GPUs that it has in all."""
    priority: float | None
    """The higher, the more it counts."""
    preemptible: bool
    """Whether it may be stopped for others."""
    started: str | None
    """When it began, ISO 8601."""
    ends: str | None
    """When it ends."""
    ends_by: EndsBy
    """How its end is known: not at all, said, or the latest that its time limit allows."""
    parallelism: Mapping[str, int | str] | None
    """Its degrees of parallelism."""

    @classmethod
    def of(cls, job: LiveJob, cluster: Cluster) -> RunningAnswer:
        """Return the answer of a job on a cluster that has its nodes."""
        return cls(
            name=job.name,
            owner=job.owner or None,
            group=job.group or None,
            nodes=job.nodes,
            ranked=job.ranked,
            gpus=int(gpus_held(cluster, [job]).sum()),
            priority=job.priority,
            preemptible=job.preemptible,
            started=iso(job.started),
            ends=iso(job.ends),
            ends_by=job.ends_by,
            parallelism=job.parallelism,
        )


class NodeChange(JsonRecord):
    """A node that is something else than before."""

    node: str
    """Its name."""
    before: str | None
    """Its state before, in words; null = it was not there."""
    after: str | None
    """Its state after; null = it is not there."""


class JobMove(JsonRecord):
    """A job that runs on other nodes than before, or on them in another order."""

    name: str
    """Its name."""
    before: tuple[str, ...]
    """Its nodes before."""
    after: tuple[str, ...]
    """Its nodes after."""


class ReservedNodes(JsonRecord):
    """Nodes held for some jobs."""

    name: str
    """Its name."""
    nodes: tuple[str, ...]
    """Its nodes, in the order of their names."""
    start: str | None
    """When it begins, ISO 8601; null = not said."""
    end: str | None
    """When it ends; null = never."""


class Changes(JsonRecord, kw_only=True):
    """What changed from another snapshot to this; lists are null where one of the two says nothing of it."""

    since: str
    """The time of the other, ISO 8601."""
    nodes: tuple[NodeChange, ...]
    """Nodes whose state changed, that came or that went."""
    came: tuple[RunningAnswer, ...] | None
    """Jobs that run now, and did not."""
    ended: tuple[RunningAnswer, ...] | None
    """Jobs that ran, and do not now."""
    moved: tuple[JobMove, ...] | None
    """Jobs that run on other nodes."""
    reservations_came: tuple[ReservedNodes, ...] | None
    """Reservations that are new, or changed."""
    reservations_ended: tuple[ReservedNodes, ...] | None
    """Reservations that are gone, or were changed."""


class SnapshotDocument(JsonRecord, kw_only=True):
    """What ``arnold snapshot --json`` prints."""

    output: str | None
    """The file that was written; null = none."""
    time: str
    """When the cluster was so, ISO 8601."""
    cluster: ClusterSummary
    """The cluster in a few numbers."""
    states: Mapping[str, int]
    """State of nodes in words -> how many nodes are in it."""
    jobs: tuple[RunningAnswer, ...] | None
    """Jobs that run; null = nobody said which do."""
    changes: Changes | None
    """What changed since the snapshot of --against; null = none was given."""
    notes: tuple[str, ...]
    """What was decided or left out on the way, one sentence each."""


def snapshot_document(
    loaded: LoadedTopology, *, output: str | None, before: LoadedTopology | None, changed: Differences | None
) -> SnapshotDocument:
    """Return the document of a state of a cluster.

    :param before: what it is compared with, and ``changed`` what changed since; ``None`` = nothing.
    """
    cluster = loaded.cluster
    changes = None
    if before is not None and changed is not None:
        old = before.cluster

        def reserved(rows: Sequence[SlurmReservation] | None) -> tuple[ReservedNodes, ...] | None:
            if rows is None:
                return None
            return tuple(
                ReservedNodes(row.name, tuple(sorted(row.nodes)), iso(row.start), iso(row.end)) for row in rows
            )

        changes = Changes(
            since=iso(before.now.timestamp()) or "",
            nodes=tuple(
                NodeChange(node.name, None if node.before is None else node.before.label,
                           None if node.after is None else node.after.label)
                for node in changed.nodes
            ),
            came=None if changed.came is None else tuple(RunningAnswer.of(job, cluster) for job in changed.came),
            ended=None if changed.ended is None else tuple(RunningAnswer.of(job, old) for job in changed.ended),
            moved=None
            if changed.moved is None
            else tuple(JobMove(move.after.name, move.before.nodes, move.after.nodes) for move in changed.moved),
            reservations_came=reserved(changed.reservations_came),
            reservations_ended=reserved(changed.reservations_ended),
        )  # fmt: skip
    return SnapshotDocument(
        output=output,
        time=iso(loaded.now.timestamp()) or "",
        cluster=summarise_cluster(cluster, loaded.source),
        states={state.label: count for state, count in legend(node_states(cluster))},
        jobs=None if loaded.jobs is None else tuple(RunningAnswer.of(job, cluster) for job in loaded.jobs.running),
        changes=changes,
        notes=loaded.notes,
    )


def print_snapshot(out: Console, document: SnapshotDocument) -> None:
    """Print what runs on a cluster, and what changed."""
    jobs, changes = document.jobs, document.changes
    saved = "" if document.output is None else f", saved in {document.output}"
    states = ", ".join(f"{count:,} {state}" for state, count in document.states.items())
    running = "which jobs run is not known" if jobs is None else f"{plural(len(jobs), 'job')} running"
    frame = Frame(out, f"{document.cluster.source} at {document.time}{saved}", GOOD if jobs is not None else SO_SO)
    out.print(f"{document.cluster.nodes:,} nodes ({states}); {running}", soft_wrap=True)
    if changes is None:
        rows = [
            (job.name, job.owner, job.group, job.gpus, spell_names(job.nodes, most=40), job.started, job.ends)
            for job in sorted(jobs or (), key=lambda job: -job.gpus)
        ]
        headers = ("job", "owner", "group", "GPUs", "nodes", "since", "until")
        frame.rows(headers, rows, title="Jobs that run", left=("owner", "group", "nodes", "since", "until"))
    else:
        by_state: dict[tuple[str | None, str | None], list[str]] = {}
        for node in changes.nodes:
            by_state.setdefault((node.before, node.after), []).append(node.node)
        lines = [
            f"{plural(len(names), 'node')}: {was or 'not there'} -> {now or 'gone'}: {spell_names(names, most=60)}"
            for (was, now), names in by_state.items()
        ]
        lines += [f"job {job.name} came, on {spell_names(job.nodes, most=60)}" for job in changes.came or ()]
        lines += [f"job {job.name} ended, on {spell_names(job.nodes, most=60)}" for job in changes.ended or ()]
        lines += [
            f"job {job.name} moved, {spell_names(job.before, most=40)} -> {spell_names(job.after, most=40)}"
            for job in changes.moved or ()
        ]
        lines += [f"reservation {held.name} came, {_when(held)}" for held in changes.reservations_came or ()]
        lines += [f"reservation {held.name} ended, {_when(held)}" for held in changes.reservations_ended or ()]
        unsaid = {"jobs": changes.came, "reservations": changes.reservations_came}
        lines += [f"whether {what} changed is not known: one of the two says nothing of them"
                  for what, rows_of in unsaid.items() if rows_of is None]  # fmt: skip
        print_sentences(out, f"Changed since {changes.since}", lines or ["nothing"])
    frame.end(document.notes, "")


def _when(held: ReservedNodes) -> str:
    return f"{held.start or 'at any time'} to {held.end or 'for ever'}, on {spell_names(held.nodes, most=60)}"
