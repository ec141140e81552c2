"""Where a job is, read back: a placement that ``arnold place`` or ``arnold repair`` saved, or nodes in rank order."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ground.documents import Document, load_document
from ground.errors import InvalidInput, InvalidPlacement, did_you_mean
from ground.files import Source
from ground.formats import FileFormat
from ground.quantities import plural
from ground.records import Count, json_data
from scheduler.job import Job
from scheduler.job_files.job_file import JobDocument, JobFile, job_of
from scheduler.job_on_cluster import on_nodes
from topology.cluster import Cluster, IntArray
from topology.node_names import NodeNames, expand_hostlist
from topology.running_jobs import LiveJob

LONGEST_AGE = 1e9  # Seconds since a checkpoint, thirty years: beyond it is a slip


class _Part(BaseModel):
    """What of the document is needed; the rest is for people."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _Cell(_Part):
    node: str
    dp: Count
    pp: Count
    part: Count = 0  # placements of before there were parts do not say it


class _Saved(_Part):
    job: JobDocument
    assignment: list[_Cell]
    checkpoint_age: Annotated[float, Field(ge=0.0, le=LONGEST_AGE, allow_inf_nan=False, strict=False)] | None = None


@dataclass(frozen=True, slots=True)
class SavedPlacement:
    """A placement that was saved: the node of each cell, shape [rows, columns]."""

    job: Job
    nodes: IntArray
    place_of: Callable[[int], str]  # where its file names one of its nodes ("a.json:12"), by the node's index
    checkpoint_age: float | None = None  # seconds since the job wrote its last checkpoint; None = not said

    def by_node_rank(self) -> IntArray:
        """Return the node of each machine by node rank, shape [machines]."""
        ordered = np.empty(self.nodes.size, dtype=np.int32)
        ordered[self.job.grid.node_rank.ravel()] = self.nodes.ravel()
        return ordered


@dataclass(frozen=True, slots=True)
class NamedPlacement:
    """A placement that was saved, without the cluster it was made for: names of nodes, by node rank."""

    job: Job
    names: tuple[str, ...]


def load_placement(source: Source, cluster: Cluster) -> SavedPlacement:
    """Read a placement on a cluster.  Whether it is valid is for the evaluator to say.

    :raises InvalidInput: not YAML or JSON, or not a placement; InvalidJob: its job cannot be.
    :raises InvalidPlacement: a cell is missing or there twice, or a node is not in the cluster.
    """
    document, saved, file = _load(source)
    file.check_names(cluster)
    which = _cells(saved.assignment, document, file.job, cluster)
    indices = np.array([cluster.index_of[cell.node] for cell in saved.assignment], dtype=np.int32)

    def place_of(node: int) -> str:
        return document.where("assignment", indices.tolist().index(node))

    return SavedPlacement(file.job, indices[which], place_of, saved.checkpoint_age)


@contextmanager
def placed_by(where: str) -> Iterator[None]:
    """Say of a placement that breaks a rule of its job or the cluster where it is from."""
    try:
        yield
    except InvalidPlacement as error:
        error.where, error.fix = error.where or where, error.fix or "give the cluster that the job was placed on"
        raise


def load_names(source: Source) -> NamedPlacement:
    """Read the names of a placement's nodes; no cluster is needed for that.

    :raises InvalidInput: as :func:`load_placement`, and InvalidJob.
    :raises InvalidPlacement: a cell is missing or there twice, or a node is.
    """
    document, saved, file = _load(source)
    return NamedPlacement(file.job, _names_by_rank(document, saved, file))


def _names_by_rank(document: Document, saved: _Saved, file: JobFile) -> tuple[str, ...]:
    which = _cells(saved.assignment, document, file.job, None)
    names = [saved.assignment[i].node for i in which[file.job.grid.cell_of_rank].tolist()]
    if len(set(names)) < len(names):
        times = Counter(names)
        i = next(i for i, cell in enumerate(saved.assignment) if times[cell.node] > 1)
        problem = f"node {saved.assignment[i].node!r} has more than one cell"
        fix = "give the placement that `arnold place` saved"
        raise InvalidPlacement(problem, where=document.where("assignment", i), fix=fix)
    return tuple(names)


