"""Jobs that run on a cluster: whose they are, where, since when and until when; and those that wait for nodes.

Read from what clusters say of themselves, each told by its content:

- Slurm: ``squeue``, ``squeue --json``, ``scontrol show jobs`` (text or JSON), ``sacct --parsable2``.  Who holds nodes
  is what counts: also a job that is suspended, completing or being configured.  Its end is the latest that its time
  limit allows.  Of the jobs that wait those count that would start if they had room.
  Degrees of parallelism are those of a comment ``arnold: tp=8,pp=8,dp=12``.
- A file of one's own: ``jobs: [{name, nodes: "n[01-08]", gpus, owner, priority, preemptible, started, ends,
  last_checkpoint, parallelism}]``, all but the name and the nodes optional; and ``waiting: [{name, nodes: 4, gpus,
  owner, priority, submitted, hours}]``.

What a record does not say is not known: a job of which no end is said may run for ever, one that is not said to be
preemptible is protected, and of one whose GPUs are not said all GPUs of its nodes are taken.

Source: squeue(1), scontrol(1), sacct(1).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import AliasPath, BaseModel, ConfigDict, Field

from ground.documents import Document, load_document
from ground.errors import InvalidInput, did_you_mean, some
from ground.files import Source
from ground.formats import FileFormat, Format, FormatGroup, Marked, recognise
from ground.quantities import HOUR, MINUTE, plural
from ground.records import AwareTime
from topology.cluster import MAX_GPUS, Cluster, IntArray
from topology.node_names import NodeNames, expand_hostlist
from topology.slurm_nodes import (
    SlurmNumber,
    SlurmState,
    SlurmWords,
    fields_of,
    gpus_counted,
    record_of,
    records_of,
    said,
    slurm_time,
)
from topology.slurm_snapshot import slurm_seconds, time_limit

EndsBy = Literal["", "said", "time limit"]
"""How the end of a job is known: not at all, as somebody says it, as the latest that its time limit allows."""

SKEW = 10 * MINUTE  # By which clocks of one cluster may differ: Kerberos and Munge refuse half of it
_HOLDS = {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
"""States of Slurm in which a job holds its nodes."""
_SHORT = {
    "R": "RUNNING", "S": "SUSPENDED", "CG": "COMPLETING", "CF": "CONFIGURING", "ST": "STOPPED", "PD": "PENDING",
}  # fmt: skip
_JOB = re.compile(r"^[ \t]*JobId=", re.MULTILINE)  # Beginning of the record of a job
_COMMENT = re.compile(r"\barnold:\s*([^\s;]+=[^\s;]+)")  # Degrees of parallelism in the comment of a job
MOST_TASKS = 1_000  # Of an array that waits, as many tasks are looked at: Slurm's MaxArraySize allows millions
_FOR_ROOM = {"", "None", "Priority", "Resources"}
"""Reasons for which a job waits that starts as soon as it has room and its turn."""
_NOTHING = ("(null)", "None", "N/A", "None assigned")  # Words of Slurm's that stand for nothing


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job that runs, or waits for nodes; times in seconds since 1970, ``None`` = not said."""

    name: str  # unique among the jobs of a cluster
    nodes: tuple[str, ...]  # in the order of its ranks where that is known; none where it waits
    source: str  # the file and line that say so
    ranked: bool = False  # whether the order of its nodes is that of its ranks
    gpus: int | tuple[int, ...] | None = None  # on each of its nodes, or one by one; None = all of them
    owner: str = ""  # user
    group: str = ""  # account or namespace
    priority: float | None = None
    preemptible: bool = False  # whether it may be stopped for others
    asks: Mapping[str, Any] | None = None  # what a job file says of it, degrees of parallelism among it
    started: float | None = None
    ends: float | None = None
    ends_by: EndsBy = ""
    last_checkpoint: float | None = None
    wanted: int = 0  # of one that waits, how many nodes for
    submitted: float | None = None  # of one that waits, and so the next two
    seconds: float | None = None  # that it may run
    hindered: str = ""  # why it would not start if it had room, in the words of the source, or needs no GPUs
    partition: str = ""  # of Slurm, or several with commas between them

    @property
    def parallelism(self) -> Mapping[str, int | str] | None:
        """Its degrees of parallelism; ``None`` = not said."""
        return None if self.asks is None else self.asks["parallelism"]

    def gpus_on(self, cluster: Cluster) -> IntArray:
        """Return the GPUs that it has on each of its nodes, shape [nodes]."""
        if self.gpus is None:
            return cluster.gpus[[cluster.index_of[name] for name in self.nodes]]
        return np.broadcast_to(np.array(self.gpus, dtype=np.int32), len(self.nodes))

    def lost_gpu_hours(self, cluster: Cluster, now: float) -> float | None:
        """Return the GPU-hours that are lost if it is stopped: since its last checkpoint, else since its start;
        ``None`` = it says neither.
        """
        since = self.started if self.last_checkpoint is None else self.last_checkpoint
        return None if since is None else int(gpus_held(cluster, [self]).sum()) * max(0.0, now - since) / HOUR


