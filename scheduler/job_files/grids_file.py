"""Which grid a running job has: as it says itself, or as a file of grids says of jobs whose names match a pattern; and
the nodes of its cells.

The file is a list of what job files say, ``grids: [{name: "pretrain-*", parallelism: {tp: 8, pp: 4}}]``; the name is a
pattern of the shell, of the whole name of a job or, with Slurm, of its name without the number.  The first that matches
counts.  Where ``dp`` is left out, there or beside the job, it is what the GPUs of the job come to.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Self

import numpy as np

from ground.documents import Document, load_document
from ground.errors import InvalidInput, InvalidPlacement
from ground.files import Source
from ground.quantities import plural
from ground.records import JsonRecord
from scheduler.affinity import Gains
from scheduler.job import Job, Overrides
from scheduler.job_files.job_file import JobDocument, JobFile, job_of
from scheduler.job_on_cluster import on_nodes
from topology.cluster import Cluster, IntArray
from topology.running_jobs import LiveJob


class GridsFile(JsonRecord):
    """A file of grids."""

    grids: tuple[JobDocument, ...]
    """What job files say; each name is a pattern."""


@dataclass(frozen=True, slots=True)
class Grids:
    """The grids of a file."""

    document: Document
    jobs: Sequence[JobDocument]

    @classmethod
    def load(cls, source: Source) -> Self:
        """Read a file of grids, or raise InvalidInput: it is damaged, or a key says what cannot be."""
        document = load_document(source)
        return cls(document, document.parse(GridsFile).grids)


def running_grid(
    live: LiveJob,
    cluster: Cluster,
    grids: Grids | None,
    *,
    overrides: Overrides | None = None,
    records: Sequence[Gains] = (),
) -> JobFile:
    """Return the job that a running one is.

    :param cluster: that it runs on.
    :raises InvalidInput: nothing says its grid, or what does makes no job.
    """
    if live.asks is not None:
        document = load_document(Source(live.source, json.dumps(dict(live.asks)), numbered=False))
        content, where = document.parse(JobDocument), lambda *_: live.source
        said = document.data
    else:
        short = live.name.partition(" ")[2] if live.name[:1].isdigit() else live.name
        matching = (
            i
            for i, content in enumerate(() if grids is None else grids.jobs)
            if any(fnmatchcase(name, content.name) for name in (live.name, short))
        )
        i = next(matching, None)
        if grids is None or i is None:
            raise InvalidInput(
                "which grid it has is not said, and spread is of groups of ranks",
                where=live.source,
                fix="give its degrees of parallelism: by --grids FILE, parallelism in a file of jobs, a comment of "
                "Slurm (arnold: tp=8,pp=8,dp=12) or an annotation of pods; of one job by --job FILE",
            )
        content, where = grids.jobs[i], partial(grids.document.where, "grids", i)
        said = grids.document.data["grids"][i]
    degrees = content.parallelism
    if "dp" not in said["parallelism"]:
        gpus, others = int(live.gpus_on(cluster).sum()), degrees.tp * degrees.cp * degrees.pp
        content = replace(content, parallelism=replace(degrees, dp=max(1, gpus // others)))
    return job_of(content, where, overrides=overrides, records=records, cluster=cluster)


def running_nodes(live: LiveJob, job: Job, cluster: Cluster) -> IntArray:
    """Return the node of each cell of a running job, shape [rows, columns], its nodes in the order of its ranks.

    :raises InvalidPlacement: it has other nodes, or parts of nodes, than its grid takes.
    """
    each, indices = live.gpus_on(cluster), [cluster.index_of[name] for name in live.nodes]
    job = on_nodes(cluster, job, indices)
    if (each != job.gpus_per_node).any():
        some_node = int(np.argmax(each != job.gpus_per_node))
        raise InvalidPlacement(
            f"it has {plural(int(each[some_node]), 'GPU')} of {live.nodes[some_node]}, and its grid takes "
            f"{job.gpus_per_node} of each node",
            where=live.source,
            fix="say gpus_per_node in its job; what shares nodes with others has no spread",
        )
    if len(live.nodes) != job.grid.cells:
        raise InvalidPlacement(
            f"it runs on {plural(len(live.nodes), 'node')}, and its grid has {job.grid.cells:,} of "
            f"{plural(job.gpus_per_node, 'GPU')}",
            where=live.source,
            fix="correct its degrees of parallelism",
        )
    nodes: IntArray = np.array(indices, dtype=np.int32)[job.grid.node_rank]
    return nodes


def named_job(jobs: Sequence[LiveJob], name: str, *, where: str) -> LiveJob:
    """Return the running job of that name, of that number where Slurm numbers it, or of that name without the number or
    namespace.

    :raises InvalidInput: none or several are called so.
    """
    called = [live for live in jobs if name in (live.name, live.name.partition(" ")[0])]
    called = called or [live for live in jobs if name in (live.name.partition(" ")[2], live.name.rpartition("/")[2])]
    if len(called) == 1:
        return called[0]
    names = ", ".join(live.name for live in (called or jobs)[:5]) or "none"
    if called:
        raise InvalidInput(f"several running jobs are called {name!r}: {names}", where=where, fix="give its number")
    none = f"there is no file, and no running job, that is called {name[:80]!r}"
    raise InvalidInput(none, where=where, fix=f"give a file of its nodes, or one of the jobs that run: {names}")