def _load(source: Source) -> tuple[Document, _Saved, JobFile]:
    document = load_document(source)
    if isinstance(document.data, dict) and "assignment" not in document.data:
        fix = "give what `arnold place --output placement.json` saved"
        raise InvalidInput("it holds no placement: the key 'assignment' is missing", where=source.name, fix=fix)
    saved = document.parse(_Saved)
    file = job_of(saved.job, lambda *path: document.where("job", *path))
    if not saved.assignment:
        problem = "it holds no placement: the assignment is empty"
        fix = "give the JSON of an `arnold place` that found one"
        raise InvalidInput(problem, where=document.where("assignment"), fix=fix)
    return document, saved, file


def _cells(cells: list[_Cell], document: Document, job: Job, cluster: Cluster | None) -> IntArray:
    """Return which row of the assignment each cell is, shape [rows, columns]; without a cluster nodes have any name."""
    grid = job.grid
    which = np.full((grid.rows, grid.columns), -1, dtype=np.int32)
    for i, cell in enumerate(cells):
        if problem := _problem(cell, which, grid.parts, cluster):
            fix = "give the placement that `arnold place` saved, and the cluster it was made for"
            raise InvalidPlacement(problem, where=document.where("assignment", i), fix=fix)
        which[cell.dp * grid.parts + cell.part, cell.pp] = i
    if (which < 0).any():
        row, column = np.argwhere(which < 0)[0]
        problem = f"cell ({_named(*divmod(int(row), grid.parts), int(column), grid.parts)}) has no node"
        fix = "give the whole placement that `arnold place` saved"
        raise InvalidPlacement(problem, where=document.where("assignment"), fix=fix)
    return which


def _problem(cell: _Cell, which: IntArray, parts: int, cluster: Cluster | None) -> str:
    """Return what is wrong with one row of the assignment; empty when nothing is."""
    rows, columns = which.shape[0] // parts, which.shape[1]
    name = _named(cell.dp, cell.part, cell.pp, parts)
    if cell.dp >= rows or cell.pp >= columns or cell.part >= parts:
        of_parts = f" of {parts} parts" if parts > 1 else ""
        return f"cell ({name}) lies outside the job's {rows} x {columns} cells{of_parts}"
    if which[cell.dp * parts + cell.part, cell.pp] >= 0:
        return f"cell ({name}) is there twice"
    if cluster is not None and cell.node not in cluster.index_of:
        return f"the cluster has no node {cell.node!r}"
    return ""


def _named(dp: int, part: int, pp: int, parts: int) -> str:
    """Return how a cell is called: by its part too, where there are several or it says a strange one."""
    return f"dp {dp}, pp {pp}" + (f", part {part}" if parts > 1 or part else "")


_RANK_LINE = re.compile(r"rank\s+(?P<rank>\d{1,9})\s*=\s*(?P<node>\S+)")
_TORCHRUN_LINE = re.compile(r"(?P<node>\S+)\s+torchrun\s.*--node[-_]rank[=\s]\s*(?P<rank>\d{1,9})\b")
# what Open MPI and MPICH take beside a node, room for so many ranks: n01 slots=8 max_slots=8, n01:8
_SLOTS = re.compile(r"(?P<node>[^\s:]+)(\s+slots\s*=\s*\d+(\s+max[-_]slots\s*=\s*\d+)?|:\d+)")
_SCRIPT_NODES = re.compile(r"<< 'END OF NODES'\n(.*?)^END OF NODES$", re.MULTILINE | re.DOTALL)