def degrees_in(text: str) -> dict[str, int | str]:
    """Return degrees of parallelism as users write them beside a job, of which nothing is checked yet.

    >>> degrees_in("tp=8, PP=8,dp=12,order=tp-cp-ep-dp-pp")
    {'tp': 8, 'pp': 8, 'dp': 12, 'order': 'tp-cp-ep-dp-pp'}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    cells = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    return {name: int(value) if value.isdecimal() else value for name, value in cells}


def asked_in_comment(comment: str) -> dict[str, Any] | None:
    """Return what a comment of a job of Slurm's asks as a job file does; ``None`` = nothing."""
    said = _COMMENT.search(comment)
    return {"parallelism": degrees_in(said[1])} if said else None


def gpus_held(cluster: Cluster, jobs: Iterable[LiveJob]) -> IntArray:
    """Return the GPUs that jobs have together on each node of a cluster that has theirs, shape [nodes]."""
    held = np.zeros_like(cluster.gpus)
    for job in jobs:
        at = [cluster.index_of[name] for name in job.nodes]
        held[at] += job.gpus_on(cluster)
    return held


class RunningReader(Format, Protocol):
    """Reads one format of running jobs; an entry point in the group ``arnold.running_readers``."""

    def read(self, source: Source, *, now: datetime) -> Iterable[LiveJob]:
        """Yield the jobs of a text that hold nodes, and those that wait for some, first come first.

        :param now: timezone-aware; when the text was written, where it says how long jobs have been running.
        :raises InvalidInput: the text is damaged.
        """


RUNNING_READERS: FormatGroup[RunningReader] = FormatGroup("arnold.running_readers", kind="running jobs", option="")
"""All formats of running jobs that can be read."""


@dataclass(frozen=True, slots=True)
class LiveJobs:
    """The jobs of a cluster."""

    running: tuple[LiveJob, ...]
    waiting: tuple[LiveJob, ...]  # those that start when they have room: the highest priority first, then the oldest
    notes: tuple[str, ...]  # what was passed over, a sentence each


