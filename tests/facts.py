"""What a text tells, whatever its wording: a better sentence breaks no test, and a lost fact does."""

from __future__ import annotations

import re
from collections.abc import Iterable


def saying(*facts: object) -> str:
    """Return the pattern of a text that gives all facts in any order, for ``pytest.raises(..., match=saying(...))``.

    A fact is a name, number or option as the text writes it, and stands by itself there: ``1`` is not in ``12`` or 1.5.
    """
    return r"(?s)\A" + "".join(f"(?=.*{_by_itself(str(fact))})" for fact in facts)


def says(texts: str | Iterable[str], *facts: object) -> bool:
    """Tell whether the text, or one of the texts, gives all facts."""
    pattern = re.compile(saying(*facts))
    return any(pattern.search(text) for text in ([texts] if isinstance(texts, str) else texts))


def _by_itself(fact: str) -> str:
    before = r"(?<!\w)(?<!\d[.,])" if re.match(r"\w", fact) else ""
    after = r"(?!\w)(?![.,]\d)" if re.search(r"\w\Z", fact) else ""
    return before + re.escape(fact) + after
