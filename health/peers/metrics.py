"""The metrics that machines are compared by: their names, the order in which they are told, what counts as different.

A metric is known by the name this project gives it or by the names that exporters give it.  One that is not known is
judged as well, after those that are.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of which more is known than its name."""

    name: str  # our name for it
    title: str  # its name in a sentence
    noticeable: float  # a difference below this, in the metric's own unit, means nothing; 0 = not known
    idle: float | None = None  # a machine at this level or below it does not work; None = the metric does not tell
    aliases: tuple[str, ...] = ()  # the names that exporters use, in lower case
    # where nearly all values are at most between the first two, they are of another unit, so many times as large
    other_unit: tuple[float, float, float] | None = None


_DUTY = ("dcgm_fi_dev_gpu_util", "gpu_utilization", "gpu_util", "utilization_gpu")
_POWER = ("dcgm_fi_dev_power_usage", "gpu_power", "gpu_power_usage", "power_draw", "power_draw_average")
_ENGINE = ("dcgm_fi_prof_gr_engine_active", "gr_engine_active")
_TENSOR = ("dcgm_fi_prof_pipe_tensor_active", "tensor_active", "tensor_core_activity")
_NVLINK = ("dcgm_fi_dev_nvlink_bandwidth_total", "nvlink_bandwidth_total")
_CLOCK = ("dcgm_fi_dev_sm_clock", "sm_clock", "clocks_sm", "clocks_current_sm", "clocks_gr", "clocks_current_graphics")
_HEAT = ("dcgm_fi_dev_gpu_temp", "gpu_temp", "temperature_gpu")
_PERCENT = (1.5, 100.0, 0.01)
# Percent, shares of 1, watts and megahertz; a CPU that shows at most 1 may as well be idle, so that this is only said.
# The first seven in the order of the Minder paper (arXiv 2411.01791, section 4.3), in which they are told
KNOWN: tuple[Metric, ...] = (
    Metric("pfc_tx_packet_rate", "PFC Tx packet rate", 100.0, None, ("pfc_tx", "pfc_tx_packets", "tx_pfc_packet_rate")),
    Metric("cpu_usage", "CPU usage", 5.0, 2.0, ("cpu", "cpu_utilization", "cpu_util"), (0.02, 1.0, 1.0)),
    Metric("gpu_duty_cycle", "GPU duty cycle", 4.0, 2.0, _DUTY, (0.2, 1.0, 100.0)),
    Metric("gpu_power_draw", "GPU power draw", 20.0, None, _POWER, (0.05, 5.0, 1_000.0)),
    Metric("gpu_graphics_engine_activity", "GPU graphics-engine activity", 0.02, 0.02, _ENGINE, _PERCENT),
    Metric("gpu_tensor_activity", "GPU tensor activity", 0.02, None, _TENSOR, _PERCENT),
    Metric("nvlink_bandwidth", "NVLink bandwidth", 0.0, None, _NVLINK),
    Metric("gpu_sm_clock", "SM clock", 20.0, None, _CLOCK, (0.1, 10.0, 1_000.0)),
    Metric("gpu_temperature", "GPU temperature", 10.0, None, _HEAT),
)
MISSING = "missing_series"  # The name under which parts are told that send nothing any more

_BY_NAME = {alias: metric for metric in KNOWN for alias in (metric.name, *metric.aliases)}

# Names of metrics of which a GPU that works has more
_WORK = re.compile(
    r"(?:^|_)(?:gpu|sm|tensor|fp\d+|nvlink|gr|graphics|dram|mem|memory)_.*(?:util|duty|activ|occup|power|band)"
)

# Names of metrics that count what is wrong: of these a machine may be the only one that has any
_FAULTS = re.compile(r"err|fail|fault|drop|discard|retr|replay|xid|ecc|pause|throttl|violat|late|slow|temp")

# ... and of those, names of which no machine should have any
_ERRORS = re.compile(r"error|fail|xid|ecc|replay|remapped|discard|violat")

# Names of metrics that exporters count up from the start of a machine, so that only what is added means anything
_COUNTS_UP = re.compile(r"_total$|_counter$|total_energy_consumption$|remapped_rows$|_violation$")

# Names of metrics whose values are codes of what happened last, such as DCGM's XID errors
_CODES = re.compile(r"(?:^|_)xid(?:_|$)")

# Names of metrics whose values are masks of bits, such as why a clock is held down: of 4 and 8 neither is more
_MASKS = re.compile(r"(?:throttle|event)_reasons(?:_active|_supported)?$")

_STEP_TIME = re.compile(r"(?:step|iter|iteration|batch|mini_?batch)s?_?(?:time|seconds|duration|ms)")


def canonical(name: str) -> str:
    """Return our name of a metric, or its own, lower case, joined by ``_``: ``GPU-Power`` is ``gpu_power_draw``."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    return _BY_NAME[plain].name if plain in _BY_NAME else plain


def metric_of(name: str) -> Metric:
    """Return what is known of a metric."""
    return _BY_NAME.get(name) or Metric(name, name, 0.5 if is_code(name) else 0.0)


def is_work(name: str) -> bool:
    """Return whether a metric says how much a GPU works, so that more of it than peers have is no fault."""
    return _WORK.search(name) is not None


def tells_pace(name: str) -> bool:
    """Return whether a metric falls as the work of a GPU slows down: its work, or its clock."""
    return is_work(name) or name == "gpu_sm_clock"


def tells_idleness(name: str) -> bool:
    """Return whether a metric tells for all others that a machine does not train: that of its GPUs."""
    return is_work(name) and metric_of(name).idle is not None


def idle_level(name: str) -> float | None:
    """Return the level of a metric up to which a machine does nothing; ``None`` = the metric does not tell.

    A metric of which nothing but its name is known tells by 0, unless it counts what is wrong.
    """
    if name in _BY_NAME or _FAULTS.search(name):
        return metric_of(name).idle
    return 0.0


def counts_errors(name: str) -> bool:
    """Return whether a metric counts what no machine should have any of."""
    return _ERRORS.search(name) is not None


def is_code(name: str) -> bool:
    """Return whether the values of a metric are codes, 0 = nothing happened: 79 is no more than 13."""
    return _CODES.search(name) is not None


def is_mask(name: str) -> bool:
    """Return whether the values of a metric are masks of bits, by which machines cannot be compared."""
    return _MASKS.search(name) is not None


def counts_up(name: str) -> bool:
    """Return whether a metric counts up from some start, as Prometheus names counters; NVLink's bandwidth does not."""
    return _COUNTS_UP.search(name) is not None and name not in _BY_NAME


def is_step_time(name: str) -> bool:
    """Return whether a metric is the time of a training step, so that more of it is a slowdown and nothing else."""
    return _STEP_TIME.search(name) is not None


def harm(name: str) -> int:
    """Return which way a metric tells a fault: 1 = more of it, 0 = both ways."""
    return int(counts_errors(name) or is_step_time(name) or "temp" in name)


def in_order(names: Iterable[str]) -> list[str]:
    """Return metrics in the order in which they are told: step times, those that are known, all others."""
    rank = {metric.name: k for k, metric in enumerate(KNOWN)}
    return sorted(names, key=lambda name: (not is_step_time(name), rank.get(name, len(rank)), name))
