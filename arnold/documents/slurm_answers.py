"""Answers about a live Slurm: of ``arnold slurm queue``, ``explain`` and ``check``."""

from typing import Any

from arnold.console.output import Console, plain, print_rows, print_sentences
from ground.quantities import decimal
from ground.records import Count, JsonRecord
from slurm.checks import SlurmCheck
from slurm.decide import Orders, SlurmDecision
from slurm.live import LiveSlurm, SlurmJob
from slurm.request import asked_in
from topology.node_names import fold_hostlist


class SlurmJobSummary(JsonRecord, kw_only=True):
    """A job of Slurm's, and its plan.  What belongs to a plan is null when there is none."""

    job: str
    """Its number."""
    partition: str
    """Partition that it goes to."""
    name: str
    """Its name."""
    user: str
    """Whose it is."""
    state: str
    """In the words of Slurm: PENDING, RUNNING, ..."""
    nodes: Count | None
    """Nodes that it has or asks for; null = from one number to another."""
    nodelist: str
    """Its nodes, or those that it is planned on, as a hostlist; empty = none yet."""
    grid: str | None
    """Degrees of parallelism that its comment asks a plan for; null = it asks for none."""
    plan: str | None
    """What serve sees in it: asked, planned, planned again, running, refused, ...; null as above."""
    dp_spread: Count | None
    """Largest number of domains of a DP group."""
    pp_spread: Count | None
    """Largest number of domains of a PP group."""
    objective: float | None
    """alpha * dp_spread + (1 - alpha) * pp_spread, plus soft constraints."""
    proof: str | None
    """optimal = proved; feasible = time ran out before."""
    in_order: bool | None
    """Whether the order of ranks that was written is of its nodes; null where it has no nodes or no order."""
    reason: str
    """Why it waits, or was refused: serve's reason, else Slurm's."""


class SlurmQueueDocument(JsonRecord):
    """What ``arnold slurm queue --json`` prints."""

    jobs: tuple[SlurmJobSummary, ...]
    """All jobs that wait or run, in the order of Slurm."""


class SlurmJobDocument(SlurmJobSummary, kw_only=True):
    """What ``arnold slurm explain --json`` prints."""

    ranks: tuple[str, ...]
    """Its nodes by rank, as planned; empty = no plan."""
    could_have: Count | None
    """Nodes that it could have if nothing were in use; null = it asks for no plan, or for what cannot be."""
    free: Count | None
    """Nodes that it could have now."""


class SlurmChecksDocument(JsonRecord):
    """What ``arnold slurm check --json`` prints."""

    checks: tuple[SlurmCheck, ...]
    """All that was looked at."""


def summaries(live: LiveSlurm, orders: Orders, decision: SlurmDecision) -> list[SlurmJobSummary]:
    """Return the jobs of a look, and what is decided of them."""
    return [SlurmJobSummary(**_summary(job, live, orders, decision)) for job in live.jobs]


def job_document(job: SlurmJob, live: LiveSlurm, orders: Orders, decision: SlurmDecision) -> SlurmJobDocument:
    """Return all about one job."""
    could_have = free = None
    if job.pending and decision.states.get(job.number) not in (None, "refused"):
        cluster = live.free_for(job)
        could_have = int(cluster.emptied().idle.sum())
        free = int((cluster.usable_gpus > 0).sum())
    ranks = () if job.number in decision.plans else orders.get(job.number, ())
    return SlurmJobDocument(**_summary(job, live, orders, decision), ranks=ranks, could_have=could_have, free=free)


def _summary(job: SlurmJob, live: LiveSlurm, orders: Orders, decision: SlurmDecision) -> dict[str, Any]:
    asked, order = asked_in(job.comment), orders.get(job.number)
    dp, pp, objective, proof = (asked and asked.told) or (None, None, None, None)
    nodes = live.nodes_of(job)
    reason = decision.reasons.get(job.number, job.reason if job.pending and job.reason != "None" else "")
    plan = decision.states.get(job.number)
    planned = fold_hostlist(order) if order and plan == "planned" and job.number not in decision.plans else ""
    if job.number in decision.plans:
        plan, reason = "asked", f"about to be planned: {decision.plans[job.number].verdict}"
    return {
        "job": job.number, "partition": job.partition, "name": job.name, "user": job.owner, "state": job.state,
        "nodes": job.count, "nodelist": job.nodes or job.required or planned,
        "grid": None if asked is None else asked.grid, "plan": plan,
        "dp_spread": dp, "pp_spread": pp, "objective": objective, "proof": proof,
        "in_order": None if order is None or not nodes else sorted(order) == sorted(nodes), "reason": reason,
    }  # fmt: skip


def print_queue(out: Console, document: SlurmQueueDocument) -> None:
    """Print a row for each job."""
    if not document.jobs:
        out.print("no jobs")
        return
    asked = ("job", "partition", "name", "user", "state", "nodes", "grid")
    headers = (*asked, "S", "R", "obj", "proof", "nodelist", "reason")
    rows = []
    for job in document.jobs:
        objective = None if job.objective is None else decimal(job.objective)
        state = job.state + (f" ({job.plan})" if job.plan not in (None, "running") else "")
        words = (job.job, job.partition, plain(job.name), job.user, state, job.nodes, job.grid and plain(job.grid))
        rows.append((*words, job.dp_spread, job.pp_spread, objective, job.proof, job.nodelist, plain(job.reason)))
    left = ("partition", "name", "user", "state", "grid", "proof", "nodelist", "reason")
    print_rows(out, headers, rows, title="Queue", left=left, spare=("nodelist", "name", "user", "partition"), gap=False)


def print_job(out: Console, job: SlurmJobDocument) -> None:
    """Print what is known of a job, and why it waits."""
    plan = f", {job.plan}" if job.plan else ""
    out.print(f"job {job.job} {plain(job.name)}: {job.state}{plan}", style="bold", highlight=False)
    if job.grid is None:
        out.print("asks for no plan: its comment does not begin with arnold:")
    else:
        out.print(f"{plain(job.grid)}: {job.nodes} nodes of the partition {job.partition}", highlight=False)
    if job.dp_spread is not None and job.objective is not None:
        spread = f"DP spread {job.dp_spread}, PP spread {job.pp_spread}"
        out.print(f"{spread}, objective {decimal(job.objective)}: {job.proof}", highlight=False)
    notes = [plain(job.reason)] if job.reason else []
    if job.could_have is not None:
        notes.append(f"{job.free} nodes are free for it, of {job.could_have} that it could have")
    if job.in_order is not None:
        notes.append(
            "its nodes are those of its order" if job.in_order else "it has other nodes: ranks are Slurm's own"
        )
    print_sentences(out, "Why", notes)
    print_rows(out, ("rank", "node"), list(enumerate(job.ranks)), title="Nodes by rank", left=("node",), most=16)


def print_checks(out: Console, document: SlurmChecksDocument) -> None:
    """Print a row for each check."""
    headers = ("what", "", "found", "line to add")
    rows = [
        (check.what, "ok" if check.ok else "add", plain(check.found), plain(check.fix)) for check in document.checks
    ]
    print_rows(out, headers, rows, title="Check", left=headers[1:], gap=False)