def read_running(sources: Iterable[Source], cluster: Cluster, *, now: datetime) -> LiveJobs:
    """Return the jobs of a cluster, their nodes by the names of the cluster.

    Of a job of Slurm all of whose nodes are strangers nothing is kept but a note; one on both is an error, but for
    nodes that were left out as they have no GPUs.

    :raises InvalidInput: a file is damaged, two jobs have one name, a job ends before it starts, something was after
        now, or more GPUs of a node are in use than it has.
    """
    names = NodeNames(cluster.index_of)
    jobs: dict[str, LiveJob] = {}
    waiting, away, elsewhere, over = list[LiveJob](), list[LiveJob](), list[str](), list[str]()
    kept_out = {cluster.names[node] for node in cluster.kept_out}
    for source in sources:
        reader = recognise(RUNNING_READERS, source)
        for job in reader.read(source, now=now):
            times = ("runs since", job.started), ("was submitted at", job.submitted)
            for words, time in (*times, ("wrote its last checkpoint at", job.last_checkpoint)):
                if time is not None and time > now.timestamp() + SKEW:
                    ahead = f"the job {job.name!r} {words} {datetime.fromtimestamp(time, now.tzinfo):%Y-%m-%d %H:%M}"
                    fix = "set TZ to the time zone of the machine that printed it, or say when it was so with --at"
                    problem = f"{ahead}, which is to come: it is {now:%Y-%m-%d %H:%M}"
                    raise InvalidInput(problem, where=job.source, fix=fix)
            if job.wanted:
                of = [cluster.partitions.get(name) for name in job.partition.split(",")]
                here = any(nodes is None or nodes & cluster.index_of.keys() - kept_out for nodes in of)
                (waiting if here else away).append(job)
                continue
            inside = {name: names.find(name, where=job.source) for name in job.nodes if name not in cluster.bare}
            own = tuple(name for name in inside.values() if name is not None)
            # what Slurm prints is of all its nodes; who writes a file of jobs names those of the cluster
            if not own and not isinstance(reader, OwnJobs):
                elsewhere.append(job.name)
                continue
            if len(own) < len(inside):
                strangers = [name for name, node in inside.items() if node is None]
                meant = did_you_mean(strangers[0], cluster.index_of)
                problem = f"the job {job.name!r} is on nodes that the cluster does not have: {some(strangers)}"
                raise InvalidInput(problem, where=job.source, fix=f"{meant}give the jobs of this cluster")
            if job.name in jobs:
                twice = f"two jobs are called {job.name!r}: that of {jobs[job.name].source} is the other"
                raise InvalidInput(twice, where=job.source, fix="give each running job once, under a name of its own")
            if job.started is not None and job.ends is not None and job.ends < job.started:
                early = f"the job {job.name!r} ends before it starts"
                raise InvalidInput(early, where=job.source, fix="correct one of the two times")
            if job.ends is not None and job.ends <= now.timestamp():
                if job.ends_by == "said":
                    ended = f"the job {job.name!r} is said to end at {datetime.fromtimestamp(job.ends, now.tzinfo)}"
                    fix = "leave it out if it has ended, correct its end, or say when it was so with --at"
                    raise InvalidInput(f"{ended}, which is over", where=job.source, fix=fix)
                over.append(job.name)
            gpus = job.gpus
            if isinstance(gpus, tuple):
                gpus = tuple(count for name, count in zip(job.nodes, gpus, strict=True) if name in inside)
            jobs[job.name] = replace(job, nodes=own, gpus=gpus)
    check_shares(cluster, jobs.values())
    notes = []
    if elsewhere:
        notes.append(f"left out, as they run on nodes that the cluster does not have: {some(elsewhere)}")
    if away:
        others = some([job.name for job in away])
        notes.append(f"left out, as they wait in partitions that have none of these nodes: {others}")
    if over:
        notes.append(f"past the end that is said of them, and still here, so they may end at any time: {some(over)}")
    if hindered := [f"{job.name} ({job.hindered})" for job in waiting if job.hindered]:
        notes.append(f"not counted, as they wait for something else than nodes with GPUs: {some(hindered)}")
    ready = [job for job in waiting if not job.hindered]
    # the sort is stable: as they come, where neither is said
    ready.sort(key=lambda job: (-(job.priority or 0.0), inf if job.submitted is None else job.submitted))
    return LiveJobs(tuple(jobs.values()), tuple(ready), tuple(notes))


def check_shares(cluster: Cluster, jobs: Iterable[LiveJob]) -> None:
    """Raise InvalidInput if jobs have more GPUs of a node together than it has."""
    left = dict(zip(cluster.names, cluster.gpus.tolist(), strict=True))
    holders: dict[str, str] = {}
    for job in jobs:
        for name, wants in zip(job.nodes, job.gpus_on(cluster).tolist(), strict=True):
            has = int(cluster.gpus[cluster.index_of[name]])
            if left[name] < wants:
                others = f", of which {holders[name]!r} has {has - left[name]}" if name in holders else ""
                raise InvalidInput(
                    f"the job {job.name!r} has {plural(wants, 'GPU')} of the node {name!r}, which has {has}{others}",
                    where=job.source,
                    fix="give each running job once, leave out those that have ended, and say the GPUs of those that "
                    "share nodes (gpus)",
                )
            left[name] -= wants
            holders.setdefault(name, job.name)


