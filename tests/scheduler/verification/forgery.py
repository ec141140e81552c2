"""Certificates changed on purpose, and what is true of a tiny question, by trying all placements."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scheduler.algorithm_run import run
from scheduler.certificates.certificate import Certificate, CertifiedPart, RefutedPair
from scheduler.certificates.certificate_writer import certificate_of
from scheduler.job import Job
from scheduler.objective import TOLERANCE, slowest_in_use, step_time, worth_of
from scheduler.outcome import Instance
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.witnesses import Multipliers, PatternPrices
from tests.scheduler.placement.exact.every_placement import least
from topology.cluster import Cluster

LIMITS = Limits(seconds=10.0, workers=1, clock="work")


def certified(cluster: Cluster, job: Job, algorithm: str = "exact") -> Certificate:
    """The certificate of what an algorithm answers, with time enough."""
    return certificate_of(Instance(cluster, job), run(ALGORITHMS.load(algorithm), cluster, job, LIMITS))


def is_true(certificate: Certificate, cluster: Cluster, job: Job) -> bool:
    """Whether what a certificate claims of a tiny question is so: every placement is tried.

    All nodes of a placement are of one type, and the job is as fast on each.
    """
    best = _least_objective(cluster, job)
    if certificate.status == "infeasible":
        return best is None
    names = [[cluster.index_of[name] for name in row] for row in certificate.nodes]
    worth = worth_of(cluster, job, np.array(names, dtype=np.int32))
    if worth is None or best is None or certificate.bound is None or certificate.objective is None:
        return False
    if worth.spread != certificate.spread or abs(worth.objective - certificate.objective) > TOLERANCE:
        return False
    slowest = np.inf if certificate.slowest is None else certificate.slowest
    if certificate.bound > (_least_objective(_up_to(cluster, slowest), job) or np.inf) + TOLERANCE:
        return False
    if certificate.status == "feasible":
        return True
    if job.avoid != "price":
        return worth.objective <= best + TOLERANCE
    # types are compared by the objective, the slow nodes among those of one type by the time of a step
    (kind,) = worth.gpu_types
    others = [_least_objective(cluster, job, one) for one in cluster.gpu_types if one != kind]
    if any(one is not None and one < worth.objective - TOLERANCE for one in others):
        return False
    own = step_time(job, objective=worth.objective, slowest=slowest_in_use(cluster, worth))
    slowdowns = np.unique(cluster.slowdown[np.isfinite(cluster.slowdown)]).tolist()
    alike = ((one, _least_objective(_up_to(cluster, one), job, kind)) for one in {1.0, *slowdowns})
    times = [step_time(job, objective=found, slowest=one) for one, found in alike if found is not None]
    return own <= min(times) + TOLERANCE


def _least_objective(cluster: Cluster, job: Job, *kinds: str) -> float | None:
    """The least objective on nodes of one of the types, any if none is named; ``None`` = nothing fits."""
    found = [
        goals[0]
        for one in kinds or cluster.gpu_types
        for trunk in _trunks(cluster)
        if (goals := least(trunk, job, gpu_type=one)) is not None
    ]
    return min(found, default=None)


def _trunks(cluster: Cluster) -> list[Cluster]:
    """The cluster once for each trunk, with all nodes of the others in use; itself where a job may lie anywhere."""
    if cluster.trunks is None:
        return [cluster]
    trunk_of = cluster.trunks.domain_of
    return [
        cluster.replace(free_gpus=np.where(trunk_of == k, cluster.free_gpus, 0).astype(np.int32))
        for k in range(len(cluster.trunks))
    ]


def _up_to(cluster: Cluster, slowest: float) -> Cluster:
    """The cluster with all nodes in use that are slower."""
    return cluster.replace(free_gpus=np.where(cluster.slowdown <= slowest, cluster.free_gpus, 0).astype(np.int32))


def changed(data: Any, chance: random.Random, nodes: list[str]) -> Any:
    """A document of which one number, name or list is another one."""
    document = copy.deepcopy(data)
    holder, key = chance.choice(list(_places(document)))
    value = holder[key]
    if isinstance(value, bool) or value is None:
        holder[key] = chance.choice([None, 0, 1, 1.3, "x"])
    elif isinstance(value, int | float):
        holder[key] = chance.choice([value + 1, value - 1, value * 2, value / 2, value + 0.1, 0, 1, None])
    elif isinstance(value, str):
        holder[key] = chance.choice([*nodes, "optimal", "feasible", "infeasible", "coverage", "product", "edges", ""])
    elif isinstance(value, list) and value:
        one = chance.randrange(len(value))
        match chance.randrange(3):
            case 0:
                del value[one]
            case 1:
                value.append(copy.deepcopy(value[one]))
            case _:
                other = chance.randrange(len(value))
                value[one], value[other] = value[other], value[one]
    else:
        holder[key] = None
    return document


ODD = (
    *(-1, 0, 1, 2, 3, 10**6, 2**31, 2**53, 2**62, 10**30, 10**400, 10**4000, 1.5, 1e-300, 1e308),
    *(float("inf"), float("nan"), True, None, "", "x", "\x1b[2J", "\ud800", "a" * 1000, [], {}, [[]], [1], {"a": 1}),
    *("optimal", "feasible", "infeasible", "edges", "product", "coverage", "rectangles", "components"),
    *("patterns", "shapes", "pieces", "skeleton"),
)
"""What stands where it should not: huge and odd numbers, other types, words of the format, what moves the cursor."""


def disfigured(data: Any, chance: random.Random) -> str:
    """The text of a document that anyone may have written: odd values, entries left out or written a hundred times, a
    key too many, and now and then cut off.
    """
    document = copy.deepcopy(data)
    for _ in range(chance.choice([1, 1, 2])):
        holder, key = chance.choice(list(_places(document)))
        value = holder[key]
        match chance.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.extend([copy.deepcopy(value)] * 100)
            case 1:
                holder["more"] = 1
            case _:
                holder[key] = copy.deepcopy(chance.choice(ODD))  # a list that stands in itself is no document
    text = json.dumps(document)
    return text[: chance.randrange(len(text))] if chance.random() < 0.1 else text


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document where something stands."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def boasted(certificate: Certificate, cluster: Cluster, job: Job, chance: random.Random) -> Certificate | None:
    """Some placement by chance, said to be best, or all that is; refuted pairs by chance beside the true ones.

    Everything else is right, so that the verdict hangs on the refutations.
    """
    free = np.flatnonzero(cluster.idle).tolist()
    cells = job.grid.rows, job.grid.columns
    if len(free) < job.grid.cells:
        return None
    nodes = np.array(chance.sample(free, job.grid.cells), dtype=np.int32).reshape(cells)
    if (worth := worth_of(cluster, job, nodes)) is None:
        return None
    named = tuple(tuple(cluster.names[i] for i in row) for row in nodes.tolist())
    bound = chance.choice([worth.objective, worth.objective - 0.1, worth.objective - 0.5])
    return replace(
        certificate,
        status="optimal" if bound == worth.objective else "feasible",
        slowest=None,
        nodes=named,
        spread=worth.spread,
        objective=worth.objective,
        bound=bound,
        parts=tuple(_boasted_part(part, chance) for part in certificate.parts),
    )


def _boasted_part(part: CertifiedPart, chance: random.Random) -> CertifiedPart:
    more = tuple(random_refutation(part.rows, part.columns, chance) for _ in range(chance.randint(0, 2)))
    return replace(part, refuted=(*part.refuted, *more))


def random_refutation(rows: int, columns: int, chance: random.Random) -> RefutedPair:
    """A refutation by chance: any pair of a grid, any kind, any multipliers."""
    by = chance.choice(["edges", "product", "coverage", "rectangles", "patterns", "skeleton"])
    numbers = random_prices(rows, columns, chance) if by == "patterns" else random_charges(chance)
    witness = numbers if chance.random() < 0.9 else None
    return RefutedPair(chance.randint(1, rows), chance.randint(1, columns), by, witness)


def random_charges(chance: random.Random) -> Multipliers:
    """Multipliers by chance."""
    return Multipliers(chance.randint(0, 9), chance.randint(0, 9), chance.randint(1, 6))


def random_prices(rows: int, columns: int, chance: random.Random) -> PatternPrices:
    """The same with weights of all widths and heights, light ones mostly."""
    charges = random_charges(chance)
    widths, heights = (tuple(chance.choice((0, 0, 1, 2, 5)) for _ in range(n)) for n in (columns, rows))
    return PatternPrices(charges.row, charges.column, widths, heights, charges.unit)
