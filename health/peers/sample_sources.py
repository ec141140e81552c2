"""Where samples of machines come from: columns of a table, or queries that a watch asks of a Prometheus server.

The options of ``arnold health peers`` and ``watch`` are made of these, so nothing here imports numpy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Gt

Positive = Annotated[float, Gt(0)]
# Labels that say which machine a series is of, the first that is there.  ``Hostname`` is dcgm-exporter's.
MACHINE_LABELS = ("node", "Hostname", "hostname", "kubernetes_node", "host", "nodename", "instance", "machine")
# What node-exporter and dcgm-exporter call the paper's metrics.  PFC counters differ from NIC to NIC: give a query.
DEFAULT_QUERIES: Mapping[str, str] = {
    "cpu_usage": '100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[1m])))',
    "gpu_duty_cycle": "avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)",
    "gpu_power_draw": "avg by (Hostname) (DCGM_FI_DEV_POWER_USAGE)",
    "gpu_graphics_engine_activity": "avg by (Hostname) (DCGM_FI_PROF_GR_ENGINE_ACTIVE)",
    "gpu_tensor_activity": "avg by (Hostname) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)",
    "nvlink_bandwidth": "avg by (Hostname) (DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL)",
}


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """How the columns of a table are called; a table without one of metrics has one metric, called as its values."""

    time: str = field(default="time", metadata={"option": "--time-column", "metavar": "NAME"})
    """Column of times: seconds, milliseconds or dates."""
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
