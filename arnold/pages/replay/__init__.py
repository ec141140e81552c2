"""Pages of replays and studies: one self-contained file each, no network, light and dark, same input same text."""

from __future__ import annotations

from arnold.pages.replay.simulation import simulation_page
from arnold.pages.replay.study import study_page

__all__ = ["simulation_page", "study_page"]
