"""Make one rank of a pipeline of four processes slow on a laptop, and let Arnold name it.

PyTorch over gloo, on the CPU (pip install torch): two stages of two replicas, numbered as Megatron-LM does.
Each rank writes a profile, which says by its process groups what the degrees are:

    python examples/slow/slow.py --schedule gpipe --fault backward --rank 2 --out profiles
    arnold health op-trace profiles/rank-*.json.gz --save trace
    arnold stragglers trace/trace.parquet --meta trace/meta.yaml
"""

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.nn import Linear, Module, Sequential
from torch.profiler import ProfilerActivity, profile, record_function, schedule

STAGES, REPLICAS, MICROBATCHES, WIDTH = 2, 2, 4, 64
USUAL = 0.02  # Seconds that each pass of a chunk of the model takes beside its arithmetic
SCHEDULES = {
    "gpipe": ScheduleGPipe,
    "1f1b": Schedule1F1B,
    "interleaved": ScheduleInterleaved1F1B,
    "zero-bubble": ScheduleInterleavedZeroBubble,
    "dualpipe-v": ScheduleDualPipeV,
}


class Wait(torch.autograd.Function):
    """Takes a time forward and another backward."""

    @staticmethod
    def forward(context: Any, data: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
        """Wait, and hand on what came."""
        context.backward_time = backward
        time.sleep(forward)
        return data.view_as(data)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Wait as long as is asked for the way back."""
        time.sleep(context.backward_time)
        return gradient, None, None


class Block(Module):
    """A chunk of the model, whose passes take as long as the rank of this process needs."""

    def __init__(self) -> None:
        super().__init__()
        self.times, self.layers = [0.0, 0.0], Sequential(Linear(WIDTH, WIDTH), Linear(WIDTH, WIDTH))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return Wait.apply(self.layers(data), *self.times)


def recorded(stage: PipelineStage) -> None:
    """Put a range around each pass, as 1F1B records none of its own."""
    for name in ("forward", "backward"):
        call = getattr(stage, f"{name}_one_chunk")

        def ranged(number: int, *args: Any, _call: Callable[..., Any] = call, _name: str = name, **kwargs: Any) -> Any:
            with record_function(f"{_name}-compute mb_id={number}"):
                return _call(number, *args, **kwargs)

        setattr(stage, f"{name}_one_chunk", ranged)


def run(rank: int, options: argparse.Namespace) -> None:
    """Be one rank: train a few steps, and write the profile."""
    folder, world = Path(options.out).resolve(), STAGES * REPLICAS
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (STAGES, REPLICAS), mesh_dim_names=("pp", "dp"))
    place, pipeline = mesh["pp"].get_local_rank(), mesh["pp"].get_group()
    chunks = {"gpipe": [place], "1f1b": [place], "dualpipe-v": [place, 2 * STAGES - 1 - place]}.get(
        options.schedule, [place, place + STAGES]
    )
    times = [USUAL, 2 * USUAL]
    at_fault = [rank in options.rank and options.fault == name for name in ("forward", "backward")]
    slow = [options.slower * usual if at else usual for usual, at in zip(times, at_fault, strict=True)]
    torch.manual_seed(0)
    models = [Block() for _ in chunks]
    stages = [
        PipelineStage(model, number, STAGES * len(chunks), torch.device("cpu"), group=pipeline)
        for model, number in zip(models, chunks, strict=True)
    ]
    if options.schedule == "1f1b" and not options.plain:
        recorded(stages[0])

    def loss(out: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return ((out - goal) ** 2).mean()

    several = len(chunks) > 1
    plan = SCHEDULES[options.schedule](stages if several else stages[0], MICROBATCHES, loss_fn=loss)
    data, goal = torch.ones(4 * MICROBATCHES, WIDTH), torch.zeros(4 * MICROBATCHES, WIDTH)
    when = schedule(wait=0, warmup=1, active=options.steps)
    file = str(folder / f"rank-{rank}.json.gz")
    with profile(
        activities=[ProfilerActivity.CPU], schedule=when, on_trace_ready=lambda made: made.export_chrome_trace(file)
    ) as profiler:
        for step in range(1 + options.steps):
            for model in models:
                model.times = slow if step % options.every == 0 else times
            plan.step(
                *([data] if 0 in chunks else []), **({"target": goal} if STAGES * len(chunks) - 1 in chunks else {})
            )
            for model in models:
                for weight in model.parameters():
                    dist.all_reduce(weight.grad, group=mesh["dp"].get_group())
                    weight.grad = None
            dist.all_reduce(torch.ones(1))
            profiler.step()
    dist.barrier()
    os._exit(0)


def main() -> None:
    """Start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedule", choices=SCHEDULES, default="gpipe")
    parser.add_argument("--plain", action="store_true", help="1f1b without ranges of its own")
    parser.add_argument("--fault", choices=("none", "forward", "backward"), default="backward")
    parser.add_argument("--rank", type=int, action="append", help="who is slow, 2 by default; may be repeated")
    parser.add_argument("--slower", type=float, default=3.0, help="how many times as long its passes take")
    parser.add_argument("--every", type=int, default=1, help="it is slow in one step of so many")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--out", default="profiles", help="folder of the profiles, a new one")
    options = parser.parse_args()
    options.rank = options.rank or [2]
    Path(options.out).mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=run, args=(rank, options)) for rank in range(STAGES * REPLICAS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    (Path(options.out) / "store").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
