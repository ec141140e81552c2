"""The order in which metrics are asked, learnt from faults that are known.

Minder, section 4.3: for each window and metric the largest |Z| over the machines says how far the farthest machine is
from the rest; a decision tree learns from these which windows had a fault.  Metrics near its root come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from health.peers.metrics import PAPER_ORDER, in_order
from health.peers.streams import FloatArray, MetricRecording, align
from topology.errors import InvalidInput
from topology.json_record import JsonRecord

DEPTH = 6  # Of the tree: enough for every metric to be asked once on a path


@dataclass(frozen=True, slots=True)
class Labelled:
    """A recording and when something was wrong in it."""

    recording: MetricRecording
    # beginning and end, seconds on the clock of the recording; empty = it was healthy
    faults: Sequence[tuple[float, float]]


def largest_z(recording: MetricRecording, metrics: Sequence[str], *, window: int = 8) -> tuple[FloatArray, FloatArray]:
    """Return for each window the largest |Z| over the machines in each metric, and the window's middle in seconds.

    Windows stand side by side.  A metric that a recording lacks, or in which all machines are equal, has 0.

    :returns: shapes (windows, metrics) and (windows,).
    """
    machines = recording.machines
    grids = {name: align(recording.metrics[name], machines=machines) for name in metrics if name in recording.metrics}
    step = window * min((grid.step for grid in grids.values()), default=1.0)
    start = min((grid.start for grid in grids.values()), default=0.0)
    end = max((grid.start + grid.step * grid.values.shape[1] for grid in grids.values()), default=0.0)
    count = int((end - start) / step)
    found = np.zeros((count, len(metrics)))
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
        found[inside, column] = np.divide(z, spread, out=np.zeros_like(z), where=spread > 1e-12 * np.abs(means).max())
    return found, start + step * (np.arange(count) + 0.5)


@dataclass(frozen=True, slots=True)
class LearntOrder(JsonRecord):
    """What ``arnold health order`` learns: the order of metrics, and what it was learnt from."""

    order: tuple[str, ...]
    """Metrics, the one to be asked first at the head."""
    windows: int
    """Windows that were learnt from."""
    faulty: int
    """How many of them had a fault."""


def learn_order(examples: Iterable[Labelled], *, seed: int = 0) -> LearntOrder:
    """Return metrics by how soon a decision tree asks for them, the others last, as in the paper's order.

    :raises InvalidInput: no scikit-learn, or no faults, or nothing but faults.
    """
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise InvalidInput(
            "learning an order needs scikit-learn, which is not installed",
            fix="install it: pip install 'arnold-scheduler[learn]'",
        ) from None
    given = list(examples)
    metrics = in_order({name for one in given for name in one.recording.metrics})
    rows, labels = [], []
    for one in given:
        z, middle = largest_z(one.recording, metrics)
        rows.append(z)
        labels.append(np.any([(middle >= a) & (middle < b) for a, b in one.faults] or [np.zeros_like(middle)], axis=0))
    label = np.concatenate(labels) if labels else np.zeros(0)
    if label.sum() == 0 or label.sum() == len(label):
        raise InvalidInput(
            "an order can only be learnt from times with a fault and times without",
            fix="give recordings of which some part had a fault, and say which",
        )
    tree = DecisionTreeClassifier(max_depth=DEPTH, class_weight="balanced", min_samples_leaf=20, random_state=seed)
    tree.fit(np.concatenate(rows), label.astype(int))
    first = _first_asked(tree.tree_.feature, tree.tree_.children_left, tree.tree_.children_right)
    weight = tree.feature_importances_
    known = {name: k for k, name in enumerate([*PAPER_ORDER, *metrics])}
    ranked = sorted(range(len(metrics)), key=lambda k: (first.get(k, DEPTH + 1), -weight[k], known[metrics[k]]))
    return LearntOrder(tuple(metrics[k] for k in ranked), len(label), int(label.sum()))


def _first_asked(feature: Any, left: Any, right: Any) -> dict[int, int]:
    """Return for each feature the depth at which the tree first asks for it."""
    depth_of: dict[int, int] = {}
    level, depth = [0], 0
    while level:
        for node in level:
            if feature[node] >= 0:
                depth_of.setdefault(int(feature[node]), depth)
        level = [child for node in level for child in (left[node], right[node]) if child >= 0]
        depth += 1
    return depth_of
