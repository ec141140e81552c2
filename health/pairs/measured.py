"""Bandwidths of pairs of nodes as a CSV, and what measures them: a batch script of Slurm, or Jobs of Kubernetes.

A Job tests the pairs of one node in the order of the rounds.  It holds all GPUs of its node and meets its partner of
each round by the name of its pod, so that no test waits for GPUs that another one holds.  What is run is PyTorch's own
all_reduce: any image that has PyTorch and NCCL will do.
"""

import json
from collections.abc import Sequence
from math import isfinite

from ground.files import Source
from ground.groups import grouped
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


NAME = "arnold-pairs"  # of the Service, the ConfigMap and the label of all pods
IMAGE = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"
HEAD = f"""\
# kubectl apply -f THIS-FILE; kubectl wait --for=condition=complete job -l app={NAME} --timeout=1h
# echo {",".join(COLUMNS)} > pairs.csv
# kubectl logs -l app={NAME} --tail=-1 --max-log-requests=1000 | sed -n 's/^pair,//p' >> pairs.csv
# kubectl delete -f THIS-FILE
# The image may be another with PyTorch; networks such as InfiniBand need their own resources.
"""
ROUNDS = f"""\
for test in $PAIRS; do
  port=$((29500 + ${{test%%:*}})); pair=${{test#*:}}
  a=${{pair%%:*}}; b=${{pair##*:}}; rank=0
  [ "$NODE" = "$b" ] && rank=1
  busbw=$(timeout 300 torchrun --nnodes 2 --nproc-per-node "$GPUS" --node-rank $rank --master-port $port \\
    --master-addr "$(echo "$a" | tr . -).{NAME}" /pairs/busbw.py)
  [ $rank = 1 ] || echo "pair,$a,$b,${{busbw:-0}}"
done
"""
BUSBW = """\
import os, time, torch

dist = torch.distributed
cuda = torch.cuda.is_available()
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
data, times = torch.ones((1 << 28) if cuda else (1 << 20), device=device), 20 if cuda else 3
for count in (5, times):
    begin = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(data)
    dist.barrier()
seconds, ranks = (time.perf_counter() - begin) / times, dist.get_world_size()
if dist.get_rank() == 0:
    print(f"{2 * (ranks - 1) / ranks * 4 * data.numel() / seconds / 1e9:.2f}")
dist.destroy_process_group()
"""


def pair_jobs(rounds: Sequence[Sequence[tuple[str, str]]], gpus: int) -> str:
    """Return a manifest, JSON below a comment, which is YAML."""
    # both ends of a pair must meet at one port, whatever each did before
    tests = ((number, pair) for number, pairs in enumerate(rounds) for pair in pairs)
    pairs_of = grouped((node, f"{number}:{a}:{b}") for number, (a, b) in tests for node in (a, b))
    labels = {"app": NAME}
    objects = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "labels": labels}}
        | {"spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "labels": labels}}
        | {"data": {"rounds.sh": ROUNDS, "busbw.py": BUSBW}},
        *(_job(number, node, pairs_of[node], gpus, labels) for number, node in enumerate(sorted(pairs_of))),
    ]
    return HEAD + json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=1) + "\n"


def _job(number: int, node: str, pairs: Sequence[str], gpus: int, labels: dict[str, str]) -> dict[str, object]:
    """Return the Job of one node."""
    env = {"NODE": node, "PAIRS": " ".join(pairs), "GPUS": str(gpus)}
    container = {
        "name": "pairs",
        "image": IMAGE,
        "command": ["/bin/sh", "/pairs/rounds.sh"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
        "volumeMounts": [{"name": "pairs", "mountPath": "/pairs"}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    pod = {
        "hostname": node.replace(".", "-"),
        "subdomain": NAME,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": required},
        "containers": [container],
        "volumes": [{"name": "pairs", "configMap": {"name": NAME}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{NAME}-{number}", "labels": labels},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
