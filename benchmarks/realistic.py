"""Clusters as they are found: domains that jobs have come to and left by a packing rule, and a published job.

A cluster of 256 to 16,384 GPUs has leaves of 8, 16 or 32 nodes of eight GPUs, or NVL72 racks of 18 nodes of four.  Jobs
come, the smaller the more often, stay for a time and go; each takes the tightest domain that holds it, a larger one the
roomiest domains and of the last the tightest.  At some load the question is asked: a job of a published setting, as
large as a part of the free nodes allows.

Question ``number`` of a seed is always the same, however many are drawn.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

from benchmarks.instances import ALPHAS

GPUS = (256, 512, 1024, 2048, 4096, 8192, 16_384)
NODE_GPUS, RACK_NODE_GPUS = 8, 4
LEAF_NODES, RACK_NODES = (8, 16, 32), 18
SIZES = (1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 16, 16, 32, 64, 128)  # nodes of the jobs that come and go
ARRIVALS = 20  # jobs for each domain before the question is asked, several times what a cluster holds
LOADS = (0.3, 0.85)  # share of the nodes that jobs want on average: drawn, from the first to the second
USED = (0.3, 1.0)  # share of the free nodes that the job may take, drawn likewise

STAGES = {
    "Megatron-LM 39B": 2,
    "Megatron-LM 76B": 4,
    "Megatron-LM 146B": 8,
    "Megatron-LM 310B": 16,
    "MT-NLG 530B": 35,
    "Megatron-LM 1T": 64,
    "MegaScale 175B": 8,
    "BLOOM 176B": 12,
    "GLM-130B": 8,
    "OPT-175B": 1,
    "Falcon-180B": 8,
    "Nemotron-4 340B": 12,
    "Llama 3 405B": 16,
    "DeepSeek-V3": 16,
}
"""Pipeline stages as published with each model (Narayanan et al., SC 2021, table 1, for Megatron-LM; the models' own
papers); a stage of a replica takes one node here."""


@dataclass(frozen=True, slots=True)
class Question:
    """Free nodes of each domain, and a job of rows (PP groups) by columns (stages)."""

    gpus: int
    domain_nodes: int
    setting: str
    free: tuple[int, ...]
    rows: int
    columns: int
    alpha: float


def draw_question(number: int, *, seed: int) -> Question:
    """One question of a seed."""
    rng = random.Random(f"realistic {seed} {number}")
    while True:
        gpus, size = rng.choice(GPUS), rng.choice((*LEAF_NODES, RACK_NODES))
        per_node = RACK_NODE_GPUS if size == RACK_NODES else NODE_GPUS
        domains = max(2, gpus // per_node // size)
        free = packed(domains, size, load=rng.uniform(*LOADS), rng=rng)
        setting = rng.choice(list(STAGES))
        rows = int(sum(free) * rng.uniform(*USED)) // STAGES[setting]
        if rows >= 2:
            return Question(gpus, size, setting, tuple(free), rows, STAGES[setting], rng.choice(ALPHAS))


def packed(domains: int, size: int, *, load: float, rng: random.Random) -> list[int]:
    """Free nodes of each domain after jobs have come and gone."""
    free, nodes = [size] * domains, domains * size
    sizes = [job_nodes for job_nodes in SIZES if job_nodes <= nodes // 4]
    # the time between arrivals with which jobs want that share of the nodes, where each stays for a unit on average
    pause = sum(sizes) / len(sizes) / (load * nodes)
    running: list[tuple[float, int, list[tuple[int, int]]]] = []
    now = 0.0
    for number in range(ARRIVALS * domains):
        now += rng.expovariate(1 / pause)
        while running and running[0][0] <= now:
            for domain, taken in heapq.heappop(running)[2]:
                free[domain] += taken
        wanted = rng.choice(sizes)
        if wanted <= sum(free):
            # log-normal, a few long jobs among many short ones: exp(-0.5 + 1 / 2) = 1 on average
            heapq.heappush(running, (now + rng.lognormvariate(-0.5, 1.0), number, take(free, wanted)))
    return free


def take(free: list[int], wanted: int) -> list[tuple[int, int]]:
    """Take nodes of the tightest domain that holds all that is left, else all of the roomiest: (domain, nodes)."""
    parts = []
    while wanted:
        fits = [domain for domain, room in enumerate(free) if room >= wanted]
        domain = min(fits, key=free.__getitem__) if fits else max(range(len(free)), key=free.__getitem__)
        taken = min(wanted, free[domain])
        free[domain] -= taken
        wanted -= taken
        parts.append((domain, taken))
    return parts
