"""Language models that large jobs train, and how they are divided over GPUs.

Names are what ``JobRecord.model`` says; a cost of communication finds the shape here.  Sizes are those of the Acme
paper (7B and 123B, tp 8 and pp 4 for the large one; NSDI 2024, section 4) and of InternLM (20B); widths and depths of
the 123B model are inferred from its number of parameters (12 * layers * hidden^2 + vocabulary).
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.affinity import Model
from scheduler.job import Parallelism

VOCAB = 103_168
TP = 8  # Tensor parallelism fills a node


@dataclass(frozen=True, slots=True)
class Trained:
    """A model, and its stages."""

    model: Model
    pp: tuple[int, ...]  # pipeline stages, tried in this order
    least_gpus: int  # fewest GPUs that a job trains it on


MODELS: dict[str, Trained] = {
    "llm-7b": Trained(Model(hidden=4096, layers=32, vocab=VOCAB, sequence_length=2048), (1,), 8),
    "llm-20b": Trained(Model(hidden=5120, layers=60, vocab=VOCAB, sequence_length=4096), (2, 4), 128),
    "llm-123b": Trained(Model(hidden=10240, layers=96, vocab=VOCAB, sequence_length=4096), (4, 8), 256),
}


def grids(gpus: int) -> list[tuple[str, Parallelism]]:
    """Return every model and grid that a job of so many GPUs may have; none below a node of 8."""
    return [
        (name, Parallelism(tp=TP, pp=pp, dp=gpus // TP // pp))
        for name, trained in MODELS.items()
        for pp in trained.pp
        if gpus >= trained.least_gpus and gpus % (TP * pp) == 0
    ]
