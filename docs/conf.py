"""Builds the site of the documentation with Sphinx: `make site`.

The source is the whole repository, so that links between pages and files lead on the site where they lead on a forge.
"""

from __future__ import annotations

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "Arnold"
author = "the authors of Arnold"
copyright = "the authors of Arnold, Apache-2.0"

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

# A notebook is saved without output; a cell that fails ends the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120
# Nothing is loaded from another host; widgets would be.
nb_ipywidgets_js = {}

html_theme = "furo"
html_title = "Arnold"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["site"]


def setup(app: Sphinx) -> None:
    """Let blocks of rows and of Mermaid, for which Pygments has no colours, stand as they are."""
    for language in ("csv", "mermaid"):
        app.add_lexer(language, TextLexer)
