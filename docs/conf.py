"""Builds the site of the documentation with Sphinx: `make site`.

The source is the whole repository, so that links between pages and files lead on the site where they lead on a forge.
"""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import ClassVar

import mmdr
from docutils import nodes
from docutils.parsers.rst import Directive
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "Arnold"
author = "the authors of Arnold"
project_copyright = "the authors of Arnold, Apache-2.0"

extensions = ["myst_nb"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "examples/README.md",
]

# Anchors of headings are those of a forge; a link that leads nowhere is a warning, and warnings are errors.
myst_heading_anchors = 6
nitpicky = True
myst_fence_as_directive = ["mermaid"]
# Two hyphens are those of an option.
smartquotes = False

# A notebook is saved without output; a cell that fails is a warning, too.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_merge_streams = True  # What a cell prints line by line is one block
# Nothing is loaded from another host; widgets would be.
nb_ipywidgets_js = {}

html_theme = "furo"
html_title = "Arnold"
html_static_path = ["site/arnold.css"]
html_css_files = ["arnold.css"]
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_extra_path = ["site/index.html"]


DESCRIPTION = re.compile(r"^ *accDescr: *(.+)\n", flags=re.MULTILINE)
"""What a block of Mermaid says of itself to readers who do not see it."""


class Diagram(Directive):
    """A block of Mermaid, drawn when the site is built: no script draws it, and none is loaded from another host."""

    has_content: ClassVar = True

    def run(self) -> list[nodes.Node]:
        """Return an image that the page itself holds, with the description as its text; a missing one is an error."""
        source = "\n".join(self.content)
        if not (described := DESCRIPTION.search(source)):
            raise self.error("A diagram needs a line accDescr: what it shows")
        # boxes are sized for Arial at 14 px; smaller letters fit in other fonts too
        drawn = mmdr.render(DESCRIPTION.sub("", source)).svg().replace("font-size:14px", "font-size:12px")
        address = f"data:image/svg+xml;base64,{b64encode(drawn.encode()).decode()}"
        image = f'<img class="diagram" alt="{escape(described[1])}" src="{address}">'
        return [nodes.raw("", image, format="html")]


MENDED = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': "<td></td>",
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
    '<aside class="sidebar-drawer"': '<aside aria-label="Pages" class="sidebar-drawer"',
    '<aside class="toc-drawer"': '<aside aria-label="On this page" class="toc-drawer"',
}
"""What the theme writes -> the same for who has no mouse or no screen: what scrolls takes the focus, an empty corner of
a table is no heading, captions say their level, both side bars have a name."""


def make_accessible(app: Sphinx, failed: Exception | None) -> None:
    """Mend the pages that were written."""
    if failed is None:
        for file in Path(app.outdir).rglob("*.html"):
            text = file.read_text(encoding="utf-8")
            for written, mended in MENDED.items():
                text = text.replace(written, mended)
            file.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Draw diagrams, and let rows, for which Pygments has no colours, stand as they are."""
    app.add_directive("mermaid", Diagram)
    app.add_lexer("csv", TextLexer)
    app.connect("build-finished", make_accessible)
