"""The mixed-integer program of the Arnold paper, Eq. 4-10 (arXiv 2509.15940).

A unit i is a PP group of L nodes, a bin j a minipod with ``free_j`` free nodes, G the number of units:

    min  alpha * sum_j y_j + beta * T
    sum_j s_ij <= T              for all i      no group touches more than T minipods
    sum_i n_ij <= free_j * y_j   for all j      room, and y_j says that minipod j is used
    sum_j n_ij  = L              for all i      every group is placed
    n_ij <= L * s_ij             for all i, j   s_ij says that group i touches minipod j

The paper counts a fraction p_ij of a unit; half a node does not exist, so this counts nodes, n_ij = L * p_ij, integer.
``sum_j y_j`` stands in for the DP spread of Eq. 2: equal to it when T = 1, else an upper bound of it.  The program's
bound is therefore about its own objective: a proposal carries it in its statistics and claims no lower bound of Eq. 2.

Cuts (valid, not in the paper): ``sum free_j * y_j >= G * L``; with a binary t1 and ``T >= 2 - t1``, ``sum
floor(free_j / L) * y_j >= G * t1``: T = 1 only if the minipods in use hold all groups whole.

After solving, contiguous ranks go to the nodes of one minipod: groups are ordered so that those in the same minipods
follow each other, and a group split across minipods is cut into runs of neighbouring stages.  The paper solves with
SCIP.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import Any, Literal

import numpy as np

from ground.errors import Infeasible
from scheduler.job import Job
from scheduler.placement.heuristic import Request
from scheduler.placement.types import Limits, Proposal
from scheduler.work_clock import clock, spend, stoppable, stopwatch, wall_left
from topology.cluster import Cluster, IntArray

Solver = Literal["scip", "highs"]

_NODES_PER_SECOND = 20.0  # Nodes of the search tree that count as a second of work, about as SCIP takes on 1,000 cells


@dataclass(frozen=True, slots=True)
class Program:
    """The numbers of one instance: G groups of length L, and the free nodes of each minipod, shape [minipods]."""

    free: IntArray
    groups: int
    length: int
    alpha: float
    beta: float

    @property
    def weights(self) -> tuple[float, float]:
        """Weights of ``sum y`` and T, both positive.

        With alpha or beta at 0 the program leaves that term free to drift; a weight too small to be worth one unit of
        the other makes it the second criterion.
        """
        small = 1.0 / (1 + len(self.free) + self.length)
        return max(self.alpha, small * self.beta), max(self.beta, small * self.alpha)


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver found, with objective and bound in the program's own terms, and wall time of model and solver."""

    counts: IntArray | None  # shape [groups, minipods], nodes of each group in each minipod; `None` = nothing in time
    objective: float
    bound: float
    proved: bool
    seconds: float

    @property
    def statistics(self) -> dict[str, float]:
        """The numbers that are known, by name."""
        values = {
            "mip_objective": self.objective,
            "mip_bound": self.bound,
            "mip_proved": float(self.proved),
            "mip_seconds": self.seconds,
        }
        return {key: value for key, value in values.items() if np.isfinite(value)}

    def note(self, solver: Solver) -> str:
        """Return the answer in a sentence."""
        name = {"scip": "SCIP", "highs": "HiGHS"}[solver]
        own = "its own objective (alpha * domains used + beta * most domains of a PP group)"
        if self.counts is None:
            return f"{name} found no placement in {self.seconds:.1f} s"
        if self.proved:
            result = f"proved {own} to be {self.objective:g} in {self.seconds:.2f} s"
        else:
            result = f"stopped after {self.seconds:.1f} s with {own} between {self.bound:g} and {self.objective:g}"
        return f"{name} {result}; that is no bound on Eq. 2"


def solve(program: Program, *, solver: Solver, cuts: bool, seconds: float, seed: int) -> Solution:
    """Solve the program with OR-Tools; the wall-clock limit is for building the model too."""
    from ortools.math_opt.python import mathopt
    from ortools.util.python.solve_interrupter import SolveInterrupter

    start, started = clock(), stopwatch()
    built = _build(mathopt, program, cuts=cuts, deadline=start + seconds)
    left = start + seconds - clock()
    if built is None or left <= 0:
        return Solution(None, np.inf, 0.0, False, stopwatch() - started)
    model, counts = built
    # one thread, the only way to the same answer twice
    if solver == "scip":
        which, parameters = mathopt.SolverType.GSCIP, mathopt.SolveParameters(threads=1)
    else:
        from ortools.math_opt.solvers.highs_pb2 import HighsOptionsProto

        serial = HighsOptionsProto(string_options={"parallel": "off"})
        which, parameters = mathopt.SolverType.HIGHS, mathopt.SolveParameters(highs=serial)
    if (wall := wall_left(left)) < np.inf:
        # published results of the program are by the wall's clock: it decides, and is said to
        parameters.time_limit = timedelta(seconds=min(left, wall))
    else:
        parameters.node_limit = max(1, int(_NODES_PER_SECOND * left))
    parameters.random_seed = seed
    interrupter = SolveInterrupter()
    with stoppable(interrupter.interrupt), without_events_of_scip():
        result = mathopt.solve(model, which, params=parameters, interrupter=interrupter)
    spend(result.solve_stats.node_count / _NODES_PER_SECOND)
    proved = result.termination.reason == mathopt.TerminationReason.OPTIMAL
    bound = float(result.best_objective_bound())
    if not result.has_primal_feasible_solution():
        return Solution(None, np.inf, bound, False, stopwatch() - started)
    values = result.variable_values([variable for row in counts for variable in row])
    nodes = np.rint(values).astype(np.int32).reshape(len(counts), -1)
    # the objective from the counts alone
    wide, deep = program.weights
    worth = wide * int((nodes.sum(axis=0) > 0).sum()) + deep * int((nodes > 0).sum(axis=1).max())
    return Solution(nodes, worth, bound, proved, stopwatch() - started)


