"""The gang controller: what to do next, as pure decisions, and the loop that does it."""

from scheduler.extender.controller.actions import Action, Decision, Forget, Recreate, Release, Repair, Say, Tell, Write
from scheduler.extender.controller.decide import decide
from scheduler.extender.controller.loop import Controller
from scheduler.extender.controller.sinks import NodeSink, OwnerSink, PlanSink, PodSink, decode_own_plan
from scheduler.extender.controller.terms import Terms
from scheduler.extender.controller.touched import Touched
from scheduler.extender.controller.writer import GANGPLANS, Telemetry, Writer

__all__ = [
    "GANGPLANS",
    "Action",
    "Controller",
    "Decision",
    "Forget",
    "NodeSink",
    "OwnerSink",
    "PlanSink",
    "PodSink",
    "Recreate",
    "Release",
    "Repair",
    "Say",
    "Telemetry",
    "Tell",
    "Terms",
    "Touched",
    "Write",
    "Writer",
    "decide",
    "decode_own_plan",
]
