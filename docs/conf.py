"""Builds the site of the documentation with Sphinx: `make site`.

The source is the whole repository, so that links between pages and files lead on the site where they lead on a forge.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, ClassVar

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


class Diagram(Directive):
    """A block of Mermaid, drawn when the site is built: no script draws it, and none is loaded from another host."""

    has_content: ClassVar = True

    def run(self) -> list[nodes.Node]:
        """Return an image that the page itself holds."""
        # boxes are sized for Arial at 14 px; smaller letters fit in other fonts too
        drawn = mmdr.render("\n".join(self.content)).svg().replace("font-size:14px", "font-size:12px")
        source = f"data:image/svg+xml;base64,{b64encode(drawn.encode()).decode()}"
        image = f'<img class="diagram" alt="Diagram" src="{source}">'
        return [nodes.raw("", image, format="html")]


FOCUSABLE = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
}
"""What the theme writes -> the same for who has no mouse: what scrolls takes the focus, captions say their level."""


def make_accessible(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document) -> None:
    """Mend the text of a page and its navigation before they are written."""
    for part in context.keys() & {"body", "furo_navigation_tree"}:
        for written, mended in FOCUSABLE.items():
            context[part] = context[part].replace(written, mended)


def setup(app: Sphinx) -> None:
    """Draw diagrams, and let rows, for which Pygments has no colours, stand as they are."""
    app.add_directive("mermaid", Diagram)
    app.add_lexer("csv", TextLexer)
    app.connect("html-page-context", make_accessible, priority=900)  # after the theme
