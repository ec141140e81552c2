"""``arnold verify``: whether a certificate proves the answer that it is of."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from arnold.console.output import BAD, GOOD, SO_SO, Console, answer, plain, print_sentences, progress
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE
from arnold.options.job_options import PlacementInputs, placement_inputs
from ground.files import read_source
from ground.quantities import decimal, plural

if TYPE_CHECKING:
    from scheduler.verification.refutations import Told
    from scheduler.verification.verdict import Verdict, Verification

EXIT_CODES: dict[Verdict, int] = {"verified": 0, "not verified": 5, "cannot be told": 4}
STYLES: dict[Verdict, str] = {"verified": GOOD, "not verified": BAD, "cannot be told": SO_SO}
TOLD: dict[Told, str] = {"holds": "recounted", "fails": "wrong", "not told": "left open"}
MOST_BYTES = 64 * 2**20  # Of a certificate; one of 100,000 nodes has some 2 MB


@click.command("verify", cls=JsonCommand, document="scheduler.verification.verdict:Verification")
@click.argument("certificate", type=FILE)
@placement_inputs
@click.option(
    "--solver", is_flag=True, help="Ask a solver where arithmetic cannot tell, for --time-limit at each pair."
)
def command(*, certificate: str, solver: bool, inputs: PlacementInputs) -> int:
    """Check a CERTIFICATE of `arnold place` against the cluster and the job, without a search.

    The placement is evaluated, capacities are counted anew, and every refuted pair is recounted in whole numbers. Give
    the options that `arnold place` was given. Exits 5 if a claim is wrong or not shown, 4 if it cannot be told.

    $ arnold place  --cluster cluster.csv --job job.yaml --certificate proof.json
    $ arnold verify proof.json --cluster cluster.csv --job job.yaml
    $ arnold verify proof.json --cluster cluster.csv --job job.yaml --solver --time-limit 60 --json
    """
    from ground.documents import load_document
    from scheduler.certificates.certificate import Certificate
    from scheduler.verification.cell_program import solver_check
    from scheduler.verification.verdict import verify

    claimed = load_document(read_source(certificate, max_bytes=MOST_BYTES)).parse(Certificate)
    instance = inputs.read()
    limits = inputs.limits
    solve = solver_check(seconds=limits.seconds, seed=limits.seed, workers=limits.workers) if solver else None
    with progress(f"Verifying {plain(claimed.job)}"):
        verification = verify(claimed, instance.cluster, instance.job, solve=solve)
    answer(verification, print_verification)
    return EXIT_CODES[verification.verdict]


def print_verification(out: Console, verification: Verification) -> None:
    """Print what was recounted, what is wrong, what is left open, and the verdict."""
    if verification.objective is not None and verification.bound is not None:
        out.print(
            f"{plain(verification.job)}: objective {decimal(verification.objective)} by the evaluator, "
            f"nothing costs less than {decimal(verification.bound)} by what was recounted"
        )
    print_sentences(out, "Claims", [claim.sentence for claim in verification.claims])
    counted = Counter(pair.told for pair in verification.checked)
    counts = ", ".join(f"{count:,} {TOLD[word]}" for word, count in counted.items())
    title = f"{plural(len(verification.checked), 'refuted pair')}, {counts}, in {verification.seconds:.2f} s"
    print_sentences(out, title, [pair.line for pair in verification.checked])
    print_sentences(out, "What is wrong", verification.faults)
    print_sentences(out, "What it does not show", verification.untold)
    out.print()
    out.print(plain(verification.sentence), style=STYLES[verification.verdict])
