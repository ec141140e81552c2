"""Answers of capacity planning as a page or a picture."""

from __future__ import annotations

from simulator.report.capacity.chart import picture
from simulator.report.capacity.page import capacity_page

__all__ = ["capacity_page", "picture"]
