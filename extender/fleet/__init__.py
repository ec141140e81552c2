"""Nodes and pods as a cluster: what is free, promised, flagged, faulty, and which nodes a gang's pods may use."""

from __future__ import annotations

from extender.fleet.eligibility import Demand, demand_of, demands_of
from extender.fleet.fleet import Fleet
from extender.fleet.hosts import GONE, Host
from extender.fleet.table import Problem, Table
from extender.fleet.view import Own, View

__all__ = ["GONE", "Demand", "Fleet", "Host", "Own", "Problem", "Table", "View", "demand_of", "demands_of"]
