"""What a command prints, as a page: the verdict as its heading, then tables and lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from topology.drawing.page_kit import render


@dataclass(frozen=True, slots=True)
class PrintedPart:
    """A table, or without headers a list of sentences."""

    title: str
    rows: Sequence[Sequence[str]] | Sequence[str]
    headers: Sequence[str] = ()
    left: Collection[str] = ()  # headers of columns that are aligned left, besides the first


def printed_page(title: str, sentences: Sequence[str], parts: Sequence[PrintedPart]) -> str:
    """Return one self-contained page; same input, same text.

    :param title: words of the command.
    :param sentences: the verdict, then what else there is to say at once; one at least.
    """
    return render(
        "arnold.pages",
        "printed.html.j2",
        styles=("pages.css",),
        title=title,
        verdict=sentences[0],
        lead=sentences[1:],
        parts=parts,
        data={},
    )
