"""How many proofs the verifier recounts without a solver, and how long that takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from benchmarks.instances import FAMILIES, draw
from benchmarks.report import promises, section, table
from scheduler.algorithm_run import run
from scheduler.certificates.certificate_writer import certificate_of
from scheduler.outcome import Instance
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.verification.verdict import verify

SHARE = 0.95
SECONDS = 1.0  # Of the verifier, for each proof


@dataclass(frozen=True, slots=True)
class Recounted:
    """One answer, verified."""

    number: int
    family: str
    proved: bool
    verdict: str
    sentence: str
    kinds: tuple[str, ...]
    seconds: float  # Processor time of the verifier, without reading files


def measure(n: int, *, seed: int, seconds: float) -> list[Recounted]:
    """Place the first n instances of a seed, and verify what is said to prove each answer."""
    solver = ALGORITHMS.load("exact")
    rows = []
    for number in range(n):
        drawn = draw(number, seed=seed)
        cluster, job = drawn.cluster(), drawn.job()
        outcome = run(solver, cluster, job, Limits(seconds=seconds))
        certificate = certificate_of(Instance(cluster, job), outcome)
        begun = process_time()
        found = verify(certificate, cluster, job)
        taken = process_time() - begun
        kinds = tuple(one.by for one in found.checked)
        proved = outcome.status == "optimal"
        rows.append(Recounted(number, drawn.family, proved, found.verdict, found.sentence, kinds, taken))
    return rows


def report(rows: Sequence[Recounted], *, seed: int, seconds: float) -> str:
    """The proofs by family, the bounds of answers with a gap, and what was not verified."""
    groups = [(family, [one for one in rows if one.family == family and one.proved]) for family in FAMILIES]
    proofs = [one for one in rows if one.proved]
    gaps = [one for one in rows if not one.proved]
    lines = [(name, group) for name, group in [*groups, ("all proofs", proofs), ("gaps", gaps)] if group]
    verified = sum(one.verdict == "verified" and one.seconds < SECONDS for one in proofs) / len(proofs)
    wrong = sum(one.verdict == "not verified" for one in rows)
    left = [f"- {one.number} ({one.family}): {one.sentence}" for one in rows if one.verdict != "verified"]
    header = ["answers", "number", "verified", "share", "p50 s", "p99 s", "largest s"]
    return section(
        f"Certificates: {len(rows)} instances of seed {seed}, {seconds:g} s each",
        table(header, [_line(name, group) for name, group in lines]),
        promises(
            (f"at least {SHARE:.0%} of proofs verified without a solver in 1 s", f"{verified:.1%}", verified >= SHARE),
            ("no answer of the search refused", f"{wrong} of {len(rows)}", wrong == 0),
        ),
        "\n".join(left),
    )


def _line(name: str, rows: Sequence[Recounted]) -> list[str]:
    verified = sum(one.verdict == "verified" for one in rows)
    taken = [one.seconds for one in rows]
    quantiles = (*np.quantile(taken, (0.5, 0.99)), max(taken))
    return [name, str(len(rows)), str(verified), f"{verified / len(rows):.1%}", *(f"{one:.3f}" for one in quantiles)]