@contextmanager
def without_events_of_scip() -> Iterator[None]:
    """Keep off stderr that SCIP knows not all events of which OR-Tools' interrupter wants to hear: it heeds it all the
    same.  What is said meanwhile by others is said at the end.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            said.seek(0)
            rest = [line for line in said if not line.startswith((b"[scip_event.c", b"[gscip_event_handler.cc"))]
            with suppress(OSError):
                os.write(2, b"".join(rest))


def _build(mathopt: Any, program: Program, *, cuts: bool, deadline: float) -> tuple[Any, list[list[Any]]] | None:
    """Build the model and its variables n_ij; ``None`` when the deadline passed meanwhile."""
    free = [int(nodes) for nodes in program.free]
    length = program.length
    model = mathopt.Model(name="arnold")
    used = [model.add_binary_variable(name=f"y{j}") for j in range(len(free))]
    widest = model.add_integer_variable(lb=1, ub=min(length, len(free)), name="T")
    counts: list[list[Any]] = []
    for i in range(program.groups):
        if clock() > deadline:
            return None
        nodes = [
            model.add_integer_variable(lb=0, ub=min(length, room), name=f"n{i}_{j}") for j, room in enumerate(free)
        ]
        touches = [model.add_binary_variable(name=f"s{i}_{j}") for j in range(len(free))]
        # no group touches more than T minipods, every group is placed, and nodes lie only where it touches
        model.add_linear_constraint(mathopt.fast_sum(touches) <= widest)
        model.add_linear_constraint(mathopt.fast_sum(nodes) == length)
        for count, touch in zip(nodes, touches, strict=True):
            model.add_linear_constraint(count <= length * touch)
        counts.append(nodes)
    for j, room in enumerate(free):
        # room, and only in minipods that are in use
        model.add_linear_constraint(mathopt.fast_sum([row[j] for row in counts]) <= room * used[j])
    if cuts:
        # the minipods in use hold all nodes; with T = 1 (t1 is true) they hold all groups whole
        whole = model.add_binary_variable(name="t1")
        in_use = list(zip(free, used, strict=True))
        nodes_held = mathopt.fast_sum([room * y for room, y in in_use])
        groups_held = mathopt.fast_sum([room // length * y for room, y in in_use])
        model.add_linear_constraint(nodes_held >= program.groups * length)
        model.add_linear_constraint(widest >= 2 - whole)
        model.add_linear_constraint(groups_held >= program.groups * whole)
    wide, deep = program.weights
    model.minimize(wide * mathopt.fast_sum(used) + deep * widest)
    return model, counts


@dataclass(frozen=True, slots=True)
class ArnoldMip:
    """The paper's mixed-integer program through OR-Tools, if wanted with the cuts that help to prove its optimum."""

    name: str
    summary: str
    solver: Solver = "scip"
    cuts: bool = False

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Solve within the time limit (building the model included), then hand out nodes."""
        started = stopwatch()
        try:
            request = Request.of(cluster, job, limits)
        except Infeasible as refusal:
            return Proposal(None, infeasible=refusal.message, solve_seconds=stopwatch() - started)
        pools = [pool for pool in request.pools if len(pool)]
        free = np.array([len(pool) for pool in pools], dtype=np.int32)
        program = Program(free, groups=job.grid.rows, length=job.grid.columns, alpha=job.alpha, beta=job.beta)
        limits.say(f"{self.name}: {program.groups} groups on {len(free)} domains")
        solution = solve(program, solver=self.solver, cuts=self.cuts, seconds=limits.seconds, seed=limits.seed)
        nodes = None if solution.counts is None else hand_out(solution.counts, pools, job.grid.node_rank)
        return Proposal(
            nodes,
            complete=solution.proved,
            solve_seconds=stopwatch() - started,
            notes=(solution.note(self.solver),),
            statistics=solution.statistics,
        )


def hand_out(counts: IntArray, pools: list[IntArray], ranks: IntArray) -> IntArray:
    """Hand the nodes of each pool, in the order of ranks within it, to every cell; return shape [rows, columns].

    :param counts: shape [rows, domains], nodes of each PP group in each domain.
    """
    alike = np.lexsort(tuple(-counts[:, k] for k in reversed(range(counts.shape[1]))))
    domains = np.arange(counts.shape[1])
    domain_of = np.array([np.repeat(domains, counts[row]) for row in alike])
    nodes = np.empty(ranks.shape, dtype=np.int32)
    for k, pool in enumerate(pools):
        cells = np.flatnonzero(domain_of == k)
        nodes.ravel()[cells[np.argsort(ranks.ravel()[cells])]] = pool[: len(cells)]
    return nodes


arnold_mip = partial(ArnoldMip, "arnold-mip", "the Arnold paper's MIP (Eq. 4-10), solved by SCIP")
arnold_mip_highs = partial(
    ArnoldMip, "arnold-mip-highs", "the Arnold paper's MIP (Eq. 4-10), solved by HiGHS", solver="highs"
)
arnold_mip_cuts = partial(
    ArnoldMip, "arnold-mip-cuts", "the Arnold paper's MIP with three valid cuts, solved by SCIP", cuts=True
)
