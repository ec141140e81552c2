"""Jobs that run, read from what Slurm prints and from a file of one's own."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ground.errors import InvalidInput
from ground.files import Source, read_source
from ground.formats import recognise
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.load import load_topology
from topology.running_jobs import RUNNING_READERS, LiveJob, read_running, with_running

NOW = datetime(2026, 11, 28, 16, 0, tzinfo=UTC)


def cluster_of(count: int = 8) -> Cluster:
    """Return nodes n1, n2, ... of 8 free GPUs in one rack."""
    return build_cluster(["rack"], [Node(f"n{i + 1}", ("r",), 8, 8) for i in range(count)])


def read(text: str, cluster: Cluster | None = None) -> tuple[LiveJob, ...]:
    """Return the jobs of a text, on eight nodes unless said."""
    return read_running([Source("jobs", text)], cluster or cluster_of(), now=NOW).running


SCONTROL = (
    "JobId=7 JobName=llm UserId=ann(1000) Account=lab Priority=12 JobState=RUNNING RunTime=01:00:00 TimeLimit=02:00:00 "
    "StartTime=2026-11-28T15:00:00 EndTime=2026-11-28T17:00:00 NodeList=n[1-2] AllocTRES=cpu=4,node=2,gres/gpu=8\n"
    "JobId=8 JobName=w UserId=ann(1000) JobState=PENDING NodeList= TimeLimit=UNLIMITED\n"
    "JobId=10 ArrayJobId=9 ArrayTaskId=1 JobName=sweep UserId=bob(2) Account=(null) Priority=1 JobState=COMPLETING "
    "TimeLimit=UNLIMITED StartTime=2026-11-28T15:30:00 NodeList=n3 JOB_GRES=gpu:h100:8\n"
)


def test_scontrol_says_all_but_who_may_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 GPUs on 2 nodes are 4 on each; a limit of two hours is the latest end; what waits holds nothing."""
    monkeypatch.setenv("TZ", "UTC")
    llm, sweep = read(SCONTROL)
    start = datetime.fromisoformat("2026-11-28T15:00:00").timestamp()
    assert (llm.name, llm.nodes, llm.gpus, llm.owner, llm.group, llm.priority) == (
        "7 llm",
        ("n1", "n2"),
        4,
        "ann",
        "lab",
        12.0,
    )
    assert (llm.started, llm.ends, llm.ends_by, llm.preemptible) == (start, start + 7200, "time limit", False)
    assert (sweep.name, sweep.gpus, sweep.ends, sweep.ends_by) == ("9_1 sweep", 8, None, "")


def test_a_slurm_without_jobs() -> None:
    """Where none runs or waits, ``scontrol show jobs`` says so in a line, and no job holds a node."""
    assert read("No jobs in the system\n") == ()


@pytest.mark.parametrize(
    ("gres", "each"),
    [
        ("JOB_GRES=gpu:a:4,gpu:b:4", 4),  # of all types together
        ("AllocTRES=cpu=1,gres/gpu=8,gres/gpu:a=8,node=2", 4),  # the sum stands beside the types
        ("AllocTRES=gres/gpu:a=4,gres/gpu:b=4", 4),
        ("AllocTRES=cpu=1,node=2 JOB_GRES=gpu:16", 8),  # accounting says none, the job does
        ("AllocTRES=gres/gpu=3", None),  # not as many on both
        ("JOB_GRES=gpu:1g.10gb:4", None),  # slices are no GPUs
        ("", None),
    ],
)
def test_gpus_of_a_job_in_every_form(gres: str, each: int | None) -> None:
    """On two nodes; where they are not said as GPUs, all of the nodes are taken."""
    (job,) = read(f"JobId=1 JobName=a JobState=RUNNING NodeList=n[1-2] {gres}\n")
    assert job.gpus == each


def test_a_large_job_has_more_gpus_than_any_node() -> None:
    """9,600 on 1,200 nodes are 8 on each."""
    text = "JobId=1 JobName=a JobState=RUNNING NodeList=n[1-1200] AllocTRES=gres/gpu=9600\n"
    assert read(text, cluster_of(1200))[0].gpus == 8


def test_squeue_says_how_long_and_where() -> None:
    """A name with blanks; 1-02:00:03 before now it began; without a column for the limit no end is known."""
    table = (
        "   JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n"
        "  12+0 main a big job ann R 1-02:00:03 2 n[4-5]\n"
        "    13 main waits ann PD 0:00 2 (Resources)\n"
    )
    (job,) = read(table)
    assert (job.name, job.nodes, job.owner, job.gpus, job.ends) == ("12+0 a big job", ("n4", "n5"), "ann", None, None)
    assert job.started == NOW.timestamp() - (26 * 3600 + 3)


