"""One rank of a job that PyTorch runs over gloo, and its Flight Recorder dump: ``gloo_job.py CASE FOLDER RANK RANKS``.

Started by ``test_program_mistakes.py`` where PyTorch is installed; the cases are those of ``made_dumps.py``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

ODD = 2
SETTLED = 0.5  # Seconds after which what can end has ended


def run(case: str, folder: Path, rank: int, ranks: int) -> bytes:
    """Run the case and return the dump; collectives from the fifth on are not waited for."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace_json

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    pair = dist.new_group([0, 1])
    for _ in range(4):
        dist.all_reduce(torch.ones(8))
    if rank < 2:
        dist.all_reduce(torch.ones(8), group=pair)
        # gloo does not record transfers, and counts them.
        (dist.recv if rank else dist.send)(torch.ones(3), 1 - rank)
    works: list[Any] = []

    def reduce(elements: int = 8) -> None:
        works.append(dist.all_reduce(torch.ones(elements), async_op=True))

    def gather() -> None:
        works.append(dist.all_gather([torch.ones(8) for _ in range(ranks)], torch.ones(8), async_op=True))

    if case == "order":
        for op in (gather, reduce) if rank == ODD else (reduce, gather):
            op()
    elif case == "size":
        reduce(16 if rank == ODD else 8)
    elif case == "healthy" or rank != ODD:
        reduce()
    time.sleep(SETTLED)
    dump: bytes = _dump_fr_trace_json()
    return dump


def main(case: str, folder: str, rank: str, ranks: str) -> None:
    """Write the dump of a rank, wait for those of the others, and leave whatever still waits."""
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    target = Path(folder) / f"dump_{rank}.json"
    part = target.with_suffix(".part")
    part.write_bytes(run(case, Path(folder), int(rank), int(ranks)))
    part.rename(target)
    until = time.monotonic() + 20.0
    # A rank that ends makes the others fail, and gloo ends a process that is sent more than it expects.
    while len(list(Path(folder).glob("dump_*.json"))) < int(ranks) and time.monotonic() < until:
        time.sleep(0.05)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
