"""A saved placement: the JSON of ``arnold place`` or ``arnold repair``, read back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from scheduler.documents.job import JobDocument
from scheduler.job import Job
from scheduler.jobfile import job_of
from topology.cluster import Cluster, IntArray
from topology.documents import Document, load_document
from topology.errors import InvalidInput, InvalidPlacement
from topology.files import Source


class _Cell(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    node: str
    dp: int = Field(ge=0)
    pp: int = Field(ge=0)


class _Saved(BaseModel):
    """What of the document is needed; the rest is for people."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    job: JobDocument
    assignment: list[_Cell]


@dataclass(frozen=True, slots=True)
class SavedPlacement:
    """A placement that was saved.

    :param nodes: shape [rows, columns], index of the node of each cell.
    """

    job: Job
    nodes: IntArray


def load_placement(source: Source, cluster: Cluster) -> SavedPlacement:
    """Read a placement on a cluster.  Whether it is valid is for the evaluator to say.

    :raises InvalidInput: not YAML or JSON, or not a placement.
    :raises InvalidJob: its job cannot be.
    :raises InvalidPlacement: a cell is missing or there twice, or a node is not in the cluster.
    :raises UnknownName: the job names a level that the cluster does not have.
    """
    document = load_document(source)
    saved = document.parse(_Saved)
    file = job_of(saved.job, lambda *path: document.where("job", *path))
    file.check_levels(cluster)
    if not saved.assignment:
        raise InvalidInput(
            "it holds no placement: the assignment is empty",
            where=document.where("assignment"),
            fix="give the JSON of an `arnold place` that found one",
        )
    return SavedPlacement(file.job, _nodes(saved.assignment, document, cluster, file.job))


def _nodes(cells: list[_Cell], document: Document, cluster: Cluster, job: Job) -> IntArray:
    grid = job.grid
    nodes = np.full((grid.rows, grid.columns), -1, dtype=np.int32)
    for i, cell in enumerate(cells):
        if problem := _problem(cell, nodes, cluster):
            raise InvalidPlacement(
                problem,
                where=document.where("assignment", i),
                fix="give the placement that `arnold place` saved, and the cluster it was made for",
            )
        nodes[cell.dp, cell.pp] = cluster.index_of[cell.node]
    if (nodes < 0).any():
        row, column = np.argwhere(nodes < 0)[0]
        raise InvalidPlacement(
            f"cell (dp {row}, pp {column}) has no node",
            where=document.where("assignment"),
            fix="give the whole placement that `arnold place` saved",
        )
    return nodes


def _problem(cell: _Cell, nodes: IntArray, cluster: Cluster) -> str:
    """What is wrong with one row of the assignment; empty when nothing is."""
    rows, columns = nodes.shape
    if cell.dp >= rows or cell.pp >= columns:
        return f"cell (dp {cell.dp}, pp {cell.pp}) lies outside the job's {rows} x {columns} cells"
    if nodes[cell.dp, cell.pp] >= 0:
        return f"cell (dp {cell.dp}, pp {cell.pp}) is there twice"
    if cell.node not in cluster.index_of:
        return f"the cluster has no node {cell.node!r}"
    return ""