def with_running(cluster: Cluster, jobs: Sequence[LiveJob]) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with the GPUs of running jobs in use, whether it shows them so or not; and notes: what is in
    use and in no job.  Of a node that Slurm calls mixed all jobs are known if any is.
    """
    held = gpus_held(cluster, jobs)
    free = cluster.free_gpus.copy()
    shared = [node for node, name in enumerate(cluster.names) if held[node] and name in cluster.mixed]
    free[shared] = cluster.gpus[shared] - held[shared]
    cluster = cluster.replace(free_gpus=free)
    in_use = cluster.gpus - cluster.free_gpus > held
    in_use[list(cluster.kept_out)] = False  # of one that is reserved it is said who keeps it out
    unnamed = np.flatnonzero(in_use)
    notes: tuple[str, ...] = ()
    if unnamed.size:
        nodes = some([cluster.names[node] for node in unnamed.tolist()])
        notes = (f"in use, and by no job that is known, so nothing says when they are free: {nodes}",)
    return cluster.replace(free_gpus=np.minimum(cluster.free_gpus, cluster.gpus - held)), notes


# A file of one's own


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_Gpus = Annotated[int, Field(ge=1, le=MAX_GPUS)]


class OwnLiveJob(_Strict):
    """A job that runs, in a file of one's own."""

    name: Annotated[str, Field(min_length=1)]
    """Its name, unique."""
    nodes: str | list[str]
    """A hostlist, or names of nodes."""
    ranked: bool | None = None
    """Whether they are in the order of ranks; null = where they are a list, or `parallelism` is said."""
    gpus: _Gpus | Annotated[list[_Gpus], Field(min_length=1)] | None = None
    """GPUs that it has on each node, or a list of one by one; null = all."""
    owner: str = ""
    """Whose it is."""
    account: str = ""
    """Account or namespace of the owner."""
    priority: float | None = None
    """The higher, the more it counts; null = not said."""
    preemptible: bool = False
    """Whether it may be stopped for others."""
    started: AwareTime | None = None
    """When it began, ISO 8601 with an offset."""
    ends: AwareTime | None = None
    """When it is expected to end."""
    ends_by: Literal["said", "time limit"] = "said"
    """Whether that is when it ends, or the latest that a limit allows."""
    last_checkpoint: AwareTime | None = None
    """When it wrote its last checkpoint."""
    parallelism: dict[str, int | str] | None = None
    """Its degrees of parallelism, as in a job file."""


class OwnWaitingJob(_Strict):
    """A job that waits for nodes, in a file of one's own."""

    name: Annotated[str, Field(min_length=1)]
    """Its name."""
    nodes: Annotated[int, Field(ge=1)]
    """How many nodes it asks for."""
    gpus: _Gpus | None = None
    """GPUs that it wants on each node; null = all."""
    owner: str = ""
    """Whose it is."""
    account: str = ""
    """Account or namespace of the owner."""
    priority: float | None = None
    """The higher, the sooner it has its turn; null = 0."""
    submitted: AwareTime | None = None
    """When it was, ISO 8601 with an offset."""
    hours: Annotated[float | None, Field(gt=0.0)] = None
    """How long it may run; null = not known."""


class OwnLiveJobs(_Strict):
    """The file."""

    jobs: list[OwnLiveJob] = []
    waiting: list[OwnWaitingJob] = []


