"""Clusters as they are found: domains that jobs have come to and left by a packing rule, and a published job.

A cluster of 256 to 16,384 GPUs has leaves of 8, 16 or 32 nodes of eight GPUs, or NVL72 racks of 18 nodes of four.  Jobs
come, the smaller the more often, stay for a time and go; each takes the tightest domain that holds it, a larger one the
roomiest domains and of the last the tightest.  At some load the question is asked: a job of a published setting, as
large as a part of the free nodes allows.

:func:`draw_question` draws the grid of a job on one level, for the ablation.  :func:`draw_case` draws whole jobs on
clusters of two or three levels, for ``python -m benchmarks realistic``: how much of what a job file asks is proved, on
the clock of counted work.  Question ``number`` of a seed is always the same, however many are drawn.
"""

import heapq
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Literal

import numpy as np

from benchmarks.instances import ALPHAS
from benchmarks.report import promises, section, table
from benchmarks.rows import watched
from ground.errors import InvalidJob
from scheduler.algorithm_run import run
from scheduler.job import Count, Family, Hold, Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from topology.build import build_cluster
from topology.cluster import Cluster, Node

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


Take = Callable[[list[int], int], list[tuple[int, int]]]
"""A packing rule: takes nodes from the free ones of each domain, and says how many of which: (domain, nodes)."""


def packed(domains: int, size: int, *, load: float, rng: random.Random, take: Take | None = None) -> list[int]:
    """Free nodes of each domain after jobs have come and gone, each placed by a rule, the tightest by default."""
    take = take or take_tightest
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


def take_tightest(free: list[int], wanted: int) -> list[tuple[int, int]]:
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


def take_first(free: list[int], wanted: int) -> list[tuple[int, int]]:
    """Take nodes of the first domains with any, in order: (domain, nodes)."""
    parts = []
    for domain, room in enumerate(free):
        if taken := min(wanted, room):
            free[domain] -= taken
            wanted -= taken
            parts.append((domain, taken))
    return parts


def take_scattered(free: list[int], wanted: int, rng: random.Random) -> list[tuple[int, int]]:
    """Take any free nodes, all as likely: (domain, nodes)."""
    nodes = [domain for domain, room in enumerate(free) for _ in range(room)]
    parts: dict[int, int] = {}
    for domain in rng.sample(nodes, wanted):
        parts[domain] = parts.get(domain, 0) + 1
        free[domain] -= 1
    return list(parts.items())


# Whole jobs, on clusters of two or three levels: what is proved of all that a job file asks.

Asked = Literal["as published", "fills", "soft", "held"]
"""What a row of the table asks, in the order of the rows: the setting on its own; as many replicas as take 93 to 100 %
of the free nodes; a soft term, or a hold, of its expert or context groups."""

ROWS: dict[Asked, str] = {
    "as published": "as published, default level",
    "fills": "as many replicas as fit in 93 to 100 % of the free nodes",
    "soft": "with a soft EP or CP term at leaf or rack",
    "held": "with EP or CP held in leaf, rack or pod",
}
WANTED: dict[Asked, float] = {"as published": 0.97, "fills": 0.88, "soft": 0.90, "held": 0.98}
"""Share of the questions of each row of which everything is to be proved."""
WANTED_SECONDS = {50: 0.02, 99: 4.0}  # Percentile -> processor seconds of the whole answer, of all questions

POD_DOMAINS = (4, 8, 16, 32)  # leaves or racks of a pod
LEAF_RACK_NODES = 4  # nodes of a rack, where a leaf has several: four of eight GPUs are what a rack is cooled for
BUSY = (0.05, 0.95)  # share of the nodes that jobs want on average
DRAINED = 0.03  # largest share of the nodes that are drained
SHARE = (0.02, 0.93)  # share of the free nodes that a job may take: drawn by its logarithm
FILLED = (0.93, 1.0)
WEIGHTS = (0.1, 0.3, 1.0)  # of soft terms

