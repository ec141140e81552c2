"""A placement as one self-contained HTML page: no network, no fonts from elsewhere, same input same text."""

from arnold.pages.placement_page import placement_page

__all__ = ["placement_page"]
