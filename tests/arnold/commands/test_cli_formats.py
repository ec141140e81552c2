"""``arnold formats``: what every reader says of its format, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from arnold.commands.formats import KINDS
from simulator.traces.trace_loading import TRACE_READERS
from topology.readers.reading import TOPOLOGY_READERS

Arnold = Callable[..., Any]


def test_all_are_in_the_document(arnold: Arnold) -> None:
    """Every reader of clusters and of job traces that is on offer is in the JSON, with where such a file comes from."""
    found = {one["kind"]: one["formats"] for one in arnold("formats", "--json").json["kinds"]}
    assert list(found) == list(KINDS)
    assert [form["name"] for form in found["clusters"]] == sorted(TOPOLOGY_READERS.names())
    assert [form["name"] for form in found["jobs"]] == sorted(TRACE_READERS.names())
    assert all(form[fact] for forms in found.values() for form in forms for fact in ("source", "export", "read"))


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind(arnold: Arnold, kind: str) -> None:
    """One kind alone says of each format how to get it, what is read and what is left out."""
    text = arnold("formats", kind).out
    formats = text.count("\n  get it:")
    assert formats > 1
    assert text.count("\n  read:") == text.count("\n  left out:") == formats


def test_all_kinds_at_once(arnold: Arnold) -> None:
    """Without a kind each format has a line, and the last line says how to see more."""
    text = arnold("formats").out
    assert all(f"\n{name} " in text for name in (*TOPOLOGY_READERS.names(), *TRACE_READERS.names()))
    assert text.splitlines()[-1].startswith("arnold formats KIND says")
