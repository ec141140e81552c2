"""Made traces with all that a test can spoil: schedules with virtual stages, slow links, uneven work, pauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from health.whatif import optypes, synthetic
from health.whatif.analysis_result import Operation
from health.whatif.optypes import BACKWARD, FORWARD, one_forward_one_backward, stream_of
from health.whatif.trace import JobSizes


@dataclass(frozen=True)
class Recipe(synthetic.Recipe):
    """A job and what is wrong with it."""

    vpp: int = 1  # microbatches are a multiple of pp where it is above 1
    slow_from: int = 0  # place of the first step in which workers are slow
    # (dp rank, stage) -> factor on the transfers between this stage and the next one
    slow_links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    last_stage: float = 1.0  # factor on the compute time of the last stage
    uneven: float = 0.0  # standard deviation of the work of a microbatch, relative: sequence lengths
    pauses: float = 0.0  # probability that a forward pass has a pause of pause seconds
    pause: float = 0.5
    overlap: bool = False  # reduce-scatters overlap with backward passes
    # with several chunks a stage: transfers are also recorded where the model begins or ends and nothing is moved, as
    # profilers do
    empty: bool = False

    @property
    def sizes(self) -> JobSizes:
        """What the metadata file would say."""
        return replace(super().sizes, vpp=self.vpp)

    def operations(self, stage: int) -> Iterator[Operation]:
        """Operations of a stage, in the order of each of its streams."""
        first, last = (0, 0), (self.pp - 1, self.vpp - 1)
        passes = list(
            one_forward_one_backward(stage=stage, stages=self.pp, microbatches=self.microbatches, chunks=self.vpp)
        )

        def made(optype: str, chunk: int = -1, microbatch: int = -1) -> Operation:
            return Operation(optype, stage, chunk, microbatch, stream_of(optype))

        for chunk in range(self.vpp):
            yield made(optypes.ALL_GATHER, chunk)
        for i, (forward, chunk, microbatch) in enumerate(passes):
            optype, begin, end = (FORWARD, first, last) if forward else (BACKWARD, last, first)
            if self.pp > 1 and (self.empty or (stage, chunk) != begin):
                yield made(optypes.FORWARD_RECV if forward else optypes.BACKWARD_RECV)
            yield made(optype, chunk, microbatch)
            if self.pp > 1 and (self.empty or (stage, chunk) != end):
                yield made(optypes.FORWARD_SEND if forward else optypes.BACKWARD_SEND)
            if self.overlap and not forward and (False, chunk) not in {later[:2] for later in passes[i + 1 :]}:
                yield made(optypes.REDUCE_SCATTER, chunk)
        yield made(optypes.GC)
        yield made(optypes.LAYERNORM)
        if stage in (0, self.pp - 1) and self.pp > 1:
            yield made(optypes.EMBEDDING)
        if self.overlap:
            yield made(optypes.SEPARATE)
        else:
            yield from (made(optypes.REDUCE_SCATTER, chunk) for chunk in range(self.vpp))
        yield made(optypes.CLIP)
        yield made(optypes.OPTIMIZER)

    def seconds(self, operations: Sequence[Operation]) -> NDArray[np.float64]:
        """Shape [operations, dp, steps], without waiting."""
        random = np.random.default_rng(self.seed)
        usual = np.array([synthetic.SECONDS[operation.optype] for operation in operations])[:, None, None]
        shape = (len(operations), self.dp, self.steps)
        seconds = usual * np.maximum(1.0 + self.noise * random.standard_normal(shape), 0.1)
        work = np.maximum(1.0 + self.uneven * random.standard_normal((self.microbatches, *shape[1:])), 0.1)
        for place, operation in enumerate(operations):
            for (rank, stage), factor in self.slow_links.items():
                # the stage and type of the operations that transfer between a stage and the next one
                ends = {
                    **dict.fromkeys((optypes.FORWARD_SEND, optypes.BACKWARD_RECV), stage),
                    **dict.fromkeys((optypes.FORWARD_RECV, optypes.BACKWARD_SEND), stage + 1),
                }
                if ends.get(operation.optype) == operation.stage:
                    seconds[place, rank] *= factor
            if operation.optype not in (FORWARD, BACKWARD):
                continue
            seconds[place] *= work[operation.microbatch]
            if operation.stage == self.pp - 1:
                seconds[place] *= self.last_stage
            for (rank, stage), factor in self.slow.items():
                if stage == operation.stage:
                    seconds[place, rank, self.slow_from :] *= factor
            if self.pauses and operation.optype == FORWARD:
                seconds[place] += self.pause * (random.random(shape[1:]) < self.pauses)
        return seconds