class OwnJobs(Marked):
    """Reads a file of one's own: a mapping with one of the two lists of jobs, and no answer of Slurm or Arnold."""

    format = FileFormat(
        name="jobs",
        source="Running jobs in a file of one's own, YAML or JSON",
        export='write it: `jobs: [{name: a, nodes: "n[01-08]"}]`',
        read="name, nodes, GPUs, owner, priority, preemptible, start, end, last checkpoint, degrees of parallelism; of "
        "those that wait, number of nodes, GPUs, owner, priority, submission, hours",
        left_out="",
        marks=("jobs", "name", "nodes"),
    )
    mark = re.compile(
        r'\A(?!(?s:.*)"(?:job_id|proved_to)")(?s:.*)^[^\S\n]*+(?:\{[^\S\n]*+)?"?(?:jobs|waiting)"?\s*:', re.MULTILINE
    )

    def read(self, source: Source, *, now: datetime) -> Iterator[LiveJob]:  # noqa: ARG002
        """Yield the jobs in the order of the file."""
        document = load_document(source)
        file = document.parse(OwnLiveJobs)
        for i, waiting in enumerate(file.waiting):
            yield LiveJob(
                waiting.name, (), document.where("waiting", i), gpus=waiting.gpus, owner=waiting.owner,
                group=waiting.account, priority=waiting.priority, wanted=waiting.nodes,
                submitted=_seconds(waiting.submitted),
                seconds=None if waiting.hours is None else waiting.hours * HOUR,
            )  # fmt: skip
        for i, job in enumerate(file.jobs):
            place = document.where("jobs", i, "nodes")
            listed = [job.nodes] if isinstance(job.nodes, str) else job.nodes
            nodes = [name for text in listed for name in expand_hostlist(text, where=place)]
            if len({*nodes}) < len(nodes) or not nodes:
                fault = "is on a node twice" if nodes else "is on no node"
                raise InvalidInput(f"the job {job.name!r} {fault}", where=place, fix="name each of its nodes once")
            gpus = tuple(job.gpus) if isinstance(job.gpus, list) else job.gpus
            if isinstance(gpus, tuple) and len(gpus) != len(nodes):
                counts = f"{plural(len(nodes), 'node')}, and GPUs of {len(gpus)}"
                where = document.where("jobs", i, "gpus")
                fix = "say those of each node, or one number for all"
                raise InvalidInput(f"the job {job.name!r} has {counts}", where=where, fix=fix)
            ranked = isinstance(job.nodes, list) or job.parallelism is not None
            yield LiveJob(
                job.name, tuple(nodes), place, ranked if job.ranked is None else job.ranked, gpus,
                job.owner, job.account, job.priority, job.preemptible,
                None if job.parallelism is None else {"parallelism": job.parallelism}, _seconds(job.started),
                _seconds(job.ends), "" if job.ends is None else job.ends_by, _seconds(job.last_checkpoint),
            )  # fmt: skip


def own_file(jobs: LiveJobs) -> str:
    """Return jobs as a file of one's own, JSON, which reads as they are; what other job files say of them is left out,
    but for their degrees of parallelism.
    """

    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

    running = [
        OwnLiveJob(
            name=job.name, nodes=[*job.nodes], ranked=job.ranked,
            gpus=[*job.gpus] if isinstance(job.gpus, tuple) else job.gpus, owner=job.owner, account=job.group,
            priority=job.priority, preemptible=job.preemptible, started=at(job.started), ends=at(job.ends),
            ends_by=job.ends_by or "said", last_checkpoint=at(job.last_checkpoint),
            parallelism=None if job.parallelism is None else dict(job.parallelism),
        )
        for job in jobs.running
    ]  # fmt: skip
    waiting = [
        OwnWaitingJob(
            name=job.name, nodes=job.wanted, gpus=job.gpus if isinstance(job.gpus, int) else None, owner=job.owner,
            account=job.group, priority=job.priority, submitted=at(job.submitted),
            hours=None if job.seconds is None else job.seconds / HOUR,
        )
        for job in jobs.waiting
    ]  # fmt: skip
    return OwnLiveJobs(jobs=running, waiting=waiting).model_dump_json(exclude_defaults=True, indent=1) + "\n"


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


# Slurm

_OF_SQUEUE = {
    "JOBID": "JobId", "NAME": "JobName", "USER": "UserId", "ACCOUNT": "Account", "ST": "JobState", "STATE": "JobState",
    "NODES": "NumNodes", "REASON": "Reason", "TIME_LIMIT": "TimeLimit", "TIMELIMIT": "TimeLimit",
    "PARTITION": "Partition",
}  # fmt: skip
_OF_SACCT = {"JobID": "JobId", "User": "UserId", "Start": "StartTime", "Timelimit": "TimeLimit", "State": "JobState"}
"""Columns of the other programs -> what scontrol calls them."""


