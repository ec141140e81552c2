"""Nodes and pods as a cluster: what is free, promised, flagged, faulty, and which nodes a gang's pods may use."""

from __future__ import annotations

from extender.fleet.eligibility import Demand, demand_of, demands_of
from extender.fleet.fleet import Fleet
from extender.fleet.fleet_table import FleetTable, Problem
from extender.fleet.gang_view import GangView, Own
from extender.fleet.hosts import GONE, Host

__all__ = ["GONE", "Demand", "Fleet", "FleetTable", "GangView", "Host", "Own", "Problem", "demand_of", "demands_of"]