SETTINGS = {
    "GPT-3 175B": Parallelism(tp=8, pp=16),
    "Megatron-LM 76B": Parallelism(tp=8, pp=4),
    "Megatron-LM 310B": Parallelism(tp=8, pp=16),
    "Megatron-LM 1T": Parallelism(tp=8, pp=64),
    "MT-NLG 530B": Parallelism(tp=8, pp=35),
    "MegaScale 175B": Parallelism(tp=8, pp=8),
    "MegaScale 530B": Parallelism(tp=8, pp=35),
    "BLOOM 176B": Parallelism(tp=4, pp=12),
    "GLM-130B": Parallelism(tp=4, pp=8),
    "OPT-175B": Parallelism(tp=8, pp=1),
    "Falcon-180B": Parallelism(tp=8, pp=8),
    "Nemotron-4 340B": Parallelism(tp=8, pp=12),
    "Llama 2 70B": Parallelism(tp=8, pp=4),
    "Llama 3 70B, tuned": Parallelism(tp=8, pp=1),
    "Llama 3 8B, tuned": Parallelism(tp=1, pp=1),
    "Llama 3 405B": Parallelism(tp=8, pp=16),
    "Llama 3 405B, 128k tokens": Parallelism(tp=8, cp=16, pp=16),
    "Llama 3 70B, 32k tokens": Parallelism(tp=8, cp=4, pp=4),
    "DeepSeek-V3": Parallelism(ep=64, dp=64, pp=16),
    "DeepSeek-V2": Parallelism(ep=8, dp=8, pp=16),
    "Mixtral 8x7B": Parallelism(tp=2, ep=8, dp=8, pp=4),
    "Mixtral 8x22B": Parallelism(tp=4, ep=8, dp=8, pp=8),
    "Qwen3 235B-A22B": Parallelism(tp=4, ep=32, dp=32, pp=8),
    "Qwen3 30B-A3B": Parallelism(tp=2, ep=16, dp=16, pp=1),
}
"""Degrees of parallelism as published (the models' own papers, and NVIDIA's recipes for NeMo and Megatron Bridge), with
as many replicas as their expert groups take at least: ``dp`` is drawn."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question of a row."""

    number: int
    asked: Asked
    setting: str
    cluster: Cluster
    job: Job


def draw_case(number: int, asked: Asked, *, seed: int) -> Case:
    """One question of a row and a seed."""
    rng = random.Random(f"realistic {asked} {seed} {number}")
    grouped = asked in ("soft", "held")
    settings = {name: degrees for name, degrees in SETTINGS.items() if not grouped or degrees.cp * degrees.ep > 1}
    while True:
        cluster, node_gpus = draw_cluster(rng)
        name = rng.choice(list(settings))
        free = int(np.count_nonzero(cluster.idle))
        share = rng.uniform(*FILLED) if asked == "fills" else SHARE[0] * (SHARE[1] / SHARE[0]) ** rng.random()
        job = _job(settings[name], int(free * share) * node_gpus, node_gpus, rng.choice(ALPHAS))
        if job is None or (asked == "fills" and job.grid.cells * job.nodes_of_tp < FILLED[0] * free):
            continue
        if grouped:
            families: list[Family] = [family for family in ("ep", "cp") if job.grid.groups[family].largest > 1]
            if not families:
                continue
            level = rng.choice([level.name for level in cluster.levels if asked == "held" or level.name != "pod"])
            family = rng.choice(families)
            job = (
                job.replace(holds=(Hold(family, level),))
                if asked == "held"
                else job.replace(counts=(Count(family, level, rng.choice(WEIGHTS)),))
            )
        return Case(number, asked, name, cluster, job)


