"""The frame that models share in which jobs do not disturb each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.cost.step import on_one_node
from simulator.cost.types import PlacedJob, StepTime


@dataclass(frozen=True, slots=True)
class Independent:
    """A price for each placed job.

    :param price: of a job on more than one node; on one node nothing is sent, and no model differs.
    """

    name: str
    summary: str
    assumptions: tuple[str, ...]
    price: Callable[[PlacedJob], StepTime]

    @property
    def shares_links(self) -> bool:
        """They do not."""
        return False

    def step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> StepTime:  # noqa: ARG002
        """As :meth:`~simulator.cost.types.CommModel.step_time`."""
        return on_one_node(placed) if placed.nodes.size == 1 else self.price(placed)

    def step_times(self, running: Sequence[PlacedJob]) -> list[StepTime]:
        """As :meth:`~simulator.cost.types.CommModel.step_times`."""
        return [self.step_time(placed) for placed in running]

    def relative_step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> float:  # noqa: ARG002
        """As :meth:`~simulator.cost.types.CommModel.relative_step_time`."""
        return self.step_time(placed).relative
