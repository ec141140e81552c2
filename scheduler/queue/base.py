"""What most policies do: keep nothing, stop no job, and offer what the holds leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.queue.types import ClusterState, HeldNodes, Keep, Rank, Running, Waiting, ends_by, kept


class BasePolicy:
    """First come, first asked; none passes; none is stopped."""

    passing = False
    claims: int | None = 0
    reserving = False
    stops_any_time = False

    def rank(self, job: Waiting) -> Rank:
        """Rank by time of submission."""
        return (job.submitted, job.key)

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:  # noqa: ARG002
        """Keep nothing."""
        return ()

    def offers(self, job: Waiting, cluster: ClusterState, holds: Sequence[HeldNodes]) -> Iterable[Keep]:
        """Offer everything but what is kept beyond the job's expected end."""
        if not holds:
            return _EVERYTHING
        beyond = [hold for hold in holds if not ends_by(job, cluster.now, hold.until)]
        return (kept(beyond, job, cluster) if beyond else None,)

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Running]:  # noqa: ARG002
        """Stop none."""
        return ()


_EVERYTHING: tuple[Keep] = (None,)
