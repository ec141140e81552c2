"""A made Slurm of eight nodes of two GPUs in two minipods, as its programs print it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ground.files import Source
from scheduler.placement.types import Limits
from scheduler.queue.fifo_and_backfill import PriorityBackfill
from slurm.decide import SlurmDecision, decide
from slurm.live import LiveSlurm, SlurmJob, base_of
from topology.slurm_snapshot import SlurmSnapshot, read_snapshot

NOW = 1_800_000_000.0
NODES = [f"n{i:02}" for i in range(1, 9)]
TOPOLOGY = "SwitchName=mp1 Nodes=n0[1,3,5,7]\nSwitchName=mp0 Nodes=n0[2,4,6,8]\nSwitchName=top Switches=mp[0-1]\n"
BLOCKS = "BlockName=a Nodes=n[01-04] BlockSize=4\nBlockName=b Nodes=n[05-08] BlockSize=4\n"  # of topology/block
GRID = "tp=2,dp=2,pp=2,alpha=0.7"  # four nodes of two GPUs

JOB = SlurmJob(
    number="1", state="PENDING", reason="BeginTime", partition="all", features="", reservation="", seconds=600.0,
    count=4, priority=100, submitted=NOW - 60, begin=NOW + 540, ends=None, owner="ann", account="lab", nodes="",
    required="", excluded="", planned="", gpus="", name="train", comment=f"arnold: {GRID}",
)  # fmt: skip


def job(number: int | str = 1, **changes: Any) -> SlurmJob:
    """A job that asks for a plan of four nodes, submitted a minute ago; the later its number, the less its priority."""
    return replace(JOB, number=str(number), **{"priority": 100 - int(str(number)[0]), **changes})


def running(number: int, nodes: str, **changes: Any) -> SlurmJob:
    """A job of somebody's that runs on some nodes."""
    return job(number, state="RUNNING", reason="None", nodes=nodes, comment="", begin=NOW - 5, **changes)


def looked(
    *jobs: SlurmJob,
    states: Mapping[str, str] | None = None,
    reservations: str = "No reservations in the system\n",
    partitions: str = "PartitionName=all Default=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=n[01-08] State=UP\n",
    topology: str = TOPOLOGY,
    gres: Mapping[str, str] | None = None,
) -> LiveSlurm:
    """The look at it with some jobs, its nodes idle and with GPUs of no type unless said otherwise."""
    lines = (
        f"NodeName={node} Gres={(gres or {}).get(node, 'gpu:2')} "
        f"State={(states or {}).get(node, 'IDLE')} Partitions=all ActiveFeatures=fast"
        for node in NODES
    )
    texts = {"nodes": "\n".join(lines) + "\n", "partitions": partitions, "reservations": reservations}
    sources = [Source(f"scontrol show {what}", text) for what, text in texts.items()]
    said = SlurmSnapshot.merged(part for source in sources if (part := read_snapshot(source, ())) is not None)
    return LiveSlurm.of(jobs, said, base_of(Source("scontrol show topology", topology), sources), NOW)


def decided(live: LiveSlurm, orders: Mapping[str, Sequence[str]] | None = None, **settings: Any) -> SlurmDecision:
    """What is decided of a look."""
    files = {number: tuple(nodes) for number, nodes in (orders or {}).items()}
    return decide(live, files, policy=PriorityBackfill(), limits=Limits(seconds=10.0, workers=1), **settings)
