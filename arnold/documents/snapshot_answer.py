"""The answer of ``arnold snapshot``, as JSON and as text: what runs on a cluster, and what changed since another."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

from arnold.console.output import GOOD, SO_SO, Console, print_sentences
from arnold.documents.answer_frame import Frame
from ground.quantities import plural
from ground.records import EARLIEST, LATEST, AtLeastOne, JsonRecord, record_of
from topology.cluster import Cluster, State, legend, node_states
from topology.load import LoadedTopology
from topology.node_names import spell_names
from topology.running_jobs import EndsBy, LiveJob, gpus_held
from topology.slurm_snapshot import SlurmReservation, read_snapshot
from topology.summary import ClusterSummary, summarise_cluster


def iso(time: float | None) -> str | None:
    """Return an instant, in seconds since 1970, as ISO 8601 in UTC; of none, or of one beyond all times, ``None``."""
    if time is None or not EARLIEST.timestamp() <= time <= LATEST.timestamp() - 1:
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
    def of(cls, job: LiveJob, cluster: Cluster) -> Self:
        """Return the answer of a job on a cluster that has its nodes."""
        return record_of(
            cls,
            job,
            owner=job.owner or None,
            group=job.group or None,
            gpus=int(gpus_held(cluster, [job]).sum()),
            started=iso(job.started),
            ends=iso(job.ends),
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


def _reservations(loaded: LoadedTopology) -> list[SlurmReservation] | None:
    """Return the reservations of a snapshot; ``None`` = it says nothing of them."""
    parts = [part for text in loaded.lists if (part := read_snapshot(text, loaded.cluster.index_of))]
    said = [part.reservations for part in parts if part.reservations is not None]
    # whether it had begun when it was recorded is no change of a reservation
    return [replace(held, active=None) for reservations in said for held in reservations] if said else None


def _changes(before: LoadedTopology, after: LoadedTopology) -> Changes:
    """Return what changed from one state of a cluster to another."""
    old, new = before.cluster, after.cluster
    states = [dict(zip(cluster.names, node_states(cluster).tolist(), strict=True)) for cluster in (old, new)]
    nodes = []
    for name in dict.fromkeys([*old.names, *new.names]):
        was, now = (None if (state := of.get(name)) is None else State(state) for of in states)
        if was is not now:
            nodes.append(NodeChange(name, *(None if state is None else state.label for state in (was, now))))
    came = ended = moved = None
    if before.jobs is not None and after.jobs is not None:
        # a job that was requeued under its number is another run
        ran, runs = ({(job.name, job.started): job for job in jobs.running} for jobs in (before.jobs, after.jobs))
        came = tuple(RunningAnswer.of(job, new) for key, job in runs.items() if key not in ran)
        ended = tuple(RunningAnswer.of(job, old) for key, job in ran.items() if key not in runs)
        both = [(ran[key], job) for key, job in runs.items() if key in ran]
        moved = tuple(JobMove(job.name, was.nodes, job.nodes) for was, job in both if was.nodes != job.nodes)
    reserved, reserves = map(_reservations, (before, after))

    def alone(
        here: Sequence[SlurmReservation] | None, there: Sequence[SlurmReservation] | None
    ) -> tuple[ReservedNodes, ...] | None:
        """Return the reservations of one of the two that the other has not; ``None`` where one says nothing of them."""
        if here is None or there is None:
            return None
        return tuple(
            ReservedNodes(row.name, tuple(sorted(row.nodes)), iso(row.start), iso(row.end))
            for row in here
            if row not in there
        )

    return Changes(
        since=iso(before.now.timestamp()) or "",
        nodes=tuple(nodes),
        came=came,
        ended=ended,
        moved=moved,
        reservations_came=alone(reserves, reserved),
        reservations_ended=alone(reserved, reserves),
    )


def snapshot_document(loaded: LoadedTopology, *, output: str | None, before: LoadedTopology | None) -> SnapshotDocument:
    """Return the document of a state of a cluster, compared with the one ``before``; ``None`` = with none."""
    cluster = loaded.cluster
    return SnapshotDocument(
        output=output,
        time=iso(loaded.now.timestamp()) or "",
        cluster=summarise_cluster(cluster, loaded.source),
        states={state.label: count for state, count in legend(node_states(cluster))},
        jobs=None if loaded.jobs is None else tuple(RunningAnswer.of(job, cluster) for job in loaded.jobs.running),
        changes=None if before is None else _changes(before, loaded),
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
