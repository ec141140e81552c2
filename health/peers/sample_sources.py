"""Where samples of machines come from: columns of a table, or queries that a watch asks of a Prometheus server.

The options of ``arnold health peers`` and ``watch`` are made of these, so nothing here imports numpy.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Gt

Positive = Annotated[float, Gt(0)]
# Labels that say which machine a series is of, the first that is there.  ``Hostname`` is dcgm-exporter's.
MACHINE_LABELS = ("node", "Hostname", "hostname", "kubernetes_node", "host", "nodename", "instance", "machine")
# Labels and columns that say which part of a machine: its GPU, or its NIC where the value is called like one
GPU_LABELS = ("gpu", "gpu_id", "gpu_index", "minor_number")
PORT_LABELS = ("device", "interface", "nic", "hca", "link")
_PORT = re.compile(
    r"(?:mlx|ib|eth|en|eno|ens|bond|roce|rdma|hfi|efa|irdma|bnxt|hsn|cxi|nic|port|link)[a-z]*[_-]?\d[\w.:/-]*|\d+"
)
# What DCGM says where it has no value, such as of a field that a GPU lacks: floats and integers (dcgm_structs.h,
# DCGM_FP64_BLANK, DCGM_INT64_BLANK).  Up to three above it are reasons; so near 2^63 all doubles are this one.
BLANKS = (2.0**47, 2.0**63)
MOST_BLANK = 3.0
# What node-exporter and dcgm-exporter call the paper's metrics, and what tells of a single GPU.  PFC counters differ
# from NIC to NIC: give a query.
DEFAULT_QUERIES: Mapping[str, str] = {
    "cpu_usage": '100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[1m])))',
    **{
        name: f"avg by (Hostname, gpu) ({field})"
        for name, field in (
            ("gpu_duty_cycle", "DCGM_FI_DEV_GPU_UTIL"),
            ("gpu_power_draw", "DCGM_FI_DEV_POWER_USAGE"),
            ("gpu_graphics_engine_activity", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
            ("gpu_tensor_activity", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
            ("nvlink_bandwidth", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"),
            ("gpu_sm_clock", "DCGM_FI_DEV_SM_CLOCK"),
            ("gpu_temperature", "DCGM_FI_DEV_GPU_TEMP"),
            ("dcgm_fi_dev_xid_errors", "DCGM_FI_DEV_XID_ERRORS"),
        )
    },
}


def part_of(labels: Mapping[str, object]) -> str:
    """Return which part of a machine labels name, such as ``GPU 6`` or ``NIC mlx5_0``; empty = the machine itself."""
    for label in GPU_LABELS:
        if (gpu := str(labels.get(label) or "").strip()) or labels.get(label) == 0:
            return f"GPU {gpu or 0}"
    for label in PORT_LABELS:
        port = str(labels.get(label) or "").strip()
        if _PORT.fullmatch(port):
            number = str(labels.get("port") or "")
            return f"{'link' if label == 'link' else 'NIC'} {port}{f':{number}' if number not in ('', '1') else ''}"
    return ""


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """How the columns of a table are called; a table without one of metrics has one metric, called as its values."""

    time: str = field(default="time", metadata={"option": "--time-column", "metavar": "NAME"})
    """Column of times: seconds, milli- to nanoseconds, or dates."""
    machine: str = field(default="machine", metadata={"option": "--machine-column", "metavar": "NAME"})
    """Column of machines."""
    metric: str | None = field(default="metric", metadata={"option": "--metric-column", "metavar": "NAME"})
    """Column of metrics; none where there is one metric."""
    value: str = field(default="value", metadata={"option": "--value-column", "metavar": "NAME"})
    """Column of what was measured."""

    @property
    def names(self) -> list[str]:
        """Return those that must be there."""
        return [name for name in (self.time, self.machine, self.metric, self.value) if name is not None]


SECONDS = {"metavar": "SECONDS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPlan:
    """How a watch runs: what it asks of which machines (``None`` = all), metric -> PromQL, and how often."""

    queries: Mapping[str, str] = field(default_factory=lambda: DEFAULT_QUERIES, metadata={"option": False})
    labels: Collection[str] = field(default=MACHINE_LABELS, metadata={"option": False})
    machines: Collection[str] | None = field(default=None, metadata={"option": False})
    every: Positive = field(default=480.0, metadata=SECONDS)
    """Seconds between two rounds.

    The paper's 8 minutes.
    """
    span: Positive = field(default=900.0, metadata=SECONDS)
    """Seconds of data that each round looks at.

    The paper's 15 minutes.
    """
    step: Positive = field(default=1.0, metadata={"option": "--sample-interval", **SECONDS})
    """Seconds between samples."""
    hold_hours: Positive = field(default=1.0, metadata={"metavar": "HOURS"})
    """Hours for which a flag holds.

    Since it was last seen: what hysteresis a watch has of its own.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StallPlan:
    """How a watch looks for gangs that stand still, and what it does about them."""

    progress: str | None = field(default=None, metadata={"metavar": "PROMQL", "default": "it is not looked at"})
    """Query that counts the steps or collectives that each node, or each GPU of it, has begun."""
    stall_after: Positive = field(default=180.0, metadata={"needs": ("--progress",), **SECONDS})
    """Seconds without progress after which a gang stands still; more than its longest pause."""
    dumps: str | None = field(default=None, metadata={"file": True, "metavar": "DIR", "needs": ("--progress",)})
    """Folder with a folder NAMESPACE/GANG for dumps of each gang's collectives, read where the gang stands still."""
    policy: Literal["advise", "act"] = field(default="advise", metadata={"needs": ("--progress",)})
    """Whether a gang that stands still is told of (advise), or its pods on nodes that hold it up are evicted (act)."""
    budget: Annotated[int, Ge(0)] = field(default=3, metadata={"metavar": "N", "needs": ("--progress",)})
    """Nodes an hour that gangs are cleared of, at most."""

    @property
    def every(self) -> float:
        """Seconds between two looks."""
        return self.stall_after / 5.0