def test_sacct_lists_allocations_that_run() -> None:
    """Steps, what has ended and what waits are passed over; 8 GPUs of one node."""
    table = (
        "JobID|JobName|User|Account|Priority|Start|Timelimit|State|AllocTRES|NodeList\n"
        "3|train|ann|lab|5|2026-11-28T15:00:00|1-00:00:00|RUNNING|cpu=1,gres/gpu=8,node=1|n6\n"
        "3.batch|batch||lab||2026-11-28T15:00:00||RUNNING|cpu=1|n6\n"
        "2|old|ann|lab|5|2026-11-27T15:00:00|1-00:00:00|COMPLETED|gres/gpu=8|n7\n"
        "4|new|ann|lab|5|Unknown|1-00:00:00|PENDING||None assigned\n"
    )
    (job,) = read(table)
    assert (job.name, job.gpus, job.group, job.ends_by) == ("3 train", 8, "lab", "time limit")


OWN = """\
jobs:
- {name: a, nodes: "n[1-2]", preemptible: true, started: 2026-11-28T10:00:00Z, ends: 2026-11-28T20:00:00Z}
- name: b
  nodes: [n4, n3]
  gpus: 4
  owner: ann
  priority: 3
  last_checkpoint: 2026-11-28T17:00:00+02:00
"""


def test_a_file_of_ones_own() -> None:
    """All but the name and the nodes is optional; a list of nodes is in the order of ranks."""
    a, b = read(OWN)
    assert (a.nodes, a.gpus, a.preemptible, a.ends_by, a.ranked) == (("n1", "n2"), None, True, "said", False)
    assert (b.nodes, b.gpus, b.owner, b.priority, b.preemptible, b.ranked) == (("n4", "n3"), 4, "ann", 3.0, False, True)
    # a has two nodes of 8 GPUs since six hours, b two of 4 since its checkpoint an hour ago
    assert a.lost_gpu_hours(cluster_of(), NOW.timestamp()) == 96.0
    assert b.lost_gpu_hours(cluster_of(), NOW.timestamp()) == 8.0


def test_what_a_job_loses_is_not_known_without_a_time() -> None:
    """Neither start nor checkpoint: not zero."""
    (job,) = read("jobs: [{name: a, nodes: n1}]")
    assert job.lost_gpu_hours(cluster_of(), NOW.timestamp()) is None


def test_gpus_of_jobs_are_in_use_whatever_the_cluster_shows() -> None:
    """n1 to n4 by jobs a and b; n8 is in use by none that is known, which is said."""
    cluster = cluster_of().with_busy([7])
    jobs = read(OWN, cluster)
    laid, notes = with_running(cluster, jobs)
    assert laid.free_gpus.tolist() == [0, 0, 4, 4, 8, 8, 8, 0]
    assert len(notes) == 1
    assert says(notes[0], "n8")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("jobs: [{name: a, nodes: n1}, {name: a, nodes: n2}]", ("'a'",)),
        ("jobs: [{name: a, nodes: n1}, {name: b, nodes: n1}]", ("'b'", "'n1'", "'a'", "gpus")),
        ("jobs: [{name: a, nodes: n1, gpus: 9}]", ("9 GPUs", "'n1'")),
        ("jobs: [{name: a, nodes: 'n1,x1'}]", ("'a'", "x1")),
        ("jobs: [{name: a, nodes: x1}]", ("'a'", "x1")),
        ("jobs: [{name: a, nodes: 'n[1-2]', gpus: [4]}]", ("'a'", "2 nodes", "1")),
        ("jobs: [{name: a, nodes: n1, last_checkpoint: 2026-11-28T17:00:00Z}]", ("'a'", "checkpoint", "--at", "TZ")),
        ("waiting: [{name: a, nodes: 1, submitted: 2026-11-28T17:00:00Z}]", ("'a'", "submitted", "--at")),
        ("jobs: [{name: a, nodes: []}]", ("'a'",)),
        ("jobs: [{name: a, nodes: [n1, n1]}]", ("'a'",)),
        ("jobs: [{name: a, nodes: n1, ends: 2026-11-28T15:00:00Z}]", ("'a'", "--at")),
        ("jobs: [{name: a, nodes: n1, started: 2026-11-28T21:00:00Z, ends: 2026-11-28T20:00:00Z}]", ("'a'",)),
        ("jobs: [{name: a, nodes: n1, ends: 2026-11-28T20:00:00}]", ("ends",)),
        ("jobs: [{name: a, nodes: n1, ends: 9999-12-31T23:59:59-08:00}]", ("ends", "9999")),
        ("jobs: [{name: a, nodes: n1, colour: red}]", ("colour",)),
        ("JOBID NAME NODELIST(REASON)\n1 a\n", ("2 columns", "3")),
        # the answer of several jobs, each of which has a placement; no option names the format
        (
            '{\n"status": "optimal",\n"proved_to": "all",\n"jobs": {"a": {"spread": null, "assignment": []}}}',
            ("placement",),
        ),
        ("node,rack\nn1,r1\n", ("no format", "placement, pods")),
    ],
)
def test_what_cannot_be(text: str, facts: tuple[str, ...]) -> None:
    """Each is refused with its place and what to do."""
    with pytest.raises(InvalidInput) as error:
        read(text)
    assert says(f"{error.value.message} {error.value.fix}", *facts)
    assert error.value.where.startswith("jobs")
    assert error.value.fix
    assert "--format" not in error.value.fix


