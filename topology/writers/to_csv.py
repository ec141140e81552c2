"""The cluster CSV: node, a column per level, gpus, free_gpus, slowdown."""

from __future__ import annotations

import csv
import io

from topology.cluster import Cluster
from topology.errors import InvalidTopology
from topology.flags import FAULTY, HEALTHY
from topology.readers.cluster_csv import ATTRIBUTES, NODE
from topology.writers.types import Rendering, table_losses


class ClusterCsvWriter:
    """Writer of the cluster CSV.  A node without a domain at a level gets an empty cell."""

    name = "csv"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as CSV; no level may be called like one of the other columns."""
        for level in cluster.levels:
            if level.name in (NODE, *ATTRIBUTES):
                raise InvalidTopology(f"a level is called {level.name!r}, as a column of the CSV is", fix="rename it")
        columns = [level.own_names() for level in cluster.levels]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([NODE, *(level.name for level in cluster.levels), *ATTRIBUTES])
        slowdowns = (_cell(slowdown) for slowdown in cluster.slowdown.tolist())
        rows = zip(cluster.names, *columns, cluster.gpus.tolist(), cluster.free_gpus.tolist(), slowdowns, strict=True)
        writer.writerows(rows)
        return Rendering(text.getvalue(), table_losses(cluster, self.name))


def _cell(slowdown: float) -> str:
    return "faulty" if slowdown == FAULTY else "" if slowdown == HEALTHY else repr(slowdown)
