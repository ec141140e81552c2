"""The markup of a page, checked while it is taken apart."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = ("meta", "br", "input")
"""Elements that HTML never closes, of those that our pages have."""


class Tags(HTMLParser):
    """All tags with their attributes, in order; complains about any that is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One more open."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Closes itself."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Closes the one that was opened last."""
        assert self.open.pop() == tag


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    """Tags of a page that is well formed."""
    parser = Tags()
    parser.feed(html)
    assert not parser.open
    return parser.tags
