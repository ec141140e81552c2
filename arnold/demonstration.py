"""The demonstration: the paper's largest setting as found on a working day, and files to try every command on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from ground.errors import InvalidInput
from scheduler.job import Job, Parallelism
from topology.cluster import Cluster
from topology.flags import FAULTY, HEALTHY
from topology.generate import flag_some, fragment, paper_cluster
from topology.node_names import fold_hostlist
from topology.writers import TOPOLOGY_WRITERS

if TYPE_CHECKING:
    from health.whatif.synthetic import Recipe
    from simulator.job_record import JobRecord

BUSY = 0.3  # Share of the nodes that other jobs use
FLAGGED = 12  # Idle nodes that detectors call slow or faulty
SLOW = (5, 2)  # The worker (DP rank, stage) that is slow in the trace
SLOWDOWN = 1.6
"""How much longer it computes: among the slowest that arXiv 2505.05713 injected and measured (1.16 to 2.03)."""

DAYS = 0.25  # Six hours of submissions: about a hundred jobs, replayed in seconds
LOAD = 1.3
"""GPU time that they ask for, as a share of what the free nodes have meanwhile: more than fits, so that jobs wait."""

LARGEST = 1024  # GPUs of the largest job: a tenth of the demo's free ones, so that several large jobs meet


def demo_instance(seed: int) -> tuple[Cluster, Job]:
    """Return more than 2,000 nodes in 22 minipods, fragmented, and the 9,600-GPU job of the Arnold paper.

    The job has 150 x 8 cells; alpha 0.3 is what the paper uses for its mixture of experts.
    """
    cluster = flag_some(fragment(paper_cluster("9600"), BUSY, seed), FLAGGED, seed)
    return cluster, Job("llm-9600", Parallelism(tp=8, pp=8, dp=150), alpha=0.3, microbatches=64)


def demo_files(cluster: Cluster, job: Job, seed: int) -> Mapping[str, bytes]:
    """Return every file that the commands of README and docs use, by name; the cluster and the job come first.

    :param seed: of what is drawn: the trace of jobs, and noise.
    :raises InvalidInput: the cluster has too few healthy idle nodes for the traced job.
    """
    from health.whatif.synthetic import Recipe, make_trace, trace_file
    from health.whatif.trace import metadata_file
    from simulator.workload import WorkloadSpec, generate

    # small enough for a file of a quarter of a megabyte, large enough for the analysis to be sure
    traced = Recipe(dp=8, pp=4, tp=8, microbatches=8, steps=10, slow={SLOW: SLOWDOWN})
    trace = make_trace(traced)
    nodes = _nodes_of_workers(cluster, job, traced)
    # sized for what is free; evaluation jobs of one node and a minute are left out: ten for every job that shows much
    spec = WorkloadSpec(
        days=DAYS,
        gpus=int(cluster.gpus[cluster.idle].sum()),
        load=LOAD,
        seed=seed,
        max_gpus=LARGEST,
        kinds=("other", "pretraining"),
    )
    jobs = [replace(record, submit=float(round(record.submit))) for record in generate(spec)]
    files: dict[str, str | bytes] = {
        "cluster.csv": TOPOLOGY_WRITERS.load("csv").write(cluster).text,
        **job_files(cluster, job),
        "trace.parquet": trace_file(trace),
        "meta.yaml": metadata_file(trace.sizes),
        "workers.csv": "\n".join(["dp,stage,node", *(f"{dp},{pp},{node}" for (dp, pp), node in nodes.items()), ""]),
        **job_traces(jobs),
        **cluster_listings(cluster),
        "steps.csv": step_times(seed),
        "metrics.parquet": machine_metrics(list(nodes.values()), nodes[SLOW], seed),
        "train.log": timer_log(),
        "train.yaml": f"dp_size: {TIMED.dp}\npp_size: {TIMED.pp}\ntp_size: {TIMED.tp}\n",
    }
    return {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}


def _nodes_of_workers(cluster: Cluster, job: Job, traced: Recipe) -> Mapping[tuple[int, int], str]:
    """Return the node that each worker of the trace ran on, by DP rank and stage: healthy idle ones.

    They lie next to each other, those of the domain with most of them first, where a large job is placed as well.
    """
    healthy = np.flatnonzero(cluster.idle & (cluster.slowdown == HEALTHY))
    workers = [(rank, stage) for stage in range(traced.pp) for rank in range(traced.dp)]
    if len(healthy) < len(workers):
        raise InvalidInput(f"the cluster has {len(healthy)} healthy idle nodes; the traced job needs {len(workers)}")
    domain = cluster.level(job.level).domain_of[healthy]
    nodes = healthy[np.lexsort((healthy, domain, -np.bincount(domain)[domain]))]
    return {worker: cluster.names[node] for worker, node in zip(workers, nodes, strict=False)}


TIERS = ("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0")  # labels of Topograph, broad to close
CORE = "core"  # the switch above all minipods: without it Slurm would run no job across them


def cluster_listings(cluster: Cluster) -> dict[str, str]:
    """Return files by name: ``topology.conf``, the table of ``sinfo`` beside it, and the list of ``kubectl``."""
    broadest = [name for name in cluster.levels[0].domains if name]
    core = f"SwitchName={CORE} Switches={fold_hostlist(broadest)}\n"
    states = ["drain" if slow == FAULTY else "idle" for slow in cluster.slowdown]
    states = [state if idle else "alloc" for state, idle in zip(states, cluster.free_gpus > 0, strict=True)]
    rows = zip(cluster.names, states, cluster.gpus.tolist(), strict=True)
    return {
        "topology.conf": TOPOLOGY_WRITERS.load("slurm-conf").write(cluster).text + core,
        # as sinfo -N -h -o "%N %t %G" prints them but for GPUs alone
        "nodes.txt": "".join(f"{name} {state} gpu:{gpus}\n" for name, state, gpus in rows),
        "nodes.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects(cluster)}) + "\n",
    }


def _objects(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the nodes, then a pod on each that is in use, with what Arnold reads of them."""
    nodes, pods = [], []
    for row, name in enumerate(cluster.names):
        places = [level.domains[level.domain_of[row]] for level in cluster.levels]
        slow, total = float(cluster.slowdown[row]), {"nvidia.com/gpu": str(cluster.gpus[row])}
        metadata: dict[str, Any] = {"name": name, "labels": dict(zip(TIERS, places, strict=True))}
        if slow != HEALTHY:
            metadata["annotations"] = {"arnold.dev/slowdown": "faulty" if slow == FAULTY else f"{slow:g}"}
        status = {"capacity": total, "allocatable": total, "conditions": [{"type": "Ready", "status": "True"}]}
        nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        if used := int(cluster.gpus[row] - cluster.free_gpus[row]):
            asks = {"limits": {"nvidia.com/gpu": str(used)}, "requests": {"nvidia.com/gpu": str(used)}}
            pods.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"busy-{name}", "namespace": "default"},
                    "spec": {"nodeName": name, "containers": [{"name": "train", "resources": asks}]},
                    "status": {"phase": "Running"},
                }
            )
    return nodes + pods


BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)  # when the trace begins, where its times are dates

SMALL = {"a": (16, 8), "b": (12, 8), "new": (24, 8)}
"""Name -> DP and PP of smaller jobs: several at once, and one for which others move."""


def job_files(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return job files by name, as a person would write them; what is left out has its default."""
    degrees = job.parallelism
    large = f"""\
name: {job.name}
gpus_per_node: {job.gpus_per_node}
parallelism: {{tp: {degrees.tp}, pp: {degrees.pp}, dp: {degrees.dp}}}
alpha: {job.alpha:<12} # affinity of data-parallel groups; pipeline groups get 1 - alpha
level: {cluster.level(job.level).name:<12} # the level of the network whose domains count
microbatches: {job.microbatches:<5} # of a pipeline in a step: how much a slow stage costs
"""
    small = {
        f"{name}.yaml": f"name: {name}\nparallelism: {{tp: 8, pp: {pp}, dp: {dp}}}\n"
        for name, (dp, pp) in SMALL.items()
    }
    return {"job.yaml": large, **small}


def job_traces(records: Sequence[JobRecord]) -> dict[str, str]:
    """Return a trace of jobs as Arnold writes it, as ``sacct`` prints it, and in columns of one's own."""
    from simulator.traces.readers.own_tables import write_jobs
    from simulator.traces.readers.slurm_accounting import COLUMNS

    accounted, own = [COLUMNS.replace(",", "|")], ["job_id,queued,duration,num_gpu"]
    for job in records:
        # in the accounting of Slurm each started at once
        begin, seconds = BEGIN + timedelta(seconds=job.submit), int(job.duration)
        start, stop = (f"{time:%Y-%m-%dT%H:%M:%S}" for time in (begin, begin + timedelta(seconds=seconds)))
        nodes = job.nodes or max(1, -(-int(job.gpus) // 8))
        owner = job.user or "someone", job.group or "research", job.queue or "gpu"
        tres = f"billing={int(job.gpus)},gres/gpu={int(job.gpus)},node={nodes}"
        times = (start, start, start, stop, seconds, "UNLIMITED")
        accounted.append("|".join(map(str, (job.job_id, *owner, *times, "COMPLETED", nodes, tres, "train"))))
        own.append(f"{job.job_id},{begin:%d.%m.%Y %H:%M},{seconds},{int(job.gpus)}")
    return {
        # no columns of CPUs and memory, so that the file is one that a person can read and change
        "jobs.csv": write_jobs([replace(job, cpus=None, memory=None) for job in records]),
        "jobs.log": "\n".join([*accounted, ""]),
        "mine.csv": "\n".join([*own, ""]),
    }


GAINS = (0.0077, 0.018)
"""Of the step, what crossing two domains costs DP and PP groups: what calibration.md of the docs calls true."""

STEPS = 40  # of each of its runs
STEP = 3.2  # seconds of a step that crosses nothing
NOISE = 0.008  # of a step, relative

SECONDS, FAULT = 600, 240  # of the recording of metrics, and when one machine's CPU usage drops in it
TIMED = Parallelism(tp=1, pp=2, dp=3)  # the job whose timers are logged
SLOW_RANK = 4  # of it, which computes 1.6 times as long: DP rank 1 of stage 1


def step_times(seed: int) -> str:
    """Return step times of four runs, with either spread 1 or 2, as `arnold calibrate` reads them."""
    rng = np.random.default_rng(seed)
    rows = [
        f"{STEP * (1 + GAINS[0] * (dp - 1) + GAINS[1] * (pp - 1)) * rng.normal(1.0, NOISE):.4f},{dp},{pp}"
        for dp in (2, 1)
        for pp in (2, 1)
        for _ in range(STEPS)
    ]
    return "\n".join(["step_seconds,S,R", *rows, ""])


def machine_metrics(machines: Sequence[str], culprit: str, seed: int) -> bytes:
    """Return a Parquet file with the CPU usage of machines, one of which drops after four minutes."""
    from ground.columns import parquet_bytes

    rng = np.random.default_rng(seed)
    rhythm = 30.0 + 6.0 * np.sin(np.arange(SECONDS) * 2.0 * np.pi / 10.0)  # steps of ten seconds
    usage = rhythm + rng.normal(0.0, 1.0, (len(machines), SECONDS))
    usage[machines.index(culprit), FAULT:] *= 0.2
    rows = [
        {"time": float(second), "machine": machine, "metric": "cpu_usage", "value": round(float(value), 2)}
        for machine, values in zip(machines, usage, strict=True)
        for second, value in enumerate(values)
    ]
    return parquet_bytes(rows, {"time": float, "machine": str, "metric": str, "value": float})


def timer_log() -> str:
    """Return what Megatron-LM prints with `--timing-log-level 2 --timing-log-option all`, for four steps."""
    ranks = TIMED.pp * TIMED.dp
    lines = [
        f"using world size: {ranks}, data-parallel size: {TIMED.dp}, context-parallel size: 1, "
        f"tensor-model-parallel size: {TIMED.tp}, pipeline-model-parallel size: {TIMED.pp}",
        "setting number of microbatches to constant 8",
    ]
    first, last, all_ranks = range(TIMED.dp), range(TIMED.dp, 2 * TIMED.dp), range(2 * TIMED.dp)
    times: Mapping[str, Mapping[int, float]] = {
        "forward-compute": {rank: 80.0 * (1.6 if rank == SLOW_RANK else 1.0) for rank in all_ranks},
        "backward-compute": {rank: 160.0 * (1.6 if rank == SLOW_RANK else 1.0) for rank in all_ranks},
        "forward-recv": dict.fromkeys(last, 10.0),
        "forward-send": dict.fromkeys(first, 1.0),
        "backward-recv": dict.fromkeys(first, 20.0),
        "backward-send": dict.fromkeys(last, 1.0),
        "all-grads-sync": dict.fromkeys(all_ranks, 6.0),
        "optimizer-clip-main-grad": dict.fromkeys(all_ranks, 3.0),
        "optimizer": dict.fromkeys(all_ranks, 12.0),
    }
    for step in range(7, 11):
        lines += [
            f" iteration {step:8d}/     100 | consumed samples: {64 * step} | elapsed time per iteration (ms): 400.0 |",
            "times across ranks (ms):",
        ]
        for name, of_rank in times.items():
            lines += [f"  {name}:", *(f"     rank {rank:2d}: {value:.2f}" for rank, value in of_rank.items())]
    return "\n".join([*lines, ""])
