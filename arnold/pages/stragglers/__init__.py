"""The analysis as one self-contained HTML page: no network, light and dark, same input same text."""

from arnold.pages.straggler_page import slowest_step, straggler_page

__all__ = ["slowest_step", "straggler_page"]
