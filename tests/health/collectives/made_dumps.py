"""Flight Recorder dumps of a job of four ranks as four recorders write them, made by our own code.

The same four cases are run by ``gloo_job.py`` with PyTorch itself, where it is installed.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ground.files import Source

RANKS, ROUNDS, ODD = 4, 4, 2  # Four all-reduces are over; in the fifth collective rank 2 is the odd one
CASES = ("healthy", "absent", "order", "size")


class Shape(NamedTuple):
    """What a recorder writes."""

    backend: str
    pg_config: bool = True  # whether groups are named
    over: tuple[str, bool] = ("scheduled", True)  # state and retired of what is over
    waiting: tuple[str, bool] = ("scheduled", True)  # and of what is not
    described: str = "default_pg"
    one_series: bool = False


SHAPES = {
    "gloo": Shape("gloo", pg_config=False, waiting=("scheduled", False)),
    "hook": Shape("nccl2"),
    "hook-completions": Shape("nccl2", over=("completed", True), waiting=("scheduled", False)),
    "events": Shape("nccl", over=("completed", True), waiting=("started", False)),
    "torchcomms": Shape("ncclx", waiting=("scheduled", False), described="ncclx", one_series=True),
}


def calls(case: str, rank: int) -> list[tuple[str, int]]:
    """What a rank calls in the fifth collective and after it: operation and elements."""
    reduce, gather = ("all_reduce", 8), ("all_gather", 8)
    if rank != ODD:
        return [reduce, gather] if case == "order" else [reduce]
    return {"healthy": [reduce], "absent": [], "order": [gather, reduce], "size": [("all_reduce", 16)]}[case]


def dumps(case: str, shape: Shape) -> list[Source]:
    """The dumps of all ranks."""
    return [_dump(case, shape, rank) for rank in range(RANKS)]


def _dump(case: str, shape: Shape, rank: int) -> Source:
    made = [_entry(shape, seq, "all_reduce", 8, over=True) for seq in range(1, ROUNDS + 1)]
    for op, elements in calls(case, rank):
        made.append(_entry(shape, len(made) + 1, op, elements, over=case == "healthy"))
    if shape.one_series and rank == 0:
        # A send, of which the entry says neither that it is one nor to whom, and which takes a number of the series.
        made.insert(1, _entry(shape, 0, "send", 3, over=True))
        for number, entry in enumerate(made):
            entry["collective_seq_id"] = number
    named = {"0": {"name": "0", "desc": shape.described, "ranks": str(list(range(RANKS)))}}
    nameless = {"": {"name": "", "desc": "", "ranks": str(list(range(2 if rank < 2 else RANKS)))}}
    document = {"version": "2.10", "pg_config": named if shape.pg_config else nameless, "pg_status": {}}
    return Source(f"comm_lib_trace_rank_{rank}.json", json.dumps(document | {"entries": made}))


def _entry(shape: Shape, seq: int, op: str, elements: int, *, over: bool) -> dict[str, Any]:
    state, retired = shape.over if over else shape.waiting
    gathered = [[RANKS, elements]] if op == "all_gather" else [[elements]]
    return {
        "record_id": seq - 1,
        "pg_id": 0,
        "process_group": ["0", shape.described],
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"{shape.backend}:{op}",
        "time_created_ns": 1_800_000_000_000_000_000 + seq,
        "input_sizes": [[elements]],
        "input_dtypes": ["Float"],
        "output_sizes": gathered,
        "output_dtypes": ["Float"],
        "state": state,
        "retired": retired,
        "is_p2p": False,
    }
