"""Answers of capacity planning as a page or a picture."""

from __future__ import annotations

from arnold.pages.capacity.answer_page import capacity_page
from arnold.pages.capacity.figure import picture

__all__ = ["capacity_page", "picture"]
