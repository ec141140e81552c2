"""The options of commands that read a cluster, and what they describe: a file or a live cluster, and what is over it.

``kube:[CONTEXT]`` is the Kubernetes cluster of a context of the kubeconfig, its current one unless said; ``slurm:`` the
Slurm that ``scontrol`` reaches.  A live cluster is only read, as the files that its own tools print of it, by the same
readers.  A file with such a name is given as ``./kube:...``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from arnold.console.output import note
from arnold.options.field_options import options_of
from arnold.options.shared_options import AT_HELP, parse_time
from ground.errors import InvalidInput, some
from ground.files import Source, read_source
from ground.records import AtLeastOne
from topology.taints import parse_tolerations

if TYPE_CHECKING:
    from extender.live_cluster import ListedCluster
    from topology.cluster import Cluster
    from topology.load import LoadedTopology
    from topology.slurm_snapshot import SlurmRequest


SINGLE_NODES = {"segment": "1"}  # Option of sbatch: a segment is one node, so that any nodes may be chosen
KUBERNETES, SLURM = "kube:", "slurm:"  # With what the name of a live cluster begins
_POD = re.compile(r"""\bkind["']?\s*:\s*["']?Pod\b""")
CONTEXT_NOTES = "arnold.context"  # Key of click's notes: what options a context gave (:mod:`arnold.options.context`)


@dataclass(frozen=True, slots=True)
class OpenedCluster:
    """What was read of a cluster, and what lies over it by its own word."""

    topology: Source | str  # the text of a format that is known, or the name of its file, which is yet to be read
    in_use: tuple[Source, ...] = ()  # lists of nodes in use, or with states, as of --busy
    notes: tuple[str, ...] = ()  # what a user should know, one sentence each
    running: tuple[Source, ...] | None = None  # jobs that run; None = it was not asked for them, or does not say


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """A cluster file, how to read it, and what lies over it."""

    cluster: str = field(metadata={"file": True})
    """The cluster: a file in any known format, - for standard input; kube:[CONTEXT] or slurm: for a live one."""
    format: str | None = field(default=None, metadata={"metavar": "NAME", "default": "recognised by content"})
    """Format of the input."""
    levels: str | None = field(default=None, metadata={"metavar": "LABEL,.."})
    """Node labels that are the levels, from broad to close; LABEL:1 is the first part of RACK.PART (Kubernetes)."""
    level_names: str | None = field(default=None, metadata={"metavar": "NAME,..", "default": "those of the input"})
    """Names of the levels, from broad to close, such as pod,spine,leaf: Slurm gives none."""
    domains: str | None = field(default=None, metadata={"metavar": "NAME=LABEL,.."})
    """Second hierarchies, by the node label of each: power=LABEL,failure=LABEL (Kubernetes)."""
    gpus_per_node: AtLeastOne | None = field(default=None, metadata={"metavar": "N", "default": "8"})
    """GPUs of each node, where nothing else says it."""
    gpu_type: str | None = field(default=None, metadata={"metavar": "NAME"})
    """Type of the nodes' GPUs, where nothing else says it."""
    gpu_resource: str | None = field(
        default=None, metadata={"metavar": "NAME", "default": "nvidia.com/gpu and amd.com/gpu"}
    )
    """Resource of Kubernetes that is GPUs."""
    tolerate: tuple[str, ...] = field(default=(), metadata={"metavar": "KEY[=VALUE]"})
    """A taint that jobs put up with, so that its nodes are theirs too (Kubernetes; `tolerations` of a job, for all)."""
    shared_gpus: Literal["unusable", "whole"] = "unusable"
    """What nodes are that share GPUs (time-slicing, MPS, MIG); whole = as if they did not."""
    busy: tuple[str, ...] = field(default=(), metadata={"file": True})
    """Nodes in use: a node or Slurm hostlist a line, a placement, or what sinfo, scontrol and squeue --start print."""
    partition: str = field(
        default="", metadata={"short": "-p", "metavar": "NAME", "default": "the default one of Slurm"}
    )
    """Partition of Slurm that the job goes to: nodes of others are kept out."""
    constraint: str = field(default="", metadata={"short": "-C", "metavar": "FEATURES"})
    """Features of Slurm that the nodes must have: a&b, a|b, a&(b|c)."""
    reservation: str = field(default="", metadata={"metavar": "NAME"})
    """Reservation of Slurm that the job may use; nodes of others are kept out."""
    exclude: str = field(default="", metadata={"short": "-x", "metavar": "NODE,.."})
    """Nodes that the job may not have: names or Slurm hostlists, or a file if there is a / in it."""
    time: str = field(
        default="",
        metadata={"short": "-t", "metavar": "LIMIT", "default": "expected_hours, else that of the partition"},
    )
    """Time that the job runs at most, as sbatch takes it (90, 1:30:00, 1-12): it has to end before others' reservations
    and planned jobs begin.
    """
    unlisted: Literal["unusable", "free"] | None = field(
        default=None, metadata={"default": "unusable where the list says states"}
    )
    """What a node is that no list of --busy has."""
    flags: tuple[str, ...] = field(default=(), metadata={"file": True})
    """Slow and faulty nodes: YAML, JSON or a flag store."""
    at: str | None = field(default=None, metadata={"metavar": "TIME", "help": f"{AT_HELP}  [default: now]"})
    expected_seconds: float | None = field(default=None, metadata={"option": False})
    """How long the job is expected to run, which counts where no time is said."""

    @property
    def now(self) -> datetime | None:
        """The time that is said to count as now; raises as :func:`~arnold.options.shared_options.parse_time`."""
        return None if self.at is None else parse_time(self.at, option="--at")[0]

    def read(self, *, jobs: bool = False) -> LoadedTopology:
        """Return the cluster with what lies over it; with the jobs that it says run, where they are wanted.

        :raises ArnoldError: a file is unusable, or a live cluster cannot be read.
        """
        return self.over(self.opened(jobs=jobs))

    def opened(self, *, jobs: bool = False) -> OpenedCluster:
        """Return what is to be read of the cluster; a file is left to its reader.

        :param jobs: whether the jobs that run are wanted, too.
        :raises ArnoldError: a live cluster cannot be read; each error says what to do.
        """
        if self.cluster.startswith((KUBERNETES, SLURM)) and self.format is not None:
            has_none = f"{self.cluster} is a live cluster, and no file of a format"
            raise InvalidInput(has_none, where="--format", fix="leave --format out, or give a file")
        if self.cluster.startswith(SLURM):
            if self.cluster != SLURM:
                fix = "write slurm: and choose the Slurm by SLURM_CONF, its partition by --partition"
                raise InvalidInput(f"{self.cluster!r}: nothing follows slurm:", where="--cluster", fix=fix)
            from slurm.ask import ask_slurm
            from topology.slurm_snapshot import NO_REQUEST

            return OpenedCluster(*ask_slurm(self.request() or NO_REQUEST, jobs=jobs))
        if self.cluster.startswith(KUBERNETES):
            from extender.cluster_api.connect import WhichCluster
            from extender.live_cluster import list_cluster
            from topology.node_gpus import GPUS

            which = WhichCluster(context=self.cluster.removeprefix(KUBERNETES) or None)
            listed = list_cluster(which, gpus=GPUS if self.gpu_resource is None else (self.gpu_resource,))
            return replace(open_kubernetes(listed), running=(listed.nodes,) if jobs else None)
        if not jobs:
            return OpenedCluster(self.cluster)
        from topology.readers.kubernetes import Kubernetes

        file = read_source(self.cluster)
        has_pods = Kubernetes().likeness(file.head) == 1.0 and _POD.search(file.text) is not None
        return OpenedCluster(file, running=(file,) if has_pods else None)

    def request(self) -> SlurmRequest | None:
        """Return what the job asks of Slurm; ``None`` = nothing."""
        if not self.asked_of_slurm and self.expected_seconds is None:
            return None
        from topology.slurm_snapshot import SlurmRequest

        return SlurmRequest(self.partition, self.constraint, self.reservation, self.time, self.expected_seconds)

    @property
    def asked_of_slurm(self) -> Mapping[str, str]:
        """Option of sbatch -> its value, of those that say for what the nodes are free."""
        options = {name: getattr(self, name) for name in ("partition", "constraint", "reservation", "time")}
        return {name: value for name, value in options.items() if value}

    def sbatch_options(self, cluster: Cluster) -> Mapping[str, str]:
        """Option of sbatch -> its value, of a job on nodes that were chosen: what was asked, and single nodes where
        there are blocks, as topology/block refuses a list of nodes that segments do not fit.
        """
        return {**self.asked_of_slurm, **({} if cluster.blocks is None else SINGLE_NODES)}

    @property
    def read_with(self) -> dict[str, Any]:
        """How to read the cluster, by the parameters of :func:`~topology.load.load_topology`."""
        domains = None
        if self.domains is not None:
            from topology.kubernetes.labels import parse_domains

            domains = parse_domains(self.domains)

        def listed(names: str | None) -> list[str] | None:
            return None if names is None else [name.strip() for name in names.split(",")]

        as_given = ("gpus_per_node", "gpu_type", "gpu_resource", "shared_gpus", "unlisted")
        read = {"levels": listed(self.levels), "level_names": listed(self.level_names), "domains": domains}
        return read | {name: getattr(self, name) for name in as_given}

    def over(self, opened: OpenedCluster) -> LoadedTopology:
        """Return a cluster that was read already, with what lies over it; raise as :meth:`read`."""
        from topology.load import load_topology

        loaded = load_topology(
            opened.topology,
            format=self.format,
            **self.read_with,
            tolerations=parse_tolerations(self.tolerate, where="--tolerate"),
            busy=(*opened.in_use, *self.busy),
            flags=self.flags,
            running=opened.running,
            request=self.request(),
            exclude=self.exclude,
            now=self.now,
        )
        running = click.get_current_context(silent=True)
        from_context = () if running is None else running.meta.get(CONTEXT_NOTES, ())
        return replace(loaded, notes=(*from_context, *loaded.notes, *opened.notes))

    def read_aloud(self, *, jobs: bool = False) -> LoadedTopology:
        """Return the same, for a command that prints notes in its answer: that GPUs are assumed is said at once, too,
        on standard error.
        """
        loaded = self.read(jobs=jobs)
        if loaded.assumed:
            note(loaded.assumed)
        return loaded


def open_kubernetes(listed: ListedCluster) -> OpenedCluster:
    """Return what a live Kubernetes cluster said of its nodes; those that plans of gangs promise are in use."""
    promised = sorted(listed.promised)
    notes = []
    if promised:
        notes.append(f"promised to gangs by their plans, and so in use: {len(promised):,} nodes")
    if listed.plans is None:
        notes.append(
            "plans of gangs (gangplans.arnold.dev) may not be listed: nodes that are promised and not in use yet "
            "count as free"
        )
    if listed.unread:
        later = "GangPlans that cannot be read, as those of a later Arnold, so that nodes they promise count as free"
        notes.append(f"{later}: {some(listed.unread)}")
    plans = Source(f"plans of gangs of {listed.nodes.name}", "\n".join(promised), numbered=False)
    return OpenedCluster(listed.nodes, (plans,) if promised else (), tuple(notes))


cluster_options = options_of(ClusterFiles, to="files")  # Give a command --cluster and what lies over it
OF_SLURM = ("partition", "constraint", "reservation", "exclude", "time", "unlisted")  # What decides beside --busy
OVERLAY = (
    *("levels", "level_names", "domains", "gpus_per_node", "gpu_type", "gpu_resource", "shared_gpus", "tolerate"),
    *("busy", *OF_SLURM),
)

state_options = options_of(ClusterFiles, to="files", only=("format", *OVERLAY, "flags"))
"""Give a command how to read a cluster file, and what lies over it."""

overlay_options = options_of(ClusterFiles, only=OVERLAY)
"""Give a command what lies over a cluster file, flags aside; its ``--format`` is that of another file."""