def test_jobs_of_another_cluster_are_left_out_and_said() -> None:
    """Slurm lists jobs on CPU nodes, too."""
    squeue = "JOBID NAME NODELIST(REASON) ST\n1 cpu c1 R\n"
    jobs = read_running([Source("jobs", squeue)], cluster_of(), now=NOW)
    assert jobs.running == ()
    assert says(jobs.notes[0], "cpu")


def test_jobs_that_wait_come_by_priority_then_age() -> None:
    """8 GPUs on each of 2 nodes, 4 on each of 4; the older of two equals first; one that is held is passed over and
    said; of an array each task.
    """
    slurm = (
        "JobId=1 JobName=late JobState=PENDING Reason=Priority Priority=5 SubmitTime=2026-11-28T15:00:00 NumNodes=2-2 "
        "ReqTRES=gres/gpu=16 TimeLimit=01:00:00\n"
        "JobId=2 JobName=high JobState=PENDING Reason=Resources Priority=9 SubmitTime=2026-11-28T15:30:00 NumNodes=4 "
        "TresPerNode=gres/gpu:4\n"
        "JobId=3 JobName=early JobState=PENDING Reason=Priority Priority=5 SubmitTime=2026-11-28T14:00:00 NumNodes=1\n"
        "JobId=4 JobName=held JobState=PENDING Reason=JobHeldUser Priority=0 NumNodes=1\n"
    )
    jobs = read_running([Source("jobs", slurm)], cluster_of(), now=NOW)
    assert [(job.name, job.wanted, job.gpus, job.seconds) for job in jobs.waiting] == [
        ("2 high", 4, 4, None),
        ("3 early", 1, None, None),
        ("1 late", 2, 8, 3600.0),
    ]
    assert says(" ".join(jobs.notes), "4 held", "JobHeldUser")
    squeue = (
        "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n15_[1-2,5%2] main sweep ann PD 0:00 2 (Priority)\n"
    )
    waiting = read_running([Source("jobs", squeue)], cluster_of(), now=NOW).waiting
    assert [(job.name, job.wanted) for job in waiting] == [(f"15_{task} sweep", 2) for task in (1, 2, 5)]
    own = "waiting: [{name: a, nodes: 3, gpus: 4, hours: 2}]"
    (job,) = read_running([Source("jobs", own)], cluster_of(), now=NOW).waiting
    assert (job.wanted, job.gpus, job.seconds) == (3, 4, 7200.0)


def test_a_job_that_asks_for_no_gpu_waits_for_no_nodes_of_them() -> None:
    """It is said and not counted, where Slurm says all that it asks and that it shares its nodes: a job that has nodes
    alone (--exclusive) gets their GPUs too, one of a share of a GPU needs one, and no list of resources says nothing.
    """
    pending = "JobState=PENDING Reason=Priority NumNodes=2"
    cpus = "ReqTRES=cpu=2,mem=2000M,node=2,billing=2"
    slurm = (
        f"JobId=1 JobName=prep {pending} {cpus} OverSubscribe=OK\n"
        f"JobId=2 JobName=later {pending} {cpus} OverSubscribe=NO Exclusive=NO\n"
        f"JobId=3 JobName=alone {pending} {cpus} OverSubscribe=NO\n"
        f"JobId=4 JobName=node {pending} {cpus} OverSubscribe=NO Exclusive=NODE\n"
        f"JobId=5 JobName=task {pending} {cpus} OverSubscribe=OK TresPerTask=gres/gpu:1\n"
        f"JobId=6 JobName=share {pending} {cpus} OverSubscribe=OK TresPerNode=gres/shard:4\n"
        f"JobId=7 JobName=silent {pending} OverSubscribe=OK\n"
        f"JobId=8 JobName=gpus {pending} {cpus},gres/gpu=16 OverSubscribe=OK\n"
    )
    jobs = read_running([Source("jobs", slurm)], cluster_of(), now=NOW)
    assert [(job.name, job.gpus) for job in jobs.waiting] == [
        ("3 alone", None), ("4 node", None), ("5 task", None), ("6 share", None), ("7 silent", None), ("8 gpus", 8),
    ]  # fmt: skip
    assert says(jobs.notes, "1 prep", "2 later", "no GPU")


