"""What `arnold slurm queue` and `explain` say of a look at Slurm."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from arnold.documents.slurm_answers import SlurmQueueDocument, job_document, print_job, print_queue, summaries
from tests.slurm.made_slurm import GRID, decided, job, looked, running

ORDER = ("n01", "n03", "n05", "n07")
PLANNED = f"arnold: {GRID}; DP spread 1, PP spread 2, objective 1.3, optimal"
LIVE = looked(
    job(1, state="RUNNING", nodes="n0[1,3,5,7]", comment=PLANNED, begin=None),
    job(2, count=8, comment="arnold: tp=2,dp=2,pp=4"),
    job(3, comment="arnold: $(reboot)\x1b[2J"),
    running(4, "n02", name="a\x1b[2Jb"),
)
ORDERS = {"1": ORDER}


def test_a_row_for_each_job() -> None:
    """Of a plan what it is worth, of a job that waits why, of one that was refused the reason; of others nothing."""
    one, two, three, four = summaries(LIVE, ORDERS, decided(LIVE, ORDERS))
    assert (one.plan, one.dp_spread, one.pp_spread, one.objective, one.proof) == ("running", 1, 2, 1.3, "optimal")
    assert (one.in_order, one.nodelist, one.grid) == (True, "n0[1,3,5,7]", GRID)
    assert (two.plan, two.dp_spread, "3 are free" in two.reason) == ("asked", None, True)
    assert (three.plan, "no grid" in three.reason) == ("refused", True)
    assert (four.plan, four.grid, four.in_order) == (None, None, None)
    other = looked(job(1, state="RUNNING", nodes="n[01-04]", comment=PLANNED, begin=None))
    assert summaries(other, ORDERS, decided(other, ORDERS))[0].in_order is False


def test_one_job_in_full() -> None:
    """The nodes that it could have, those that are free, and where each rank is."""
    decision = decided(LIVE, ORDERS)
    waiting = job_document(LIVE.by_number["2"], LIVE, ORDERS, decision)
    # of eight nodes four are the first job's and one is another's
    assert (waiting.could_have, waiting.free, waiting.ranks) == (8, 3, ())
    assert job_document(LIVE.by_number["1"], LIVE, ORDERS, decision).ranks == ORDER


def test_no_text_of_users_moves_the_cursor() -> None:
    """Names, comments and reasons are printed without control characters."""
    decision, out = decided(LIVE, ORDERS), StringIO()
    console = Console(file=out, width=200)
    print_queue(console, SlurmQueueDocument(tuple(summaries(LIVE, ORDERS, decision))))
    for number in LIVE.by_number:
        print_job(console, job_document(LIVE.by_number[number], LIVE, ORDERS, decision))
    assert "\x1b" not in out.getvalue()
    assert "n07" in out.getvalue()
