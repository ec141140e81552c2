"""The metrics that machines are compared by: their names, the order in which they are asked, what counts as different.

A metric is known by the name this project gives it or by the names that exporters give it.  One that is not known is
judged as well, after those that are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of which more is known than its name."""

    name: str  # our name for it
    title: str  # its name in a sentence
    noticeable: float  # a difference below this, in the metric's own unit, means nothing; 0 = not known
    idle: float | None = None  # a machine at this level or below it does not work; None = the metric does not tell
    aliases: tuple[str, ...] = ()  # the names that exporters use, in lower case


_ENGINE = ("dcgm_fi_prof_gr_engine_active", "gr_engine_active")
_TENSOR = ("dcgm_fi_prof_pipe_tensor_active", "tensor_active", "tensor_core_activity")
_NVLINK = ("dcgm_fi_dev_nvlink_bandwidth_total", "nvlink_bandwidth_total")
KNOWN: tuple[Metric, ...] = (
    Metric("pfc_tx_packet_rate", "PFC Tx packet rate", 100.0, None, ("pfc_tx", "pfc_tx_packets", "tx_pfc_packet_rate")),
    Metric("cpu_usage", "CPU usage", 2.0, 2.0, ("cpu", "cpu_utilization", "cpu_util")),
    Metric("gpu_duty_cycle", "GPU duty cycle", 2.0, 2.0, ("dcgm_fi_dev_gpu_util", "gpu_utilization", "gpu_util")),
    Metric("gpu_power_draw", "GPU power draw", 10.0, None, ("dcgm_fi_dev_power_usage", "gpu_power", "gpu_power_usage")),
    Metric("gpu_graphics_engine_activity", "GPU graphics-engine activity", 0.02, 0.02, _ENGINE),
    Metric("gpu_tensor_activity", "GPU tensor activity", 0.02, None, _TENSOR),
    Metric("nvlink_bandwidth", "NVLink bandwidth", 0.0, None, _NVLINK),
)
"""In the order of the Minder paper (arXiv 2411.01791, section 4.3), which a decision tree learnt from its faults."""

PAPER_ORDER: tuple[str, ...] = tuple(metric.name for metric in KNOWN)

_BY_NAME = {alias: metric for metric in KNOWN for alias in (metric.name, *metric.aliases)}

_WORK = re.compile(
    r"(?:^|_)(?:gpu|sm|tensor|fp\d+|nvlink|gr|graphics|dram|mem|memory)_.*(?:util|duty|activ|occup|power|band)"
)
"""Names of metrics of which a GPU that works has more."""

_STEP_TIME = re.compile(r"(?:step|iter|iteration|batch|mini_?batch)s?_?(?:time|seconds|duration|ms)")


def canonical(name: str) -> str:
    """Return our name of a metric, or its own, lower case, joined by ``_``: ``GPU-Power`` is ``gpu_power_draw``."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    return _BY_NAME[plain].name if plain in _BY_NAME else plain


def metric_of(name: str) -> Metric:
    """Return what is known of a metric."""
    return _BY_NAME.get(name) or Metric(name, name, 0.0)


def is_work(name: str) -> bool:
    """Return whether a metric says how much a GPU works, so that more of it than peers have is no fault."""
    return _WORK.search(name) is not None


def tells_idleness(name: str) -> bool:
    """Return whether a metric tells for all others that a machine does not train: that of its GPUs."""
    return is_work(name) and metric_of(name).idle is not None


def is_step_time(name: str) -> bool:
    """Return whether a metric is the time of a training step, so that more of it is a slowdown and nothing else."""
    return _STEP_TIME.search(name) is not None


def in_order(names: Iterable[str], order: Sequence[str] = PAPER_ORDER) -> list[str]:
    """Return metrics in the order in which they are asked: step times (the harm itself), ``order``, all others."""
    rank = {name: k for k, name in enumerate(order)}
    return sorted(names, key=lambda name: (not is_step_time(name), rank.get(name, len(rank)), name))
