"""One leader among several replicas, by a Lease in the API server.

The algorithm is client-go's: the holder of the Lease renews it; a replica that sees it unchanged for its whole
duration, by its own steady clock, takes it with an update that fails if another was faster.  Two things are stricter:

- Leading ends by the clock alone: a leader that could not renew for ``renew_deadline`` seconds stops *before* another
  may start, also while a request hangs.  :meth:`Election.leads` is that clock, asked before every write.
- No failure ends the election: neither a refused connection nor an answer that is not JSON.

The client library brings an elector too.  It is not used: a request that hangs holds up its deadline, so that two may
lead; errors of the network end it without a word to the leader; and it writes local time as if it were UTC.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Annotated

import msgspec

from extender.cluster_api.client import LEASES, ClusterApi, ClusterError, Document, NotFound

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds of an election."""

    lease: float = 12.0  # a Lease that was not renewed for so long is free
    renew_deadline: float = 8.0  # a leader that could not renew for so long stops; less than lease, as clocks differ
    retry: float = 2.0  # pause between two tries


RENEWALS = 8  # of the leader, of which the one that was seen the soonest tells how its clock differs


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


@dataclass(eq=False)
class Election:
    """A candidate; :meth:`run` never returns."""

    api: ClusterApi
    _: KW_ONLY
    name: str
    namespace: str
    identity: str  # a name that no other candidate has
    terms: LeaseTimes = field(default_factory=LeaseTimes)
    changed: Callable[[], None] = lambda: None  # called when leading begins or ends
    clock: Callable[[], float] = monotonic  # steady seconds
    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # the time of day here
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _until: float = field(default=float("-inf"), init=False)
    _seen: tuple[str, float] = field(default=("", 0.0), init=False)
    _leading: bool = field(default=False, init=False)
    _failing: bool = field(default=False, init=False)
    _acquired: str = field(default="", init=False)
    _leader: str = field(default="", init=False)  # another that held the Lease when it was last seen to change
    # its latest renewals: how much later than its clock said ours said when each was seen
    _delays: deque[timedelta] = field(default_factory=lambda: deque(maxlen=RENEWALS), init=False)

    def leads(self) -> bool:
        """Return whether this replica leads, at this very moment."""
        return self.clock() < self._until

    def leader_time(self) -> datetime:
        """Return the time of day by the leader's clock: what it writes expires by that, whatever the clock here says.

        It is read off the renewals of its Lease: at most a retry too early, and too late by what an answer takes.
        """
        return self.now() if self.leads() else self.now() - min(self._delays, default=timedelta(0))

    async def run(self) -> None:
        """Stand for election, for ever."""
        while True:
            await self.step()
            await self.sleep(self.terms.retry)

    async def step(self) -> None:
        """Try once to take or renew the Lease; never raises a :class:`ClusterError`."""
        started = self.clock()
        try:
            async with asyncio.timeout(self.terms.renew_deadline / 2):
                won = await self._try()
        except (ClusterError, TimeoutError) as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            why = str(error) or "no answer in time"
            logger.log(level, "the lease %s/%s cannot be had, trying on: %s", self.namespace, self.name, why)
            self._failing = True
        else:
            self._failing = False
            self._notice()  # leading that ran out before this try ended is told, although it begins again at once
            self._until = started + self.terms.renew_deadline if won else float("-inf")
        self._notice()

    async def release(self) -> None:
        """Let go of the Lease, so that another replica leads at once; gives up quietly."""
        if not self.leads():
            return
        self._until = float("-inf")
        self._notice()
        try:
            async with asyncio.timeout(self.terms.retry):
                lease = await self._read()
                if lease is not None and lease.spec.holder_identity == self.identity:
                    await self._write(lease, holder="", seconds=1)
        except (ClusterError, TimeoutError) as error:
            logger.info("the lease %s/%s was not released: %s", self.namespace, self.name, error)

    async def _try(self) -> bool:
        lease = await self._read()
        if lease is None:
            self._acquired = self._stamp()
            await self._write(None, holder=self.identity, seconds=round(self.terms.lease))
            return True
        holder = lease.spec.holder_identity or ""
        if holder not in ("", self.identity):
            # it is free when it has not changed for its whole duration, as we saw it
            version = lease.metadata.resource_version
            if self._seen[0] != version:
                self._seen = (version, self.clock())
                if self._leader != holder:
                    self._leader = holder
                    self._delays.clear()
                if lease.spec.renew_time is not None:
                    self._delays.append(self.now() - lease.spec.renew_time)
            if self.clock() < self._seen[1] + (lease.spec.lease_duration_seconds or self.terms.lease):
                return False
        if holder != self.identity or not self._acquired:
            self._acquired = self._stamp()
        await self._write(lease, holder=self.identity, seconds=round(self.terms.lease))
        return True

    async def _read(self) -> _Lease | None:
        try:
            body = await self.api.get(LEASES, self.name, namespace=self.namespace)
        except NotFound as error:
            if error.reason == "NotFound":
                return None
            raise
        try:
            return msgspec.json.decode(body, type=_Lease)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            where = LEASES.named(self.name, self.namespace)
            raise ClusterError(f"the lease cannot be read: {error}", where=where, fix="delete it") from error

    async def _write(self, lease: _Lease | None, *, holder: str, seconds: int) -> None:
        """Write the Lease, which fails if another was faster."""
        before = _Spec() if lease is None else lease.spec
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": self._acquired,
            "renewTime": self._stamp(),
            "leaseTransitions": (before.lease_transitions or 0) + (holder not in ("", before.holder_identity)),
        }
        metadata = {"name": self.name, "namespace": self.namespace}
        document: Document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        document |= {"metadata": metadata, "spec": spec}
        if lease is None:
            await self.api.create(LEASES, document, namespace=self.namespace)
        else:
            metadata["resourceVersion"] = lease.metadata.resource_version
            await self.api.replace(LEASES, self.name, document, namespace=self.namespace)

    def _stamp(self) -> str:
        return self.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _notice(self) -> None:
        if self._leading != self.leads():
            self._leading = self.leads()
            logger.info("this replica %s", "leads" if self._leading else "does not lead any more")
            self.changed()
