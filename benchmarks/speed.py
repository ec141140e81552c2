"""The paper's production job, 150 x 8 cells on 22 minipods: time to proof, ours against the literal MIP's.

Both run in this process, one after the other on the same clusters, so that the ratio does not depend on the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.instances import grid_job
from benchmarks.report import promises, section, table
from benchmarks.rows import watched
from scheduler.algorithm_run import run
from scheduler.outcome import Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from topology.cluster import Cluster
from topology.generate import fragment, paper_cluster

ROWS, COLUMNS = 150, 8
ALPHAS = (0.2, 0.5, 0.8)
BUSY_SHARE = 0.3
MEDIAN_SECONDS, P99_SECONDS = 0.1, 2.0
RATIO = 100.0


@dataclass(frozen=True, slots=True)
class Race:
    """Both algorithms on one cluster."""

    cluster_seed: int
    alpha: float
    exact: Outcome
    mip: Outcome

    @property
    def ratio(self) -> float:
        """Time of the MIP, to its proof or its limit, over ours."""
        return self.mip.proposal.solve_seconds / self.exact.proposal.solve_seconds


def production_cluster(seed: int) -> Cluster:
    """The paper's 22 minipods, 2,046 nodes, 30 % of them busy in a fragmented way."""
    return fragment(paper_cluster("9600"), BUSY_SHARE, seed)


def measure(clusters: int, *, seconds: float, mip_seconds: float) -> list[Race]:
    """Race on ``clusters`` seeded clusters at every affinity."""
    exact, mip = ALGORITHMS.load("exact"), ALGORITHMS.load("arnold-mip")
    run(exact, production_cluster(0), grid_job(ROWS, COLUMNS, alpha=0.5), Limits(seconds=seconds))  # imports solvers
    cases = [(seed, alpha) for seed in range(1, clusters + 1) for alpha in ALPHAS]
    races = []
    for seed, alpha in watched(cases, label="150x8", total=len(cases)):
        cluster, job = production_cluster(seed), grid_job(ROWS, COLUMNS, alpha=alpha)
        ours = run(exact, cluster, job, Limits(seconds=seconds))
        theirs = run(mip, cluster, job, Limits(seconds=mip_seconds))
        races.append(Race(seed, alpha, ours, theirs))
    return races


def report(races: Sequence[Race], *, mip_seconds: float) -> str:
    """Times, proofs and ratios."""
    seconds = [race.exact.proposal.solve_seconds for race in races]
    median, p99 = (float(np.quantile(seconds, q)) for q in (0.5, 0.99))
    ratio = float(np.median([race.ratio for race in races]))
    proved = sum(race.exact.status == "optimal" for race in races)
    lines = [
        [
            str(race.cluster_seed),
            str(race.alpha),
            _found(race.exact),
            race.exact.status,
            f"{race.exact.proposal.solve_seconds:.3f}",
            _found(race.mip),
            race.mip.status,
            f"{race.mip.proposal.solve_seconds:.1f}",
            f"{race.ratio:.0f}",
        ]
        for race in races
    ]
    header = ["cluster", "alpha", "exact (S, R)", "status", "s", "arnold-mip (S, R)", "status", "s", "ratio"]
    return section(
        f"150 x 8 cells on 22 fragmented minipods; the MIP may take {mip_seconds:g} s",
        table(header, lines),
        "The MIP's status is judged by Eq. 2: a proof about its own model is none about spread, so its time is that to "
        "the end of its own run.",
        promises(
            ("every placement proved", f"{proved} of {len(races)}", proved == len(races)),
            (f"median below {MEDIAN_SECONDS:g} s", f"{median:.3f} s", median < MEDIAN_SECONDS),
            (f"p99 below {P99_SECONDS:g} s", f"{p99:.2f} s", p99 < P99_SECONDS),
            (f"at least {RATIO:g} times faster than the MIP (median)", f"{ratio:.0f} times", ratio >= RATIO),
        ),
    )


def _found(outcome: Outcome) -> str:
    found = outcome.evaluation
    return f"({found.dp}, {found.pp}) {found.objective:.1f}" if found else "-"
