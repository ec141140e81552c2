"""What ``--help`` says of an option: its words, whether it may be repeated, its default and its range."""

from __future__ import annotations

from typing import NamedTuple

import click

LARGE = 1e9  # Bounds from here on keep out what no number can be stored as; they say nothing to a reader


class OptionHelp(NamedTuple):
    """What there is to say of an option."""

    words: str  # its sentence, and whether it may be repeated
    default: str  # what holds without it, or "required"; empty for a flag that is off
    bounds: str  # the range of its numbers; empty where it has none that a person would leave


def option_help(option: click.Option) -> OptionHelp:
    """Return what there is to say of an option."""
    words, _, default = (option.help or "").partition("  [default: ")
    words += " May be repeated." if option.multiple else ""
    bounds = _bounds(option.type) if isinstance(option.type, click.IntRange | click.FloatRange) else ""
    return OptionHelp(words, _default(option, default.removesuffix("]")), bounds)


def explained(option: click.Option) -> str:
    """Return the help of an option in a line: ``Threads that a solver may use.  [default: 2; 1 to 1024]``."""
    words, default, bounds = option_help(option)
    default = default if option.required or not default else f"default: {default}"
    extra = "; ".join(filter(None, (default, bounds)))
    return f"{words}  [{extra}]" if extra else words


def _default(option: click.Option, in_words: str) -> str:
    if option.required:
        return "required"
    if in_words or isinstance(option.show_default, str):
        return in_words or str(option.show_default)
    if option.is_flag:
        return ""
    return _written(option.default) if option.show_default else "none"


def _bounds(numbers: click.IntRange | click.FloatRange) -> str:
    """Return a range in words; empty where it keeps out nothing that a person would give."""
    low, high = numbers.min, numbers.max
    high = None if high is None or high >= LARGE else high
    if low is None:
        return "" if high is None else f"at most {_written(high)}"
    if high is None:
        return f"above {_written(low)}" if numbers.min_open else f"at least {_written(low)}"
    if numbers.min_open or numbers.max_open:
        beyond = "below" if numbers.max_open else "at most"
        return f"{'above' if numbers.min_open else 'at least'} {_written(low)}, {beyond} {_written(high)}"
    return f"{_written(low)} to {_written(high)}"


def _written(value: object) -> str:
    """Return a value as it is typed: 10 and not 10.0; several with commas between them."""
    if isinstance(value, tuple | list):
        return ", ".join(map(_written, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
