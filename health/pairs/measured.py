"""Bandwidths of pairs of nodes as a CSV, and the script that measures them."""

from collections.abc import Sequence
from math import isfinite

from ground.files import Source
from ground.rows import BadRow, BadRows, CsvRows
from health.pairs.group_testing import Pair
from topology.cluster import Cluster
from topology.node_names import NodeNames, fold_hostlist

COLUMNS = ("node_a", "node_b", "busbw_gbs")


def read_pairs(source: Source, cluster: Cluster | None) -> list[Pair]:
    """Return the tests of a CSV; nothing of an empty one.

    :raises InvalidInput: a column is missing, or a row is no test of two nodes of the cluster.
    """
    if not source.text.strip():
        return []
    bad_rows = BadRows(lenient=None)
    table = CsvRows(source, bad_rows)
    a, b, bandwidth = table.need(*COLUMNS, format="pairs")

    spelled = None if cluster is None else NodeNames(cluster.index_of)

    def node(name: str) -> str:
        found = name if spelled is None or not name else spelled.find(name, where=source.name)
        if found is None:
            raise BadRow("unknown node", f"no node of the cluster is called {name!r:.60}", fix="correct the name")
        return found

    def pair_of(cells: list[str]) -> Pair:
        ends = node(cells[a].strip()), node(cells[b].strip())
        if not all(ends) or ends[0] == ends[1]:
            raise BadRow("no pair", "is no pair of two nodes")
        try:
            value = float(cells[bandwidth])
        except ValueError:
            value = -1.0
        if not (isfinite(value) and value >= 0):
            problem = f"busbw_gbs is {cells[bandwidth]!r:.40}"
            raise BadRow("no bandwidth", problem, fix="write GB/s, 0 for a failed test")
        return Pair(*ends, value)

    return [pair for _, pair in bad_rows.keep(iter(table), pair_of, source)]


def batch_script(rounds: Sequence[Sequence[tuple[str, str]]], gpus: int) -> str:
    """Return a batch script of Slurm: the rounds one after another, the pairs of one at once, a row of CSV for each."""
    names = sorted({name for pairs in rounds for pair in pairs for name in pair})
    lines = [
        "#!/bin/bash",
        f"#SBATCH --nodes={len(names)}",
        f"#SBATCH --nodelist={fold_hostlist(names)}",
        "#SBATCH --exclusive",
        f"#SBATCH --ntasks-per-node={gpus}",
        f"#SBATCH --gpus-per-node={gpus}",
        "# ALL_REDUCE_PERF and OUT may be set outside; the MPI build of nccl-tests is needed.",
        'OUT="${OUT:-pairs.csv}"',
        f'[ -s "$OUT" ] || echo {",".join(COLUMNS)} > "$OUT"',
        "test_pair() {",
        f'  busbw=$(srun --exact -N2 -n{2 * gpus} --ntasks-per-node={gpus} -w "$1,$2" '
        '"${ALL_REDUCE_PERF:-all_reduce_perf}" -b 1G -e 1G -g 1 -n 20 |',
        "    awk '/Avg bus bandwidth/ {print $NF}')",
        '  echo "$1,$2,${busbw:-0}" >> "$OUT"',
        "}",
    ]
    for number, pairs in enumerate(rounds, 1):
        lines += [f"# round {number}", *(f"test_pair {a} {b} &" for a, b in pairs), "wait"]
    return "\n".join(lines) + "\n"