@pytest.mark.parametrize(
    ("release", "shared", "gpus"),
    [
        ("24.11.5", [], [4]),  # OverSubscribe=OK: the job without GPUs waits for no node of them
        ("24.11.5", ["oversubscribe"], [4]),
        ("24.11.5", ["none"], [None, None]),  # --exclusive: all GPUs of its nodes
        ("26.05.5", [], [None, 4]),  # which this release says of both
        ("", [], [None, 4]),
    ],
)
def test_json_says_which_jobs_share_their_nodes(release: str, shared: list[str], gpus: list[int | None]) -> None:
    """As scontrol's text does: of a job with nodes alone all GPUs count, of one that shares them those that it asks
    for; where JSON says nothing of it, a job that asks for no GPU may still get nodes with them.
    """
    asked = {"prep": "", "train": "gres/gpu:4"}
    jobs = [
        {"job_id": number, "name": name, "job_state": ["PENDING"], "state_reason": "Priority", "shared": shared,
         "node_count": {"set": True, "number": 2}, "tres_req_str": "cpu=2,node=2", "tres_per_node": resources}
        for number, (name, resources) in enumerate(asked.items(), 1)
    ]  # fmt: skip
    answer = json.dumps({"meta": {"slurm": {"release": release}}, "jobs": jobs})
    waiting = read_running([Source("jobs", answer)], cluster_of(), now=NOW).waiting
    assert [job.gpus for job in waiting] == gpus


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_recordings_of_real_slurms_say_the_same_in_every_form(version: str) -> None:
    """The nodes and starts of all jobs that run are the same in scontrol's text, its JSON and squeue's JSON."""
    data = os.environ.get("ARNOLD_DATA")
    if not data:
        pytest.skip("ARNOLD_DATA is not set: the recordings are not part of the project")
    folder = Path(data) / "real" / "slurm_live" / version
    cluster = load_topology(folder / "topology.txt", gpus_per_node=8).cluster
    answers = []
    for name in ("jobs.txt", "jobs.json.gz", "squeue.json.gz"):
        file = folder / name
        if file.exists():
            jobs = read_running([read_source(str(file))], cluster, now=NOW + timedelta(hours=1))
            answers.append({(job.name, job.nodes, job.gpus, job.owner, job.started) for job in jobs.running})
            # of three that wait one is held and one not due
            assert [(job.wanted, job.gpus) for job in jobs.waiting] == ([] if version == "22.05" else [(100, 8)])
    # 57 nodes in one job in each of the three, and 22.05 has no other
    assert max(len(nodes) for _, nodes, *_ in answers[0]) == 57
    assert len(answers[0]) == {"22.05": 1, "24.11": 8, "26.05": 5}[version]
    assert all(answer == answers[0] for answer in answers)


def test_each_form_is_recognised() -> None:
    """By its content alone."""
    slurm = json.dumps({"jobs": [{"job_id": 1, "job_state": ["RUNNING"]}]})
    texts = {"scontrol-jobs": SCONTROL, "jobs": OWN, "slurm-jobs-json": slurm}
    assert {name: recognise(RUNNING_READERS, Source("f", text)).format.name for name, text in texts.items()} == {
        name: name for name in texts
    }


@pytest.mark.parametrize(
    "text",
    [
        "JobId=1 JobName=a JobState=RUNNING NodeList=n[1-2] WorkDir=/ Comment=arnold: tp=8,pp=2  StdErr=/dev/null\n",
        "JobId=1 JobName=a JobState=RUNNING\n   NodeList=n[1-2]\n Comment=lab 7; arnold: tp=8,pp=2; urgent\n Power=\n",
        "JobID|State|NodeList|Comment\n1|RUNNING|n[1-2]|arnold: tp=8,pp=2\n",
        '{"jobs": [{"job_id": 1, "job_state": ["RUNNING"], "nodes": "n[1-2]", "comment": "arnold:tp=8,PP=2"}]}',
    ],
)
def test_a_comment_says_degrees_of_parallelism(text: str) -> None:
    """In every form in which Slurm prints it, beside other words; comments that say nothing of them are none."""
    (job,) = read(text)
    assert job.parallelism == {"tp": 8, "pp": 2}
    assert read(text.replace("arnold:", "arnold"))[0].parallelism is None
