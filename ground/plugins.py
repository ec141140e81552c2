"""Extensions by name: what Arnold offers, what other packages add through entry points, and whose fault is whose."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ground import DISTRIBUTION
from ground.errors import ArnoldError, UnknownName, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

T = TypeVar("T")

OWN: Mapping[str, Mapping[str, str]] = {
    "arnold.placement": {
        "exact": "scheduler.placement.exact.algorithm:Exact",
        "arnold-mip": "scheduler.placement.mip:arnold_mip",
        "arnold-mip-highs": "scheduler.placement.mip:arnold_mip_highs",
        "arnold-mip-cuts": "scheduler.placement.mip:arnold_mip_cuts",
        "best-fit": "scheduler.placement.baselines:best_fit",
        "random-fit": "scheduler.placement.baselines:random_fit",
        "gpu-packing": "scheduler.placement.baselines:gpu_packing",
        "topo-aware": "scheduler.placement.baselines:topo_aware",
        "kube-scheduler": "scheduler.placement.schedulers.volcano:kube_scheduler",
        "kueue-preferred": "scheduler.placement.schedulers.kueue:kueue",
        "kueue-required": "scheduler.placement.schedulers.kueue:required",
        "kueue-slice-p": "scheduler.placement.schedulers.kueue:slice_p",
        "kueue-slice-d": "scheduler.placement.schedulers.kueue:slice_d",
        "kueue-multilayer": "scheduler.placement.schedulers.kueue:multilayer",
        "kueue-balanced": "scheduler.placement.schedulers.kueue:balanced",
        "volcano-hard": "scheduler.placement.schedulers.volcano:volcano_hard",
        "volcano-soft": "scheduler.placement.schedulers.volcano:volcano_soft",
        "volcano-partition-p": "scheduler.placement.schedulers.volcano:partition_p",
        "volcano-partition-d": "scheduler.placement.schedulers.volcano:partition_d",
        "kai": "scheduler.placement.schedulers.kai:kai",
        "kai-segment-p": "scheduler.placement.schedulers.kai:segment_p",
        "kai-segment-d": "scheduler.placement.schedulers.kai:segment_d",
        "slurm-tree": "scheduler.placement.schedulers.slurm:slurm_tree",
        "slurm-block": "scheduler.placement.schedulers.slurm:slurm_block",
        "slurm-segment-p": "scheduler.placement.schedulers.slurm:segment_p",
        "slurm-segment-d": "scheduler.placement.schedulers.slurm:segment_d",
    },
    "arnold.cost": {
        "none": "simulator.cost.models:no_cost",
        "anchored": "simulator.cost.models:anchored",
        "spread": "simulator.cost.models:spread_counters",
        "alpha-beta": "simulator.cost.models:alpha_beta",
        "hierarchical": "simulator.cost.models:hierarchical",
        "flows": "simulator.cost.shared_flows:SharedFlows",
    },
    "arnold.queue": {
        "fifo": "scheduler.queue.fifo_and_backfill:Fifo",
        "fifo-backfill": "scheduler.queue.fifo_and_backfill:FifoBackfill",
        "priority-backfill": "scheduler.queue.fifo_and_backfill:PriorityBackfill",
        "conservative-backfill": "scheduler.queue.conservative:ConservativeBackfill",
        "shortest-first": "scheduler.queue.fifo_and_backfill:ShortestFirst",
        "priority-age": "scheduler.queue.priority:PriorityAge",
        "fair-share": "scheduler.queue.fair_share:FairShare",
        "priority-preempt": "scheduler.queue.priority:PriorityPreempt",
        "arnold": "scheduler.queue.arnold:Arnold",
        "arnold-no-reserve": "scheduler.queue.arnold:NoReserve",
        "arnold-no-jct": "scheduler.queue.arnold:NoJct",
        "gavel": "scheduler.queue.gavel:GavelMaxMin",
        "gavel-finish-time": "scheduler.queue.gavel:GavelFinishTime",
        "gavel-throughput": "scheduler.queue.gavel:GavelThroughput",
        "gavel-agnostic": "scheduler.queue.gavel:GavelAgnostic",
        "hadar": "scheduler.queue.hadar:Hadar",
    },
    "arnold.topology_readers": {
        "alibaba-nodes": "topology.readers.alibaba:AlibabaNodes",
        "aws": "topology.readers.cloud:AwsTopology",
        "csv": "topology.readers.cluster_csv:ClusterCsv",
        "gcp": "topology.readers.cloud:GcpTopology",
        "infiniband": "topology.readers.infiniband:InfiniBand",
        "kind": "topology.readers.kubernetes:KindCluster",
        "kubernetes": "topology.readers.kubernetes:Kubernetes",
        "lingjun": "topology.readers.alibaba:Lingjun",
        "netq": "topology.readers.netq:NetQ",
        "slurm-conf": "topology.readers.slurm:SlurmConf",
        "slurm-nodes": "topology.readers.slurm:SlurmListing",
        "slurm-yaml": "topology.readers.slurm:SlurmYaml",
        "snapshot": "topology.snapshot:ClusterSnapshot",
        "topograph": "topology.readers.topograph:Topograph",
        "topograph-model": "topology.readers.topograph:TopographModel",
        "volcano": "topology.readers.kubernetes:Volcano",
    },
    "arnold.running_readers": {
        "jobs": "topology.running_jobs:OwnJobs",
        "placement": "scheduler.job_files.placement_file:PlacementOfRunning",
        "pods": "extender.running_pods:RunningPods",
        "sacct": "topology.running_jobs:SacctTable",
        "scontrol-jobs": "topology.running_jobs:ScontrolJobs",
        "slurm-jobs-json": "topology.running_jobs:SlurmJobsJson",
        "squeue": "topology.running_jobs:SqueueTable",
    },
    "arnold.topology_writers": {
        "csv": "topology.writers:ClusterCsvWriter",
        "slurm-block": "topology.writers:SlurmBlockWriter",
        "slurm-conf": "topology.writers:SlurmConfWriter",
        "slurm-yaml": "topology.writers:SlurmYamlWriter",
        "topograph": "topology.writers:TopographWriter",
    },
    "arnold.predictors": {
        "boosting": "simulator.prediction:Boosting",
        "estimate": "simulator.prediction:UserEstimate",
        "history": "simulator.prediction:SimilarJobs",
        "oracle": "simulator.prediction:Oracle",
    },
    "arnold.trace_readers": {
        "acme": "simulator.traces.readers.helios_and_acme:Acme",
        "acme-as-written": "simulator.traces.readers.helios_and_acme:AcmeAsWritten",
        "csv": "simulator.traces.readers.own_tables:JobCsv",
        "batsim": "simulator.traces.readers.hpc_workloads:Batsim",
        "gavel": "simulator.traces.readers.scheduler_papers:Gavel",
        "helios": "simulator.traces.readers.helios_and_acme:Helios",
        "jsonl": "simulator.traces.readers.own_tables:JobJsonLines",
        "llm-workload": "simulator.traces.readers.synthetic_jobs:SyntheticJobs",
        "muri": "simulator.traces.readers.scheduler_papers:Muri",
        "pai2020": "simulator.traces.readers.alibaba:Pai2020",
        "pai2023": "simulator.traces.readers.alibaba:Pai2023",
        "pai2025": "simulator.traces.readers.alibaba:Pai2025",
        "parquet": "simulator.traces.readers.own_tables:JobParquet",
        "philly": "simulator.traces.readers.philly:Philly",
        "philly-log": "simulator.traces.readers.philly:PhillyLog",
        "pollux": "simulator.traces.readers.scheduler_papers:Pollux",
        "sacct": "simulator.traces.readers.slurm_accounting:Sacct",
        "sacct-json": "simulator.traces.readers.slurm_accounting:SacctJson",
        "spot2026": "simulator.traces.readers.alibaba:Spot2026",
        "swf": "simulator.traces.readers.hpc_workloads:Swf",
        "tiresias": "simulator.traces.readers.scheduler_papers:Tiresias",
    },
    "arnold.collectives_readers": {
        "flight-recorder": "health.collectives.flight_recorder:FlightRecorder",
        "inspector": "health.collectives.inspector:Inspector",
        "progress": "health.collectives.progress:Progress",
        "prometheus": "health.collectives.inspector:InspectorPrometheus",
        "ras": "health.collectives.ras:Ras",
    },
    "arnold.metric_readers": {
        "exporter-text": "health.peers.prometheus:ExporterText",
        "metrics-of-machines": "health.peers.tables:MetricsOfMachines",
        "nvidia-smi": "health.peers.tables:NvidiaSmi",
        "prometheus-range": "health.peers.prometheus:PrometheusRange",
        "prometheus-vector": "health.peers.prometheus:PrometheusVector",
        "samples": "health.peers.tables:SampleRows",
    },
    "arnold.profile_readers": {
        "kineto": "health.whatif.converters.kineto:Kineto",
        "megatron-timers": "health.whatif.converters.timers:MegatronTimers",
    },
}
"""What Arnold itself offers, by group and name: ``module:name``, as entry points say it.  It stands here because the
metadata of all that is installed, where entry points stand, take longer to read than a small job to place."""


class PluginFailed(ArnoldError):
    """What another package offers cannot be imported, or raised what it must not."""

    exit_code = 1


class PluginGroup(Generic[T]):
    """What Arnold and other packages offer through one entry-point group; each is called without arguments."""

    def __init__(self, group: str, *, unknown: str, where: str) -> None:
        self.group = group
        self._unknown = unknown  # the beginning of the message that no package offers a name
        self._where = where  # the option that names come from

    def names(self, *, inside: str | None = None) -> tuple[str, ...]:
        """Return the names on offer, sorted.

        :param inside: a package of ours: names of what its modules make alone; nothing installed is looked at.
        """
        own = OWN.get(self.group, {})
        if inside is not None:
            return tuple(sorted(name for name, target in own.items() if target.partition(".")[0] == inside))
        return tuple(sorted({*own, *(point.name for point in _entry_points(self.group))}))

    def load(self, name: str, *, where: str = "") -> T:
        """Return what is offered under a name, importing its module alone.

        Our own wins over one of the same name that another package offers: what commands say of ``exact`` must not
        depend on what else is installed.

        :param where: the option that the name came from, if not the usual one.
        :raises UnknownName: no package offers the name, or several others do.
        :raises PluginFailed: what another package offers cannot be imported or made.
        """
        made: T
        if (own := OWN.get(self.group, {}).get(name)) is not None:
            made = object_at(own)()
            return made
        where, offers = where or self._where, [point for point in _entry_points(self.group) if point.name == name]
        if not offers:
            names = self.names()
            fix = f"{did_you_mean(name, names)}use one of {', '.join(names)}"
            raise UnknownName(f"{self._unknown} {name!r}", where=where, fix=fix)
        if len(offers) > 1:
            several = f"{' and '.join(sorted(map(_package, offers)))} both offer {name!r} ({self.group})"
            raise UnknownName(several, where=where, fix="uninstall all but one of these packages")
        try:
            made = offers[0].load()()
        except ArnoldError:
            raise
        except Exception as error:
            raise _failed(offers[0], error) from error
        return made

    def load_all(self) -> Iterator[T]:
        """Yield what is on offer, in the order of the names.

        What another package offers and cannot be imported is left out with a warning: it must not be in the way of
        whoever asks for none by name.
        """
        for name in self.names():
            try:
                yield self.load(name)
            except PluginFailed as error:
                _warn_once(f"{error.message} ({self.group}): left out")


@contextmanager
def noted(words: str) -> Iterator[None]:
    """Note what was being done on an error that comes out of a block and is not of Arnold's tree."""
    try:
        yield
    except ArnoldError:
        raise
    except Exception as error:
        error.add_note(words)
        raise


