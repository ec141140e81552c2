"""Markdown tables, and what we promise next to what was measured."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
Promise = tuple[str, str, bool]  # What the project wants of itself, what came out in the same unit, whether it is met


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; columns of numbers stand to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    right = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(header))]
    widths = [max(3, *(len(row[i]) for row in [list(header), *cells])) for i in range(len(header))]
    lines = [_line(header, widths, right)]
    lines.append(
        "| " + " | ".join("-" * (w - 1) + ":" if r else "-" * w for w, r in zip(widths, right, strict=True)) + " |"
    )
    lines.extend(_line(row, widths, right) for row in cells)
    return "\n".join(lines)


def table_of(items: Sequence[T], columns: Mapping[str, Callable[[T], object]]) -> str:
    """A Markdown table with a row for each item; a column is its header, and what of an item stands there."""
    return table([*columns], [[cell(item) for cell in columns.values()] for item in items])


def promises(*lines: Promise) -> str:
    """Every promise with its measurement."""
    return table(["promise", "measured", "met"], [(*line, "yes" if met else "no") for *line, met in lines])


def section(title: str, *parts: str) -> str:
    """A titled part of the report."""
    return "\n\n".join([f"## {title}", *(part for part in parts if part)]) + "\n"


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)]
    return "| " + " | ".join(cells) + " |"


def _is_number(text: str) -> bool:
    return text == "-" or text[:1].isdigit() or text[:2] in (">=", "> ")