def load_order(source: Source, cluster: Cluster, job: Job) -> IntArray:
    """Read the nodes of a job in rank order, from a saved placement or a file that a launcher reads.

    A host file has a node a line, a line for each node rank or for each global rank (then each node as often as it has
    GPUs), with or without its slots; a rankfile of Open MPI has ``rank N=NODE``, lines of torchrun ``--node-rank=N``;
    of a batch script that ``arnold place`` wrote its list counts; a hostlist on one line is taken in its order.

    :returns: the node of each cell, shape [rows, columns].
    :raises InvalidInput: damaged; InvalidPlacement: another number of nodes than the job has, a rank left out, a node
        twice, or one that the cluster does not have.
    """
    listed: list[tuple[str, str]] = []  # names, each with where it stands
    ranks: dict[int, tuple[str, str]] = {}
    script = _SCRIPT_NODES.search(source.text)
    text, first_line = source.text, 1
    if source.text.lstrip().startswith("{"):
        # by rank: the job may be cut otherwise than the one that was placed
        text, listed = "", [(name, source.name) for name in load_names(source).names]
    elif script is not None:
        text, first_line = script[1], source.text.count("\n", 0, script.start(1)) + 1
    for number, line in enumerate(text.splitlines(), first_line):
        if not (words := line.partition("#")[0].strip()):
            continue
        place = source.at(number)
        if (line_of := _RANK_LINE.match(words) or _TORCHRUN_LINE.match(words)) is not None:
            rank = int(line_of["rank"])
            if rank in ranks:
                raise InvalidPlacement(f"rank {rank} is there twice", where=place, fix="give each rank one node")
            ranks[rank] = (line_of["node"], place)
        elif (with_slots := _SLOTS.fullmatch(words)) is not None and words not in cluster.index_of:
            listed.append((with_slots["node"], place))
        else:
            names = [words] if words in cluster.index_of else expand_hostlist(words, where=place)
            listed += [(name, place) for name in names]
    if ranks:
        if (absent := next(rank for rank in range(len(ranks) + 1) if rank not in ranks)) < len(ranks):
            left_out = f"rank {absent} is left out, and rank {max(ranks)} is there"
            raise InvalidPlacement(left_out, where=ranks[max(ranks)][1], fix="give each rank one node, from 0 on")
        listed = [ranks[rank] for rank in sorted(ranks)]
    spellings = NodeNames(cluster.index_of)
    if listed and (first := spellings.find(listed[0][0], where=listed[0][1])) is not None:
        job = on_nodes(cluster, job, [cluster.index_of[first]])
    cells, each = job.grid.cells, job.gpus_per_node
    if len(listed) in {job.parallelism.gpus, cells * each} - {cells}:
        # a line for each global rank: those of a node follow each other, and the last node may have fewer
        for i, (name, place) in enumerate(listed):
            if name != listed[i - i % each][0]:
                apart = f"rank {i} is on {name!r}, and the ranks of a node follow each other, {each} on each"
                fix = "start it with srun --distribution=block: ranks that go round the nodes make no grid of nodes"
                raise InvalidPlacement(apart, where=place, fix=fix)
        listed = listed[::each]
    if len(listed) != cells:
        place = listed[min(cells, len(listed) - 1)][1] if listed else source.name
        problem = f"{plural(len(listed), 'node')}, and the job has {cells:,} of {plural(each, 'GPU')}"
        fix = "give the nodes of this job, one a line, in the order of their ranks"
        raise InvalidPlacement(problem, where=place, fix=fix)
    order: list[int] = []
    holder: dict[int, str] = {}
    for name, place in listed:
        if (own := spellings.find(name, where=place)) is None:
            fix = f"{did_you_mean(name, cluster.index_of)}give the cluster that the job runs on"
            raise InvalidPlacement(f"the cluster has no node {name!r}", where=place, fix=fix)
        node = cluster.index_of[own]
        if node in holder:
            fix = "name each node once, or once for each of its GPUs"
            raise InvalidPlacement(f"node {own!r} is there twice, also in {holder[node]}", where=place, fix=fix)
        holder[node] = place
        order.append(node)
    nodes: IntArray = np.array(order, dtype=np.int32)[job.grid.node_rank]
    return nodes


class PlacementOfRunning:
    """Reads a saved placement as a job that runs where it was placed."""

    format = FileFormat(
        name="placement",
        source="A placement that Arnold saved",
        export="`arnold place --output placement.json`",
        read="name, nodes in rank order, GPUs, degrees of parallelism, age of the last checkpoint (checkpoint_age)",
        left_out="",
        marks=("assignment", "job"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether it is JSON with what is known of a placement from its beginning, and no objects of Kubernetes,
        which have plans of gangs among them.
        """
        placed = b'"assignment"' in head or (b'"status"' in head and b'"spread"' in head)
        objects = b'"items"' in head or b'"apiVersion"' in head
        return float(head.lstrip()[:1] == b"{" and placed and not objects)

    def read(self, source: Source, *, now: datetime) -> Iterator[LiveJob]:
        """Yield the one job."""
        document, saved, file = _load(source)
        names = _names_by_rank(document, saved, file)
        checkpoint = None if saved.checkpoint_age is None else now.timestamp() - saved.checkpoint_age
        asks = json_data(JobDocument, saved.job, without_defaults=True)
        yield LiveJob(
            file.job.name, names, document.where("assignment"), ranked=True, gpus=file.job.gpus_per_node,
            asks=asks, last_checkpoint=checkpoint,
        )  # fmt: skip