def failed_plugin(error: BaseException) -> PluginFailed | None:
    """Return the plug-in that raised an error, or was on the way to it, with the innermost line of its own.

    ``None`` = no code of a package that offers something to Arnold was running.
    """
    from importlib.metadata import entry_points
    from traceback import walk_tb

    offered = {
        point.module: point
        for group in entry_points().groups
        if group.startswith("arnold.")
        for point in entry_points(group=group)
        if _package(point) != DISTRIBUTION
    }
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        module = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if own := [point for name, point in offered.items() if name.partition(".")[0] == package]:
            # of several plug-ins of a package the one whose module it is
            nearest = next((point for point in own if point.module == module), own[0])
            return _failed(nearest, error, where=f"{frame.f_code.co_filename}:{line}")
    return None


def _failed(point: EntryPoint, error: BaseException, *, where: str = "") -> PluginFailed:
    package = _package(point)
    context = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    words = f"{point.name} of the package {package} failed{context}: {type(error).__name__}: {error}"
    return PluginFailed(words, where=where, fix=f"tell the authors of {package}, or uninstall it")


def _package(point: EntryPoint) -> str:
    """Return the name of the package that offers an entry point."""
    return point.dist.name if point.dist is not None else point.value


@cache
def _warn_once(sentence: str) -> None:
    """Say what is left out; it may be asked for several times in a run."""
    from logging import getLogger

    getLogger(__name__).warning("%s", sentence)


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return what other packages offer in a group, looked up once: the metadata of everything installed is read for it.

    What has a name of ours is left out with a warning.
    """
    from importlib.metadata import entry_points

    others = [point for point in entry_points(group=group) if _package(point) != DISTRIBUTION]
    for point in others:
        if point.name in OWN.get(group, {}):
            taken = f"{point.name} of {_package(point)} ({group}) is left out: the name is taken by {DISTRIBUTION}"
            _warn_once(taken)
    return tuple(point for point in others if point.name not in OWN.get(group, {}))


def object_at(target: str) -> Any:
    """Import what stands at ``module:name``."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
