"""Texts of any length, cut to one that is safe to repeat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extender.texts import LONGEST, clip, short_name

TEXTS = st.text(st.characters(codec="utf-8"), max_size=2 * LONGEST)


@given(TEXTS, st.integers(3, 2 * LONGEST))
def test_clipped_texts_fit(text: str, most: int) -> None:
    """However many bytes its characters have, a text fits; one that fits anyway stays as it is."""
    cut = clip(text, most)
    assert len(cut.encode()) <= most
    if len(text.encode()) <= most:
        assert cut == text
    else:
        assert cut.endswith("...")
        assert text.startswith(cut[:-3])


@given(TEXTS, TEXTS)
def test_short_names_differ_as_the_names_do(one: str, other: str) -> None:
    """Short names fit, and are equal only where the names are."""
    assert len(short_name(one).encode()) <= LONGEST
    assert (short_name(one) == short_name(other)) == (one == other)


def test_names_that_end_differently() -> None:
    """Two names that differ after the part that is kept are still two; one of exactly the longest length is kept."""
    long = "x" * LONGEST
    assert short_name(long) == long
    assert short_name(f"{long}1") != short_name(f"{long}2")
