"""The metrics that machines are compared by: their names, the order in which they are asked, what counts as different.

A metric is known by the name this project gives it or by the names that exporters give it.  One that is not known is
judged as well, after those that are.  The order can be learnt from known faults (Minder, section 4.3): for each window
and metric the largest |Z| over the machines says how far the farthest machine is from the rest; a decision tree learns
from these which windows had a fault.  Metrics near its root come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ground.errors import InvalidInput
from ground.records import JsonRecord
from health.peers.streams import FloatArray, MetricRecording, align


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of which more is known than its name."""

    name: str  # our name for it
    title: str  # its name in a sentence
    noticeable: float  # a difference below this, in the metric's own unit, means nothing; 0 = not known
    idle: float | None = None  # a machine at this level or below it does not work; None = the metric does not tell
    aliases: tuple[str, ...] = ()  # the names that exporters use, in lower case


WINDOW = 8  # Samples over which a metric is averaged before an order is learnt
_DUTY = ("dcgm_fi_dev_gpu_util", "gpu_utilization", "gpu_util", "utilization_gpu")
_POWER = ("dcgm_fi_dev_power_usage", "gpu_power", "gpu_power_usage", "power_draw", "power_draw_average")
_ENGINE = ("dcgm_fi_prof_gr_engine_active", "gr_engine_active")
_TENSOR = ("dcgm_fi_prof_pipe_tensor_active", "tensor_active", "tensor_core_activity")
_NVLINK = ("dcgm_fi_dev_nvlink_bandwidth_total", "nvlink_bandwidth_total")
# In the order of the Minder paper (arXiv 2411.01791, section 4.3), which a decision tree learnt from its faults
KNOWN: tuple[Metric, ...] = (
    Metric("pfc_tx_packet_rate", "PFC Tx packet rate", 100.0, None, ("pfc_tx", "pfc_tx_packets", "tx_pfc_packet_rate")),
    Metric("cpu_usage", "CPU usage", 2.0, 2.0, ("cpu", "cpu_utilization", "cpu_util")),
    Metric("gpu_duty_cycle", "GPU duty cycle", 2.0, 2.0, _DUTY),
    Metric("gpu_power_draw", "GPU power draw", 10.0, None, _POWER),
    Metric("gpu_graphics_engine_activity", "GPU graphics-engine activity", 0.02, 0.02, _ENGINE),
    Metric("gpu_tensor_activity", "GPU tensor activity", 0.02, None, _TENSOR),
    Metric("nvlink_bandwidth", "NVLink bandwidth", 0.0, None, _NVLINK),
)

PAPER_ORDER: tuple[str, ...] = tuple(metric.name for metric in KNOWN)

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
_COUNTS_UP = re.compile(r"_total$|_counter$|total_energy_consumption$|remapped_rows$")

# Names of metrics whose values are codes of what happened last, such as DCGM's XID errors
_CODES = re.compile(r"(?:^|_)xid(?:_|$)")

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


def counts_up(name: str) -> bool:
    """Return whether a metric counts up from some start, as Prometheus names counters; NVLink's bandwidth does not."""
    return _COUNTS_UP.search(name) is not None and name not in _BY_NAME


def is_step_time(name: str) -> bool:
    """Return whether a metric is the time of a training step, so that more of it is a slowdown and nothing else."""
    return _STEP_TIME.search(name) is not None


def in_order(names: Iterable[str], order: Sequence[str] = PAPER_ORDER) -> list[str]:
    """Return metrics in the order in which they are asked: step times, ``order``, all others."""
    rank = {name: k for k, name in enumerate(order)}
    return sorted(names, key=lambda name: (not is_step_time(name), rank.get(name, len(rank)), name))


DEPTH = 6  # Of the tree: enough for every metric to be asked once on a path


def largest_z(recording: MetricRecording, metrics: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Return for each window the largest |Z| over the machines in each metric, and the window's middle in seconds.

    Windows stand side by side.  A metric that a recording lacks, or in which all machines are equal, has 0.
    """
    machines = recording.machines
    grids = {name: align(recording.metrics[name], machines=machines) for name in metrics if name in recording.metrics}
    step = WINDOW * min((grid.step for grid in grids.values()), default=1.0)
    start = min((grid.start for grid in grids.values()), default=0.0)
    end = max((grid.start + grid.step * grid.values.shape[1] for grid in grids.values()), default=0.0)
    count = int((end - start) / step)
    largest = np.zeros((count, len(metrics)))
    for column, name in enumerate(metrics):
        if (grid := grids.get(name)) is None:
            continue
        times = grid.values.shape[1]
        begins = np.searchsorted(grid.start + grid.step * np.arange(times), start + step * np.arange(count))
        inside = begins < times
        lengths = np.diff(np.append(begins[inside], times))
        means = np.add.reduceat(grid.values, begins[inside], axis=1) / lengths
        spread = means.std(axis=0)
        z = np.abs(means - means.mean(axis=0)).max(axis=0)
        largest[inside, column] = np.divide(z, spread, out=np.zeros_like(z), where=spread > 1e-12 * np.abs(means).max())
    return largest, start + step * (np.arange(count) + 0.5)


@dataclass(frozen=True, slots=True)
class LearntOrder(JsonRecord):
    """What ``arnold health order`` learns: the order of metrics, and what it was learnt from."""

    order: tuple[str, ...]
    """Metrics, the one to be asked first at the head."""
    windows: int
    """Windows that were learnt from."""
    faulty: int
    """How many of them had a fault."""


def learn_order(examples: Sequence[tuple[MetricRecording, Sequence[tuple[float, float]]]]) -> LearntOrder:
    """Return metrics by how soon a decision tree asks for them, the others last, as in the paper's order.

    :param examples: recordings, and the beginnings and ends of their faults in seconds on the clock of each.
    """
    metrics = in_order({name for recording, _ in examples for name in recording.metrics})
    rows, labels = [], []
    for recording, faults in examples:
        z, middle = largest_z(recording, metrics)
        rows.append(z)
        labels.append(np.any([(middle >= a) & (middle < b) for a, b in faults] or [np.zeros_like(middle)], axis=0))
    label = np.concatenate(labels) if labels else np.zeros(0)
    if label.sum() == 0 or label.sum() == len(label):
        fix = "give recordings of which some part had a fault, and say which"
        raise InvalidInput("an order can only be learnt from times with a fault and times without", fix=fix)
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        fix = "in a clone of Arnold: pip install '.[learn]'"
        raise InvalidInput("learning an order needs scikit-learn, which is not installed", fix=fix) from None
    tree = DecisionTreeClassifier(max_depth=DEPTH, class_weight="balanced", min_samples_leaf=20, random_state=0)
    tree.fit(np.concatenate(rows), label.astype(int))
    # the depth at which the tree first asks for each metric
    first = np.full(len(metrics), DEPTH + 1)
    asks = tree.tree_.feature >= 0
    np.minimum.at(first, tree.tree_.feature[asks], tree.tree_.compute_node_depths()[asks])
    weight = tree.feature_importances_
    rank_of = {name: k for k, name in enumerate([*PAPER_ORDER, *metrics])}
    ranked = sorted(range(len(metrics)), key=lambda k: (first[k], -weight[k], rank_of[metrics[k]]))
    return LearntOrder(tuple(metrics[k] for k in ranked), len(label), int(label.sum()))
