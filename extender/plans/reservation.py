"""A reservation: a large gang that was announced, when it arrives, and the nodes that are emptied for it.

Users write the spec, the controller the status, and nothing else remembers: the zone is read from the status after a
restart.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self

import msgspec

from extender.fleet.hosts import Demand
from extender.gangs.job import understand
from extender.gangs.types import GangKey, GangRequest, InvalidGang, NamespacedName
from extender.kubernetes_names import GANG_SIZE, GROUP, RESERVATION_KIND
from extender.plans.custom_resource import (
    CustomResource,
    Instant,
    StoredObject,
    StoredPart,
    decode_resource,
    encode_resource,
    written,
)
from scheduler.job import Job
from topology.kubernetes.objects import START_OF_TIME, instant
from topology.node_gpus import GPUS
from topology.taints import Toleration

PATIENCE = timedelta(hours=1)
"""A reservation that does not say when it expires waits for its gang so long after the announced arrival."""
_LAST = datetime.max.replace(tzinfo=UTC) - PATIENCE


class ReservationKey(NamespacedName):
    """What tells a reservation from others."""

    __slots__ = ()


class ReservationPhase(StrEnum):
    """How far a reservation has come."""

    ANNOUNCED = "Announced"
    """Nothing is kept: there is no zone yet, or none that would do, or the queue policy heeds no reservations."""
    HELD = "Held"  # the zone is kept from others
    USED = "Used"  # the gang has its nodes
    EXPIRED = "Expired"  # the gang did not come in time; the zone is given back


class _Selector(StoredPart, frozen=True):
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)


class ReservationSpec(StoredPart, frozen=True):
    """What was announced, as a gang's annotations say it."""

    nodes: int | None = None  # of the gang, whatever pods share them; may be left out where parallelism says it
    parallelism: str | None = None
    order: str | None = None
    gpus_per_node: Annotated[int, msgspec.Meta(ge=1)] = 8
    alpha: float | None = None
    model: str | None = None
    microbatches: int | None = None
    constraints: str | None = None
    gpu_types: str | None = None
    level: str | None = None
    tp_level: str | None = None
    avoid: str | None = None
    arrives: Instant = START_OF_TIME
    expires: Instant | None = None  # when the zone is given back; None = PATIENCE after the arrival
    gang: str = ""  # name of the gang that may use it; empty = see selector
    # labels of all pods of the gang that may use it; without any of the two, the gang of the reservation's name may
    selector: _Selector = _Selector()
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()  # of its pods; the taint of GPU nodes is tolerated in any case

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that all pods of the gang have."""
        return self.selector.match_labels


class Reservation(CustomResource, frozen=True):
    """A reservation, and what was decided about it.

    ``spread``, ``objective`` and ``bound`` are those of the gang in its zone, on the empty cluster.  Its conditions are
    ``Valid``, ``Heeded``, ``Zoned``, ``Clear``.
    """

    key: ReservationKey
    ask: ReservationSpec = msgspec.field(default=ReservationSpec(), name="spec")
    announced: Instant = START_OF_TIME  # when it was made
    phase: ReservationPhase = written(ReservationPhase.ANNOUNCED)
    # names of its nodes in the order of ranks, so that a lost one is replaced with the fewest changes
    zone: tuple[str, ...] = ()
    held_by_others: int | None = None  # nodes of the zone that others still have

    @property
    def held(self) -> bool:
        """Whether its zone is kept from others."""
        return self.phase is ReservationPhase.HELD and bool(self.zone)

    @property
    def expires(self) -> datetime:
        """When the zone is given back if the gang has not come."""
        return min(self.ask.arrives, _LAST) + PATIENCE if self.ask.expires is None else self.ask.expires

    @property
    def gang(self) -> GangKey | None:
        """The gang that may use it; ``None`` = its labels say."""
        if self.ask.gang:
            return GangKey(self.key.namespace, self.ask.gang)
        return None if self.ask.labels else GangKey(*self.key)

    def without_zone(self, why: str) -> Self:
        """Return the reservation without a zone, and why there is none."""
        return self.without_worth().replace(zone=(), message=why)

    @cached_property
    def demand(self) -> Demand:
        """What its pods will ask of a node."""
        of_gpus = (Toleration(gpu, "Exists") for gpu in GPUS)
        return Demand(
            selector=tuple(sorted(self.ask.node_selector.items())),
            tolerations=tuple(sorted({*self.ask.tolerations, *of_gpus})),
        )

    @cached_property
    def understanding(self) -> Job | InvalidGang:
        """The job that was announced, or what is wrong with it."""
        ask = self.ask
        request = GangRequest(
            **{name: getattr(ask, name) for name in _AS_ANNOTATED},
            size=None if ask.nodes is None else str(ask.nodes),
            microbatches=None if ask.microbatches is None else str(ask.microbatches),
            alpha=None if ask.alpha is None else f"{ask.alpha:.9f}",
        )
        try:
            job = understand(GangKey(*self.key), request, ask.gpus_per_node, size=None, whole_nodes=True).job
        except InvalidGang as error:
            # a mistake that annotations may have too, in the names of the fields of the spec
            message, where, fix = (
                _ANNOTATION.sub(
                    lambda name: f"spec.{name[1]}{name[2].title().replace('-', '')}",
                    text.replace(GANG_SIZE, "spec.nodes"),
                )
                for text in (error.message, error.where, error.fix)
            )
            return InvalidGang(message, reason=error.reason, where=where, fix=fix)
        if job is None:
            why = "nobody says how large the gang will be"
            return InvalidGang(why, reason="NoSize", fix="give spec.nodes or spec.parallelism")
        if self.expires <= ask.arrives:
            why = "it expires before it arrives"
            return InvalidGang(why, reason="NeverHeld", fix="set spec.expires after spec.arrives")
        return job


_AS_ANNOTATED = ("parallelism", "order", "model", "constraints", "gpu_types", "level", "tp_level", "avoid")
_ANNOTATION = re.compile(rf"{re.escape(GROUP)}/([a-z]+)((?:-[a-z]+)*)")


def encode_reservation(reservation: Reservation) -> dict[str, Any]:
    """Return the CapacityReservation without its spec, which is the user's, ready to be written as its status."""
    size, others = len(reservation.zone), reservation.held_by_others
    clear = None if others is None else f"{size - others}/{size}"
    document = encode_resource(reservation, RESERVATION_KIND, *reversed(reservation.key), clear=clear)
    document["status"].pop("announced", None)
    del document["spec"]
    return document


def decode_reservation(raw: bytes | dict[str, Any]) -> Reservation:
    """Return the reservation of a CapacityReservation, or raise ``InvalidInput``: none."""

    def announced(document: StoredObject) -> dict[str, Any]:
        return {"announced": instant(document.metadata.creation_timestamp)}

    fix = "apply manifests/crds, which refuse what is none"
    return decode_resource(raw, Reservation, announced, name=RESERVATION_KIND, fix=fix)
