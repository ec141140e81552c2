"""Make a training job of four processes hang on a laptop, and let Arnold name the rank that did it.

PyTorch over gloo, on the CPU (pip install torch).  One rank stops, dies, or calls another collective than the others;
each rank that is alive then writes its Flight Recorder dump:

    python examples/hangs/hang.py --job ddp --fault hang --rank 2 --out dumps
    arnold health collectives dumps/*.json
"""

import argparse
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"  # turns the recorder on; read when the first process group is made

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_json
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn import Linear, Module, Sequential
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, WIDTH = 4, 6, 16
TIMEOUT = 10.0  # Seconds after which a collective of the group of all ranks gives up
JOBS = ("ddp", "fsdp", "pipeline", "groups")
FAULTS = ("none", "hang", "crash", "order", "size")


def train(job: str, fault: Callable[[], None]) -> None:
    """Run a few steps of a job; ``fault`` is called in the middle of each forward pass."""

    class Faulty(Module):
        def forward(self, data: torch.Tensor) -> torch.Tensor:
            fault()
            return data

    torch.manual_seed(0)
    model, data = Sequential(Linear(WIDTH, WIDTH), Faulty(), Linear(WIDTH, WIDTH)), torch.ones(8, WIDTH)
    if job == "groups":  # data parallelism over {0, 2} and {1, 3}, tensor parallelism in {0, 1} and {2, 3}
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for _ in range(STEPS):
            dist.all_reduce(data, group=mesh["tp"].get_group())
            fault()
            dist.all_reduce(data, group=mesh["tp"].get_group())
            dist.all_reduce(data, group=mesh["dp"].get_group())
            dist.all_reduce(data)
    elif job == "pipeline":  # two stages, {0, 1} and {2, 3}, each of two replicas
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
        number = mesh["pp"].get_local_rank()
        stage = PipelineStage(model, number, 2, torch.device("cpu"), group=mesh["pp"].get_group())
        schedule = ScheduleGPipe(stage, 4, loss_fn=lambda out, goal: ((out - goal) ** 2).mean())
        for _ in range(STEPS):
            if number == 0:
                schedule.step(data)
            else:
                schedule.step(target=data)
            for weight in model.parameters():
                dist.all_reduce(weight.grad, group=mesh["dp"].get_group())
    else:
        if job == "fsdp":
            mesh = init_device_mesh("cpu", (RANKS,))
            for part in (model[0], model[2], model):
                fully_shard(part, mesh=mesh)
        else:
            model = DistributedDataParallel(model, bucket_cap_mb=0.001)
        for _ in range(STEPS):
            model(data).sum().backward()


def run(rank: int, options: argparse.Namespace) -> None:
    """Be one rank: train, and dump when all that can be seen is seen."""
    folder, passes = Path(options.out), 0

    def fault() -> None:
        nonlocal passes
        passes += 1
        if rank not in options.rank or passes != options.after:
            return
        (folder / f"fault_{rank}").touch()
        if options.fault == "hang":
            time.sleep(1000)
        elif options.fault == "crash":
            os._exit(1)
        elif options.fault == "order":
            dist.all_gather([torch.ones(8) for _ in range(RANKS)], torch.ones(8))
        elif options.fault == "size":
            dist.all_reduce(torch.ones(16))

    def work() -> None:
        try:
            train(options.job, fault)
            (folder / f"done_{rank}").touch()
        except RuntimeError as error:  # what a collective raises that timed out, or lost its peer
            print(f"rank {rank}: {str(error).splitlines()[0][:100]}")
            (folder / f"failed_{rank}").touch()

    store = f"file://{folder.resolve()}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=TIMEOUT))
    threading.Thread(target=work, daemon=True).start()
    while not (folder / "dump").exists():
        time.sleep(0.1)
    (folder / f"dump_{rank}.json").write_bytes(_dump_fr_trace_json())
    (folder / f"dumped_{rank}").touch()
    while not (folder / "end").exists():  # a rank that ends makes the others fail
        time.sleep(0.1)
    os._exit(0)


def main() -> None:
    """Start the ranks; ask for dumps when all have ended, or those that wait have given up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=JOBS, default="ddp")
    parser.add_argument("--fault", choices=FAULTS, default="hang")
    parser.add_argument("--rank", type=int, action="append", help="who does it, 2 by default; may be repeated")
    parser.add_argument("--after", type=int, default=3, help="in which of its forward passes")
    parser.add_argument("--out", default="dumps", help="folder of the dumps, a new one")
    options = parser.parse_args()
    options.rank = options.rank or [2]
    folder = Path(options.out)
    folder.mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=run, args=(rank, options)) for rank in range(RANKS)]
    for process in ranks:
        process.start()

    def those(what: str) -> int:
        return len(list(folder.glob(f"{what}_*")))

    until = time.monotonic() + 120.0
    while those("done") < RANKS and not those("fault") + those("failed") and time.monotonic() < until:
        time.sleep(0.2)
    if those("done") < RANKS:
        time.sleep(1.5 * TIMEOUT)
    (folder / "dump").touch()
    while those("dumped") < sum(process.is_alive() for process in ranks) and time.monotonic() < until:
        time.sleep(0.2)
    (folder / "end").touch()
    for process in ranks:
        process.join()
    for file in folder.iterdir():
        if file.suffix != ".json":
            file.unlink()


if __name__ == "__main__":
    main()
