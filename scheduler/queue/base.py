"""What most policies do: keep nothing, stop nobody, and offer what the holds leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.queue.types import Floor, Hold, Keep, Rank, Running, Waiting, ends_by, kept


class BasePolicy:
    """First come, first asked; nobody passes; nobody is stopped."""

    passing = False
    claims: int | None = 0
    reserving = False

    def rank(self, job: Waiting) -> Rank:
        """By time of submission."""
        return (job.submitted, job.key)

    def holds(self, blocked: Sequence[Waiting], floor: Floor) -> Sequence[Hold]:  # noqa: ARG002
        """Nothing."""
        return ()

    def offers(self, job: Waiting, floor: Floor, holds: Sequence[Hold]) -> Iterable[Keep]:
        """Everything but what is kept beyond the job's expected end."""
        if not holds:
            return _EVERYTHING
        beyond = [hold for hold in holds if not ends_by(job, floor.now, hold.until)]
        return (kept(beyond, job, floor) if beyond else None,)

    def victims(self, job: Waiting, floor: Floor) -> Sequence[Running]:  # noqa: ARG002
        """Nobody."""
        return ()


_EVERYTHING: tuple[Keep] = (None,)