def _slurm_jobs(job: Mapping[str, str], *, source: str, started: float | None = None) -> Iterator[LiveJob]:
    """Yield a job that holds nodes by its state, or waits for some; of an array each task that waits.

    It is called by its number and its name.

    :param job: what is said of it, in the words of scontrol, whichever program said it.
    :param started: when it began, where none of the words says it.
    """
    words = {key: "" if value in _NOTHING else value for key, value in job.items()}
    number, name = job["JobId"], words.get("JobName", "")
    task = words.get("ArrayTaskString") or words.get("ArrayTaskId", "")
    if task and words.get("ArrayJobId", "0") != "0":
        number = f"{words['ArrayJobId']}_{task}"
    elif words.get("HetJobId", "0") != "0":
        number = f"{words['HetJobId']}+{words.get('HetJobOffset', '0')}"
    states = job.get("JobState", "").split("+")
    state = next((state for state in states if state == "PENDING" or state in _HOLDS), "")
    resources = (words.get(key, "") for key in ("JOB_GRES", "AllocTRES", "TRES", "ReqTRES"))
    gpus, each = _gpus_in(*resources, where=source), _gpus_in(words.get("TresPerNode", ""), where=source)
    owner, group = re.sub(r"\(\d+\)$", "", words.get("UserId", "")), words.get("Account", "")
    priority = float(words["Priority"]) if words.get("Priority", "").isdecimal() else None
    limit = time_limit(words.get("TimeLimit", ""))
    seconds = limit if limit is not None and limit < inf else None
    if state == "PENDING":
        # "4", or "4-8" where it may have more
        match = re.match(r"\d+", words.get("NumNodes", ""))
        wanted = int(match[0]) if match else 0
        if gpus is not None:
            each = gpus // wanted if wanted and gpus % wanted == 0 else None
        shares = _shares_nodes(words)
        if shares is False:
            each = None
        hindered = "" if job.get("Reason", "") in _FOR_ROOM else job["Reason"]
        asked = [text for key, text in words.items() if key == "ReqTRES" or key.startswith("TresPer")]
        if not hindered and shares and words.get("ReqTRES") and not any("gres" in text for text in asked):
            hindered = "it asks for no GPU"
        for task in _tasks(number):
            yield LiveJob(
                f"{task} {name}".strip(), (), source, False, each, owner, group, priority, wanted=max(1, wanted),
                submitted=slurm_time(words.get("SubmitTime", "")), seconds=seconds,
                hindered=hindered if wanted else "how many nodes is not said", partition=words.get("Partition", ""),
            )  # fmt: skip
    elif state and (nodes := words.get("NodeList", "")):
        hosts = tuple(expand_hostlist(nodes, where=source))
        if gpus is not None:
            each = gpus // len(hosts) if gpus % len(hosts) == 0 else None
        began = slurm_time(words.get("StartTime", "")) if started is None else started
        ends = began + seconds if began is not None and seconds is not None else None
        yield LiveJob(
            f"{number} {name}".strip(), hosts, source, False, each, owner, group, priority,
            asks=asked_in_comment(job.get("Comment", "")),
            started=began, ends=ends, ends_by="" if ends is None else "time limit",
        )  # fmt: skip


def _shares_nodes(words: Mapping[str, str]) -> bool | None:
    """Return whether others may be on the nodes of a job, or it has them alone and gets all that they have (sbatch(1),
    ``--exclusive``); ``None`` = not said.
    """
    # Slurm 26.05 says both apart; before, OverSubscribe=NO was --exclusive
    if "Exclusive" in words:
        return words["Exclusive"] == "NO"
    return {"OK": True, "YES": True, "NO": False}.get(words.get("OverSubscribe", ""))


def _tasks(number: str) -> list[str]:
    """Return the numbers of a job's tasks, of one that is an array ``15_[1-3,7%2]`` of which several wait."""
    job, underscore, tasks = number.partition("_")
    listed = tasks.strip("[]").partition("%")[0]
    if not underscore or not re.fullmatch(r"[\d,-]+", listed):
        return [number]
    return expand_hostlist(f"{job}_[{listed}]")[:MOST_TASKS]


