"""Pages of replays and studies: one self-contained file each, no network, light and dark, same input same text."""

from __future__ import annotations

from arnold.pages.replay.comparison import study_page
from arnold.pages.replay.replay_page import simulation_page

__all__ = ["simulation_page", "study_page"]
