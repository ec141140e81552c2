"""Writes the Markdown of generated pages: text of the program, without signs that Markdown would take for its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]*`)")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")


def prose(text: str) -> str:
    """Return a text in which nothing is marked but code: what is between backticks, reST roles, and options."""
    plain = re.sub(r":\w+:`~?\.?([^`]*)`", r"`\1`", text).replace("``", "`")
    parts = _CODE.split(plain)
    return "".join(part if part.startswith("`") else _plain(part) for part in parts)


def _plain(text: str) -> str:
    return _OPTION.sub(r"`\1`", re.sub(r"([*<\[\]])", r"\\\1", text))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a line for each row, whose cells are Markdown; line breaks in them become spaces."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