def _gpus_in(*texts: str, where: str) -> int | None:
    """Return the GPUs of the first of some lists of Slurm's resources that has any; ``None`` = none has, or these are
    slices.
    """
    for text in texts:
        gpus, slices = gpus_counted(text, where=where)
        if gpus:
            return None if slices else gpus
    return None


class ScontrolJobs(Marked):
    """Reads ``scontrol show jobs``."""

    format = FileFormat(
        name="scontrol-jobs",
        source="Jobs of Slurm",
        export="`scontrol show jobs --all --oneliner`",
        read="nodes, GPUs, user, account, priority, start and time limit of jobs that hold nodes or wait for some; "
        "degrees of parallelism of a comment `arnold: tp=8,pp=8,dp=12`",
        left_out="jobs that have ended; who may be preempted, which Slurm decides by QOS and partition",
        marks=("jobid", "jobname", "jobstate"),
    )
    mark = re.compile(r"\A\s*(?:JobId=\d|No jobs in the system)")

    def read(self, source: Source, *, now: datetime) -> Iterator[LiveJob]:  # noqa: ARG002
        """Yield the jobs in the order of the records."""
        for _, record, place in records_of(source, _JOB):
            job, comment = fields_of(record), re.search(r"\sComment=(.*)", record)
            yield from _slurm_jobs(job | {"Comment": comment[1] if comment else ""}, source=place)


class SqueueTable(Marked):
    """Reads the table of ``squeue``, by its header."""

    format = FileFormat(
        name="squeue",
        source="Jobs of Slurm as squeue prints them",
        export="`squeue --all`",
        read="nodes, user, how long it has run, time limit where there is such a column; of jobs that wait their turn",
        left_out="GPUs: all of its nodes count as taken; priorities, accounts",
        marks=("jobid", "nodelist(reason)"),
    )
    mark = re.compile(r"\A\s*JOBID\s(?!.*\bSTART_TIME\b).*NODELIST")

    def read(self, source: Source, *, now: datetime) -> Iterator[LiveJob]:
        """Yield the jobs in the order of the lines."""
        header: list[str] = []
        for number, line in enumerate(source.text.splitlines(), 1):
            words = line.split()
            if not words:
                continue
            if words[0] == "JOBID":
                header = words
                continue
            # a name may have blanks: what stands before it is counted from the left, what stands behind from the right
            place, at = source.at(number), header.index("NAME") if "NAME" in header else 0
            behind = len(header) - 1 - at
            if len(words) < len(header):
                short = f"has {plural(len(words), 'column')}, and the header {len(header)}"
                raise InvalidInput(short, where=place, fix="give what squeue prints, as it is")
            head = words[:at]
            tail = words[len(words) - behind :] if behind else []
            row = dict(zip(header, [*head, " ".join(words[at : len(words) - behind]), *tail], strict=True))
            job = {_OF_SQUEUE.get(name, name): cell for name, cell in row.items()}
            job["NodeList"] = next(row[name] for name in header if name.startswith("NODELIST"))
            job["Reason"] = job.get("Reason", job["NodeList"]).strip("()")
            job["JobState"] = _SHORT.get(state := job.get("JobState", ""), state)
            elapsed = slurm_seconds(row.get("TIME", ""))
            yield from _slurm_jobs(job, source=place, started=None if elapsed is None else now.timestamp() - elapsed)


