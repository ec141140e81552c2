"""Texts of many tools, one at a time: who is named, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.evidence.pasted_texts import PASTED
from health.look.folder import look_at_folder


@pytest.mark.parametrize("name", PASTED)
def test_who_is_named_by_a_text(tmp_path: Path, name: str) -> None:
    """The kind is told, and node, rank and GPU are those that the text convicts, surest first or not."""
    pasted = PASTED[name]
    (tmp_path / pasted.file).write_text(pasted.text)
    found = look_at_folder(str(tmp_path))
    assert pasted.kind in found.files[0].kind
    assert {(suspect.node, suspect.rank, suspect.gpu) for suspect in found.suspects} == set(pasted.suspects)
    assert all(clue.file == pasted.file and clue.lines for suspect in found.suspects for clue in suspect.why)
