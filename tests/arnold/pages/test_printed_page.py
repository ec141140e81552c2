"""What commands without drawings print, as pages."""

import re
from pathlib import Path

from tests.conftest import Arnold
from tests.markup import tags


def test_the_page_says_what_is_printed(arnold: Arnold, tmp_path: Path) -> None:
    """Verdict, table and notes of the text are on the page, with --json too; numbers are aligned right."""
    page, other = tmp_path / "standby.html", tmp_path / "other.html"
    question = ("recover", "standby", "--machines", 128, "--machines", 1024, "--switch", 32)
    printed = arnold(*question, "--html", page).out
    assert arnold(*question, "--html", other, "--json").code == 0
    text = page.read_text()
    assert other.read_text() == text
    assert tags(text)
    assert re.findall("<h1[^>]*>(.*?)</h1>", text) == [" ".join(printed.partition("\n\n")[0].split())]
    assert re.findall("<h2>(.*?)</h2>", text) == ["Warm standby", "Notes"]
    assert re.findall('<th scope="row">(.*?)</th><td class="r nowrap">(.*?)</td>', text) == [
        ("128", "0.154"),
        ("1,024", "1.23"),
    ]


def test_a_page_that_cannot_be_written_is_an_error(arnold: Arnold, tmp_path: Path) -> None:
    """Then nothing is printed."""
    ran = arnold("recover", "standby", "--machines", 128, "--html", tmp_path / "missing" / "page.html")
    assert (ran.code, ran.out) == (2, "")
    assert "page.html" in ran.err
