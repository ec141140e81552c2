"""The cluster CSV: node, a column a level and second hierarchy, GPUs, use, slowdown; what else is said of any node."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC

from topology.cluster import Cluster
from topology.errors import InvalidTopology
from topology.flags import FAULTY, HEALTHY
from topology.readers.cluster_csv import ATTRIBUTES, CACHE, GPU_TYPE, NODE, SHARING, TAINTS, TIMES
from topology.taints import is_price
from topology.writers.types import Rendering, kept_out_otherwise, table_losses


class ClusterCsvWriter:
    """Writer of the cluster CSV.  A node without a domain of its own somewhere gets an empty cell."""

    name = "csv"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as CSV; no level may be called like one of the other columns."""
        for level in cluster.levels:
            if level.name in (NODE, *ATTRIBUTES):
                raise InvalidTopology(f"a level is called {level.name!r}, as a column of the CSV is", fix="rename it")
        every = (*cluster.levels, *cluster.second_levels)
        columns: list[Sequence[object]] = [level.own_names() for level in every]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        slowdowns = [_cell(slowdown) for slowdown in cluster.slowdown.tolist()]
        for node, flag in cluster.flags.items():
            if is_price(flag) and node in cluster.taints:
                slowdowns[node] = ""  # the taint says it
        for node in kept_out_otherwise(cluster):
            slowdowns[node] = _cell(FAULTY)
        columns += [cluster.gpus.tolist(), cluster.free_gpus.tolist(), slowdowns]
        timed = any(flag.since or flag.until for flag in cluster.flags.values())
        said = {GPU_TYPE: bool(cluster.nodes_of_type), SHARING: bool(cluster.sharing), CACHE: bool(cluster.cached)}
        said[TAINTS] = bool(cluster.taints)
        said |= dict.fromkeys(TIMES, timed)
        attributes = [name for name in ATTRIBUTES if said.get(name, True)]
        if timed:
            columns += [[_time(cluster, node, name) for node in range(len(cluster))] for name in TIMES]
        if GPU_TYPE in attributes:
            columns.append([cluster.gpu_types[of] for of in cluster.gpu_type_of.tolist()])
        if SHARING in attributes:
            columns.append([cluster.sharing.get(node, "") for node in range(len(cluster))])
        if CACHE in attributes:
            columns.append(
                [" ".join(image for image, on in cluster.cached.items() if node in on) for node in cluster.names]
            )
        if TAINTS in attributes:
            every_taint = (cluster.taints.get(node, ()) for node in range(len(cluster)))
            columns.append([" ".join(f"{taint}:{taint.effect}" for taint in of_node) for of_node in every_taint])
        writer.writerow([NODE, *(level.name for level in every), *attributes])
        writer.writerows(zip(cluster.names, *columns, strict=True))
        return Rendering(text.getvalue(), table_losses(cluster, self.name))


def _cell(slowdown: float) -> str:
    return "faulty" if slowdown == FAULTY else "" if slowdown == HEALTHY else repr(slowdown)


def _time(cluster: Cluster, node: int, name: str) -> str:
    time = getattr(cluster.flags[node], name) if node in cluster.flags else None
    return "" if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")
