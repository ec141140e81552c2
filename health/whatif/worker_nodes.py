"""Which node each worker ran on.

Two files say it: a CSV with the columns ``dp``, ``stage``, ``node``, one row for each worker, or the JSON that ``arnold
place`` printed for the job.  A cell of a placement is a node; where tensor-parallel groups are smaller than a node, it
holds several data-parallel ranks, or several stages, in rank order.
"""

import csv
from collections.abc import Mapping
from io import StringIO

from ground.errors import InvalidInput
from ground.files import Source
from scheduler.grid import filling
from scheduler.job_files.placement_file import load_names

Nodes = Mapping[tuple[int, int], str]
HEADER = ("dp", "stage", "node")
SPELLINGS = {"dp_rank": "dp", "pp": "stage", "pp_rank": "stage"}  # As a trace and a placement call the columns


def read_nodes(source: Source, *, dp: int, pp: int) -> Nodes:
    """Return (dp rank, stage) -> node, of a job of ``dp`` data-parallel ranks and ``pp`` stages.

    :raises InvalidInput: neither of the two formats, a worker that the job does not have or that is there twice, a
        placement of another job.
    """
    return _of_placement(source, dp, pp) if source.text.lstrip()[:1] == "{" else _of_csv(source, dp, pp)


def _of_csv(source: Source, dp: int, pp: int) -> Nodes:
    reader = csv.reader(StringIO(source.text), strict=True)
    nodes: dict[tuple[int, int], str] = {}
    columns: list[int] = []
    try:
        for row in reader:
            cells, place = [cell.strip() for cell in row], source.at(reader.line_num)
            if not any(cells) or cells[0].startswith("#"):
                continue
            if not columns:
                names = [SPELLINGS.get(cell.lower(), cell.lower()) for cell in cells]
                missing = [name for name in HEADER if name not in names]
                if missing:
                    fix = f"begin with the line {','.join(HEADER)}, or give the JSON of `arnold place`"
                    raise InvalidInput(f"the column {missing[0]!r} is missing", where=place, fix=fix)
                columns = [names.index(name) for name in HEADER]
                continue
            rank, stage, node = (cells[i] if i < len(cells) else "" for i in columns)
            worker = (_number(rank, "dp", dp, place), _number(stage, "stage", pp, place))
            if not node:
                raise InvalidInput("the node is missing", where=place, fix="write the name of the node")
            if worker in nodes:
                fix = "keep one of the rows"
                raise InvalidInput(f"worker dp {worker[0]} / stage {worker[1]} is there twice", where=place, fix=fix)
            nodes[worker] = node
    except csv.Error as error:
        raise InvalidInput(f"is not CSV: {error}", where=source.at(reader.line_num), fix="correct the line") from None
    if not nodes:
        raise InvalidInput("names no worker", where=source.name, fix=f"write rows of {', '.join(HEADER)}")
    return nodes


def _number(text: str, name: str, limit: int, place: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < limit):
        fix = f"count {name} from 0"
        raise InvalidInput(f"{name} is {text[:40]!r}, not a number from 0 to {limit - 1}", where=place, fix=fix)
    return int(text)


def _of_placement(source: Source, dp: int, pp: int) -> Nodes:
    saved = load_names(source)
    grid = saved.job.grid
    if filling(saved.job.parallelism.dense, saved.job.gpus_per_node):
        fix = "give a CSV with dp,stage,node: the node of each worker"
        raise InvalidInput("places a job that does not fill its nodes evenly", where=source.name, fix=fix)
    if grid.parts > 1:
        problem = "places TP groups on several nodes each, and a worker is looked for on one"
        fix = "give a CSV with dp,stage,node: for each worker the node that is to answer for it"
        raise InvalidInput(problem, where=source.name, fix=fix)
    if dp % grid.rows or pp % grid.columns:
        raise InvalidInput(
            f"places {grid.rows} x {grid.columns} cells, and the trace is of {dp} data-parallel ranks x {pp} stages",
            where=source.name,
            fix="give the placement of this job, or a CSV with dp,stage,node",
        )
    return {
        (rank, stage): saved.names[grid.node_rank[rank * grid.rows // dp, stage * grid.columns // pp]]
        for rank in range(dp)
        for stage in range(pp)
    }
