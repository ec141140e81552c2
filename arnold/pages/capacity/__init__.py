"""Answers of capacity planning as a page or a picture."""

from __future__ import annotations

from arnold.pages.capacity.chart import picture
from arnold.pages.capacity.page import capacity_page

__all__ = ["capacity_page", "picture"]
