"""The page of all formats of files that are read, as their readers describe them."""

from __future__ import annotations

from arnold.commands.formats import KINDS, formats_of
from docs.generate.markdown import table

HEADING = """\
# File formats

Every format of files that is read; `arnold formats` lists them too. Each is recognised by content; `--format NAME` says
which it is where that is not enough.
"""

COLUMNS = ("format", "where it comes from", "how to get it", "what is read", "what is left out")


def formats_text() -> str:
    """Return the page: a table for each kind of files."""
    parts = [HEADING]
    for one in formats_of(KINDS).kinds:
        rows = [
            (f"`{form.name}`", form.source, form.export, form.read, form.left_out or "nothing") for form in one.formats
        ]
        parts.append(f"## {one.kind.capitalize()}\n\n{one.sentence}\n\n{table(COLUMNS, rows)}")
    return "\n".join(parts)