class SacctTable:
    """Reads the table of ``sacct --parsable2``, by its header."""

    format = FileFormat(
        name="sacct",
        source="Jobs of Slurm's accounting that run",
        export="`sacct --allusers --allocations --state=RUNNING --parsable2 --format=JobID,JobName,User,Account,"
        "Priority,Start,Timelimit,State,AllocTRES,NodeList,Comment`",
        read="nodes, GPUs, user, account, priority, start, time limit and comment of jobs that run",
        left_out="jobs that wait or have ended, steps",
        marks=("jobid", "state", "nodelist"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether its header has columns for a job, its state and its nodes."""
        columns = {*head.lstrip().split(b"\n", 1)[0].strip().split(b"|")}
        return float(columns >= {b"JobID", b"State", b"NodeList"})

    def read(self, source: Source, *, now: datetime) -> Iterator[LiveJob]:  # noqa: ARG002
        """Yield the jobs in the order of the lines."""
        header, *lines = source.text.splitlines()
        columns = header.strip().split("|")
        for number, line in enumerate(lines, 2):
            if not line.strip():
                continue
            words = line.split("|")
            if len(words) < len(columns):
                short = f"has {plural(len(words), 'column')}, and the header {len(columns)}"
                raise InvalidInput(short, where=source.at(number), fix="give what sacct --parsable2 prints, as it is")
            job = {_OF_SACCT.get(name, name): word for name, word in zip(columns, words, strict=False)}
            if job["JobState"] in _HOLDS and "." not in job["JobId"]:
                yield from _slurm_jobs(job, source=source.at(number))


class _JsonJob(BaseModel):
    """A job of ``squeue --json`` or ``scontrol show jobs --json``, 22.05 to 26.05."""

    job_id: int = said("JobId", "job_id", default=...)
    name: str = said("JobName", "name", default="")
    user_name: str = said("UserId", "user_name", default="")
    account: str = said("Account", "account", default="")
    partition: str = said("Partition", "partition", default="")
    priority: SlurmNumber = said("Priority", "priority")
    nodes: str | None = said("NodeList", "nodes", default="")
    job_state: SlurmState = said("JobState", "job_state", default=...)
    start_time: SlurmNumber = said("StartTime", "start_time")
    time_limit: SlurmNumber = said("TimeLimit", "time_limit")  # minutes
    submit_time: SlurmNumber = said("SubmitTime", "submit_time")
    node_count: SlurmNumber = said("NumNodes", "node_count")
    state_reason: str = said("Reason", "state_reason", default="")
    comment: str = said("Comment", "comment", default="")
    tres_req_str: str = said("ReqTRES", "tres_req_str", default="")
    tres_per_node: str = said("TresPerNode", "tres_per_node", default="")
    array_job_id: SlurmNumber = said("ArrayJobId", "array_job_id")
    array_task_id: SlurmNumber = said("ArrayTaskId", "array_task_id")
    array_task_string: str = said("ArrayTaskString", "array_task_string", default="")
    het_job_id: SlurmNumber = said("HetJobId", "het_job_id")
    het_job_offset: SlurmNumber = said("HetJobOffset", "het_job_offset")
    tres_alloc_str: str = said("AllocTRES", "tres_alloc_str", default="")
    gres_detail: SlurmWords = said("JOB_GRES", "gres_detail", default="")
    shared: SlurmWords | None = said("OverSubscribe", "shared")


_SHARED = {"none": "NO", "oversubscribe": "YES"}
"""What JSON has for OverSubscribe, beside nothing at all: OK until 24.11; 26.05 has that for jobs with ``--exclusive``,
too."""


class _JsonJobs(BaseModel):
    jobs: list[_JsonJob]
    release: str = Field("", validation_alias=AliasPath("meta", "slurm", "release"))


class SlurmJobsJson(Marked):
    """Reads ``squeue --json`` and ``scontrol show jobs --json``."""

    format = FileFormat(
        name="slurm-jobs-json",
        source="Jobs of Slurm as JSON",
        export="`squeue --all --json` or `scontrol show jobs --all --json`",
        read="as `scontrol-jobs`",
        left_out="jobs that have ended; who may be preempted",
        marks=("jobs", "job_id", "job_state"),
    )
    mark = re.compile(r'(?s)\A\s*\{(?=.*"jobs")(?=.*"job_(?:id|state)")')

    def read(self, source: Source, *, now: datetime) -> Iterator[LiveJob]:  # noqa: ARG002
        """Yield the jobs in the order of the list."""
        document: Document = load_document(source)
        answer = document.parse(_JsonJobs)
        nothing = "OK" if "" < answer.release < "24.12" else ""
        for i, job in enumerate(answer.jobs):
            words = record_of(job)
            if "shared" in job.model_fields_set:
                words["OverSubscribe"] = _SHARED.get(str(job.shared), "") if job.shared else nothing
            yield from _slurm_jobs(words, source=document.where("jobs", i))
