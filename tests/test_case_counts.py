"""Two sizes of one test: a share of its cases in ``make test``, all of them in ``make properties``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import settings

from tests import case_counts
from tests.case_counts import cases, every_fourth, examples

TESTS = Path(__file__).parent
SELF = {"case_counts.py", "test_case_counts.py"}

SHARED = [(1, 1), (5, 5), (8, 5), (100, 5), (120, 6), (400, 20)]
"""How many cases a test has, and a twentieth of them or five, whichever is more, but no more than it has."""


@pytest.mark.parametrize(("count", "share"), SHARED)
def test_a_share_of_the_cases(monkeypatch: pytest.MonkeyPatch, count: int, share: int) -> None:
    """In ``make test`` a twentieth, and never fewer than five; of a list every fourth."""
    monkeypatch.setattr(case_counts, "ALL_CASES", False)
    assert cases(count) == share
    assert examples(count, deadline=None).max_examples == share
    assert list(every_fourth(range(count))) == list(range(0, count, 4))


@pytest.mark.parametrize("count", [count for count, _ in SHARED])
def test_all_cases(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """In ``make properties`` all there are."""
    monkeypatch.setattr(case_counts, "ALL_CASES", True)
    assert (cases(count), examples(count).max_examples) == (count, count)
    assert list(every_fourth(range(count))) == list(range(count))


def test_a_property_without_a_number_has_a_hundred_examples() -> None:
    """The profile of all tests takes its share of hypothesis' own number."""
    assert settings.default.max_examples == cases(100)


def test_every_property_has_two_sizes() -> None:
    """No test says ``max_examples`` itself; what goes through every fourth instance is in ``make properties``, too."""
    texts = {file: file.read_text(encoding="utf-8") for file in TESTS.rglob("*.py") if file.name not in SELF}
    assert [file.name for file, text in texts.items() if "max_examples" in text] == []
    trees = [ast.parse(text) for text in texts.values() if "every_fourth" in text]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    sharing = [one for one in functions if "every_fourth" in ast.unparse(one)]
    assert sharing
    assert [one.name for one in sharing if "pytest.mark.many_cases" not in map(ast.unparse, one.decorator_list)] == []
