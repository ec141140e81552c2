"""The gang controller: what to do next, as pure decisions, and the loop that does it."""

from extender.controller.actions import (
    Action,
    Decision,
    Evict,
    Forget,
    Recreate,
    Release,
    Repair,
    Say,
    Tell,
    Write,
)
from extender.controller.decide import decide
from extender.controller.loop import Controller
from extender.controller.reserver import Reserver
from extender.controller.reserving import decide_reservation
from extender.controller.sinks import (
    NodeSink,
    OwnerSink,
    PlanSink,
    PodSink,
    ReservationSink,
    decode_own_plan,
)
from extender.controller.terms import Terms
from extender.controller.touched import Touched
from extender.controller.writer import GANGPLANS, RESERVATIONS, Telemetry, Writer

__all__ = [
    "GANGPLANS",
    "RESERVATIONS",
    "Action",
    "Controller",
    "Decision",
    "Evict",
    "Forget",
    "NodeSink",
    "OwnerSink",
    "PlanSink",
    "PodSink",
    "Recreate",
    "Release",
    "Repair",
    "ReservationSink",
    "Reserver",
    "Say",
    "Telemetry",
    "Tell",
    "Terms",
    "Touched",
    "Write",
    "Writer",
    "decide",
    "decide_reservation",
    "decode_own_plan",
]