def _job(degrees: Parallelism, gpus: int, node_gpus: int, alpha: float) -> Job | None:
    """The largest job of a setting on so many GPUs that takes whole nodes, two at least; ``None`` = there is none."""
    replica = degrees.tp * degrees.cp * degrees.pp
    for replicas in range(gpus // replica, 0, -1):
        try:
            parallelism = Parallelism(tp=degrees.tp, cp=degrees.cp, ep=degrees.ep, dp=replicas, pp=degrees.pp)
            job = Job("job", parallelism, alpha=alpha, gpus_per_node=node_gpus)
            if job.grid.aligned and replicas * replica >= 2 * node_gpus:
                return job
        except InvalidJob:
            continue
    return None


def draw_cluster(rng: random.Random) -> tuple[Cluster, int]:
    """A cluster of pods of leaves or racks after a packing history, and the GPUs of its nodes."""
    gpus, size = rng.choice(GPUS), rng.choice((*LEAF_NODES, RACK_NODES))
    node_gpus = RACK_NODE_GPUS if size == RACK_NODES else NODE_GPUS
    domains = max(2, gpus // node_gpus // size)
    pod = rng.choice([count for count in POD_DOMAINS if count <= max(domains, POD_DOMAINS[0])])
    rules: tuple[Take, ...] = (take_tightest, take_first, lambda free, wanted: take_scattered(free, wanted, rng))
    free = packed(domains, size, load=rng.uniform(*BUSY), rng=rng, take=rng.choice(rules))
    drained = rng.uniform(0.0, DRAINED)
    nested = size > LEAF_RACK_NODES and size != RACK_NODES and rng.random() < 1 / 4
    names = ["pod", "leaf", "rack"] if nested else ["pod", "rack" if size == RACK_NODES else "leaf"]
    nodes: list[Node] = []
    for domain, room in enumerate(free):
        states = [node_gpus] * room + [0] * (size - room)
        rng.shuffle(states)
        for place, state in enumerate(states):
            path = [f"p{domain // pod}", f"l{domain}", f"r{domain}-{place // LEAF_RACK_NODES}"][: len(names)]
            nodes.append(Node(f"n{len(nodes)}", tuple(path), node_gpus, 0 if rng.random() < drained else state))
    return build_cluster(names, nodes), node_gpus


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of one question."""

    case: Case
    outcome: Outcome
    seconds: float  # of processor, for the whole answer

    @property
    def placed(self) -> bool:
        """Whether there is a placement."""
        return self.outcome.evaluation is not None

    @property
    def objective(self) -> bool:
        """Whether the objective is proved."""
        return self.outcome.status == "optimal"

    @property
    def closer(self) -> bool:
        """Whether Eq. 2 is proved at each closer level."""
        return all(spread.proved for spread in self.outcome.closer.values())

    @property
    def everything(self) -> bool:
        """Whether all goals of the job are proved."""
        return self.objective and (self.outcome.ep is None or self.outcome.ep.proved) and self.closer


def measure(rows: Collection[str], n: int, *, seed: int, seconds: float) -> list[Answered]:
    """Ask the first n questions of each row, on the clock of counted work."""
    exact, limits = ALGORITHMS.load("exact"), Limits(seconds=seconds, workers=1, clock="work")
    answers = []
    for asked in (row for row in ROWS if row in rows):
        cases = (draw_case(number, asked, seed=seed) for number in range(n))
        for case in watched(cases, label=asked, total=n):
            start = process_time()
            outcome = run(exact, case.cluster, case.job, limits)
            answers.append(Answered(case, outcome, process_time() - start))
    return answers


def report(answers: Sequence[Answered], *, seed: int, seconds: float) -> str:
    """The table of rows, what was promised, and what is left open."""
    lines, kept = [], []
    for asked, words in ROWS.items():
        placed = [answer for answer in answers if answer.case.asked == asked and answer.placed]
        if not placed:
            continue
        levels = [answer for answer in placed if answer.outcome.closer]
        share = sum(answer.everything for answer in placed) / len(placed)
        taken = np.percentile([answer.seconds for answer in placed], [50, 99, 100])
        lines.append(
            [
                words,
                len(placed),
                sum(answer.objective for answer in placed),
                f"{sum(answer.closer for answer in levels)} of {len(levels)}",
                f"{sum(answer.everything for answer in placed)} ({share:.1%})",
                " / ".join(f"{value:.2g}" for value in taken),
            ]
        )
        kept.append((f"{WANTED[asked]:.0%} {asked}", f"{share:.1%}", share >= WANTED[asked]))
    every = [answer.seconds for answer in answers if answer.placed]
    for percentile, most in WANTED_SECONDS.items():
        value = float(np.percentile(every, percentile))
        kept.append((f"p{percentile} at most {most:g} s of processor", f"{value:.3f}", value <= most))
    header = [
        "asked",
        "placed",
        "objective proved",
        "closer proved",
        "everything proved",
        "processor p50 / p99 / max, s",
    ]
    title = f"Realistic clusters, seed {seed}, {seconds:g} s of counted work"
    return section(title, table(header, lines), promises(*kept), _open(answers))


def _open(answers: Sequence[Answered]) -> str:
    """What is not proved: at the first goal of each question, with its gap."""
    header = [
        "asked",
        "number",
        "setting",
        "GPUs",
        "levels",
        "rows x columns",
        "free",
        "alpha",
        "pair",
        "open",
        "least",
        "bound",
        "processor, s",
    ]
    lines = []
    for answer in answers:
        outcome, job = answer.outcome, answer.case.job
        if not answer.placed or answer.everything:
            continue
        evaluation = outcome.evaluation
        assert evaluation is not None
        goal, value, bound = "objective", evaluation.objective, outcome.bound or 0.0
        if answer.objective and outcome.ep is not None and not outcome.ep.proved:
            goal, value, bound = "EP", float(outcome.ep.spread), outcome.proposal.expert_bound
        elif answer.objective:
            goal = next(name for name, spread in outcome.closer.items() if not spread.proved)
            value, bound = evaluation.closer[goal], max(1.0, outcome.proposal.closer_bounds.get(goal, 1.0))
        free = int(np.count_nonzero(answer.case.cluster.idle))
        lines.append(
            [
                answer.case.asked,
                answer.case.number,
                answer.case.setting,
                int(answer.case.cluster.gpus.sum()),
                " ".join(f"{level.name} {len(level)}" for level in answer.case.cluster.levels),
                f"{job.grid.rows}x{job.grid.columns}",
                free,
                job.alpha,
                f"({evaluation.dp}, {evaluation.pp})",
                goal,
                f"{value:g}",
                f"{bound:g}",
                f"{answer.seconds:.2f}",
            ]
        )
    return "Left open:\n\n" + table(header, lines) if lines else ""
