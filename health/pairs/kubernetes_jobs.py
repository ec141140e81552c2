"""The rounds as Jobs of Kubernetes: one for each node, which tests its pairs in the order of the rounds.

A Job holds all GPUs of its node and meets its partner of each round by the name of its pod, so that no test waits for
GPUs that another one holds.  What is run is PyTorch's own all_reduce: any image that has PyTorch and NCCL will do.
"""

import json
from collections import defaultdict
from collections.abc import Sequence

from health.pairs.measured import COLUMNS

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
    pairs_of: dict[str, list[str]] = defaultdict(list)
    for number, pairs in enumerate(rounds):  # both ends of a pair must meet at one port, whatever each did before
        for a, b in pairs:
            for node in (a, b):
                pairs_of[node].append(f"{number}:{a}:{b}")
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
